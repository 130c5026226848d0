/* 03_tiled_template.cu -- matmul, rung 3: tiles of a and b in shared memory.
 *
 * Before:  rung 2 asks global memory for two floats per multiply-add: each
 *          element of a n times, each of b m times.
 * Idea:    a block loads one TILE x TILE tile of each, waits, and its threads
 *          reuse them TILE times: global traffic falls by a factor of TILE.
 * Limit:   two loads from shared memory for each multiply-add. Rung 4 attacks
 *          that.
 * Lesson:  notebooks/08a_matmul_tiles.ipynb
 */
#include "matmul.h"

/* c (m,n) = a (m,k) @ b (k,n), row-major. One thread per element of c. */
template <int TILE>
static __global__ void matmul_tiled_template(float *c, const float *a,
                                             const float *b, int m, int n,
                                             int k, struct extras x) {
    __shared__ float a_s[TILE][TILE], b_s[TILE][TILE];
    own_matrix(&c, &a, &b, x);
    const int tx = threadIdx.x, ty = threadIdx.y;
    const size_t row = (size_t)blockIdx.y * TILE + ty;
    const size_t col = (size_t)blockIdx.x * TILE + tx;

    float acc = 0.0f;
    for (size_t k0 = 0; k0 < (size_t)k; k0 += TILE) {
        // No thread returns early at an edge: it would leave a hole in the tile
        // that its neighbours read.
        a_s[ty][tx] = load_or_zero(a, m, k, row, k0 + tx);
        b_s[ty][tx] = load_or_zero(b, k, n, k0 + ty, col);
        __syncthreads(); // both tiles are complete ...
        for (int i = 0; i < TILE; i++) acc += a_s[ty][i] * b_s[i][tx];
        __syncthreads(); // ... and read, so they may be overwritten
    }
    if (row < (size_t)m && col < (size_t)n) store(c, n, row, col, acc, x);
}

template <int TILE>
static int launch_tiles(const struct product *q, cudaStream_t stream) {
    const dim3 block(TILE, TILE);
    const dim3 grid = matmul_grid(q, TILE, TILE);
    matmul_tiled_template<TILE><<<grid, block, 0, stream>>>(
        q->c, (const float *)q->a, (const float *)q->b, q->m, q->n, q->k,
        q->extras);
    WEFT_LAUNCHED(matmul_tiled_template);
    return WEFT_OK;
}

/* TILE * TILE threads, at most 1024 a block; narrow products take fewer. */
static int launch(const struct product *q, cudaStream_t stream) {
    const int side = q->m < q->n ? q->m : q->n;
    if (side <= 8) return launch_tiles<8>(q, stream);
    if (side <= 16) return launch_tiles<16>(q, stream);
    return launch_tiles<32>(q, stream);
}

MATMUL_RUNG(tiled_template, "tiles, their width a template's", "fp32",
            WEFT_CPU | WEFT_CUDA, 0, PLAIN, launch, NULL)
