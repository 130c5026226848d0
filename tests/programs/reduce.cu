/* reduce.cu -- one sum in six ways, as in courses. */
#include <stdio.h>
#include <stdlib.h>

enum { N = 1 << 14, BLOCK = 128 };

__global__ void by_atomics(int *out, const int *in) {
    atomicAdd(out, in[blockIdx.x * blockDim.x + threadIdx.x]);
}
__global__ void by_interleaving(int *out, const int *in) {
    extern __shared__ int s[];
    const unsigned t = threadIdx.x;
    s[t] = in[blockIdx.x * blockDim.x + t];
    __syncthreads();
    for (unsigned step = 1; step < blockDim.x; step *= 2) {
        if (t % (2 * step) == 0) s[t] += s[t + step];
        __syncthreads();
    }
    if (t == 0) atomicAdd(out, s[0]);
}
__global__ void by_halves(int *out, const int *in) {
    extern __shared__ int s[];
    const unsigned t = threadIdx.x;
    s[t] = in[blockIdx.x * blockDim.x + t];
    __syncthreads();
    for (unsigned step = blockDim.x / 2; step > 0; step >>= 1) {
        if (t < step) s[t] += s[t + step];
        __syncthreads();
    }
    if (t == 0) atomicAdd(out, s[0]);
}
__global__ void by_warps(int *out, const int *in) {
    int v = in[blockIdx.x * blockDim.x + threadIdx.x];
    for (int o = warpSize / 2; o > 0; o /= 2)
        v += __shfl_down_sync(0xffffffff, v, o);
    if (threadIdx.x % warpSize == 0) atomicAdd(out, v);
}
/* As in old kernels: `volatile` marks lanes that run in lockstep. */
__global__ void in_step(int *out, const int *in) {
    extern __shared__ int s[];
    const unsigned t = threadIdx.x;
    s[t] = in[blockIdx.x * blockDim.x + t];
    for (unsigned step = blockDim.x / 2; step > 32; step >>= 1) {
        __syncthreads();
        if (t < step) s[t] += s[t + step];
    }
    __syncthreads();
    if (t < 32) {
        volatile int *v = s;
        if (blockDim.x >= 64) v[t] += v[t + 32];
        v[t] += v[t + 16];
        v[t] += v[t + 8];
        v[t] += v[t + 4];
        v[t] += v[t + 2];
        v[t] += v[t + 1];
    }
    if (t == 0) atomicAdd(out, s[0]);
}
__device__ unsigned finished;
__global__ void by_the_last(int *out, int *part, const int *in) {
    __shared__ bool last;
    int sum = 0;
    for (int i = threadIdx.x; i < BLOCK; i += blockDim.x)
        sum += in[blockIdx.x * BLOCK + i];
    atomicAdd(&part[blockIdx.x], sum);
    __threadfence();
    __syncthreads();
    if (threadIdx.x == 0)
        last = atomicInc(&finished, gridDim.x - 1) == gridDim.x - 1;
    __syncthreads();
    if (last && threadIdx.x == 0) {
        int all = 0;
        for (unsigned i = 0; i < gridDim.x; i++) all += part[i];
        *out = all;
    }
}

int main() {
    static int h[N];
    long want = 0;
    for (int i = 0; i < N; i++) want += h[i] = rand() % 100 - 30;
    int *in, *out, *part, got;
    cudaMalloc(&in, sizeof h);
    cudaMalloc(&out, sizeof(int));
    cudaMalloc(&part, N / BLOCK * sizeof(int));
    cudaMemset(part, 0, N / BLOCK * sizeof(int));
    cudaMemcpy(in, h, sizeof h, cudaMemcpyHostToDevice);
    for (int way = 0; way < 6; way++) {
        const size_t bytes = BLOCK * sizeof(int);
        cudaMemset(out, 0, sizeof(int));
        switch (way) {
        case 0: by_atomics<<<N / BLOCK, BLOCK>>>(out, in); break;
        case 1: by_interleaving<<<N / BLOCK, BLOCK, bytes>>>(out, in); break;
        case 2: by_halves<<<N / BLOCK, BLOCK, bytes>>>(out, in); break;
        case 3: by_warps<<<N / BLOCK, BLOCK>>>(out, in); break;
        case 4: by_the_last<<<N / BLOCK, BLOCK / 4>>>(out, part, in); break;
        case 5: in_step<<<N / BLOCK, BLOCK, bytes>>>(out, in); break;
        }
        cudaMemcpy(&got, out, sizeof got, cudaMemcpyDeviceToHost);
        printf("%s ", got == want ? "right" : "wrong");
    }
    printf("\n");
}
