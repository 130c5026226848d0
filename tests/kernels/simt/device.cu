/* device.cu -- atomics, memory spaces and functions of device code. */
#include <cuda_runtime.h>

#define EXPORT extern "C" __attribute__((visibility("default")))

/* Every thread of every block updates the same cells. */
static __global__ void atomics(int *i, unsigned *u, unsigned long long *l,
                               float *f, double *d) {
    const int t = blockIdx.x * blockDim.x + threadIdx.x;
    atomicAdd(&i[0], 1);
    atomicSub(&i[1], 2);
    atomicMax(&i[2], t);
    atomicMin(&i[3], -t);
    atomicXor(&i[4], t);
    atomicOr(&u[0], 1u << t % 32);
    atomicAnd(&u[1], ~(1u << t % 16));
    atomicInc(&u[2], 6);
    atomicDec(&u[3], 6);
    atomicAdd(&l[0], 1ull << 33);
    atomicAdd(f, 1.0f);
    atomicAdd(d, 0.5);
    int old = i[5], seen;
    do { // compute the maximum in a compare-and-swap loop
        seen = old;
        old = atomicCAS(&i[5], seen, max(seen, 7 * t));
    } while (old != seen);
    if (t == 11) i[6] = atomicExch(&i[7], 42);
}

EXPORT int run_atomics(int *i, unsigned *u, unsigned long long *l, float *f,
                       double *d, int blocks, int threads) {
    atomics<<<blocks, threads>>>(i, u, l, f, d);
    return cudaGetLastError();
}

/* Threads of one block wait for a lock and for a ticket. */
static __global__ void locks(int *total, int *order) {
    __shared__ int lock, ticket;
    if (threadIdx.x == 0) lock = ticket = 0;
    __syncthreads();
    while (atomicCAS(&lock, 0, 1)) {
    }
    *(volatile int *)total += 1;
    __threadfence();
    atomicExch(&lock, 0);
    const int mine = blockDim.x - 1 - threadIdx.x; // the last thread first
    while (atomicAdd(&ticket, 0) != mine) {
    }
    order[mine] = threadIdx.x;
    atomicAdd(&ticket, 1);
}

EXPORT int run_locks(int *total, int *order, int threads) {
    locks<<<1, threads>>>(total, order);
    return cudaGetLastError();
}

/* The last block to finish adds up the results of all blocks. */
static __device__ unsigned finished;
static __global__ void last_block_sums(int *out, int *part) {
    __shared__ bool last;
    if (threadIdx.x == 0) {
        part[blockIdx.x] = blockIdx.x + 1;
        __threadfence();
        last = atomicInc(&finished, gridDim.x - 1) == gridDim.x - 1;
    }
    __syncthreads();
    if (!last) return;
    for (int i = threadIdx.x; i < (int)gridDim.x; i += blockDim.x)
        atomicAdd(out, part[i]);
}

EXPORT int run_last_block_sums(int *out, int *part, int blocks) {
    last_block_sums<<<blocks, 64>>>(out, part);
    return cudaGetLastError();
}

__constant__ float weights[4];
static __device__ float bias = 0.25f;

static __forceinline__ __device__ float dot(float4 a, float4 b) {
    return a.x * b.x + a.y * b.y + a.z * b.z + a.w * b.w;
}

static __noinline__ __device__ float biased(float x) { return x + bias; }

__global__ void __launch_bounds__(64)
    weighted(float *__restrict__ out, const float4 *__restrict__ x, int n) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    const float4 w =
        make_float4(weights[0], weights[1], weights[2], weights[3]);
    out[i] = biased(dot(__ldg(&x[i]), w));
}

EXPORT int run_weighted(float *out, const float4 *x, int n) {
    const float w[4] = {1, 2, 3, 4};
    cudaMemcpyToSymbol(weights, w, sizeof w);
    weighted<<<(n + 63) / 64, 64>>>(out, x, n);
    return cudaGetLastError();
}

/* Store one number per function, with one thread. */
static __global__ void functions(float *f, int *i) {
    const float x = 0.75f;
    *f++ = min(x, 2.0f), *f++ = max(x, 2.0f),
    *f++ = fmaxf(x, __builtin_nanf(""));
    *f++ = fminf(x, -x), *f++ = rsqrtf(x), *f++ = __expf(x);
    *f++ = __logf(x), *f++ = __fdividef(x, 3.0f), *f++ = sqrtf(x);
    *f++ = expf(x), *f++ = tanhf(x), *f++ = fabsf(-x), *f++ = fmaf(x, x, x);
    *f++ = abs(-x), *f++ = sqrt(x), *f++ = exp(x), *f++ = powf(x, 3.0f);
    *f++ = __saturatef(1.5f), *f++ = __int_as_float(0x3f800000);
    *i++ = min(-3, 2), *i++ = max(threadIdx.x, 5u), *i++ = abs(-4);
    *i++ = __popc(0xf0f0), *i++ = __clz(1), *i++ = __ffs(8);
    *i++ = __brev(1) >> 31, *i++ = __float_as_int(1.0f);
    *i++ = __umulhi(1u << 31, 6u), *i++ = warpSize;
    *i++ = isnan(__builtin_nanf("")) + 2 * isinf(__builtin_inff()),
    *i++ = sizeof(float3);
}

EXPORT int run_functions(float *f, int *i) {
    functions<<<1, 1>>>(f, i);
    return cudaGetLastError();
}
