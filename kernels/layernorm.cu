/* layernorm.cu -- the layer norm of each row: its rungs and their launchers.
 *
 * y = (x - mean) * rstd * weight + bias, where mean and rstd = 1 / sqrt(var +
 * eps) are those of the row. layernorm and rmsnorm share the rungs in norm/. At
 * best, these are as fast as a copy. */
#include "common/internal.cuh"

#include <math.h>

#include "norm/norm.cuh"
#include "reference/reference.h"

WEFT_RUNGS({"layernorm", "reference", "plain C, a row stays in the cache",
            "fp32", WEFT_CPU, 0},
           {"layernorm", "thread_a_row", "the definition, a thread per row",
            "fp32", WEFT_CPU | WEFT_CUDA, 0},
           {"layernorm", "warp_a_row", "a warp per row, in registers", "fp32",
            WEFT_CPU | WEFT_CUDA, 0},
           {"layernorm", "block_a_row", "a block per row, read twice", "fp32",
            WEFT_CPU | WEFT_CUDA, 0},
           {"layernorm", "row_in_shared", "the row stays in shared memory",
            "fp32", WEFT_CPU | WEFT_CUDA, 0},
           {"layernorm", "split_rows", "several blocks share a row", "fp32",
            WEFT_CPU | WEFT_CUDA, 0},
           {"layernorm", "row_in_registers", "the row stays in registers",
            "fp32", WEFT_CPU | WEFT_CUDA, 0},
           {"layernorm", "cluster_a_row", "a cluster of blocks shares a row",
            "fp32", WEFT_CPU | WEFT_CUDA, 90},
           {"layernorm", "tuned", "the rung that suits the shape", "fp32",
            WEFT_CPU | WEFT_CUDA, 0});

int weft_layernorm(int rung, float *y, float *total, float *mean, float *rstd,
                   const float *x, const float *residual, const float *weight,
                   const float *bias, int rows, int cols, float eps,
                   weft_stream stream) {
    WEFT_CHECK_RUNG(rung);
    CHECK_SIZE(rows);
    CHECK_SIZE(cols);
    CHECK_COUNT(x, (double)rows * cols);
    WEFT_REQUIRE(eps > 0 && isfinite(eps),
                 "%s: eps = %g, want a finite number above 0", __func__, eps);
    WEFT_REQUIRE(!residual == !total, "%s: %s is NULL, but %s is not", __func__,
                 residual ? "total" : "residual",
                 residual ? "residual" : "total");
    CHECK_ARRAY(y);
    CHECK_ARRAY(mean);
    CHECK_ARRAY(rstd);
    CHECK_ARRAY(x);
    const struct normal n = {
        y,      total, mean,           rstd,           x,   residual,
        weight, bias,  (unsigned)rows, (unsigned)cols, eps, true};
    if (rung == NORM_REFERENCE)
        return WEFT_REFERENCE(layernorm_reference(
            y, total, mean, rstd, x, residual, weight, bias, rows, cols, eps));
    return weft_norm("layernorm", rung, n, weft_cuda_stream(stream));
}

int weft_layernorm_backward(int rung, float *dx, float *dresidual,
                            float *dweight, float *dbias, const float *dy,
                            const float *x, const float *total,
                            const float *weight, const float *mean,
                            const float *rstd, int rows, int cols,
                            weft_stream stream) {
    WEFT_CHECK_RUNG(rung);
    CHECK_SIZE(rows);
    CHECK_SIZE(cols);
    CHECK_COUNT(x, (double)rows * cols);
    CHECK_ARRAY(dy);
    CHECK_ARRAY(mean);
    CHECK_ARRAY(rstd);
    const float *const row = total ? total : x;
    WEFT_REQUIRE(row, "%s: x and total are NULL", __func__);
    if (rung == NORM_REFERENCE)
        return WEFT_REFERENCE(
            layernorm_reference_backward(dx, dresidual, dweight, dbias, dy, row,
                                         weight, mean, rstd, rows, cols));
    const struct normal_backward n = {
        dx,   dresidual, dweight,        dbias,          dy,  row, weight,
        mean, rstd,      (unsigned)rows, (unsigned)cols, true};
    return weft_norm_backward("layernorm", rung, n, weft_cuda_stream(stream));
}
