/* sgd.cu -- a step of gradient descent: param -= lr * grad.
 *
 * Naive
 * Idea:    one thread per parameter.
 * Limit:   the memory's bandwidth or, for a small model, the launch itself.
 * Lesson:  notebooks/10a_backwards.ipynb */
#include "common/internal.cuh"

#include <math.h>

#include "common/checks.cuh"
#include "reference/reference.h"

WEFT_RUNGS({"sgd", "reference", "plain C, one vectorised pass", "fp32",
            WEFT_CPU, 0},
           {"sgd", "naive", "one thread per parameter", "fp32",
            WEFT_CPU | WEFT_CUDA, 0});

enum { REFERENCE, NAIVE };

static __global__ void sgd_naive(float *param, const float *grad, size_t count,
                                 float lr) {
    const size_t i = (size_t)blockIdx.x * blockDim.x + threadIdx.x;
    if (i < count) param[i] -= lr * grad[i];
}

int weft_sgd(int rung, float *param, const float *grad, size_t count, float lr,
             weft_stream stream) {
    WEFT_CHECK_RUNG(rung);
    WEFT_REQUIRE(count >= 1, "%s: count = 0, want at least 1", __func__);
    WEFT_REQUIRE(isfinite(lr), "%s: lr = %g, want a finite number", __func__,
                 lr);
    CHECK_COUNT(param, count);
    CHECK_ARRAY(param);
    CHECK_ARRAY(grad);
    switch (rung) {
    case REFERENCE:
        return WEFT_REFERENCE(sgd_reference(param, grad, count, lr));
    case NAIVE:
        sgd_naive<<<blocks_for(count), THREADS, 0, weft_cuda_stream(stream)>>>(
            param, grad, count, lr);
        WEFT_LAUNCHED(sgd_naive);
    }
    return WEFT_OK;
}
