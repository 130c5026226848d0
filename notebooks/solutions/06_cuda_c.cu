/* Answers to the exercises in CUDA C of 06_cuda_c.ipynb; mistakes that must not
 * pass stand in 06_cuda_c.py, as changes of these. */

__global__ void reverse(float *out, const float *x, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = x[n - 1 - i];
}

__global__ void transpose(float *out, const float *in, int rows, int cols) {
    int col = blockIdx.x * blockDim.x + threadIdx.x;
    int row = blockIdx.y * blockDim.y + threadIdx.y;
    if (row < rows && col < cols) out[col * rows + row] = in[row * cols + col];
}

__global__ void count_above(int *count, const float *x, float limit, int n) {
    int mine = 0;
    int first = blockIdx.x * blockDim.x + threadIdx.x;
    for (int i = first; i < n; i += gridDim.x * blockDim.x)
        mine += x[i] > limit;
    if (mine) atomicAdd(count, mine);
}
