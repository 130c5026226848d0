/* 03_tiled.cu -- matmul, rung 3: tiles of a and b in shared memory.
 *
 * Before:      rung 2 requests two floats of global memory per multiply-add. It
 *              reads each element of a n times and each element of b m times.
 * Idea:        a block loads one TILE x TILE tile of each matrix and waits. Its
 *              threads use each element TILE times, so global traffic falls by
 *              a factor of TILE.
 * Prediction:  a block reads 1 MB from global memory, 17 GB in all at 4096^3.
 *              Each multiply-add takes two loads from shared memory. Shared
 *              memory serves one warp's load a clock, and an SM multiplies for
 *              4 warps: 1 / 8 of the peak. Since TILE is a constant, nvcc
 *              unrolls the loop and reads a_s[ty][i] in fours. 40 loads for 32
 *              multiply-adds allow at most 20 %.
 * Measured:    H200, 4096^3: 8.4 TFLOP/s, 13 %. A load of four floats fills
 *              four registers of each lane and takes about as long as three
 *              loads of one: the number of floats matters, not the number of
 *              loads.
 * Limit:       more than one load from shared memory for each multiply-add.
 *              Rung 4 changes that.
 * Lesson:      notebooks/08a_matmul_tiles.ipynb */
#include "matmul.h"

enum { TILE = 32 }; // TILE * TILE = 1024 threads, a block's maximum

/* Compute c (m,n) = a (m,k) @ b (k,n), row-major. One thread computes one
 * element of c. */
static __global__ void matmul_tiled(float *c, const float *a, const float *b,
                                    int m, int n, int k, struct extras x) {
    __shared__ float a_s[TILE][TILE], b_s[TILE][TILE];
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
    const dim3 block(TILE, TILE);
    const dim3 grid = matmul_grid(q, TILE, TILE);
    matmul_tiled<<<grid, block, 0, stream>>>(q->c, (const float *)q->a,
                                             (const float *)q->b, q->m, q->n,
                                             q->k, q->extras);
    WEFT_LAUNCHED(matmul_tiled);
    return WEFT_OK;
}

MATMUL_RUNG(tiled, "tiles in shared memory", "fp32", WEFT_CPU | WEFT_CUDA, 0,
            PLAIN, launch, NULL)
