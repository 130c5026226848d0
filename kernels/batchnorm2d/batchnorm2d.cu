/* batchnorm2d.cu -- batch normalisation: every channel is shifted and scaled to
 * mean `bias` and standard deviation `weight` over the batch.
 *
 * Naive
 * Idea:    one block per channel adds its threads' sums in a tree in shared
 *          memory; then one thread per element applies the result. The mean
 *          comes first, and the variance in a second pass, as the mean of (x -
 *          mean)^2. The one-pass formula mean(x^2) - mean^2 loses every digit
 *          if the mean is large compared with the spread.
 * Limit:   the memory's bandwidth, since x is read three times. One block per
 *          channel means that 32 channels leave most of a GPU idle.
 * Error:   a thread adds n*h*w / THREADS terms in sequence, and the tree adds
 *          log2(THREADS) more. The error is 2^-24 times the number of these
 *          additions, far less than that of a plain loop over n*h*w terms.
 * Lesson:  notebooks/10a_backwards.ipynb */
#include "common/internal.cuh"

#include <math.h>

#include "../reference/reference.h"
#include "common/checks.cuh"
#include "tiled.h"

WEFT_RUNGS({"batchnorm2d", "reference", "plain C, a channel at a time", "fp32",
            WEFT_CPU, 0},
           {"batchnorm2d", "naive", "one block per channel, two passes", "fp32",
            WEFT_CPU | WEFT_CUDA, 0},
           {"batchnorm2d", "tiled", "the same by loads of 4 and warp sums",
            "fp32", WEFT_CPU | WEFT_CUDA, 0});

enum { REFERENCE, NAIVE, TILED };

/* Return to every thread the sum of `value` over the block's threads. partial
 * has THREADS floats of shared memory. */
static __device__ float block_sum(float value, float *partial) {
    const int tid = threadIdx.x;
    partial[tid] = value;
    __syncthreads(); // all values are stored
    for (int half = THREADS / 2; half > 0; half /= 2) {
        if (tid < half) partial[tid] += partial[tid + half];
        __syncthreads(); // the sums of this round are complete
    }
    const float sum = partial[0];
    __syncthreads(); // all threads have read the sum: reuse `partial`
    return sum;
}

/* Return the index of element i of channel k; plane = h * w. */
static __device__ size_t element(size_t i, size_t k, int c, size_t plane) {
    return (i / plane * c + k) * plane + i % plane;
}

/* Compute mean (c) and rstd (c) of x with one block per channel. */
static __global__ void batchnorm2d_naive_stats(float *mean, float *rstd,
                                               const float *x, int n, int c,
                                               size_t plane, float eps) {
    __shared__ float partial[THREADS];
    const size_t k = blockIdx.x, count = n * plane;

    float sum = 0.0f;
    for (size_t i = threadIdx.x; i < count; i += THREADS)
        sum += x[element(i, k, c, plane)];
    const float m = block_sum(sum, partial) / count;

    float squares = 0.0f;
    for (size_t i = threadIdx.x; i < count; i += THREADS) {
        const float distance = x[element(i, k, c, plane)] - m;
        squares += distance * distance;
    }
    const float var = block_sum(squares, partial) / count;

    if (threadIdx.x == 0) {
        mean[k] = m;
        rstd[k] = 1.0f / sqrtf(var + eps);
    }
}

/* Compute y from x and its statistics. One thread handles one element. */
static __global__ void batchnorm2d_naive(float *y, const float *x,
                                         const float *weight, const float *bias,
                                         const float *mean, const float *rstd,
                                         int n, int c, size_t plane) {
    const size_t i = (size_t)blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= (size_t)n * c * plane) return;
    const size_t k = i / plane % c;
    y[i] = (x[i] - mean[k]) * rstd[k] * weight[k] + bias[k];
}

/* Compute dbias (c) = sum of dy and dweight (c) = sum of dy * xhat, where xhat
 * is (x - mean) * rstd. One block handles one channel. */
static __global__ void batchnorm2d_naive_sums(float *dweight, float *dbias,
                                              const float *dy, const float *x,
                                              const float *mean,
                                              const float *rstd, int n, int c,
                                              size_t plane) {
    __shared__ float partial[THREADS];
    const size_t k = blockIdx.x, count = n * plane;

    float sum = 0.0f, products = 0.0f;
    for (size_t i = threadIdx.x; i < count; i += THREADS) {
        const size_t at = element(i, k, c, plane);
        sum += dy[at];
        products += dy[at] * ((x[at] - mean[k]) * rstd[k]);
    }
    sum = block_sum(sum, partial);
    products = block_sum(products, partial);

    if (threadIdx.x == 0) {
        dbias[k] = sum;
        dweight[k] = products;
    }
}

/* Compute dx. x affects y directly, through the mean (which subtracts the mean
 * of dy), and through the spread (which subtracts the part along xhat). One
 * thread handles one element. */
