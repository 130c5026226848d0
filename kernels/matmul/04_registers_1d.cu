/* 04_registers_1d.cu -- matmul, rung 4: each thread computes a column strip.
 *
 * Before:      rung 3 reads more than one float of shared memory per
 *              multiply-add.
 * Idea:        a thread computes TM elements of one column. They share a column
 *              of b, so one float of b_s in a register serves TM multiply-adds.
 * Prediction:  a block of 64 x 64 reads 2 MB from global memory, 8.6 GB in all
 *              at 4096^3. A multiply-add needs 1 + 1 / TM floats of shared
 *              memory, and the floats of a are read in fours: 24 loads per 64
 *              multiply-adds, at most 67 % of the peak. With all other
 *              instructions, 122 per 64: at most 52 %.
 * Measured:    H200, 4096^3: 15.8 TFLOP/s, 24 %. Counted in floats, as rung 3
 *              suggests, 72 loads per 64 give 22 %. Tried: BK = 32 and two
 *              blocks per SM, 19.2.
 * Limit:       a thread uses an element of a_s for one multiply-add per load.
 *              Rung 5 changes that.
 * Lesson:      notebooks/08a_matmul_tiles.ipynb */
#include "matmul.h"

enum {
    BM = 64, // a block computes BM x BN elements of c
    BN = 64,
    BK = 8, // the tiles are BM x BK of a and BK x BN of b
    TM = 8, // a thread computes TM x 1 elements
    THREADS = BM * BN / TM,
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
 * column tx of b_s. */
static __device__ __forceinline__ void multiply(float acc[TM],
                                                const float a_s[BM][BK],
                                                const float b_s[BK][BN], int ty,
                                                int tx) {
#pragma unroll
    for (int i = 0; i < BK; i++) {
        const float b_r = b_s[i][tx];
#pragma unroll
        for (int r = 0; r < TM; r++) acc[r] += a_s[ty + r][i] * b_r;
    }
}

/* Compute c (m,n) = a (m,k) @ b (k,n), row-major. */
static __global__ void __launch_bounds__(THREADS)
    matmul_registers_1d(float *c, const float *a, const float *b, int m, int n,
                        int k, struct extras x) {
    __shared__ float a_s[BM][BK], b_s[BK][BN];
    own_matrix(&c, &a, &b, x);
    const unsigned row0 = blockIdx.y * BM;
    const unsigned col0 = blockIdx.x * BN;
    const int ty = threadIdx.x / BN * TM; // the thread's first row in the tile
    const int tx = threadIdx.x % BN;      // the thread's column in the tile

    float acc[TM] = {};
    for (unsigned k0 = 0; k0 < (unsigned)k; k0 += BK) {
        load_tiles(a_s, b_s, a, b, m, n, k, row0, col0, k0);
        __syncthreads(); // wait until both tiles are complete
        multiply(acc, a_s, b_s, ty, tx);
        __syncthreads(); // wait until both tiles have been read
    }
#pragma unroll
    for (int r = 0; r < TM; r++) {
        const unsigned row = row0 + ty + r, col = col0 + tx;
        if (row < (unsigned)m && col < (unsigned)n)
            store(c, n, row, col, acc[r], x);
    }
}

static int launch(const struct product *q, cudaStream_t stream) {
    const dim3 grid = matmul_grid(q, BM, BN);
    matmul_registers_1d<<<grid, THREADS, 0, stream>>>(q->c, (const float *)q->a,
                                                      (const float *)q->b, q->m,
                                                      q->n, q->k, q->extras);
    WEFT_LAUNCHED(matmul_registers_1d);
    return WEFT_OK;
}

MATMUL_RUNG(registers_1d, "a strip of a column per thread", "fp32",
            WEFT_CPU | WEFT_CUDA, 0, PLAIN, launch, NULL)
