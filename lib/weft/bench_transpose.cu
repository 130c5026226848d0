/* bench_transpose.cu -- four transposes of a matrix, and a copy to hold against
 * them.
 *
 * A transpose moves each number once and computes nothing, so the best that it
 * can be is as fast as a copy. Each kernel changes one thing in the one above
 * it.
 *
 * Lesson:  notebooks/07a_memory.ipynb, "Transpose".
 */
enum { SIDE = 32 }; // of a tile, and of a block but for the last kernel's

/* y (n) = x (n). */
__global__ void copy(float *y, const float *x, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = x[i];
}

/* y (n) = every stride-th number of x. */
__global__ void copy_strided(float *y, const float *x, int n, int stride) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = x[(size_t)i * stride];
}

/* y (cols,rows) = x (rows,cols) transposed. A thread for each number. */
__global__ void transpose_naive(float *y, const float *x, int rows, int cols) {
    int tx = threadIdx.x, ty = threadIdx.y;
    int row = blockIdx.y * SIDE + ty, col = blockIdx.x * SIDE + tx;
    if (row < rows && col < cols) y[col * rows + row] = x[row * cols + col];
}

/* The same. Its block turns a tile in shared memory. */
__global__ void transpose_tiled(float *y, const float *x, int rows, int cols) {
    __shared__ float tile[SIDE][SIDE];
    int tx = threadIdx.x, ty = threadIdx.y;
    int row = blockIdx.y * SIDE + ty, col = blockIdx.x * SIDE + tx;
    if (row < rows && col < cols) tile[ty][tx] = x[row * cols + col];
    __syncthreads();
    row = blockIdx.x * SIDE + ty, col = blockIdx.y * SIDE + tx; // now of y
    if (row < cols && col < rows) y[row * rows + col] = tile[tx][ty];
}

/* The same. An unused column moves each row of the tile one bank on. */
__global__ void transpose_padded(float *y, const float *x, int rows, int cols) {
    __shared__ float tile[SIDE][SIDE + 1];
    int tx = threadIdx.x, ty = threadIdx.y;
    int row = blockIdx.y * SIDE + ty, col = blockIdx.x * SIDE + tx;
    if (row < rows && col < cols) tile[ty][tx] = x[row * cols + col];
    __syncthreads();
    row = blockIdx.x * SIDE + ty, col = blockIdx.y * SIDE + tx; // now of y
    if (row < cols && col < rows) y[row * rows + col] = tile[tx][ty];
}

/* The same. Each row of the tile is stored in an order of its own: nothing is
 * wasted. */
__global__ void transpose_swizzled(float *y, const float *x, int rows,
                                   int cols) {
    __shared__ float tile[SIDE][SIDE];
    int tx = threadIdx.x, ty = threadIdx.y;
    int row = blockIdx.y * SIDE + ty, col = blockIdx.x * SIDE + tx;
    if (row < rows && col < cols) tile[ty][tx ^ ty] = x[row * cols + col];
    __syncthreads();
    row = blockIdx.x * SIDE + ty, col = blockIdx.y * SIDE + tx; // now of y
    if (row < cols && col < rows) y[row * rows + col] = tile[tx][ty ^ tx];
}

/* The padded one with blocks of 32 x 8: a thread has four numbers under way. */
__global__ void transpose_four(float *y, const float *x, int rows, int cols) {
    __shared__ float tile[SIDE][SIDE + 1];
    int tx = threadIdx.x, ty = threadIdx.y;
    int row = blockIdx.y * SIDE, col = blockIdx.x * SIDE + tx;
    for (int i = ty; i < SIDE; i += 8)
        if (row + i < rows && col < cols)
            tile[i][tx] = x[(row + i) * cols + col];
    __syncthreads();
    row = blockIdx.x * SIDE, col = blockIdx.y * SIDE + tx; // now of y
    for (int i = ty; i < SIDE; i += 8)
        if (row + i < cols && col < rows)
            y[(row + i) * rows + col] = tile[tx][i];
}
