/* chain.cuh -- the kernels of graphs.cu: short ones without and with
 * programmatic dependent launch, one that fetches weights, and a long one.
 *
 * Lesson:  notebooks/14_fusion_and_graphs.ipynb. */
#ifndef WEFT_BENCH_CHAIN_CUH
#define WEFT_BENCH_CHAIN_CUH
#include "graphs.cuh"

enum { WEIGHTS = 8192 };

/* Programmatic dependent launch: wait until the previous kernel has ended and
 * its writes are visible; let the next kernel begin. Neither function has an
 * effect before sm_90. */
static __device__ void wait_for_last(void) {
#if __CUDA_ARCH__ >= 900
    cudaGridDependencySynchronize();
#endif
}
static __device__ void let_next_begin(void) {
#if __CUDA_ARCH__ >= 900
    cudaTriggerProgrammaticLaunchCompletion();
#endif
}

/* x += 1: almost no work. */
static __global__ void step(float *x, int n) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) x[i] += 1;
}

/* Also x += 1. The next kernel may begin while this kernel works. */
static __global__ void step_early(float *x, int n) {
    let_next_begin();
    wait_for_last();
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) x[i] += 1;
}

/* Also x += 1. The next kernel may begin only after this kernel has written
 * x. */
static __global__ void step_late(float *x, int n) {
    wait_for_last();
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) x[i] += 1;
    let_next_begin();
}

/* x += weights, which no kernel of the chain writes. first: fetch the weights
 * before the previous kernel has ended. */
static __global__ void add_weights(float *x, const float *weights, int n,
                                   int first) {
    __shared__ float weights_s[WEIGHTS];
    let_next_begin();
    if (!first) wait_for_last();
    for (int i = threadIdx.x; i < WEIGHTS; i += blockDim.x)
        weights_s[i] = weights[i];
    __syncthreads();
    if (first) wait_for_last();
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) x[i] += weights_s[i % WEIGHTS];
}

/* y = halved(x). */
static __global__ void work(float *y, const float *x, int n, int turns) {
    let_next_begin();
    wait_for_last();
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = halved(x[i], turns);
}

#endif
