/* launch.cu -- rejected launches, long launches, and stack overflows. */
#include <cuda_runtime.h>
#include <stdint.h>

#define EXPORT extern "C" __attribute__((visibility("default")))

static __global__ void touch(int *count) { atomicAdd(count, 1); }

/* Launch any shape; *peeked receives the result of cudaPeekAtLastError(). */
EXPORT int run_shape(int *count, const unsigned *g, const unsigned *b,
                     size_t shared, int *peeked) {
    touch<<<dim3(g[0], g[1], g[2]), dim3(b[0], b[1], b[2]), shared>>>(count);
    *peeked = cudaPeekAtLastError();
    const int error = cudaGetLastError();
    // The error was already fetched.
    return cudaGetLastError() == cudaSuccess ? error : -1;
}

/* out[0] = the sum of `bytes` bytes of dynamic shared memory, each 1. */
static __global__ void fill_shared(int *out, int bytes) {
    extern __shared__ char bytes_s[];
    for (int i = threadIdx.x; i < bytes; i += blockDim.x) bytes_s[i] = 1;
    __syncthreads();
    int sum = 0;
    for (int i = threadIdx.x; i < bytes; i += blockDim.x) sum += bytes_s[i];
    atomicAdd(out, sum);
}

EXPORT int run_opt_in(int *out, int bytes) {
    cudaError_t error = cudaFuncSetAttribute(
        fill_shared, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes);
    if (error != cudaSuccess) return cudaGetLastError();
    fill_shared<<<2, 128, bytes>>>(out, bytes);
    error = cudaGetLastError();
    cudaFuncSetAttribute((const void *)fill_shared,
                         cudaFuncAttributeMaxDynamicSharedMemorySize, 0);
    return error;
}

/* Declare two arrays that are too large only together. */
static __global__ void too_much_static(int *out) {
    __shared__ int a[8192], b[1];
    __shared__ int c[8192];
    a[threadIdx.x] = c[threadIdx.x] = b[0] = 1;
    __syncthreads();
    out[threadIdx.x] = a[0] + c[0];
}

EXPORT int run_too_much_static(int *out) {
    too_much_static<<<1, 32>>>(out);
    return cudaGetLastError();
}

/* Each thread runs `work` turns of a loop. */
static __global__ void slow(float *out, int work, int barriers) {
    float x = 1.0f;
    for (int i = 0; i < work; i++) x = x * 0.999f + 0.001f;
    for (int i = 0; i < barriers; i++) __syncthreads();
    out[threadIdx.x] = x;
}

EXPORT int run_slow(float *out, int blocks, int work, int barriers) {
    slow<<<blocks, 256>>>(out, work, barriers);
    return cudaGetLastError();
}

/* Wait for a flag that is never set. */
static __global__ void wait_for_ever(int *flag) {
    while (atomicAdd(flag, 0) == 0) {
    }
}

EXPORT int run_wait_for_ever(int *flag) {
    wait_for_ever<<<4, 64>>>(flag);
    return cudaGetLastError();
}

/* Count the blocks, and wait until all of them are counted. */
static __global__ void meet_all_blocks(int *count) {
    if (threadIdx.x) return;
    atomicAdd(count, 1);
    while (atomicAdd(count, 0) < (int)gridDim.x) {
    }
}

EXPORT int run_meeting(int *count, int blocks, int threads) {
    meet_all_blocks<<<blocks, threads>>>(count);
    return cudaGetLastError();
}

static __device__ __noinline__ int deep(volatile int *flag, int n) {
    volatile char frame[256];
    frame[n % 256] = (char)n;
    if (*flag && n == *flag) return n;
    return deep(flag, n + 1) + frame[n % 256];
}

static __global__ void overflow(int *flag) {
    __syncthreads();
    *flag = threadIdx.x == 1 ? deep(flag, 1) : *flag;
    __syncthreads();
}

/* *flag = the depth of the recursion; 0: endless. */
EXPORT int run_overflow(int *flag) {
    overflow<<<1, 64>>>(flag);
    return cudaGetLastError();
}

