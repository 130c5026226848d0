/* faults.cu -- a kernel's fault is the same CUDA error as on a GPU, from the
 * same calls. It persists, unless a launch was rejected. argv[1]: the fault. */
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>

__global__ void asserts(int n) { assert(threadIdx.x < n); }
__global__ void writes(int *p) { p[threadIdx.x] = 1; }
__global__ void nothing() {}

int main(int, char **argv) {
    const int what = atoi(argv[1]);
    if (what == 0) asserts<<<1, 8>>>(7);
    if (what == 1) writes<<<1, 8>>>(0);
    if (what == 2) nothing<<<1, 2000>>>();
    printf("launch %s\n", cudaGetErrorName(cudaPeekAtLastError()));
    cudaError_t error = cudaDeviceSynchronize();
    printf("sync %s\n", cudaGetErrorName(error));
    cudaGetLastError();
    int *p;
    error = cudaMalloc(&p, 4);
    printf("after %s\n", cudaGetErrorName(error));
    return error;
}
