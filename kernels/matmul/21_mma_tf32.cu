/* 21_mma_tf32.cu -- matmul on tensor cores by mma.sync, float in, tf32 inside.
 *
 * Before:      20_wmma_tf32.cu rounds on the way to shared memory, which
 *              asynchronous copies cannot do.
 * Idea:        21_mma_fp16.cu with floats, rounded in registers between loading
 *              and multiplying: each number is rounded several times instead of
 *              once, by cores that have little else to do. b's fragments are
 *              loaded word by word, since ldmatrix transposes 16-bit numbers
 *              only.
 * Prediction:  for 32 instructions of 1024 multiply-adds a warp loads 4 x 512
 *              bytes of a and 16 x 128 of b: 32 cycles of shared memory, 44
 *              with the copies. The tensor cores take 53 (322 TFLOP/s by
 *              mma.sync, measured). Hence 260 TFLOP/s, 0.65 of cuBLAS.
 * Measured:    H200, 4096^3: 203 TFLOP/s, 0.50 of cuBLAS. Tried: without the
 *              rounding, 210.
 * Limit:       the same as in 21_mma_fp16.cu. The rung needs sm_80.
 * Error:       2^-11 of each factor.
 * Lesson:      notebooks/08c_matmul_tensor_cores.ipynb */
/* g++: -O1 */
#include "mma_tile.cuh"

static __device__ __forceinline__ uint32_t to_tf32(uint32_t bits) {
    return __float_as_uint(round_tf32(__uint_as_float(bits)));
}

/* Round the fragments to tf32, since the tensor cores would truncate. */
template <class S>
static __device__ __forceinline__ struct fragments<S>
rounded(struct fragments<S> f) {
#pragma unroll
    for (int i = 0; i < S::DOWN; i++)
#pragma unroll
        for (int r = 0; r < 4; r++) f.a[i][r] = to_tf32(f.a[i][r]);
#pragma unroll
    for (int j = 0; j < S::ACROSS; j++)
#pragma unroll
        for (int r = 0; r < 2; r++) f.b[j][r] = to_tf32(f.b[j][r]);
    return f;
}

/* Compute c (m,n) = a (m,k) @ b (k,n), row-major. */
template <class S>
static __global__ void __launch_bounds__(S::THREADS, S::BLOCKS)
    matmul_mma_tf32(float *c, const float *a, const float *b, int m, int n,
                    int k, struct extras x) {
    extern __shared__ __align__(128) char ring[];
    int row0, col0;
    tile_of_block<S>(m, n, &row0, &col0);
    own_matrix(&c, &a, &b, x);
    float sums[S::DOWN][S::ACROSS][4] = {};
    for_each_step<S>(ring, copies<S>(a, b, row0, col0, x), m, n, k, x,
                     [&](const struct fragments<S> &f, int) {
                         multiply<S>(sums, rounded(f), mma_tf32);
                     });
    store_warp<S>(c, m, n, row0, col0, sums, x);
}

template <class S>
static int launch_shape(const struct product *q, cudaStream_t stream) {
    const auto kernel = matmul_mma_tf32<S>;
    WEFT_CUDA_TRY(cudaFuncSetAttribute(
        kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, S::BYTES));
    const dim3 grid((unsigned)tiles_of<S>(q), 1, (unsigned)q->batch);
    kernel<<<grid, S::THREADS, S::BYTES, stream>>>(q->c, (const float *)q->a,
                                                   (const float *)q->b, q->m,
                                                   q->n, q->k, q->extras);
    WEFT_LAUNCHED(matmul_mma_tf32);
    return WEFT_OK;
}

typedef mma_shape<float, 128, 256, 64, 64, 4, 1> Large;
typedef mma_shape<float, 128, 128, 64, 64, 3, 2> Medium;
typedef mma_shape<float, 64, 64, 32, 32, 3, 4> Small;

static int launch(const struct product *q, cudaStream_t stream) {
    switch (best_of<Large, Medium, Small>(q)) {
    case LARGE: return launch_shape<Large>(q, stream);
    case MEDIUM: return launch_shape<Medium>(q, stream);
    default: return launch_shape<Small>(q, stream);
    }
}

MATMUL_RUNG(mma_tf32, "tensor cores by mma.sync, rounding in registers", "tf32",
            WEFT_CPU | WEFT_CUDA, 80, ALIGNED, launch, NULL)
