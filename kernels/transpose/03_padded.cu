/* 03_padded.cu -- transpose, rung 3: the tile has an unused column.
 *
 * Before:     a column of rung 2's tile is in one bank.
 * Idea:       rows of 33 numbers. Down a column, each number is in the bank
 *             after that of the number above it.
 * Prediction: no conflicts; the sectors stay the same.
 * Limit:      a thread has one load in flight, and then waits for the whole
 *             block. The unused column is a 33rd of the tile, which rung 4
 *             saves. Rung 5 has more loads in flight.
 * Lesson:     notebooks/07a_memory.ipynb, "Transpose" */
#include "transpose.cuh"

/* Do what transpose_tiled() does, with an unused column to shift the rows. */
static __global__ void transpose_padded(float *y, const float *x, unsigned rows,
                                        unsigned cols) {
    __shared__ float tile[32][33];
    unsigned tx = threadIdx.x, ty = threadIdx.y;
    unsigned row = blockIdx.y * 32 + ty, col = blockIdx.x * 32 + tx;
    if (row < rows && col < cols) tile[ty][tx] = x[(size_t)row * cols + col];
    __syncthreads();
    row = blockIdx.x * 32 + ty, col = blockIdx.y * 32 + tx; // row of y
    if (row < cols && col < rows) y[(size_t)row * rows + col] = tile[tx][ty];
}

int transpose_by_padded(const struct matrix *m) {
    return launch_tiles(m, transpose_padded, "transpose_padded", 32, {32, 32});
}
