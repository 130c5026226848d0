/* 02_tiled.cu -- transpose, rung 2: a block transposes a tile.
 *
 * Before:     rung 1 writes down columns, a sector for each number.
 * Idea:       the block reads a tile along the rows of x into shared memory,
 *             where there are no sectors. It waits, then writes the tile along
 *             the rows of y.
 * Prediction: 4 sectors per request on both sides, and no wasted bytes.
 * Limit:      the reads of a column of the tile. Its numbers are 32 apart, all
 *             in one bank, and take 32 turns. Rung 3 spreads them.
 * Lesson:     notebooks/07a_memory.ipynb, "Transpose" */
#include "transpose.cuh"

/* Do what transpose_naive() does, but transpose a tile in shared memory. */
static __global__ void transpose_tiled(float *y, const float *x, unsigned rows,
                                       unsigned cols) {
    __shared__ float tile[32][32];
    unsigned tx = threadIdx.x, ty = threadIdx.y;
    unsigned row = blockIdx.y * 32 + ty, col = blockIdx.x * 32 + tx;
    if (row < rows && col < cols) tile[ty][tx] = x[(size_t)row * cols + col];
    __syncthreads();
    row = blockIdx.x * 32 + ty, col = blockIdx.y * 32 + tx; // row of y
    if (row < cols && col < rows) y[(size_t)row * rows + col] = tile[tx][ty];
}

int transpose_by_tiled(const struct matrix *m) {
    return launch_tiles(m, transpose_tiled, "transpose_tiled", 32, {32, 32});
}
