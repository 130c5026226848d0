/* 01_naive.cu -- transpose, rung 1: a thread moves a number.
 *
 * Idea:       a warp reads along a row of x and writes down a column of y.
 * Prediction: a read request takes 4 sectors, and a write request takes 32, one
 *             for each number: 4.5 times the bytes needed.
 * Limit:      the sectors of the writes. No numbering of the threads is good
 *             for both sides. Rung 2 takes a detour.
 * Lesson:     notebooks/07a_memory.ipynb, "Transpose" */
#include "transpose.cuh"

/* y (cols,rows) = x (rows,cols) transposed, with one thread per number. */
static __global__ void transpose_naive(float *y, const float *x, unsigned rows,
                                       unsigned cols) {
    unsigned tx = threadIdx.x, ty = threadIdx.y;
    unsigned row = blockIdx.y * 32 + ty, col = blockIdx.x * 32 + tx;
    if (row < rows && col < cols)
        y[(size_t)col * rows + row] = x[(size_t)row * cols + col];
}

int transpose_by_naive(const struct matrix *m) {
    return launch_tiles(m, transpose_naive, "transpose_naive", 32, {32, 32});
}
