/* strided.cu -- a copy of every n-th number, for the lesson on memory.
 *
 * Lesson:  notebooks/07a_memory.ipynb, "What a warp requests" */

/* y (n) = every stride-th number of x. */
__global__ void copy_strided(float *y, const float *x, int n, int stride) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = x[(size_t)i * stride];
}
