/* warp.cu -- shuffles, votes and meetings of parts of a warp. */
#include <cuda_runtime.h>
#include <stdint.h>

#define EXPORT extern "C" __attribute__((visibility("default")))
#define ALL 0xffffffffu

/* mode 0: by index, 1: up, 2: down, 3: xor; every lane offers x[thread]. */
template <class T>
static __global__ void shuffle(T *out, const T *x, int mode, int by,
                               int width) {
    const int t = blockIdx.x * blockDim.x + threadIdx.x;
    T v = x[t];
    if (mode == 0) v = __shfl_sync(ALL, v, by, width);
    if (mode == 1) v = __shfl_up_sync(ALL, v, by, width);
    if (mode == 2) v = __shfl_down_sync(ALL, v, by, width);
    if (mode == 3) v = __shfl_xor_sync(ALL, v, by, width);
    out[t] = v;
}

#define RUN_SHUFFLE(T)                                                      \
    EXPORT int run_shuffle_##T(T *out, const T *x, int blocks, int threads, \
                               int mode, int by, int width) {               \
        shuffle<<<blocks, threads>>>(out, x, mode, by, width);              \
        return cudaGetLastError();                                          \
    }
RUN_SHUFFLE(int)
RUN_SHUFFLE(float)
RUN_SHUFFLE(double)
RUN_SHUFFLE(int64_t)

static __device__ float warp_sum(float v) {
    for (int step = 16; step; step /= 2) v += __shfl_down_sync(ALL, v, step);
    return v;
}

/* Sum over blocks, with a warp primitive that only the first warp calls. */
static __global__ void two_level_sum(float *out, const float *x) {
    __shared__ float part[32];
    const int t = threadIdx.x, lane = t % warpSize, warp = t / warpSize;
    float v = warp_sum(x[blockIdx.x * blockDim.x + t]);
    if (lane == 0) part[warp] = v;
    __syncthreads();
    if (warp > 0) return;
    v = warp_sum(t < (int)blockDim.x / 32 ? part[t] : 0.0f);
    if (t == 0) out[blockIdx.x] = v;
}

EXPORT int run_two_level_sum(float *out, const float *x, int blocks,
                             int threads) {
    two_level_sum<<<blocks, threads>>>(out, x);
    return cudaGetLastError();
}

/* The two halves of a warp run different numbers of shuffles in parallel. */
static __global__ void partial_masks(int *out) {
    const int lane = threadIdx.x % 32;
    int v = threadIdx.x;
    if (lane < 8) {
        for (int i = 0; i < 5; i++) v = __shfl_sync(0xff, v, (lane + 1) % 8);
    } else {
        for (int i = 0; i < 3; i++)
            v = __shfl_sync(0xffffff00, v, 8 + (lane - 8 + 1) % 24);
    }
    __syncwarp();
    out[threadIdx.x] = __shfl_xor_sync(ALL, v, 31);
}

EXPORT int run_partial_masks(int *out, int threads) {
    partial_masks<<<1, threads>>>(out);
    return cudaGetLastError();
}

/* Store per thread: ballot, any, all, any of no votes, all of true votes. */
static __global__ void votes(unsigned *out) {
    const int t = threadIdx.x;
    unsigned *row = out + 5 * t;
    row[0] = __ballot_sync(ALL, t % 3 == 0);
    row[1] = __any_sync(ALL, t == 33);
    row[2] = __all_sync(ALL, t < 40);
    row[3] = __any_sync(ALL, 0);
    row[4] = __all_sync(ALL, 2);
}

EXPORT int run_votes(unsigned *out, int threads) {
    votes<<<1, threads>>>(out);
    return cudaGetLastError();
}

/* Odd lanes leave while the even ones wait for all 32. */
static __global__ void lanes_leave(unsigned *out) {
    if (threadIdx.x & 1) return;
    out[threadIdx.x] = __ballot_sync(ALL, 1);
}

EXPORT int run_lanes_leave(unsigned *out, int threads) {
    lanes_leave<<<1, threads>>>(out);
    return cudaGetLastError();
}

/* Store the active lanes: all, then those on the two sides of a branch. */
static __global__ void active(unsigned *out) {
    unsigned *row = out + 2 * threadIdx.x;
    row[0] = __activemask();
    if (threadIdx.x % 4 == 0)
        row[1] = __activemask();
    else
        row[1] = __ballot_sync(__activemask(), threadIdx.x % 4 == 1);
}

EXPORT int run_active(unsigned *out, int threads) {
    active<<<1, threads>>>(out);
    return cudaGetLastError();
}

/* After __syncwarp(), a lane's write is visible to the other lanes. */
static __global__ void through_shared(int *out) {
    __shared__ int s[64];
    s[threadIdx.x] = 3 * threadIdx.x;
    __syncwarp();
    out[threadIdx.x] = s[threadIdx.x ^ 21];
}

EXPORT int run_through_shared(int *out) {
    through_shared<<<1, 64>>>(out);
    return cudaGetLastError();
}

/* Half of a block waits at a barrier and the other half at a warp primitive,
 * forever. */
static __global__ void deadlock(int *out) {
    if (threadIdx.x % 2)
        __syncthreads();
    else
        __syncwarp();
    out[threadIdx.x] = 1;
}

EXPORT int run_deadlock(int *out) {
    deadlock<<<1, 64>>>(out);
    return cudaGetLastError();
}

/* These kernels need not be fast, and -O1 compiles them sooner than -O3. */
/* g++: -O1 */