static __global__ void batchnorm2d_naive_dx(float *dx, const float *dweight,
                                            const float *dbias, const float *dy,
                                            const float *x, const float *weight,
                                            const float *mean,
                                            const float *rstd, int n, int c,
                                            size_t plane) {
    const size_t i = (size_t)blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= (size_t)n * c * plane) return;
    const size_t k = i / plane % c, count = n * plane;
    const float xhat = (x[i] - mean[k]) * rstd[k];
    dx[i] = weight[k] * rstd[k] *
            (dy[i] - dbias[k] / count - xhat * dweight[k] / count);
}

/* Check the sizes for both launchers. */
static int check_sizes(const char *function, int n, int c, int h, int w) {
    const struct {
        const char *name;
        int size;
    } sizes[] = {{"n", n}, {"c", c}, {"h", h}, {"w", w}};
    for (int i = 0; i < COUNT_OF(sizes); i++)
        WEFT_REQUIRE(sizes[i].size >= 1, "%s: %s = %d, want at least 1",
                     function, sizes[i].name, sizes[i].size);
    WEFT_REQUIRE((double)n * h * w > 1,
                 "%s: n*h*w = 1, want more than 1 value per channel", function);
    const double count = (double)n * c * h * w;
    WEFT_REQUIRE(count <= MAX_ELEMENTS,
                 "%s: x would have %.0f elements, at most %.0f", function,
                 count, MAX_ELEMENTS);
    return WEFT_OK;
}

int weft_batchnorm2d(int rung, float *y, float *mean, float *rstd,
                     const float *x, const float *weight, const float *bias,
                     int n, int c, int h, int w, float eps,
                     weft_stream stream) {
    WEFT_CHECK_RUNG(rung);
    WEFT_TRY(check_sizes(__func__, n, c, h, w));
    WEFT_REQUIRE(isfinite(eps) && eps > 0.0f,
                 "%s: eps = %g, want a finite number above 0", __func__, eps);
    CHECK_ARRAY(y);
    CHECK_ARRAY(mean);
    CHECK_ARRAY(rstd);
    CHECK_ARRAY(x);
    CHECK_ARRAY(weight);
    CHECK_ARRAY(bias);
    const size_t plane = (size_t)h * w;
    switch (rung) {
    case REFERENCE:
        return WEFT_REFERENCE(batchnorm2d_reference(y, mean, rstd, x, weight,
                                                    bias, n, c, h, w, eps));
    case NAIVE:
        batchnorm2d_naive_stats<<<c, THREADS, 0, weft_cuda_stream(stream)>>>(
            mean, rstd, x, n, c, plane, eps);
        WEFT_LAUNCHED(batchnorm2d_naive_stats);
        batchnorm2d_naive<<<blocks_for((size_t)n * c * plane), THREADS, 0,
                            weft_cuda_stream(stream)>>>(
            y, x, weight, bias, mean, rstd, n, c, plane);
        WEFT_LAUNCHED(batchnorm2d_naive);
        return WEFT_OK;
    case TILED:
        return batchnorm2d_tiled_forward(y, mean, rstd, x, weight, bias, n, c,
                                         plane, eps, weft_cuda_stream(stream));
    }
    return WEFT_OK;
}

int weft_batchnorm2d_backward(int rung, float *dx, float *dweight, float *dbias,
                              const float *dy, const float *x,
                              const float *weight, const float *mean,
                              const float *rstd, int n, int c, int h, int w,
                              weft_stream stream) {
    WEFT_CHECK_RUNG(rung);
    WEFT_TRY(check_sizes(__func__, n, c, h, w));
    CHECK_ARRAY(dx);
    CHECK_ARRAY(dweight);
    CHECK_ARRAY(dbias);
    CHECK_ARRAY(dy);
    CHECK_ARRAY(x);
    CHECK_ARRAY(weight);
    CHECK_ARRAY(mean);
    CHECK_ARRAY(rstd);
    const size_t plane = (size_t)h * w;
    switch (rung) {
    case REFERENCE:
        return WEFT_REFERENCE(batchnorm2d_reference_backward(
            dx, dweight, dbias, dy, x, weight, mean, rstd, n, c, h, w));
    case NAIVE:
        batchnorm2d_naive_sums<<<c, THREADS, 0, weft_cuda_stream(stream)>>>(
            dweight, dbias, dy, x, mean, rstd, n, c, plane);
        WEFT_LAUNCHED(batchnorm2d_naive_sums);
        batchnorm2d_naive_dx<<<blocks_for((size_t)n * c * plane), THREADS, 0,
                               weft_cuda_stream(stream)>>>(
            dx, dweight, dbias, dy, x, weight, mean, rstd, n, c, plane);
        WEFT_LAUNCHED(batchnorm2d_naive_dx);
        return WEFT_OK;
    case TILED:
        return batchnorm2d_tiled_backward(dx, dweight, dbias, dy, x, weight,
                                          mean, rstd, n, c, plane,
                                          weft_cuda_stream(stream));
    }
    return WEFT_OK;
}
