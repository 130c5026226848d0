/* polynomial.cu -- a0 + a1 x + a2 x^2 + a3 x^3, elementwise.
 *
 * All kernels use Horner's rule, ((a3 x + a2) x + a1) x + a0, which takes three
 * fused multiply-adds. The gradient is dx = dy (a1 + 2 a2 x + 3 a3 x^2).
 *
 * Naive
 * Idea:    one thread per element.
 * Limit:   the number of requests: a warp moves 128 bytes with each.
 *
 * Vectorised
 * Idea:    a thread loads and stores four elements at once, which takes a
 *          quarter of the requests. All arrays must start at multiples of 16
 *          bytes; otherwise the naive kernels run.
 * Limit:   the memory. Three multiply-adds take less time than 8 bytes, so the
 *          floor is the time of a copy.
 * Lesson:  notebooks/13a_pytorch.ipynb */
#include "common/internal.cuh"

#include <math.h>

#include "common/checks.cuh"
#include "reference/reference.h"

WEFT_RUNGS({"polynomial", "reference", "plain C, one vectorised pass", "fp32",
            WEFT_CPU, 0},
           {"polynomial", "naive", "one thread per element", "fp32",
            WEFT_CPU | WEFT_CUDA, 0},
           {"polynomial", "vectorised",
            "four elements a thread, loaded at once", "fp32",
            WEFT_CPU | WEFT_CUDA, 0});

enum { REFERENCE, NAIVE, VECTORISED };

struct coefficients {
    float a0, a1, a2, a3;
};

static __device__ __forceinline__ float evaluate(struct coefficients a,
                                                 float x) {
    return fmaf(fmaf(fmaf(a.a3, x, a.a2), x, a.a1), x, a.a0);
}

/* The gradient uses the same function: its coefficients are those of the
 * derivative, and its a3 is 0. */
static struct coefficients derive(float a1, float a2, float a3) {
    return {a1, 2.0f * a2, 3.0f * a3, 0.0f};
}

static __global__ void polynomial_naive(float *y, const float *x, size_t count,
                                        struct coefficients a) {
    const size_t i = (size_t)blockIdx.x * blockDim.x + threadIdx.x;
    if (i < count) y[i] = evaluate(a, x[i]);
}

static __global__ void polynomial_naive_dx(float *dx, const float *dy,
                                           const float *x, size_t count,
                                           struct coefficients slope) {
    const size_t i = (size_t)blockIdx.x * blockDim.x + threadIdx.x;
    if (i < count) dx[i] = dy[i] * evaluate(slope, x[i]);
}

static __global__ void polynomial_vectorised(float *y, const float *x,
                                             size_t count,
                                             struct coefficients a) {
    const size_t i = (size_t)blockIdx.x * blockDim.x + threadIdx.x;
    const size_t fours = count / 4;
    if (i < fours) {
        const float4 v = ((const float4 *)x)[i];
        ((float4 *)y)[i] = make_float4(evaluate(a, v.x), evaluate(a, v.y),
                                       evaluate(a, v.z), evaluate(a, v.w));
    } else if (i < fours + count % 4) { // one of the remaining elements
        const size_t at = i + 3 * fours;
        y[at] = evaluate(a, x[at]);
    }
}

static __global__ void polynomial_vectorised_dx(float *dx, const float *dy,
                                                const float *x, size_t count,
                                                struct coefficients slope) {
    const size_t i = (size_t)blockIdx.x * blockDim.x + threadIdx.x;
    const size_t fours = count / 4;
    if (i < fours) {
        const float4 v = ((const float4 *)x)[i], d = ((const float4 *)dy)[i];
        ((float4 *)dx)[i] =
            make_float4(d.x * evaluate(slope, v.x), d.y * evaluate(slope, v.y),
                        d.z * evaluate(slope, v.z), d.w * evaluate(slope, v.w));
    } else if (i < fours + count % 4) {
        const size_t at = i + 3 * fours;
        dx[at] = dy[at] * evaluate(slope, x[at]);
    }
}

int weft_polynomial(int rung, float *y, const float *x, size_t count, float a0,
                    float a1, float a2, float a3, weft_stream stream) {
    WEFT_CHECK_RUNG(rung);
    WEFT_REQUIRE(count >= 1, "%s: count = 0, want at least 1", __func__);
    CHECK_COUNT(x, count);
    CHECK_ARRAY(y);
    CHECK_ARRAY(x);
    const struct coefficients a = {a0, a1, a2, a3};
    if (rung == VECTORISED && !are_aligned(y, x, x)) rung = NAIVE;
    switch (rung) {
    case REFERENCE:
        return WEFT_REFERENCE(
            polynomial_reference(y, x, count, a0, a1, a2, a3));
    case NAIVE:
        polynomial_naive<<<blocks_for(count), THREADS, 0,
                           weft_cuda_stream(stream)>>>(y, x, count, a);
        WEFT_LAUNCHED(polynomial_naive);
        return WEFT_OK;
    case VECTORISED:
        polynomial_vectorised<<<blocks_for(count / 4 + count % 4), THREADS, 0,
                                weft_cuda_stream(stream)>>>(y, x, count, a);
        WEFT_LAUNCHED(polynomial_vectorised);
    }
    return WEFT_OK;
}

int weft_polynomial_backward(int rung, float *dx, const float *dy,
                             const float *x, size_t count, float a1, float a2,
                             float a3, weft_stream stream) {
    WEFT_CHECK_RUNG(rung);
    WEFT_REQUIRE(count >= 1, "%s: count = 0, want at least 1", __func__);
    CHECK_COUNT(x, count);
    CHECK_ARRAY(dx);
    CHECK_ARRAY(dy);
    CHECK_ARRAY(x);
    const struct coefficients slope = derive(a1, a2, a3);
    if (rung == VECTORISED && !are_aligned(dx, dy, x)) rung = NAIVE;
    switch (rung) {
    case REFERENCE:
        return WEFT_REFERENCE(
            polynomial_reference_backward(dx, dy, x, count, a1, a2, a3));
    case NAIVE:
        polynomial_naive_dx<<<blocks_for(count), THREADS, 0,
                              weft_cuda_stream(stream)>>>(dx, dy, x, count,
                                                          slope);
        WEFT_LAUNCHED(polynomial_naive_dx);
        return WEFT_OK;
    case VECTORISED:
        polynomial_vectorised_dx<<<blocks_for(count / 4 + count % 4), THREADS,
                                   0, weft_cuda_stream(stream)>>>(dx, dy, x,
                                                                  count, slope);
        WEFT_LAUNCHED(polynomial_vectorised_dx);
    }
    return WEFT_OK;
}
