/* 01_naive.cu -- matmul, rung 1: one thread per element of c.
 *
 * Idea:        thread (x,y) owns element (row,col) of c. It walks along its row
 *              of a and down its column of b, and keeps the sum in a register.
 * Prediction:  each multiply-add requests 8 bytes of global memory: 550 GB at
 *              4096^3, 8.4 MB per block. A warp's load from a touches 16 rows
 *              and its load from b one, 17 lines in all. The L1 cache looks up
 *              one line a clock, so 32 multiply-adds take 17 clocks. An SM can
 *              do 128 a clock: 32 / (17 * 128) = 1.5 % of the peak.
 * Measured:    H200, 4096^3: 0.97 TFLOP/s, 1.5 % of the peak (in all rungs, the
 *              measured peak: 66 TFLOP/s of multiply-adds). Tried: blocks of 32
 *              x 32, where a load touches 33 lines, reach 0.50. With k = 4128
 *              or 4224 the rate is 0.97; 4112 gives 1.6, 4104 2.2 and 4097 2.7.
 *              So the position of the rows in 128-byte lines matters, which
 *              suggests that banks set the limit rather than lookups: the L1
 *              cache is the same memory as shared memory.
 * Limit:       x numbers the rows, so neighbours in a warp read floats of a and
 *              write floats of c that are whole rows apart. Each access moves a
 *              sector of 32 bytes and uses 4. Rung 2 changes that.
 * Error:       k products are added one after another in float. The error is at
 *              most 1.01 k 2^-24 of the same sum over absolute values, as in
 *              every fp32 rung.
 * Lesson:      notebooks/08a_matmul_tiles.ipynb */
#include "matmul.h"

enum { SIDE = 16, MAX_GRID = 65535 };

/* Compute c (m,n) = a (m,k) @ b (k,n), row-major. */
static __global__ void matmul_naive(float *c, const float *a, const float *b,
                                    int m, int n, int k, struct extras x,
                                    size_t col0) {
    own_matrix(&c, &a, &b, x);
    const size_t row = (size_t)blockIdx.x * SIDE + threadIdx.x;
    const size_t col = col0 + blockIdx.y * SIDE + threadIdx.y;
    if (row >= (size_t)m || col >= (size_t)n) return;
    float acc = 0.0f;
    for (int i = 0; i < k; i++) acc += a[row * k + i] * b[(size_t)i * n + col];
    store(c, n, row, col, acc, x);
}

static int launch(const struct product *q, cudaStream_t stream) {
    const dim3 block(SIDE, SIDE);
    // A grid has at most MAX_GRID blocks in y, which numbers the columns in
    // this rung. Further launches compute the remaining columns: col0 and up.
    const size_t columns = CEIL_DIV((size_t)q->n, SIDE);
    for (size_t done = 0; done < columns; done += MAX_GRID) {
        const size_t left = columns - done;
        const dim3 grid((unsigned)CEIL_DIV((size_t)q->m, SIDE),
                        (unsigned)(left < MAX_GRID ? left : (size_t)MAX_GRID),
                        (unsigned)q->batch);
        matmul_naive<<<grid, block, 0, stream>>>(
            q->c, (const float *)q->a, (const float *)q->b, q->m, q->n, q->k,
            q->extras, done * SIDE);
        WEFT_LAUNCHED(matmul_naive);
    }
    return WEFT_OK;
}

MATMUL_RUNG(naive, "one thread per element of c", "fp32", WEFT_CPU | WEFT_CUDA,
            0, PLAIN, launch, NULL)
