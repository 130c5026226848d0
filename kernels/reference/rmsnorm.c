/* rmsnorm.c -- the RMS norm of each row in plain C; see norm.h. */
#include "norm.h"

int rmsnorm_reference(float *y, float *total, float *rstd, const float *x,
                      const float *residual, const float *weight, int rows,
                      int cols, float eps) {
    struct norm n = {make_rows("rmsnorm", rows, cols),
                     y,
                     total,
                     NULL,
                     rstd,
                     x,
                     residual,
                     weight,
                     NULL,
                     eps,
                     0};
    return normalize_rows(&n);
}

int rmsnorm_reference_backward(float *dx, float *dresidual, float *dweight,
                               const float *dy, const float *x,
                               const float *weight, const float *rstd, int rows,
                               int cols) {
    struct norm_backward n = {.rows = make_rows("rmsnorm", rows, cols),
                              .dx = dx,
                              .dresidual = dresidual,
                              .dy = dy,
                              .x = x,
                              .weight = weight,
                              .rstd = rstd};
    return differentiate_rows(&n, dweight, NULL);
}
