/* 21_mma_bf16.cu -- matmul on tensor cores by mma.sync, bfloat16 in, float out.
 *
 * Before:      20_wmma_bf16.cu stops and waits like 20_wmma_fp16.cu.
 * Idea:        21_mma_fp16.cu with another instruction: the numbers have the
 *              same size, and only the tensor cores interpret their bits.
 * Prediction:  the same speed as fp16.
 * Measured:    H200, 4096^3: 454 TFLOP/s, 0.60 of cuBLAS.
 * Limit:       the same as in 21_mma_fp16.cu. The rung needs sm_80.
 * Lesson:      notebooks/08c_matmul_tensor_cores.ipynb */
/* g++: -O1 */
#include "mma_tile.cuh"

/* Compute c (m,n) = a (m,k) @ b (k,n), row-major. */
template <class S>
static __global__ void __launch_bounds__(S::THREADS, S::BLOCKS)
    matmul_mma_bf16(float *c, const __nv_bfloat16 *a, const __nv_bfloat16 *b,
                    int m, int n, int k, struct extras x) {
    extern __shared__ __align__(128) char ring[];
    int row0, col0;
    tile_of_block<S>(m, n, &row0, &col0);
    own_matrix(&c, &a, &b, x);
    float sums[S::DOWN][S::ACROSS][4] = {};
    for_each_step<S>(ring, copies<S>(a, b, row0, col0, x), m, n, k, x,
                     [&](const struct fragments<S> &f, int) {
                         multiply<S>(sums, f, mma_bf16);
                     });
    store_warp<S>(c, m, n, row0, col0, sums, x);
}

template <class S>
static int launch_shape(const struct product *q, cudaStream_t stream) {
    const auto kernel = matmul_mma_bf16<S>;
    WEFT_CUDA_TRY(cudaFuncSetAttribute(
        kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, S::BYTES));
    const dim3 grid((unsigned)tiles_of<S>(q), 1, (unsigned)q->batch);
    kernel<<<grid, S::THREADS, S::BYTES, stream>>>(
        q->c, (const __nv_bfloat16 *)q->a, (const __nv_bfloat16 *)q->b, q->m,
        q->n, q->k, q->extras);
    WEFT_LAUNCHED(matmul_mma_bf16);
    return WEFT_OK;
}

typedef mma_shape<__nv_bfloat16, 128, 256, 64, 64, 4, 1> Large;
typedef mma_shape<__nv_bfloat16, 128, 128, 64, 64, 3, 2> Medium;
typedef mma_shape<__nv_bfloat16, 64, 64, 32, 32, 3, 4> Small;

static int launch(const struct product *q, cudaStream_t stream) {
    switch (best_of<Large, Medium, Small>(q)) {
    case LARGE: return launch_shape<Large>(q, stream);
    case MEDIUM: return launch_shape<Medium>(q, stream);
    default: return launch_shape<Small>(q, stream);
    }
}

MATMUL_RUNG(mma_bf16, "tensor cores by mma.sync: ldmatrix, a ring of copies",
            "bf16", WEFT_CPU | WEFT_CUDA, 80, ALIGNED, launch, NULL)
