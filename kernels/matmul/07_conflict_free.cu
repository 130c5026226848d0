/* 07_conflict_free.cu -- matmul, rung 7: no bank conflicts.
 *
 * Before:      shared memory has 32 banks, each one float wide. Rung 6 has two
 *              conflicts. When a is stored transposed, two neighbouring lanes
 *              write 4 rows of a_s apart. That is 512 floats, so they use the
 *              same bank, and each of 4 stores takes 2 wavefronts. When b is
 *              loaded, lanes are 8 floats apart and read 4, so 8 lanes collide
 *              in pairs: 8 wavefronts where 4 would suffice.
 * Idea:        rows of a_s are BM + 4 floats apart, so 4 of them span 16 banks.
 *              A thread's 8 columns form two groups of 4 instead of one of 8,
 *              so lanes are 4 floats apart.
 * Prediction:  the same instructions. A warp's wavefronts for 8 steps of k
 *              (loads + stores): before, a 64 + 8 and b 128 + 4; now, a 64 + 4
 *              and b 64 + 4. That is 204 -> 136 (counted by the watch build),
 *              for 128 cycles of multiply-adds. If wavefronts alone set the
 *              pace, the kernel is 1.5 times as fast.
 * Measured:    H200, 4096^3: 37.6 TFLOP/s; rung 6 reaches 34.5. That is 1.09
 *              times as fast, so wavefronts alone do not set the pace.
 * Limit:       a warp of 2 x 16 lanes computes 16 x 128 elements and needs 144
 *              floats for each k. Rung 8 tests whether that matters.
 * Lesson:      notebooks/08b_matmul_pipeline.ipynb */
#include "matmul.h"

enum {
    BM = 128, // a block computes BM x BN elements of c
    BN = 128,
    BK = 8, // the tiles are BM x BK of a and BK x BN of b
    TM = 8, // a thread computes TM x TN elements
    TN = 8,
    THREADS = BM * BN / (TM * TN),
    BLOCKS = 2,           // blocks per SM: one multiplies while one waits
    PITCH_A = BM + 4,     // floats between rows of a_s: 4 rows span 16 banks
    GROUPS = BN / TN * 4, // distance between a thread's two groups of 4 columns
};
static_assert(BM * BK % (THREADS * 4) == 0 && BK * BN % (THREADS * 4) == 0,
              "every thread loads as many elements");

/* Load the tile of a from column k0, transposed, and the tile of b from row k0.
 * Elements past an edge become zero. */
static __device__ __forceinline__ void
load_tiles(float a_s[BK][PITCH_A], float b_s[BK][BN], const float *a,
           const float *b, int m, int n, int k, unsigned row0, unsigned col0,
           unsigned k0, const struct extras &x) {
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
                                                const float a_s[BK][PITCH_A],
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
            *(float4 *)&b_r[s] = *(const float4 *)&b_s[i][tx + s / 4 * GROUPS];
#pragma unroll
        for (int r = 0; r < TM; r++)
#pragma unroll
            for (int s = 0; s < TN; s++) acc[r][s] += a_r[r] * b_r[s];
    }
}

/* Compute c (m,n) = a (m,k) @ b (k,n), row-major. */
static __global__ void __launch_bounds__(THREADS, BLOCKS)
    matmul_conflict_free(float *c, const float *a, const float *b, int m, int n,
                         int k, struct extras x) {
    __shared__ __align__(16) float a_s[BK][PITCH_A], b_s[BK][BN];
    own_matrix(&c, &a, &b, x);
    const unsigned row0 = blockIdx.y * BM;
    const unsigned col0 = blockIdx.x * BN;
    const int ty = threadIdx.x / (BN / TN) * TM; // first row in the tile
    const int tx = threadIdx.x % (BN / TN) * 4;  // first column in the tile

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
            store4(c, m, n, row0 + ty + r, col0 + tx + s / 4 * GROUPS,
                   &acc[r][s], x);
}

static int launch(const struct product *q, cudaStream_t stream) {
    const dim3 grid = matmul_grid(q, BM, BN);
    matmul_conflict_free<<<grid, THREADS, 0, stream>>>(
        q->c, (const float *)q->a, (const float *)q->b, q->m, q->n, q->k,
        q->extras);
    WEFT_LAUNCHED(matmul_conflict_free);
    return WEFT_OK;
}

MATMUL_RUNG(conflict_free, "nobody waits for a bank", "fp32",
            WEFT_CPU | WEFT_CUDA, 0, ALIGNED, launch, NULL)
