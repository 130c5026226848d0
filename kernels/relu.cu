/* relu.cu -- max(x, 0), elementwise.
 *
 * Naive
 * Idea:    one thread per element. Neighbours in a warp read neighbours in
 *          memory, so the loads and stores are already coalesced.
 * Limit:   the memory's bandwidth, since 8 bytes move for one comparison. Only
 *          a kernel that does more work between load and store makes better use
 *          of the GPU.
 * Lesson:  notebooks/10a_backwards.ipynb
 *
 * Tiled
 * Idea:    a thread takes four elements and loads and stores them together,
 *          which takes a quarter of the instructions for the same bytes.
 * Limit:   as above.
 * Lesson:  notebooks/15a_mnist.ipynb */
#include "common/internal.cuh"

#include "common/checks.cuh"
#include "reference/reference.h"

WEFT_RUNGS({"relu", "reference", "plain C, one vectorised pass", "fp32",
            WEFT_CPU, 0},
           {"relu", "naive", "one thread per element", "fp32",
            WEFT_CPU | WEFT_CUDA, 0},
           {"relu", "tiled", "four elements a thread, loaded at once", "fp32",
            WEFT_CPU | WEFT_CUDA, 0});

enum { REFERENCE, NAIVE, TILED };

static __global__ void relu_naive(float *y, const float *x, size_t count) {
    const size_t i = (size_t)blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= count) return;
    // A comparison with a NaN is false, so a NaN stays a NaN.
    y[i] = x[i] < 0.0f ? 0.0f : x[i];
}

static __global__ void relu_naive_dx(float *dx, const float *dy, const float *y,
                                     size_t count) {
    const size_t i = (size_t)blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= count) return;
    dx[i] = y[i] > 0.0f ? dy[i] : 0.0f;
}

/* Compute y = max(x, 0), four elements per thread. */
static __global__ void relu_tiled(float *y, const float *x, size_t count) {
    const size_t i = (size_t)blockIdx.x * blockDim.x + threadIdx.x;
    if (i < count / 4) {
        const float4 v = ((const float4 *)x)[i];
        ((float4 *)y)[i] =
            make_float4(v.x < 0.0f ? 0.0f : v.x, //
                        v.y < 0.0f ? 0.0f : v.y, v.z < 0.0f ? 0.0f : v.z,
                        v.w < 0.0f ? 0.0f : v.w);
    } else if (i < count / 4 + count % 4) { // the remaining elements, one per
                                            // thread
        const size_t at = i - count / 4 + count / 4 * 4;
        y[at] = x[at] < 0.0f ? 0.0f : x[at];
    }
}

static __global__ void relu_tiled_dx(float *dx, const float *dy, const float *y,
                                     size_t count) {
    const size_t i = (size_t)blockIdx.x * blockDim.x + threadIdx.x;
    if (i < count / 4) {
        const float4 v = ((const float4 *)y)[i], d = ((const float4 *)dy)[i];
        ((float4 *)dx)[i] =
            make_float4(v.x > 0.0f ? d.x : 0.0f, //
                        v.y > 0.0f ? d.y : 0.0f, v.z > 0.0f ? d.z : 0.0f,
                        v.w > 0.0f ? d.w : 0.0f);
    } else if (i < count / 4 + count % 4) {
        const size_t at = i - count / 4 + count / 4 * 4;
        dx[at] = y[at] > 0.0f ? dy[at] : 0.0f;
    }
}

int weft_relu(int rung, float *y, const float *x, size_t count,
              weft_stream stream) {
    WEFT_CHECK_RUNG(rung);
    WEFT_REQUIRE(count >= 1, "%s: count = 0, want at least 1", __func__);
    CHECK_COUNT(x, count);
    CHECK_ARRAY(y);
    CHECK_ARRAY(x);
    if (rung == TILED && !are_aligned(y, x, x)) rung = NAIVE;
    switch (rung) {
    case REFERENCE: return WEFT_REFERENCE(relu_reference(y, x, count));
    case NAIVE:
        relu_naive<<<blocks_for(count), THREADS, 0, weft_cuda_stream(stream)>>>(
            y, x, count);
        WEFT_LAUNCHED(relu_naive);
        return WEFT_OK;
    case TILED:
        relu_tiled<<<blocks_for(count / 4 + count % 4), THREADS, 0,
                     weft_cuda_stream(stream)>>>(y, x, count);
        WEFT_LAUNCHED(relu_tiled);
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
    if (rung == TILED && !are_aligned(dx, dy, y)) rung = NAIVE;
    switch (rung) {
    case REFERENCE:
        return WEFT_REFERENCE(relu_reference_backward(dx, dy, y, count));
    case NAIVE:
        relu_naive_dx<<<blocks_for(count), THREADS, 0,
                        weft_cuda_stream(stream)>>>(dx, dy, y, count);
        WEFT_LAUNCHED(relu_naive_dx);
        return WEFT_OK;
    case TILED:
        relu_tiled_dx<<<blocks_for(count / 4 + count % 4), THREADS, 0,
                        weft_cuda_stream(stream)>>>(dx, dy, y, count);
        WEFT_LAUNCHED(relu_tiled_dx);
    }
    return WEFT_OK;
}
