/* linear.cu -- a fully connected layer: y = x @ weight^T + bias.
 *
 * Naive
 * Idea:    one thread per element of the result, forward and backward alike;
 *          each of the three gradients is a matrix product or a sum over the
 *          batch, and each has a kernel of its own.
 * Limit:   as in matmul's naive rung, two loads for each multiply-add; forward,
 *          neighbouring threads read rows of weight that are `in` apart, so
 *          their loads do not coalesce; and dbias has only `out` threads.
 * Error:   sums of `in`, `out` or n terms one after another in float: each at
 *          most 1.01 2^-24 per term of the same sum over absolute values.
 * Lesson:  notebooks/10_backwards.ipynb
 */
#include "internal.cuh"

#include "checks.cuh"
#include "reference/reference.h"

WEFT_RUNGS({"linear", "reference", "plain C on the blocked matrix product",
            "fp32", WEFT_CPU, 0},
           {"linear", "naive", "one thread per output element", "fp32",
            WEFT_CPU | WEFT_CUDA, 0});

enum { REFERENCE, NAIVE };

/* y[row][col] = bias[col] + sum over i of x[row][i] * weight[col][i]. */
static __global__ void linear_naive(float *y, const float *x,
                                    const float *weight, const float *bias,
                                    int n, int in, int out) {
    const size_t index = (size_t)blockIdx.x * blockDim.x + threadIdx.x;
    if (index >= (size_t)n * out) return;
    const size_t row = index / out, col = index % out;
    float acc = bias ? bias[col] : 0.0f;
    for (int i = 0; i < in; i++) acc += x[row * in + i] * weight[col * in + i];
    y[index] = acc;
}

/* dx[row][i] = sum over the outputs of dy[row][col] * weight[col][i]. */
static __global__ void linear_naive_dx(float *dx, const float *dy,
                                       const float *weight, int n, int in,
                                       int out) {
    const size_t index = (size_t)blockIdx.x * blockDim.x + threadIdx.x;
    if (index >= (size_t)n * in) return;
    const size_t row = index / in, i = index % in;
    float acc = 0.0f;
    for (int col = 0; col < out; col++)
        acc += dy[row * out + col] * weight[(size_t)col * in + i];
    dx[index] = acc;
}

/* dweight[col][i] = sum over the batch of dy[row][col] * x[row][i]. */
static __global__ void linear_naive_dweight(float *dweight, const float *dy,
                                            const float *x, int n, int in,
                                            int out) {
    const size_t index = (size_t)blockIdx.x * blockDim.x + threadIdx.x;
    if (index >= (size_t)out * in) return;
    const size_t col = index / in, i = index % in;
    float acc = 0.0f;
    for (int row = 0; row < n; row++)
        acc += dy[(size_t)row * out + col] * x[(size_t)row * in + i];
    dweight[index] = acc;
}

/* dbias[col] = sum over the batch of dy[row][col]. */
static __global__ void linear_naive_dbias(float *dbias, const float *dy, int n,
                                          int out) {
    const size_t col = (size_t)blockIdx.x * blockDim.x + threadIdx.x;
    if (col >= (size_t)out) return;
    float acc = 0.0f;
    for (int row = 0; row < n; row++) acc += dy[(size_t)row * out + col];
    dbias[col] = acc;
}

static int launch_naive_backward(float *dx, float *dweight, float *dbias,
                                 const float *dy, const float *x,
                                 const float *weight, int n, int in, int out,
                                 cudaStream_t stream) {
    if (dx) {
        linear_naive_dx<<<blocks_for((size_t)n * in), THREADS, 0, stream>>>(
            dx, dy, weight, n, in, out);
        WEFT_LAUNCHED(linear_naive_dx);
    }
    if (dweight) {
        linear_naive_dweight<<<blocks_for((size_t)out * in), THREADS, 0,
                               stream>>>(dweight, dy, x, n, in, out);
        WEFT_LAUNCHED(linear_naive_dweight);
    }
    if (dbias) {
        linear_naive_dbias<<<blocks_for(out), THREADS, 0, stream>>>(dbias, dy,
                                                                    n, out);
        WEFT_LAUNCHED(linear_naive_dbias);
    }
    return WEFT_OK;
}

int weft_linear(int rung, float *y, const float *x, const float *weight,
                const float *bias, int n, int in, int out, weft_stream stream) {
    WEFT_CHECK_RUNG(rung);
    CHECK_SIZE(n);
    CHECK_SIZE(in);
    CHECK_SIZE(out);
    CHECK_COUNT(x, (double)n * in);
    CHECK_COUNT(weight, (double)out * in);
    CHECK_COUNT(y, (double)n * out);
    CHECK_ARRAY(y);
    CHECK_ARRAY(x);
    CHECK_ARRAY(weight);
    switch (rung) {
    case REFERENCE:
        return WEFT_REFERENCE(linear_reference(y, x, weight, bias, n, in, out));
    case NAIVE:
        linear_naive<<<blocks_for((size_t)n * out), THREADS, 0,
                       weft_cuda_stream(stream)>>>(y, x, weight, bias, n, in,
                                                   out);
        WEFT_LAUNCHED(linear_naive);
    }
    return WEFT_OK;
}

int weft_linear_backward(int rung, float *dx, float *dweight, float *dbias,
                         const float *dy, const float *x, const float *weight,
                         int n, int in, int out, weft_stream stream) {
    WEFT_CHECK_RUNG(rung);
    CHECK_SIZE(n);
    CHECK_SIZE(in);
    CHECK_SIZE(out);
    CHECK_COUNT(x, (double)n * in);
    CHECK_COUNT(weight, (double)out * in);
    CHECK_COUNT(dy, (double)n * out);
    CHECK_ARRAY(dy);
    if (dweight) CHECK_ARRAY(x);
    if (dx) CHECK_ARRAY(weight);
    switch (rung) {
    case REFERENCE:
        return WEFT_REFERENCE(linear_reference_backward(dx, dweight, dbias, dy,
                                                        x, weight, n, in, out));
    case NAIVE:
        return launch_naive_backward(dx, dweight, dbias, dy, x, weight, n, in,
                                     out, weft_cuda_stream(stream));
    }
    return WEFT_OK;
}
