/* 03_tiled_runtime.cu -- matmul, rung 3: tiles of a and b in shared memory.
 *
 * Before:  rung 2 asks global memory for two floats per multiply-add: each
 *          element of a n times, each of b m times.
 * Idea:    a block loads one tile x tile tile of each, waits, and its threads
 *          reuse them tile times: global traffic falls by a factor of tile.
 * Limit:   two loads from shared memory for each multiply-add. Rung 4 attacks
 *          that.
 * Lesson:  notebooks/08a_matmul_tiles.ipynb
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
    const size_t row = (size_t)blockIdx.y * tile + ty;
    const size_t col = (size_t)blockIdx.x * tile + tx;

    float acc = 0.0f;
    for (size_t k0 = 0; k0 < (size_t)k; k0 += tile) {
        // No thread returns early at an edge: it would leave a hole in the tile
        // that its neighbours read.
        a_s[ty * tile + tx] = load_or_zero(a, m, k, row, k0 + tx);
        b_s[ty * tile + tx] = load_or_zero(b, k, n, k0 + ty, col);
        __syncthreads(); // both tiles are complete ...
        for (int i = 0; i < tile; i++)
            acc += a_s[ty * tile + i] * b_s[i * tile + tx];
        __syncthreads(); // ... and read, so they may be overwritten
    }
    if (row < (size_t)m && col < (size_t)n) store(c, n, row, col, acc, x);
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
