/* 03_tiled_dynamic.cu -- rung 3 with its tiles in dynamic shared memory.
 *
 * Before:      "dynamic shared memory is slow", as 03_tiled_runtime.cu seems to
 *              show.
 * Idea:        change one thing at a time: TILE is a constant as in
 *              03_tiled.cu; only the size of the shared memory comes from the
 *              launch.
 * Prediction:  no difference: the loop has the same 40 shared loads and 32
 *              multiply-adds (SASS; nvcc 13.0, sm_90).
 * Measured:    H200, 4096^3: 8.3 TFLOP/s; 03_tiled.cu reaches 8.4. Tried: with
 *              64-bit indices in both, this rung reached 8.1 and 03_tiled.cu
 *              5.7. 03_tiled.cu then used 40 registers a thread, this rung 32.
 *              An SM has room for one block of 1024 threads with 40 registers,
 *              but for two with 32. Equal loops do not make equal kernels:
 *              compare registers, too.
 * Limit:       the same as that of 03_tiled.cu.
 * Lesson:      notebooks/08a_matmul_tiles.ipynb */
#include "matmul.h"

enum { TILE = 32 }; // TILE * TILE = 1024 threads, a block's maximum

/* Compute c (m,n) = a (m,k) @ b (k,n), row-major. One thread computes one
 * element of c. */
static __global__ void matmul_tiled_dynamic(float *c, const float *a,
                                            const float *b, int m, int n, int k,
                                            struct extras x) {
    extern __shared__ float shared[][TILE];
    float (*const a_s)[TILE] = shared, (*const b_s)[TILE] = shared + TILE;
    own_matrix(&c, &a, &b, x);
    const int tx = threadIdx.x, ty = threadIdx.y;
    const unsigned row = blockIdx.y * TILE + ty;
    const unsigned col = blockIdx.x * TILE + tx;

    float acc = 0.0f;
    for (unsigned k0 = 0; k0 < (unsigned)k; k0 += TILE) {
        // No thread returns early at an edge, since its neighbours read the
        // tile elements that it loads.
        a_s[ty][tx] = load_or_zero(a, m, k, row, k0 + tx);
        b_s[ty][tx] = load_or_zero(b, k, n, k0 + ty, col);
        __syncthreads(); // wait until both tiles are complete
        for (int i = 0; i < TILE; i++) acc += a_s[ty][i] * b_s[i][tx];
        __syncthreads(); // wait until both tiles have been read
    }
    if (row < (unsigned)m && col < (unsigned)n) store(c, n, row, col, acc, x);
}

static int launch(const struct product *q, cudaStream_t stream) {
    const size_t shared = 2 * TILE * TILE * sizeof(float);
    const dim3 block(TILE, TILE);
    const dim3 grid = matmul_grid(q, TILE, TILE);
    matmul_tiled_dynamic<<<grid, block, shared, stream>>>(
        q->c, (const float *)q->a, (const float *)q->b, q->m, q->n, q->k,
        q->extras);
    WEFT_LAUNCHED(matmul_tiled_dynamic);
    return WEFT_OK;
}

MATMUL_RUNG(tiled_dynamic, "tiles in dynamic shared memory", "fp32",
            WEFT_CPU | WEFT_CUDA, 0, PLAIN, launch, NULL)
