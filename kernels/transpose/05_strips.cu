/* 05_strips.cu -- transpose, rung 5: a thread moves four numbers.
 *
 * Before:     a thread of rungs 3 and 4 has one load in flight, and a block of
 *             1024 threads waits for its slowest.
 * Idea:       blocks of 32 x 8 threads move the tile in four strips. A thread
 *             has four loads in flight, and a multiprocessor has eight blocks
 *             instead of two, so that some load while others wait.
 * Prediction: the sectors and conflicts of rung 3, and nearly the speed of a
 *             copy.
 * Limit:      loads and stores of 4 bytes. Rung 6 moves 16 at a time.
 * Lesson:     notebooks/07a_memory.ipynb, "How close to a copy?" */
#include "transpose.cuh"

/* Do what transpose_padded() does in blocks of 32 x 8: a thread has four loads
 * in flight. */
static __global__ void transpose_strips(float *y, const float *x, unsigned rows,
                                        unsigned cols) {
    __shared__ float tile[32][33];
    unsigned tx = threadIdx.x, ty = threadIdx.y;
    unsigned row = blockIdx.y * 32, col = blockIdx.x * 32 + tx;
    for (unsigned i = ty; i < 32; i += 8)
        if (row + i < rows && col < cols)
            tile[i][tx] = x[(size_t)(row + i) * cols + col];
    __syncthreads();
    row = blockIdx.x * 32, col = blockIdx.y * 32 + tx; // row of y
    for (unsigned i = ty; i < 32; i += 8)
        if (row + i < cols && col < rows)
            y[(size_t)(row + i) * rows + col] = tile[tx][i];
}

int transpose_by_strips(const struct matrix *m) {
    return launch_tiles(m, transpose_strips, "transpose_strips", 32, {32, 8});
}
