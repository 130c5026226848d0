/* 20_wmma_bf16.cu -- matmul on tensor cores by wmma, bfloat16 in, float out.
 *
 * Before:      20_wmma_fp16.cu turns numbers beyond 65504 into infinities, and
 *              numbers below 6e-8 into 0.
 * Idea:        bfloat16 has the exponent range of float, and 3 bits less of
 *              mantissa than fp16. The kernel is the same (wmma_tile.cuh).
 * Prediction:  the same speed as fp16.
 * Measured:    H200, 4096^3: 171 TFLOP/s, two thirds of fp16, because the
 *              compiler generates other code for the loads of fragments.
 * Limit:       the same as in 20_wmma_fp16.cu. The rung needs sm_80.
 * Lesson:      notebooks/08c_matmul_tensor_cores.ipynb */
#include "wmma_tile.cuh"

struct bf16_numbers {
    typedef __nv_bfloat16 stored, element;
    enum { K = 16 };
    static __device__ __forceinline__ uint4 ready(uint4 eight) { return eight; }
};

/* Compute c (m,n) = a (m,k) @ b (k,n), row-major. */
static __global__ void __launch_bounds__(THREADS)
    matmul_wmma_bf16(float *c, const __nv_bfloat16 *a, const __nv_bfloat16 *b,
                     int m, int n, int k, struct extras x) {
#if __CUDA_ARCH__ >= 800 || !defined(__CUDA_ARCH__)
    __shared__ __align__(32) char shared[wmma_tile<bf16_numbers>::BYTES];
    wmma_block<bf16_numbers>(shared, c, a, b, m, n, k, x);
#endif
}

static int launch(const struct product *q, cudaStream_t stream) {
    matmul_wmma_bf16<<<matmul_grid(q, BM, BN), THREADS, 0, stream>>>(
        q->c, (const __nv_bfloat16 *)q->a, (const __nv_bfloat16 *)q->b, q->m,
        q->n, q->k, q->extras);
    WEFT_LAUNCHED(matmul_wmma_bf16);
    return WEFT_OK;
}

MATMUL_RUNG(wmma_bf16, "tensor cores by wmma: 16 x 16 x 16 a warp", "bf16",
            WEFT_CPU | WEFT_CUDA, 80, ALIGNED, launch, NULL)
