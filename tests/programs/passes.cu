/* passes.cu -- a program that depends on nvcc's two passes. */
#include <stdio.h>

#ifndef __CUDACC__
#error "nvcc defines __CUDACC__"
#endif
#if __CUDACC_VER_MAJOR__ < 11 || CUDART_VERSION < 11000
#error "an old toolkit"
#endif

#if __CUDA_ARCH__ >= 700
#define WHERE 700
#else
#define WHERE 0
#endif

__global__ void device_sees(int *p) {
#ifdef __CUDA_ARCH__
    p[0] = __CUDA_ARCH__ >= 700;
#else
    a_host_that_compiles_this();
#endif
    p[1] = WHERE;
}

__host__ __device__ int both_see() {
#ifdef __CUDA_ARCH__
    return 1;
#else
    return 2;
#endif
}

/* Older GPUs lack this function, so the program defines it for them. */
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 600
#else
__device__ double atomicAdd(double *a, double b) { return not_for_us; }
#endif

#ifndef __CUDA_ARCH__
static int only_the_host() { return 42; }
#endif

int main() {
    int *p, h[2];
    cudaMalloc(&p, sizeof h);
    device_sees<<<1, 1>>>(p);
    cudaMemcpy(h, p, sizeof h, cudaMemcpyDeviceToHost);
    printf("%d %d %d %d\n", h[0], h[1], both_see(), only_the_host());
    return sqrt(fabs(M_PI)) > 1 && INT_MAX > 0 ? 0 : 1; // from nvcc's headers
}
