/* 20_wmma_fp16.cu -- matmul on tensor cores by wmma, fp16 in, float out.
 *
 * Before:  the ordinary cores multiply and add 128 floats in a cycle and
 *          multiprocessor; what feeds them is tuned already.
 * Idea:    tensor cores multiply small matrices: 16 x 16 x 16 by one
 * instruction of a warp, a, b in 16 bits and sums in float. An H200's do 8
 * times 128 and more in a cycle, a T4's 4 times its own. Half the bytes of
 *          float come on top: 128 x 128 tiles need (128 + 128) * 2 / (128 *
 * 128) bytes for a multiply-add, from L2. Limit:   two barriers for every 32 of
 * k, between which the tensor cores wait for shared memory, and fragments that
 * go there by plain loads and stores. Rung 21 writes the instructions itself.
 * Error:   products are exact; the tensor cores cut bits off as they add.
 * Lesson:  notebooks/08c_matmul_tensor_cores.ipynb
 */
#include "wmma_tile.cuh"

struct fp16_numbers {
    typedef __half stored, element;
    enum { K = 16 };
    static __device__ __forceinline__ uint4 ready(uint4 eight) { return eight; }
};

/* c (m,n) = a (m,k) @ b (k,n), row-major. */
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
