/* 04_swizzled.cu -- transpose, rung 4: each row of the tile is permuted.
 *
 * Before:     rung 3 wastes a column of shared memory, and its rows begin at
 *             odd places, where no float4 can be stored.
 * Idea:       row r stores its number c at place c ^ r. For a fixed c, the
 *             place takes each value once, so a column uses every bank.
 * Prediction: rung 3's speed with a 33rd less shared memory.
 * Limit:      as in rung 3, one load in flight per thread.
 * Lesson:     notebooks/07a_memory.ipynb, exercise 3 */
#include "transpose.cuh"

/* Do what transpose_tiled() does, but permute each row of the tile, which
 * wastes no shared memory. */
static __global__ void transpose_swizzled(float *y, const float *x,
                                          unsigned rows, unsigned cols) {
    __shared__ float tile[32][32];
    unsigned tx = threadIdx.x, ty = threadIdx.y;
    unsigned row = blockIdx.y * 32 + ty, col = blockIdx.x * 32 + tx;
    if (row < rows && col < cols)
        tile[ty][tx ^ ty] = x[(size_t)row * cols + col];
    __syncthreads();
    row = blockIdx.x * 32 + ty, col = blockIdx.y * 32 + tx; // row of y
    if (row < cols && col < rows)
        y[(size_t)row * rows + col] = tile[tx][ty ^ tx];
}

int transpose_by_swizzled(const struct matrix *m) {
    return launch_tiles(m, transpose_swizzled, "transpose_swizzled", 32,
                        {32, 32});
}
