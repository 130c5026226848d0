/* layernorm.c -- the layer norm of each row in plain C; see norm.h. */
#include "norm.h"

int layernorm_reference(float *y, float *total, float *mean, float *rstd,
                        const float *x, const float *residual,
                        const float *weight, const float *bias, int rows,
                        int cols, float eps) {
    struct norm n = {make_rows("layernorm", rows, cols),
                     y,
                     total,
                     mean,
                     rstd,
                     x,
                     residual,
                     weight,
                     bias,
                     eps,
                     1};
    return normalize_rows(&n);
}

int layernorm_reference_backward(float *dx, float *dresidual, float *dweight,
                                 float *dbias, const float *dy, const float *x,
                                 const float *weight, const float *mean,
                                 const float *rstd, int rows, int cols) {
    struct norm_backward n = {.rows = make_rows("layernorm", rows, cols),
                              .dx = dx,
                              .dresidual = dresidual,
                              .dy = dy,
                              .x = x,
                              .weight = weight,
                              .mean = mean,
                              .rstd = rstd,
                              .centred = 1};
    return differentiate_rows(&n, dweight, dbias);
}
