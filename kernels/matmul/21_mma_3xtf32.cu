/* 21_mma_3xtf32.cu -- matmul as exact as in float, on tensor cores: three
 * products in tf32.
 *
 * Before:      21_mma_tf32.cu keeps 11 bits of each factor.
 * Idea:        the sum of hi and lo, both tf32, represents x to 22 bits. Then a
 *              b is hi hi + hi lo + lo hi up to 2^-22. Splitting costs three
 *              instructions per number, in registers: it writes nothing, and
 *              the loads are the same as for tf32. Tensor cores truncate their
 *              sums towards zero, so errors grow with k. Therefore ordinary
 *              additions, which round, add up the sums of each stage (32 of k).
 *              A warp computes 64 x 32, since its sums take twice the
 *              registers.
 * Prediction:  a third of the speed of tf32, less the splitting: 75 TFLOP/s,
 *              1.5 times cuBLAS in fp32.
 * Measured:    H200, 4096^3: 56 TFLOP/s, 1.08 times cuBLAS in fp32, and a
 *              root-mean-square relative error of 3.2e-7 (fp32: 1.1e-6).
 * Limit:       the rate of mma.sync. The rung needs sm_80.
 * Error:       2^-22 of each product, plus the truncation in each sum of 32:
 *              less than fp32 loses.
 * Beyond:      if hi or lo is infinite, the result may be NaN by mistake, so
 *              such elements are computed again (recompute.cuh).
 * Lesson:      notebooks/08c_matmul_tensor_cores.ipynb */
/* g++: -O1 */
#include "mma_tile.cuh"
#include "recompute.cuh"

static __device__ __forceinline__ void split(uint32_t *hi, uint32_t *lo,
                                             uint32_t bits) {
    const float x = __uint_as_float(bits), upper = round_tf32(x);
    *hi = __float_as_uint(upper);
    *lo = __float_as_uint(round_tf32(x - upper));
}

/* Add the products of a step to the sums, small products first. */
template <class S>
static __device__ __forceinline__ void
multiply_three(float sums[S::DOWN][S::ACROSS][4],
               const struct fragments<S> &f) {
    uint32_t a_hi[S::DOWN][4], a_lo[S::DOWN][4];
#pragma unroll
    for (int i = 0; i < S::DOWN; i++)
#pragma unroll
        for (int r = 0; r < 4; r++) split(&a_hi[i][r], &a_lo[i][r], f.a[i][r]);
#pragma unroll
    for (int j = 0; j < S::ACROSS; j++) {
        uint32_t b_hi[2], b_lo[2];
#pragma unroll
        for (int r = 0; r < 2; r++) split(&b_hi[r], &b_lo[r], f.b[j][r]);
        // Go column by column: neighbouring products then do not wait for each
        // other's sums.
#pragma unroll
        for (int i = 0; i < S::DOWN; i++) mma_tf32(sums[i][j], a_lo[i], b_hi);
#pragma unroll
        for (int i = 0; i < S::DOWN; i++) mma_tf32(sums[i][j], a_hi[i], b_lo);
#pragma unroll
        for (int i = 0; i < S::DOWN; i++) mma_tf32(sums[i][j], a_hi[i], b_hi);
    }
}

/* Add the sums to the totals, then clear the sums. */
template <class S>
static __device__ __forceinline__ void
promote(float totals[S::DOWN][S::ACROSS][4],
        float sums[S::DOWN][S::ACROSS][4]) {
#pragma unroll
    for (int i = 0; i < S::DOWN; i++)
#pragma unroll
        for (int j = 0; j < S::ACROSS; j++)
#pragma unroll
            for (int r = 0; r < 4; r++) {
                totals[i][j][r] += sums[i][j][r];
                sums[i][j][r] = 0.0f;
            }
}

/* Recompute those of this warp's elements that are NaN and inside c (m,n). */
template <class S>
static __device__ __forceinline__ void
redo_warp(float totals[S::DOWN][S::ACROSS][4], const float *a, const float *b,
          int m, int n, int k, int row0, int col0, const struct extras &x) {
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    row0 += warp / S::WARPS_N * S::WM + lane / 4;
    col0 += warp % S::WARPS_N * S::WN + lane % 4 * 2;
#pragma unroll
    for (int i = 0; i < S::DOWN; i++)
#pragma unroll
        for (int j = 0; j < S::ACROSS; j++)
#pragma unroll
            for (int r = 0; r < 4; r++) {
                const float sum = totals[i][j][r];
                const int row = row0 + i * 16 + r / 2 * 8;
                const int col = col0 + j * 8 + r % 2;
                if (sum != sum && row < m && col < n)
                    totals[i][j][r] =
                        redo(a + row * x.pitch_a, 1, b + col, x.pitch_b, k);
            }
}

/* Compute c (m,n) = a (m,k) @ b (k,n), row-major. */
template <class S>
static __global__ void __launch_bounds__(S::THREADS, S::BLOCKS)
    matmul_mma_3xtf32(float *c, const float *a, const float *b, int m, int n,
                      int k, struct extras x) {
    extern __shared__ __align__(128) char ring[];
    int row0, col0;
    tile_of_block<S>(m, n, &row0, &col0);
    own_matrix(&c, &a, &b, x);
    float totals[S::DOWN][S::ACROSS][4] = {}, sums[S::DOWN][S::ACROSS][4] = {};
    for_each_step<S>(ring, copies<S>(a, b, row0, col0, x), m, n, k, x,
                     [&](const struct fragments<S> &f, int step) {
                         multiply_three<S>(sums, f);
                         if (step == STEPS - 1) promote<S>(totals, sums);
                     });
    redo_warp<S>(totals, a, b, m, n, k, row0, col0, x);
    store_warp<S>(c, m, n, row0, col0, totals, x);
}

template <class S>
static int launch_shape(const struct product *q, cudaStream_t stream) {
    const auto kernel = matmul_mma_3xtf32<S>;
    WEFT_CUDA_TRY(cudaFuncSetAttribute(
        kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, S::BYTES));
    const dim3 grid((unsigned)tiles_of<S>(q), 1, (unsigned)q->batch);
    kernel<<<grid, S::THREADS, S::BYTES, stream>>>(q->c, (const float *)q->a,
                                                   (const float *)q->b, q->m,
                                                   q->n, q->k, q->extras);
    WEFT_LAUNCHED(matmul_mma_3xtf32);
    return WEFT_OK;
}

typedef mma_shape<float, 128, 128, 64, 32, 4, 1> Large;
typedef mma_shape<float, 64, 128, 64, 32, 3, 2> Medium;
typedef mma_shape<float, 64, 64, 32, 32, 3, 3> Small;

static int launch(const struct product *q, cudaStream_t stream) {
    switch (best_of<Large, Medium, Small>(q)) {
    case LARGE: return launch_shape<Large>(q, stream);
    case MEDIUM: return launch_shape<Medium>(q, stream);
    default: return launch_shape<Small>(q, stream);
    }
}

MATMUL_RUNG(mma_3xtf32, "three products in tf32, split in registers", "3xtf32",
            WEFT_CPU | WEFT_CUDA, 80, ALIGNED, launch, NULL)
