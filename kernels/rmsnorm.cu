/* rmsnorm.cu -- the RMS norm of each row: its rungs and their launchers.
 *
 * y = x * rstd * weight, where rstd = 1 / sqrt(mean(x^2) + eps) is that of the
 * row. layernorm and rmsnorm share the rungs in norm/. At best, these are as
 * fast as a copy. */
#include "common/internal.cuh"

#include <math.h>

#include "norm/norm.cuh"
#include "reference/reference.h"

WEFT_RUNGS({"rmsnorm", "reference", "plain C, a row stays in the cache", "fp32",
            WEFT_CPU, 0},
           {"rmsnorm", "thread_a_row", "the definition, a thread per row",
            "fp32", WEFT_CPU | WEFT_CUDA, 0},
           {"rmsnorm", "warp_a_row", "a warp per row, in registers", "fp32",
            WEFT_CPU | WEFT_CUDA, 0},
           {"rmsnorm", "block_a_row", "a block per row, read twice", "fp32",
            WEFT_CPU | WEFT_CUDA, 0},
           {"rmsnorm", "row_in_shared", "the row stays in shared memory",
            "fp32", WEFT_CPU | WEFT_CUDA, 0},
           {"rmsnorm", "split_rows", "several blocks share a row", "fp32",
            WEFT_CPU | WEFT_CUDA, 0},
           {"rmsnorm", "row_in_registers", "the row stays in registers", "fp32",
            WEFT_CPU | WEFT_CUDA, 0},
           {"rmsnorm", "cluster_a_row", "a cluster of blocks shares a row",
            "fp32", WEFT_CPU | WEFT_CUDA, 90},
           {"rmsnorm", "tuned", "the rung that suits the shape", "fp32",
            WEFT_CPU | WEFT_CUDA, 0});

int weft_rmsnorm(int rung, float *y, float *total, float *rstd, const float *x,
                 const float *residual, const float *weight, int rows, int cols,
                 float eps, weft_stream stream) {
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
    CHECK_ARRAY(rstd);
    CHECK_ARRAY(x);
    const struct normal n = {
        y,      total, NULL,           rstd,           x,   residual,
        weight, NULL,  (unsigned)rows, (unsigned)cols, eps, false};
    if (rung == NORM_REFERENCE)
        return WEFT_REFERENCE(rmsnorm_reference(y, total, rstd, x, residual,
                                                weight, rows, cols, eps));
    return weft_norm("rmsnorm", rung, n, weft_cuda_stream(stream));
}

int weft_rmsnorm_backward(int rung, float *dx, float *dresidual, float *dweight,
                          const float *dy, const float *x, const float *total,
                          const float *weight, const float *rstd, int rows,
                          int cols, weft_stream stream) {
    WEFT_CHECK_RUNG(rung);
    CHECK_SIZE(rows);
    CHECK_SIZE(cols);
    CHECK_COUNT(x, (double)rows * cols);
    CHECK_ARRAY(dy);
    CHECK_ARRAY(rstd);
    const float *const row = total ? total : x;
    WEFT_REQUIRE(row, "%s: x and total are NULL", __func__);
    if (rung == NORM_REFERENCE)
        return WEFT_REFERENCE(rmsnorm_reference_backward(
            dx, dresidual, dweight, dy, row, weight, rstd, rows, cols));
    const struct normal_backward n = {
        dx,   dresidual, dweight,        NULL,           dy,   row, weight,
        NULL, rstd,      (unsigned)rows, (unsigned)cols, false};
    return weft_norm_backward("rmsnorm", rung, n, weft_cuda_stream(stream));
}
