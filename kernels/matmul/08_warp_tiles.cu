/* 08_warp_tiles.cu -- matmul, rung 8: each warp computes a rectangle of c.
 *
 * Before:      a warp of rung 7 has 2 x 16 lanes and computes 16 x 128 elements
 *              of c. For one step of k it needs 16 different floats of a and
 *              128 of b.
 * Idea:        arrange a warp as 4 x 8 lanes, which compute WM x WN = 32 x 64
 *              elements. They need 32 floats of a and 64 of b.
 * Prediction:  a third fewer different floats, but as many loads. The watch
 *              build assigns 8 lanes to a wavefront and so counts 136
 *              wavefronts for 8 steps of k, as before. If the GPU counts the
 *              same way, nothing changes.
 * Measured:    H200, 4096^3: 37.6 -> 37.4 TFLOP/s: no gain. Tried: lanes in z
 *              order (row lane / 16 * 2 + lane % 2, column lane / 2 % 8): 38.2
 *              compared with 37.0 (at 106 registers), and 2 to 5 % more at five
 *              sizes, which the count of wavefronts does not explain.
 * Limit:       between its two barriers a block loads or multiplies, never
 *              both. Rung 9 changes that.
 * Lesson:      notebooks/08b_matmul_pipeline.ipynb */
#include "matmul.h"

enum {
    BM = 128, // a block computes BM x BN elements of c
    BN = 128,
    BK = 8, // the tiles are BM x BK of a and BK x BN of b
    TM = 8, // a thread computes TM x TN elements
    TN = 8,
    WM = 32, // a warp of 4 x 8 lanes computes WM x WN elements
    WN = 64,
    THREADS = BM * BN / (TM * TN),
    BLOCKS = 2,           // blocks per SM: one multiplies while one waits
    PITCH_A = BM + 4,     // floats between rows of a_s: 4 rows span 16 banks
    GROUPS = WN / TN * 4, // distance between a thread's two groups of 4 columns
};
static_assert(BM * BK % (THREADS * 4) == 0 && BK * BN % (THREADS * 4) == 0,
              "every thread loads as many elements");
static_assert(WM / TM * (WN / TN) == 32, "a warp has 32 lanes");

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
    matmul_warp_tiles(float *c, const float *a, const float *b, int m, int n,
                      int k, struct extras x) {
    __shared__ __align__(16) float a_s[BK][PITCH_A], b_s[BK][BN];
    own_matrix(&c, &a, &b, x);
    const unsigned row0 = blockIdx.y * BM;
    const unsigned col0 = blockIdx.x * BN;
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    const int ty = warp / (BN / WN) * WM + lane / (WN / TN) * TM; // first row
    const int tx = warp % (BN / WN) * WN + lane % (WN / TN) * 4; // first column

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
    matmul_warp_tiles<<<grid, THREADS, 0, stream>>>(q->c, (const float *)q->a,
                                                    (const float *)q->b, q->m,
                                                    q->n, q->k, q->extras);
    WEFT_LAUNCHED(matmul_warp_tiles);
    return WEFT_OK;
}

MATMUL_RUNG(warp_tiles, "each warp a rectangle", "fp32", WEFT_CPU | WEFT_CUDA,
            0, ALIGNED, launch, NULL)
