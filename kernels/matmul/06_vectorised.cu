/* 06_vectorised.cu -- matmul, rung 6: four floats at a time.
 *
 * Before:      for each float of its tiles, rung 5 needs a load, a guard and an
 *              address: 142 instructions in addition to 512 multiply-adds and
 *              32 loads from shared memory. nvcc merges these loads in fours.
 *              In a, the four are neighbours along k, so loads fetch 4 steps of
 *              k at a time, which occupy 32 registers.
 * Idea:        use float4 for all loads and stores. The tile of a is transposed
 *              on its way to shared memory, so that a thread's rows are
 *              adjacent.
 * Prediction:  the same bytes with a fourth of the loads: 26 instead of 142
 *              other instructions, 580 per 512 multiply-adds, at most 88 % of
 *              the peak. Nothing spills. Bank conflicts and waiting leave 65
 *              %.
 * Measured:    H200, 4096^3: 34.5 TFLOP/s, 52 %. Tried: BK = 16: 37.4.
 * Limit:       bank conflicts: a store to a_s and a load of b_s take twice as
 *              many wavefronts as necessary. Rung 7 changes that.
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
static_assert(BM * BK % (THREADS * 4) == 0 && BK * BN % (THREADS * 4) == 0,
              "every thread loads as many elements");

/* Load the tile of a from column k0, transposed, and the tile of b from row k0.
 * Elements past an edge become zero. */
static __device__ __forceinline__ void
load_tiles(float a_s[BK][BM], float b_s[BK][BN], const float *a, const float *b,
           int m, int n, int k, unsigned row0, unsigned col0, unsigned k0,
           const struct extras &x) {
#pragma unroll
    for (int i0 = 0; i0 < BM * BK; i0 += THREADS * 4) {
        const int i = i0 + threadIdx.x * 4, row = i / BK, col = i % BK;
        const float4 four =
            load4_or_zero(a, x.pitch_a, m, k, row0 + row, k0 + col);
        a_s[col + 0][row] = four.x;
        a_s[col + 1][row] = four.y;
        a_s[col + 2][row] = four.z;
        a_s[col + 3][row] = four.w;
    }
#pragma unroll
    for (int i0 = 0; i0 < BK * BN; i0 += THREADS * 4) {
        const int i = i0 + threadIdx.x * 4, row = i / BN, col = i % BN;
        *(float4 *)&b_s[row][col] =
            load4_or_zero(b, x.pitch_b, k, n, k0 + row, col0 + col);
    }
}

/* Add to acc the products of the thread's rows of a, starting at ty, and its
 * columns of b, starting at tx. */
static __device__ __forceinline__ void multiply(float acc[TM][TN],
                                                const float a_s[BK][BM],
                                                const float b_s[BK][BN], int ty,
                                                int tx) {
#pragma unroll
    for (int i = 0; i < BK; i++) {
        __align__(16) float a_r[TM], b_r[TN];
#pragma unroll
        for (int r = 0; r < TM; r += 4)
            *(float4 *)&a_r[r] = *(const float4 *)&a_s[i][ty + r];
#pragma unroll
        for (int s = 0; s < TN; s += 4)
            *(float4 *)&b_r[s] = *(const float4 *)&b_s[i][tx + s];
#pragma unroll
        for (int r = 0; r < TM; r++)
#pragma unroll
            for (int s = 0; s < TN; s++) acc[r][s] += a_r[r] * b_r[s];
    }
}

/* Compute c (m,n) = a (m,k) @ b (k,n), row-major. */
static __global__ void __launch_bounds__(THREADS, BLOCKS)
    matmul_vectorised(float *c, const float *a, const float *b, int m, int n,
                      int k, struct extras x) {
    __shared__ __align__(16) float a_s[BK][BM], b_s[BK][BN];
    own_matrix(&c, &a, &b, x);
    const unsigned row0 = blockIdx.y * BM;
    const unsigned col0 = blockIdx.x * BN;
    const int ty = threadIdx.x / (BN / TN) * TM; // first row in the tile
    const int tx = threadIdx.x % (BN / TN) * TN; // first column in the tile

    float acc[TM][TN] = {};
    for (unsigned k0 = 0; k0 < (unsigned)k; k0 += BK) {
        load_tiles(a_s, b_s, a, b, m, n, k, row0, col0, k0, x);
        __syncthreads(); // wait until both tiles are complete
        multiply(acc, a_s, b_s, ty, tx);
        __syncthreads(); // wait until both tiles have been read
    }
#pragma unroll
    for (int r = 0; r < TM; r++)
#pragma unroll
        for (int s = 0; s < TN; s += 4)
            store4(c, m, n, row0 + ty + r, col0 + tx + s, &acc[r][s], x);
}

static int launch(const struct product *q, cudaStream_t stream) {
    const dim3 grid = matmul_grid(q, BM, BN);
    matmul_vectorised<<<grid, THREADS, 0, stream>>>(q->c, (const float *)q->a,
                                                    (const float *)q->b, q->m,
                                                    q->n, q->k, q->extras);
    WEFT_LAUNCHED(matmul_vectorised);
    return WEFT_OK;
}

MATMUL_RUNG(vectorised, "four floats per load", "fp32", WEFT_CPU | WEFT_CUDA, 0,
            ALIGNED, launch, NULL)
