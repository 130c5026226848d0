/* 03_tiled_runtime.cu -- rung 3 with the tile's width as an argument.
 *
 * Before:      another TILE requires recompiling 03_tiled.cu.
 * Idea:        pass the width as an argument like m, n and k. The tiles are
 *              then in dynamic shared memory, whose size is part of the launch.
 * Prediction:  the same bytes from global memory, but nvcc can no longer derive
 *              where row i of a tile starts or when the loop ends. In SASS
 *              (nvcc 13.0, sm_90), per multiply-add of the innermost loop:
 *                              shared loads  the rest  instructions
 *              TILE a constant          1.25      0.94           3.2
 *              tile an argument         2.00      1.94           4.9
 *              With a constant, every address is one register plus an offset
 *              within the instruction, LDS [R4+0x80]; LDS.128 loads four floats
 *              of a_s; the loop is unrolled completely. With an argument, each
 *              row of b_s costs an instruction for its address. a_s[ty * tile +
 *              i] may not be 16-byte aligned, so each load fetches one float.
 *              The code has loops of 16, 4 and 1 multiply-adds. The loads alone
 *              limit it to 1.25 / 2 of 03_tiled.cu: 12.5 % of the peak at most.
 * Measured:    H200, 4096^3: 6.5 TFLOP/s, 9.9 %; 03_tiled.cu reaches 8.4.
 *              Tried, one at a time: a constant pitch with i < tile unchanged:
 *              8.2. So the unknown end of the loop costs little, and the
 *              unknown pitch causes nearly all of the loss. 03_tiled.cu reaches
 *              6.9 if it reads a_s one float at a time, and 6.2 if the loop is
 *              not unrolled.
 * Limit:       the compiler has less information. Dynamic memory as such costs
 *              nothing, as 03_tiled_dynamic.cu shows.
 * Lesson:      notebooks/08a_matmul_tiles.ipynb */
#include "matmul.h"

/* Compute c (m,n) = a (m,k) @ b (k,n), row-major. One thread computes one
 * element of c. */
static __global__ void matmul_tiled_runtime(float *c, const float *a,
                                            const float *b, int m, int n, int k,
                                            struct extras x, int tile) {
    extern __shared__ float shared[];
    float *const a_s = shared, *const b_s = shared + tile * tile;
    own_matrix(&c, &a, &b, x);
    const int tx = threadIdx.x, ty = threadIdx.y;
    const unsigned row = blockIdx.y * tile + ty;
    const unsigned col = blockIdx.x * tile + tx;

    float acc = 0.0f;
    for (unsigned k0 = 0; k0 < (unsigned)k; k0 += tile) {
        // No thread returns early at an edge, since its neighbours read the
        // tile elements that it loads.
        a_s[ty * tile + tx] = load_or_zero(a, m, k, row, k0 + tx);
        b_s[ty * tile + tx] = load_or_zero(b, k, n, k0 + ty, col);
        __syncthreads(); // wait until both tiles are complete
        for (int i = 0; i < tile; i++)
            acc += a_s[ty * tile + i] * b_s[i * tile + tx];
        __syncthreads(); // wait until both tiles have been read
    }
    if (row < (unsigned)m && col < (unsigned)n) store(c, n, row, col, acc, x);
}

static int launch(const struct product *q, cudaStream_t stream) {
    const int tile = 32; // tile * tile = 1024 threads, a block's maximum
    const size_t shared = 2 * tile * tile * sizeof(float);
    const dim3 block(tile, tile);
    const dim3 grid = matmul_grid(q, tile, tile);
    matmul_tiled_runtime<<<grid, block, shared, stream>>>(
        q->c, (const float *)q->a, (const float *)q->b, q->m, q->n, q->k,
        q->extras, tile);
    WEFT_LAUNCHED(matmul_tiled_runtime);
    return WEFT_OK;
}

MATMUL_RUNG(tiled_runtime, "tiles, their width an argument", "fp32",
            WEFT_CPU | WEFT_CUDA, 0, PLAIN, launch, NULL)
