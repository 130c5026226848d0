/* transpose.cu -- five transposes, and three copies for comparison.
 *
 * A transpose moves each number once and computes nothing, so at best it is as
 * fast as the best copy. Each kernel changes one thing in a kernel above it.
 * Tiles are 32 x 32, and so are the blocks of all transposes but the last.
 *
 * Lesson:  notebooks/07a_memory.ipynb, "Transpose". */

/* y (n) = x (n). */
__global__ void copy(float *y, const float *x, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = x[i];
}

/* Like copy(), but each thread has four loads in flight. */
__global__ void copy_four(float *y, const float *x, int n) {
    int first = blockIdx.x * 4 * blockDim.x + threadIdx.x;
    float v[4];
#pragma unroll
    for (int k = 0; k < 4; k++) {
        int i = first + k * blockDim.x;
        if (i < n) v[k] = x[i];
    }
#pragma unroll
    for (int k = 0; k < 4; k++) {
        int i = first + k * blockDim.x;
        if (i < n) y[i] = v[k];
    }
}

/* y (n) = every stride-th number of x. */
__global__ void copy_strided(float *y, const float *x, int n, int stride) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = x[(size_t)i * stride];
}

/* y (cols,rows) = x (rows,cols) transposed, with one thread per number. */
__global__ void transpose_naive(float *y, const float *x, int rows, int cols) {
    int tx = threadIdx.x, ty = threadIdx.y;
    int row = blockIdx.y * 32 + ty, col = blockIdx.x * 32 + tx;
    if (row < rows && col < cols) y[col * rows + row] = x[row * cols + col];
}

/* Like transpose_naive(), but a block transposes a tile in shared memory. */
__global__ void transpose_tiled(float *y, const float *x, int rows, int cols) {
    __shared__ float tile[32][32];
    int tx = threadIdx.x, ty = threadIdx.y;
    int row = blockIdx.y * 32 + ty, col = blockIdx.x * 32 + tx;
    if (row < rows && col < cols) tile[ty][tx] = x[row * cols + col];
    __syncthreads();
    row = blockIdx.x * 32 + ty, col = blockIdx.y * 32 + tx; // place in y
    if (row < cols && col < rows) y[row * rows + col] = tile[tx][ty];
}

/* Like transpose_tiled(), but an unused column shifts each row by one bank. */
__global__ void transpose_padded(float *y, const float *x, int rows, int cols) {
    __shared__ float tile[32][33];
    int tx = threadIdx.x, ty = threadIdx.y;
    int row = blockIdx.y * 32 + ty, col = blockIdx.x * 32 + tx;
    if (row < rows && col < cols) tile[ty][tx] = x[row * cols + col];
    __syncthreads();
    row = blockIdx.x * 32 + ty, col = blockIdx.y * 32 + tx; // place in y
    if (row < cols && col < rows) y[row * rows + col] = tile[tx][ty];
}

/* Like transpose_tiled(), but each row of the tile is permuted, so no shared
 * memory is wasted. */
__global__ void transpose_swizzled(float *y, const float *x, int rows,
                                   int cols) {
    __shared__ float tile[32][32];
    int tx = threadIdx.x, ty = threadIdx.y;
    int row = blockIdx.y * 32 + ty, col = blockIdx.x * 32 + tx;
    if (row < rows && col < cols) tile[ty][tx ^ ty] = x[row * cols + col];
    __syncthreads();
    row = blockIdx.x * 32 + ty, col = blockIdx.y * 32 + tx; // place in y
    if (row < cols && col < rows) y[row * rows + col] = tile[tx][ty ^ tx];
}

/* Like transpose_padded(), but in blocks of 32 x 8: a thread has four loads in
 * flight. */
__global__ void transpose_four(float *y, const float *x, int rows, int cols) {
    __shared__ float tile[32][33];
    int tx = threadIdx.x, ty = threadIdx.y;
    int row = blockIdx.y * 32, col = blockIdx.x * 32 + tx;
    for (int i = ty; i < 32; i += 8)
        if (row + i < rows && col < cols)
            tile[i][tx] = x[(row + i) * cols + col];
    __syncthreads();
    row = blockIdx.x * 32, col = blockIdx.y * 32 + tx; // place in y
    for (int i = ty; i < 32; i += 8)
        if (row + i < cols && col < rows)
            y[(row + i) * rows + col] = tile[tx][i];
}
