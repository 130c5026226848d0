/* 21_mma_fp16.cu -- matmul on tensor cores by mma.sync, fp16 in, float out.
 *
 * Before:      20_wmma_fp16.cu stops twice for every 32 of k, copies through
 *              registers, and lets the compiler choose how to load a fragment.
 * Idea:        use the instructions themselves (ptx.cuh): the code determines
 *              which lane holds which element. ldmatrix loads four 8 x 8
 *              matrices at a time from tiles that are swizzled instead of
 *              padded. Sums go straight from registers to c. Copies are
 *              asynchronous, in a ring, and each step's fragments are loaded
 *              while the previous step is multiplied (mma_tile.cuh).
 * Prediction:  a warp computes 64 x 64 elements: 8 loads of 512 bytes take 32
 *              cycles of shared memory, and the copies take 12 more. These
 *              loads feed 32 instructions of 2048 multiply-adds, which take 53
 *              cycles at the rate of mma.sync on an H200 (640 TFLOP/s measured,
 *              0.69 of wgmma). So the tensor cores should be busy most of the
 *              time: 500 TFLOP/s, 0.65 of cuBLAS.
 * Measured:    H200, 4096^3: 452 TFLOP/s, 0.62 of cuBLAS; 1.75 times wmma.
 *              Tried: shapes of 128 x 256 and 128 x 128 (two blocks) are
 *              equally fast. So neither the barriers nor the ends of blocks
 *              cost the missing time.
 * Limit:       operands pass through registers; only wgmma reaches the other
 *              0.31 of the tensor cores (rung wgmma_fp16).
 * Lesson:      notebooks/08c_matmul_tensor_cores.ipynb */
/* g++: -O1 */
#include "mma_tile.cuh"

/* Compute c (m,n) = a (m,k) @ b (k,n), row-major. */
template <class S>
static __global__ void __launch_bounds__(S::THREADS, S::BLOCKS)
    matmul_mma_fp16(float *c, const __half *a, const __half *b, int m, int n,
                    int k, struct extras x) {
    extern __shared__ __align__(128) char ring[];
    int row0, col0;
    tile_of_block<S>(m, n, &row0, &col0);
    own_matrix(&c, &a, &b, x);
    float sums[S::DOWN][S::ACROSS][4] = {};
    for_each_step<S>(ring, copies<S>(a, b, row0, col0, x), m, n, k, x,
                     [&](const struct fragments<S> &f, int) {
                         multiply<S>(sums, f, mma_f16);
                     });
    store_warp<S>(c, m, n, row0, col0, sums, x);
}

template <class S>
static int launch_shape(const struct product *q, cudaStream_t stream) {
    const auto kernel = matmul_mma_fp16<S>;
    WEFT_CUDA_TRY(cudaFuncSetAttribute(
        kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, S::BYTES));
    const dim3 grid((unsigned)tiles_of<S>(q), 1, (unsigned)q->batch);
    kernel<<<grid, S::THREADS, S::BYTES, stream>>>(q->c, (const __half *)q->a,
                                                   (const __half *)q->b, q->m,
                                                   q->n, q->k, q->extras);
    WEFT_LAUNCHED(matmul_mma_fp16);
    return WEFT_OK;
}

typedef mma_shape<__half, 128, 256, 64, 64, 4, 1> Large;
typedef mma_shape<__half, 128, 128, 64, 64, 3, 2> Medium;
typedef mma_shape<__half, 64, 64, 32, 32, 3, 4> Small;

static int launch(const struct product *q, cudaStream_t stream) {
    switch (best_of<Large, Medium, Small>(q)) {
    case LARGE: return launch_shape<Large>(q, stream);
    case MEDIUM: return launch_shape<Medium>(q, stream);
    default: return launch_shape<Small>(q, stream);
    }
}

MATMUL_RUNG(mma_fp16, "tensor cores by mma.sync: ldmatrix, a ring of copies",
            "fp16", WEFT_CPU | WEFT_CUDA, 75, ALIGNED, launch, NULL)
