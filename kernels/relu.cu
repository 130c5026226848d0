/* relu.cu -- max(x, 0), elementwise.
 *
 * Naive
 * Idea:    one thread per element: neighbours in a warp read neighbours in
 *          memory, so the loads and stores are coalesced already.
 * Limit:   the memory's bandwidth: 8 bytes go through for one comparison. Only
 *          a kernel that does more between load and store can do better.
 * Lesson:  notebooks/10_backwards.ipynb
 */
#include "internal.cuh"

#include "checks.cuh"
#include "reference/reference.h"

WEFT_RUNGS({"relu", "reference", "plain C, one vectorised pass", "fp32",
            WEFT_CPU, 0},
           {"relu", "naive", "one thread per element", "fp32",
            WEFT_CPU | WEFT_CUDA, 0});

enum { REFERENCE, NAIVE };

static __global__ void relu_naive(float *y, const float *x, size_t count) {
    const size_t i = (size_t)blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= count) return;
    // Asked this way round, a NaN, which compares false, stays a NaN.
    y[i] = x[i] < 0.0f ? 0.0f : x[i];
}

static __global__ void relu_naive_dx(float *dx, const float *dy, const float *y,
                                     size_t count) {
    const size_t i = (size_t)blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= count) return;
    dx[i] = y[i] > 0.0f ? dy[i] : 0.0f;
}

int weft_relu(int rung, float *y, const float *x, size_t count,
              weft_stream stream) {
    WEFT_CHECK_RUNG(rung);
    WEFT_REQUIRE(count >= 1, "%s: count = 0, want at least 1", __func__);
    CHECK_COUNT(x, count);
    CHECK_ARRAY(y);
    CHECK_ARRAY(x);
    switch (rung) {
    case REFERENCE: return WEFT_REFERENCE(relu_reference(y, x, count));
    case NAIVE:
        relu_naive<<<blocks_for(count), THREADS, 0, weft_cuda_stream(stream)>>>(
            y, x, count);
        WEFT_LAUNCHED(relu_naive);
    }
    return WEFT_OK;
}

int weft_relu_backward(int rung, float *dx, const float *dy, const float *y,
                       size_t count, weft_stream stream) {
    WEFT_CHECK_RUNG(rung);
    WEFT_REQUIRE(count >= 1, "%s: count = 0, want at least 1", __func__);
    CHECK_COUNT(y, count);
    CHECK_ARRAY(dx);
    CHECK_ARRAY(dy);
    CHECK_ARRAY(y);
    switch (rung) {
    case REFERENCE:
        return WEFT_REFERENCE(relu_reference_backward(dx, dy, y, count));
    case NAIVE:
        relu_naive_dx<<<blocks_for(count), THREADS, 0,
                        weft_cuda_stream(stream)>>>(dx, dy, y, count);
        WEFT_LAUNCHED(relu_naive_dx);
    }
    return WEFT_OK;
}
