/* 09_double_buffer.cu -- matmul, rung 9: copies overlap with work.
 *
 * Before:      rung 8 loads its tiles, stores them, waits, and only then
 *              multiplies; a second block on the multiprocessor fills only part
 *              of the gap. All loaded values pass through registers.
 * Idea:        use two stages. While one is multiplied, copies straight from
 *              global to shared memory (cp.async; plain loads and stores below
 *              sm_80) fill the other. One barrier ensures both that this stage
 *              is complete and that the other one has been read. Copies of 4
 *              bytes transpose a.
 * Prediction:  the same bytes, wavefronts and multiply-adds, half the barriers,
 *              and no wait for global memory while there is work. Shared memory
 *              limits the gain: at most 128 / 136 of the peak.
 * Measured:    H200, 4096^3: 37.4 -> 40.6 TFLOP/s, 79 % of cuBLAS.
 * Limit:       64 multiply-adds of a lane take 16 cycles. For these, a warp
 *              issues 4 loads from shared memory, which take 16 wavefronts. In
 *              SASS, 369 of 512 multiply-adds wait for a register bank: at -O1,
 *              ptxas orders them so that only 87 wait, which reaches 43.3
 *              TFLOP/s. Rung 10 changes both.
 * Lesson:      notebooks/08b_matmul_pipeline.ipynb */
#include <cuda_pipeline.h>

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
static_assert(BM * BK == THREADS * 4 && BK * BN == THREADS * 4,
              "a thread copies 4 floats of a and 4 of b");
static_assert(WM / TM * (WN / TN) == 32, "a warp has 32 lanes");

/* Start copying the tile of a from column k0, transposed, and the tile of b
 * from row k0. Elements past an edge become zero. */
static __device__ __forceinline__ void
copy_tiles(float a_s[BK][PITCH_A], float b_s[BK][BN], const float *a,
           const float *b, int m, int n, int k, unsigned row0, unsigned col0,
           unsigned k0, const struct extras &x) {
    const unsigned row_a = threadIdx.x / BK, col_a = threadIdx.x % BK;
    const float *from = a + (size_t)(row0 + row_a) * (unsigned)x.pitch_a;
    from += k0 + col_a;
#pragma unroll
    for (unsigned i = 0; i < BM; i += THREADS / BK) {
        const bool inside =
            row0 + row_a + i < (unsigned)m && k0 + col_a < (unsigned)k;
        __pipeline_memcpy_async(&a_s[col_a][row_a + i], from, 4,
                                inside ? 0 : 4); // number of bytes to fill with
                                                 // zeros
        from += THREADS / BK * x.pitch_a;
    }
    const unsigned row_b = threadIdx.x * 4 / BN, col_b = threadIdx.x * 4 % BN;
    const bool inside = k0 + row_b < (unsigned)k && col0 + col_b < (unsigned)n;
    from = b + (size_t)(k0 + row_b) * (unsigned)x.pitch_b + col0 + col_b;
    __pipeline_memcpy_async(&b_s[row_b][col_b], from, 16, inside ? 0 : 16);
    __pipeline_commit();
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
    matmul_double_buffer(float *c, const float *a, const float *b, int m, int n,
                         int k, struct extras x) {
    __shared__ __align__(16) float a_s[2][BK][PITCH_A];
    __shared__ __align__(16) float b_s[2][BK][BN];
    own_matrix(&c, &a, &b, x);
    const unsigned row0 = blockIdx.y * BM;
    const unsigned col0 = blockIdx.x * BN;
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    const int ty = warp / (BN / WN) * WM + lane / (WN / TN) * TM; // first row
    const int tx = warp % (BN / WN) * WN + lane % (WN / TN) * 4; // first column

    float acc[TM][TN] = {};
    copy_tiles(a_s[0], b_s[0], a, b, m, n, k, row0, col0, 0, x);
    int stage = 0;
    for (unsigned k0 = 0; k0 < (unsigned)k; k0 += BK) {
        __pipeline_wait_prior(0);
        __syncthreads(); // this stage is complete, and the other has been read
        copy_tiles(a_s[!stage], b_s[!stage], a, b, m, n, k, row0, col0, k0 + BK,
                   x);
        multiply(acc, a_s[stage], b_s[stage], ty, tx);
        stage = !stage;
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
    matmul_double_buffer<<<grid, THREADS, 0, stream>>>(
        q->c, (const float *)q->a, (const float *)q->b, q->m, q->n, q->k,
        q->extras);
    WEFT_LAUNCHED(matmul_double_buffer);
    return WEFT_OK;
}

MATMUL_RUNG(double_buffer, "copies nobody waits for", "fp32",
            WEFT_CPU | WEFT_CUDA, 0, ALIGNED, launch, NULL)
