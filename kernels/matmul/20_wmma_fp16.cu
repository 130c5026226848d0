/* 20_wmma_fp16.cu -- matmul on tensor cores by wmma, fp16 in, float out.
 *
 * Before:      the ordinary cores do 128 multiply-adds of floats per cycle and
 *              multiprocessor, and the code that feeds them is already tuned.
 * Idea:        tensor cores multiply small matrices: one call by a warp
 *              multiplies 16 x 16 x 16, with a and b in 16 bits and sums in
 *              float. In addition, fp16 has half the bytes of float.
 *              wmma_tile.cuh describes how a block and its warps divide the
 *              work.
 * Prediction:  at 4096^3, the blocks read 2.1 GB from L2 in 0.4 ms. The tensor
 *              cores of an H200 need 0.21 ms by mma.sync. The two overlap only
 *              where other blocks fill the gaps: about 300 TFLOP/s, half of
 *              cuBLAS and six times fp32.
 * Measured:    H200, 4096^3: 259 TFLOP/s, 0.35 of cuBLAS.
 * Limit:       two barriers for every 32 of k, copies through registers, and
 *              fragments loaded by whatever instructions the compiler chooses.
 *              Rung mma_fp16 writes the instructions itself.
 * Error:       products are exact; the tensor cores truncate their sums.
 * Lesson:      notebooks/08c_matmul_tensor_cores.ipynb */
#include "wmma_tile.cuh"

struct fp16_numbers {
    typedef __half stored, element;
    enum { K = 16 };
    static __device__ __forceinline__ uint4 ready(uint4 eight) { return eight; }
};

/* Compute c (m,n) = a (m,k) @ b (k,n), row-major. */
static __global__ void __launch_bounds__(THREADS)
    matmul_wmma_fp16(float *c, const __half *a, const __half *b, int m, int n,
                     int k, struct extras x) {
    __shared__ __align__(32) char shared[wmma_tile<fp16_numbers>::BYTES];
    wmma_block<fp16_numbers>(shared, c, a, b, m, n, k, x);
}

static int launch(const struct product *q, cudaStream_t stream) {
    matmul_wmma_fp16<<<matmul_grid(q, BM, BN), THREADS, 0, stream>>>(
        q->c, (const __half *)q->a, (const __half *)q->b, q->m, q->n, q->k,
        q->extras);
    WEFT_LAUNCHED(matmul_wmma_fp16);
    return WEFT_OK;
}

MATMUL_RUNG(wmma_fp16, "tensor cores by wmma: 16 x 16 x 16 a warp", "fp16",
            WEFT_CPU | WEFT_CUDA, 70, ALIGNED, launch, NULL)
