/* 20_wmma_tf32.cu -- matmul on tensor cores by wmma, float in, tf32 inside.
 *
 * Before:      20_wmma_bf16.cu requires operands that have already been
 *              converted.
 * Idea:        tf32 is float with 10 bits of mantissa, as many as fp16 has: the
 *              arrays stay float, and the tensor cores read the upper 19 bits.
 *              Truncation alone would err by up to 2^-10, always towards 0, so
 *              each number is rounded once on its way to shared memory.
 * Prediction:  half as many multiply-adds per cycle as with 16 bits, and twice
 *              the bytes: half the speed of fp16, 150 TFLOP/s.
 * Measured:    H200, 4096^3: 57 TFLOP/s, 0.14 of cuBLAS.
 * Limit:       the same as in 20_wmma_fp16.cu. In addition, 192 registers leave
 *              room for only one block, which waits at every barrier. The rung
 *              needs sm_80.
 * Error:       2^-11 of each factor.
 * Lesson:      notebooks/08c_matmul_tensor_cores.ipynb */
#include "wmma_tile.cuh"

struct tf32_numbers {
    typedef float stored;
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 800
    typedef wmma::precision::tf32 element;
#endif
    enum { K = 8 };
    static __device__ __forceinline__ unsigned ready(unsigned bits) {
        return __float_as_uint(round_tf32(__uint_as_float(bits)));
    }
    static __device__ __forceinline__ uint4 ready(uint4 four) {
        return make_uint4(ready(four.x), ready(four.y), ready(four.z),
                          ready(four.w));
    }
};

/* Compute c (m,n) = a (m,k) @ b (k,n), row-major. */
static __global__ void __launch_bounds__(THREADS)
    matmul_wmma_tf32(float *c, const float *a, const float *b, int m, int n,
                     int k, struct extras x) {
#if __CUDA_ARCH__ >= 800 || !defined(__CUDA_ARCH__)
    __shared__ __align__(32) char shared[wmma_tile<tf32_numbers>::BYTES];
    wmma_block<tf32_numbers>(shared, c, a, b, m, n, k, x);
#endif
}

static int launch(const struct product *q, cudaStream_t stream) {
    matmul_wmma_tf32<<<matmul_grid(q, BM, BN), THREADS, 0, stream>>>(
        q->c, (const float *)q->a, (const float *)q->b, q->m, q->n, q->k,
        q->extras);
    WEFT_LAUNCHED(matmul_wmma_tf32);
    return WEFT_OK;
}

MATMUL_RUNG(wmma_tf32, "tensor cores by wmma: floats rounded to tf32", "tf32",
            WEFT_CPU | WEFT_CUDA, 80, ALIGNED, launch, NULL)
