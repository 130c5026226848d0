/* matmul.cu -- matrix products.
 *
 * Naive
 * Idea:    one thread per element of c walks along a row of a and down a
 *          column of b. Threads that are neighbours in x take neighbouring
 *          columns: they read the same element of a and, from b, floats that
 *          lie side by side.
 * Limit:   two loads for each multiply-add. a is read n times and b m times;
 *          caches catch much of it, but the loads themselves keep the
 *          multipliers waiting.
 * Error:   k products are added one after another in float: at most
 *          1.01 k 2^-24 of the same sum over absolute values.
 * Lesson:  notebooks/10_backwards.ipynb
 */
#include "internal.cuh"

#include "checks.cuh"
#include "reference/reference.h"

WEFT_RUNGS({"matmul", "reference", "plain C, packed and blocked for registers",
            "fp32", WEFT_CPU, 0},
           {"matmul", "naive", "one thread per element of c", "fp32",
            WEFT_CPU | WEFT_CUDA, 0});

enum { REFERENCE, NAIVE };
enum { SIDE = 16, MAX_GRID_Y = 65535 };

/* c (m,n) = a (m,k) @ b (k,n). */
static __global__ void matmul_naive(float *c, const float *a, const float *b,
                                    int m, int n, int k) {
    const size_t col = blockIdx.x * blockDim.x + threadIdx.x;
    size_t row = blockIdx.y * blockDim.y + threadIdx.y;
    if (col >= (size_t)n) return;
    // A grid has at most 65535 blocks in y: rows beyond take another turn.
    for (; row < (size_t)m; row += gridDim.y * blockDim.y) {
        float acc = 0.0f;
        for (int i = 0; i < k; i++)
            acc += a[row * k + i] * b[(size_t)i * n + col];
        c[row * n + col] = acc;
    }
}

/* c = alpha * a @ b + beta * c; a is stored (k,m) if trans_a, b (n,k) if
 * trans_b: a transposed matrix is the same array read with indices swapped. */
static __global__ void matmul_naive_general(float *c, const float *a,
                                            const float *b, int m, int n, int k,
                                            int trans_a, int trans_b,
                                            float alpha, float beta) {
    const size_t col = blockIdx.x * blockDim.x + threadIdx.x;
    size_t row = blockIdx.y * blockDim.y + threadIdx.y;
    if (col >= (size_t)n) return;
    for (; row < (size_t)m; row += gridDim.y * blockDim.y) {
        float acc = 0.0f;
        for (int i = 0; i < k; i++) {
            const float a_i = trans_a ? a[(size_t)i * m + row] : a[row * k + i];
            const float b_i = trans_b ? b[col * k + i] : b[(size_t)i * n + col];
            acc += a_i * b_i;
        }
        float *out = c + row * n + col;
        // With beta 0 the old c is not read: it may be NaN.
        *out = beta == 0.0f ? alpha * acc : alpha * acc + beta * *out;
    }
}

static int launch_naive(float *c, const float *a, const float *b, int m, int n,
                        int k, const struct weft_matmul_options *options,
                        cudaStream_t stream) {
    const dim3 block(SIDE, SIDE);
    const int rows = CEIL_DIV((size_t)m, SIDE) < MAX_GRID_Y
                         ? (int)CEIL_DIV((size_t)m, SIDE)
                         : MAX_GRID_Y;
    const dim3 grid((unsigned)CEIL_DIV((size_t)n, SIDE), (unsigned)rows);
    const int plain =
        !options || (!options->trans_a && !options->trans_b &&
                     options->alpha == 1.0f && options->beta == 0.0f);
    if (plain)
        matmul_naive<<<grid, block, 0, stream>>>(c, a, b, m, n, k);
    else
        matmul_naive_general<<<grid, block, 0, stream>>>(
            c, a, b, m, n, k, options->trans_a, options->trans_b,
            options->alpha, options->beta);
    WEFT_LAUNCHED(matmul_naive);
    return WEFT_OK;
}

int weft_matmul(int rung, float *c, const float *a, const float *b, int m,
                int n, int k, const struct weft_matmul_options *options,
                weft_stream stream) {
    WEFT_CHECK_RUNG(rung);
    CHECK_SIZE(m);
    CHECK_SIZE(n);
    CHECK_SIZE(k);
    CHECK_COUNT(a, (double)m * k);
    CHECK_COUNT(b, (double)k * n);
    CHECK_COUNT(c, (double)m * n);
    CHECK_ARRAY(c);
    CHECK_ARRAY(a);
    CHECK_ARRAY(b);
    switch (rung) {
    case REFERENCE:
        return WEFT_REFERENCE(matmul_reference(c, a, b, m, n, k, options));
    case NAIVE:
        return launch_naive(c, a, b, m, n, k, options,
                            weft_cuda_stream(stream));
    }
    return WEFT_OK;
}
