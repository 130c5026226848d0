/* 03_tiled_runtime.cu -- rung 3 with the tile's width as an argument.
 *
 * Before:      03_tiled.cu has to be compiled anew for another TILE.
 * Idea:        the width is a number like m, n and k. The tiles then lie in
 *              dynamic shared memory, whose size a launch gives.
 * Prediction:  the same bytes from global memory, but nvcc no longer knows
 *              where row i of a tile starts nor when the loop ends. In SASS
 *              (nvcc 13.0, sm_90), per multiply-add of the innermost loop:
 *                                  shared loads  the rest  instructions
 *                 TILE a constant          1.25      0.94           3.2
 *                 tile an argument         2.00      1.94           4.9
 *              A constant: all addresses are one register and numbers within
 *              the instructions, LDS [R4+0x80]; four floats of a_s come at
 *              once, LDS.128; the loop is gone. An argument: an instruction for
 *              the address of each row of b_s; a_s[ty * tile + i] need not lie
 *              at 16 bytes, so one float a load; a loop of 16, one of 4 and
 *              one of 1 multiply-adds. By the loads 1.25 / 2: 12.5 % of the
 *              peak at most.
 * Measured:    H200, 4096^3: 6.5 TFLOP/s, 9.9 %, where 03_tiled.cu has 8.4.
 *              Tried, one at a time: a constant pitch, i < tile as it is: 8.2.
 *              So the loop's end costs little and the unknown pitch nearly all.
 *              And in 03_tiled.cu: a_s read one by one 6.9, the loop not
 *              unrolled 6.2.
 * Limit:       what the compiler must not assume. That the memory is dynamic
 *              costs nothing: 03_tiled_dynamic.cu.
 * Lesson:      notebooks/08a_matmul_tiles.ipynb
 */
#include "matmul.h"

/* c (m,n) = a (m,k) @ b (k,n), row-major. One thread per element of c. */
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
        // No thread returns early at an edge: it would leave a hole in the tile
        // that its neighbours read.
        a_s[ty * tile + tx] = load_or_zero(a, m, k, row, k0 + tx);
        b_s[ty * tile + tx] = load_or_zero(b, k, n, k0 + ty, col);
        __syncthreads(); // both tiles are complete ...
        for (int i = 0; i < tile; i++)
            acc += a_s[ty * tile + i] * b_s[i * tile + tx];
        __syncthreads(); // ... and read, so they may be overwritten
    }
    if (row < (unsigned)m && col < (unsigned)n) store(c, n, row, col, acc, x);
}

static int launch(const struct product *q, cudaStream_t stream) {
    const int tile = 32; // tile * tile = 1024 threads, a block's most
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