/* A kernel called like a function, and one that launches another. */
static __global__ void nested(int *count) {
    if (threadIdx.x == 0) touch<<<1, 1>>>(count);
}

EXPORT int run_nested(int *count) {
    touch(count);
    const int direct = cudaGetLastError();
    nested<<<1, 32>>>(count);
    return direct + 1000 * cudaGetLastError();
}

/* The host's checks return the number of the first line that fails. */
#define EXPECT(condition) \
    if (!(condition)) return __LINE__
EXPORT int run_host_api(void) {
    float *p = 0, *pinned = 0, host[4] = {1, 2, 3, 4}, back[4];
    EXPECT(cudaMalloc(&p, sizeof host) == cudaSuccess && p);
    EXPECT((uintptr_t)p % 256 == 0);
    EXPECT(!cudaMemcpy(p, host, sizeof host, cudaMemcpyHostToDevice));
    EXPECT(!cudaMemsetAsync(p + 1, 0, 4, 0));
    EXPECT(!cudaMemcpyAsync(back, p, sizeof back, cudaMemcpyDeviceToHost, 0));
    EXPECT(back[0] == 1 && back[1] == 0 && back[3] == 4);
    cudaPointerAttributes attributes;
    EXPECT(!cudaPointerGetAttributes(&attributes, p + 3));
    EXPECT(attributes.type == cudaMemoryTypeDevice);
    EXPECT(!cudaPointerGetAttributes(&attributes, p + 4));
    EXPECT(attributes.type == cudaMemoryTypeUnregistered);
    EXPECT(!cudaFree(p) && !cudaFree(0));
    EXPECT(cudaFree(p + 1) == cudaErrorInvalidValue);
    EXPECT(cudaGetLastError() == cudaErrorInvalidValue);
    EXPECT(!cudaMallocHost(&pinned, 64) && !cudaFreeHost(pinned));
    EXPECT(cudaMalloc(&p, (size_t)1 << 46) == cudaErrorMemoryAllocation && !p);
    EXPECT(cudaGetLastError() == cudaErrorMemoryAllocation);
    EXPECT(cudaMemcpy(0, host, 4, cudaMemcpyDefault) == cudaErrorInvalidValue);
    EXPECT(cudaMemcpy(back, host, 4, (cudaMemcpyKind)9) ==
           cudaErrorInvalidMemcpyDirection);
    cudaStream_t stream;
    cudaEvent_t a, b;
    float ms = -1;
    EXPECT(!cudaStreamCreate(&stream) && !cudaStreamSynchronize(stream));
    EXPECT(!cudaEventCreate(&a) && !cudaEventCreate(&b));
    EXPECT(cudaEventElapsedTime(&ms, a, b) == cudaErrorInvalidResourceHandle);
    EXPECT(!cudaEventRecord(a, stream));
    for (long long t = clock64(); clock64() < t + 3000000;) {
    }
    EXPECT(!cudaEventRecord(b, stream) && !cudaEventSynchronize(b));
    EXPECT(!cudaEventElapsedTime(&ms, a, b) && ms >= 3 && ms < 3000);
    EXPECT(!cudaEventDestroy(a) && !cudaEventDestroy(b));
    EXPECT(!cudaStreamDestroy(stream));
    int device = -1, count = 0;
    EXPECT(!cudaGetDeviceCount(&count) && count == 1);
    EXPECT(cudaSetDevice(1) == cudaErrorInvalidDevice && !cudaSetDevice(0));
    EXPECT(!cudaGetDevice(&device) && device == 0);
    cudaDeviceProp prop;
    EXPECT(!cudaGetDeviceProperties(&prop, 0) && prop.warpSize == 32);
    EXPECT(prop.multiProcessorCount >= 1 && prop.totalGlobalMem > 1 << 20);
    EXPECT(!strcmp(cudaGetErrorName(cudaErrorNotReady), "cudaErrorNotReady"));
    EXPECT(
        !strcmp(cudaGetErrorString(cudaErrorInvalidValue), "invalid argument"));
    cudaGetLastError();
    return 0;
}
