/* 05_registers_2d.cu -- matmul, rung 5: each thread computes a rectangle of c.
 *
 * Before:      rung 4 reads an element of a_s for one multiply-add.
 * Idea:        a thread computes TM x TN elements: TM floats of a_s and TN of
 *              b_s in registers serve TM * TN multiply-adds.
 * Prediction:  a block of 128 x 128 reads 4.2 MB from global memory, 4.3 GB in
 *              all at 4096^3. A multiply-add needs a quarter of a float of
 *              shared memory, and 512 multiply-adds take 706 instructions: at
 *              most 73 % of the peak. A thread needs 170 registers, so an SM
 *              holds one block, whose threads all wait for the tiles at the
 *              same time: 50 % is more likely.
 * Measured:    H200, 4096^3: 26 TFLOP/s, 40 %, with two blocks at the price of
 *              12 registers spilled. Tried: BLOCKS = 1: 21.6; BK = 16: 26.5
 *              with nothing spilled.
 * Limit:       each load, global or shared, moves one float. Rung 6 changes
 *              that.
 * Lesson:      notebooks/08a_matmul_tiles.ipynb */
#include "matmul.h"

enum {
    BM = 128, // a block computes BM x BN elements of c
    BN = 128,
    BK = 8, // the tiles are BM x BK of a and BK x BN of b
    TM = 8, // a thread computes TM x TN elements
    TN = 8,
    THREADS = BM * BN / (TM * TN),
    BLOCKS = 2, // blocks per SM: one multiplies while one waits
};
static_assert(BM * BK % THREADS == 0 && BK * BN % THREADS == 0,
              "every thread loads as many elements");

/* Load the tiles of a starting at column k0 and of b starting at row k0.
 * Elements past an edge become zero. */
static __device__ __forceinline__ void
load_tiles(float a_s[BM][BK], float b_s[BK][BN], const float *a, const float *b,
           int m, int n, int k, unsigned row0, unsigned col0, unsigned k0) {
#pragma unroll
    for (int i0 = 0; i0 < BM * BK; i0 += THREADS) {
        const int i = i0 + threadIdx.x, row = i / BK, col = i % BK;
        a_s[row][col] = load_or_zero(a, m, k, row0 + row, k0 + col);
    }
#pragma unroll
    for (int i0 = 0; i0 < BK * BN; i0 += THREADS) {
        const int i = i0 + threadIdx.x, row = i / BN, col = i % BN;
        b_s[row][col] = load_or_zero(b, k, n, k0 + row, col0 + col);
    }
}

/* Add to acc the products of the thread's rows of a_s, starting at ty, and its
 * columns of b_s, starting at tx. */
static __device__ __forceinline__ void multiply(float acc[TM][TN],
                                                const float a_s[BM][BK],
                                                const float b_s[BK][BN], int ty,
                                                int tx) {
#pragma unroll
    for (int i = 0; i < BK; i++) {
        float a_r[TM], b_r[TN];
#pragma unroll
        for (int r = 0; r < TM; r++) a_r[r] = a_s[ty + r][i];
#pragma unroll
        for (int s = 0; s < TN; s++) b_r[s] = b_s[i][tx + s];
#pragma unroll
        for (int r = 0; r < TM; r++)
#pragma unroll
            for (int s = 0; s < TN; s++) acc[r][s] += a_r[r] * b_r[s];
    }
}

/* Compute c (m,n) = a (m,k) @ b (k,n), row-major. */
static __global__ void __launch_bounds__(THREADS, BLOCKS)
    matmul_registers_2d(float *c, const float *a, const float *b, int m, int n,
                        int k, struct extras x) {
    __shared__ float a_s[BM][BK], b_s[BK][BN];
    own_matrix(&c, &a, &b, x);
    const unsigned row0 = blockIdx.y * BM;
    const unsigned col0 = blockIdx.x * BN;
    const int ty = threadIdx.x / (BN / TN) * TM; // first row in the tile
    const int tx = threadIdx.x % (BN / TN) * TN; // first column in the tile

    float acc[TM][TN] = {};
    for (unsigned k0 = 0; k0 < (unsigned)k; k0 += BK) {
        load_tiles(a_s, b_s, a, b, m, n, k, row0, col0, k0);
        __syncthreads(); // wait until both tiles are complete
        multiply(acc, a_s, b_s, ty, tx);
        __syncthreads(); // wait until both tiles have been read
    }
#pragma unroll
    for (int r = 0; r < TM; r++)
#pragma unroll
        for (int s = 0; s < TN; s++) {
            const unsigned row = row0 + ty + r, col = col0 + tx + s;
            if (row < (unsigned)m && col < (unsigned)n)
                store(c, n, row, col, acc[r][s], x);
        }
}

static int launch(const struct product *q, cudaStream_t stream) {
    const dim3 grid = matmul_grid(q, BM, BN);
    matmul_registers_2d<<<grid, THREADS, 0, stream>>>(q->c, (const float *)q->a,
                                                      (const float *)q->b, q->m,
                                                      q->n, q->k, q->extras);
    WEFT_LAUNCHED(matmul_registers_2d);
    return WEFT_OK;
}

MATMUL_RUNG(registers_2d, "a rectangle per thread", "fp32",
            WEFT_CPU | WEFT_CUDA, 0, PLAIN, launch, NULL)
