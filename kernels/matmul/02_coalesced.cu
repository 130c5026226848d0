/* 02_coalesced.cu -- matmul, rung 2: neighbours take neighbouring columns.
 *
 * Before:      in rung 1, x numbers the rows: in each of a warp's loads from a
 *              and stores to c, neighbouring threads touch different rows.
 * Idea:        swap the two: x numbers the columns. A warp reads adjacent
 *              floats of b, and all threads of a row use the same float of a.
 * Prediction:  the same 550 GB requested, but a warp's multiply-add touches 3
 *              lines (a: 2 rows, b: 1) instead of 17: 32 / (3 * 128) = 8 % of
 *              the peak.
 * Measured:    H200, 4096^3: 4.7 TFLOP/s, 7.1 %.
 * Limit:       still two loads from global memory for each multiply-add: a is
 *              read n times and b m times. Caches serve many of these loads,
 *              but they all keep the multipliers waiting. Rung 3 changes that.
 * Lesson:      notebooks/08a_matmul_tiles.ipynb */
#include "matmul.h"

enum { SIDE = 16 };

/* Compute c (m,n) = a (m,k) @ b (k,n), row-major. */
static __global__ void matmul_coalesced(float *c, const float *a,
                                        const float *b, int m, int n, int k,
                                        struct extras x) {
    own_matrix(&c, &a, &b, x);
    const size_t row = (size_t)blockIdx.y * SIDE + threadIdx.y;
    const size_t col = (size_t)blockIdx.x * SIDE + threadIdx.x;
    if (row >= (size_t)m || col >= (size_t)n) return;
    float acc = 0.0f;
    for (int i = 0; i < k; i++) acc += a[row * k + i] * b[(size_t)i * n + col];
    store(c, n, row, col, acc, x);
}

static int launch(const struct product *q, cudaStream_t stream) {
    const dim3 block(SIDE, SIDE);
    const dim3 grid = matmul_grid(q, SIDE, SIDE);
    matmul_coalesced<<<grid, block, 0, stream>>>(q->c, (const float *)q->a,
                                                 (const float *)q->b, q->m,
                                                 q->n, q->k, q->extras);
    WEFT_LAUNCHED(matmul_coalesced);
    return WEFT_OK;
}

MATMUL_RUNG(coalesced, "neighbours take neighbouring columns", "fp32",
            WEFT_CPU | WEFT_CUDA, 0, PLAIN, launch, NULL)
