/* api_stream.cu -- streams, events, the device, launches by function and
 * occupancy, with known answers. */
#include "api.h"
#include <cuda_profiler_api.h>

static __global__ void add(float *out, const float *a, float b, int n) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = a[i] + b;
}

template <class T, int N> static __global__ void scale(T *x, const T by) {
    if (threadIdx.x < N) x[blockIdx.x * blockDim.x + threadIdx.x] *= by;
}

static __global__ void nothing() {}

static __global__ void with_shared(int *out) {
    __shared__ int s[2048];
    extern __shared__ int d[];
    s[threadIdx.x] = d[threadIdx.x] = threadIdx.x;
    __syncthreads();
    out[threadIdx.x] = s[blockDim.x - 1 - threadIdx.x] + d[0];
}

static __global__ void by_reference(int &x, int by) { x += by; }

static __global__ void wild(int *p) { *p = 1; }

/* ---- streams and events ------------------------------------------------- */

CHECK(streams) {
    cudaStream_t a, b;
    int least, greatest, priority;
    unsigned flags;
    unsigned long long id_a, id_b;
    EXPECT(!cudaDeviceGetStreamPriorityRange(&least, &greatest));
    EXPECT(least == 0 && greatest < 0);
    EXPECT(!cudaStreamCreate(&a));
    EXPECT(!cudaStreamCreateWithPriority(&b, cudaStreamNonBlocking, -100));
    EXPECT(!cudaStreamGetPriority(b, &priority) && priority == greatest);
    EXPECT(!cudaStreamGetFlags(b, &flags) && flags == cudaStreamNonBlocking);
    EXPECT(!cudaStreamGetFlags(a, &flags) && flags == cudaStreamDefault);
    EXPECT(!cudaStreamGetId(a, &id_a) && !cudaStreamGetId(b, &id_b));
    EXPECT(id_a != id_b && !cudaStreamQuery(a));
    EXPECT(!cudaStreamSynchronize(cudaStreamLegacy));
    EXPECT(!cudaStreamSynchronize(cudaStreamPerThread));
    EXPECT(!cudaStreamDestroy(a) && !cudaStreamDestroy(b));
    EXPECT_ERROR(cudaStreamDestroy(a), cudaErrorInvalidResourceHandle);
    EXPECT_ERROR(cudaStreamSynchronize(a), cudaErrorInvalidResourceHandle);
    EXPECT_ERROR(cudaStreamDestroy(0), cudaErrorInvalidResourceHandle);
    nothing<<<1, 1, 0, a>>>();
    EXPECT(cudaGetLastError() == cudaErrorInvalidResourceHandle);
    return 0;
}

static void note(void *data) { *(int *)data = *(int *)data * 10 + 1; }
static void callback(cudaStream_t stream, cudaError_t status, void *data) {
    *(int *)data = *(int *)data * 10 + (stream && !status ? 2 : 3);
}

CHECK(host_functions) {
    cudaStream_t stream;
    int order = 0;
    EXPECT(!cudaStreamCreate(&stream));
    EXPECT(!cudaLaunchHostFunc(stream, note, &order));
    EXPECT(!cudaStreamAddCallback(stream, callback, &order, 0));
    EXPECT(!cudaLaunchHostFunc(0, note, &order));
    EXPECT(!cudaDeviceSynchronize() && order == 121);
    EXPECT_ERROR(cudaLaunchHostFunc(stream, 0, 0), cudaErrorInvalidValue);
    EXPECT(!cudaStreamDestroy(stream));
    return 0;
}

CHECK(events) {
    cudaEvent_t a, b, untimed;
    float ms = -1;
    EXPECT(!cudaEventCreate(&a) && !cudaEventCreate(&b));
    EXPECT(!cudaEventCreateWithFlags(&untimed, cudaEventDisableTiming));
    EXPECT(!cudaEventQuery(a)); // an event without a record is complete
    EXPECT_ERROR(cudaEventElapsedTime(&ms, a, b),
                 cudaErrorInvalidResourceHandle);
    EXPECT(!cudaEventRecord(a) && !cudaEventRecord(untimed, 0));
    for (long long t = simt_nanoseconds(); simt_nanoseconds() < t + 3000000;) {
    }
    EXPECT(!cudaEventRecord(b, cudaStreamPerThread));
    EXPECT(!cudaEventSynchronize(b) && !cudaEventQuery(b));
    EXPECT(!cudaEventElapsedTime(&ms, a, b) && ms >= 3 && ms < 3000);
    EXPECT(!cudaEventElapsedTime(&ms, b, a) && ms <= -3);
    EXPECT_ERROR(cudaEventElapsedTime(&ms, a, untimed),
                 cudaErrorInvalidResourceHandle);
    EXPECT(!cudaStreamWaitEvent(cudaStreamPerThread, a));
    EXPECT(!cudaEventDestroy(a) && !cudaEventDestroy(b));
    EXPECT(!cudaEventDestroy(untimed));
    EXPECT_ERROR(cudaEventRecord(a), cudaErrorInvalidResourceHandle);
    EXPECT_ERROR(cudaEventDestroy(a), cudaErrorInvalidResourceHandle);
    return 0;
}

/* ---- errors ------------------------------------------------------------- */

CHECK(errors_of_kernels_come_when_somebody_waits) {
    cudaStream_t stream;
    cudaEvent_t event;
    int *p, back;
    EXPECT(!cudaMalloc(&p, 4) && !cudaStreamCreate(&stream));
    EXPECT(!cudaEventCreate(&event) && !cudaEventRecord(event));
    wild<<<1, 1>>>((int *)16);
    EXPECT(cudaDeviceSynchronize() == cudaErrorIllegalAddress);
    EXPECT(!cudaDeviceSynchronize()); // the first call reported it
    wild<<<1, 1, 0, stream>>>((int *)16);
    EXPECT(cudaStreamSynchronize(stream) == cudaErrorIllegalAddress);
    wild<<<1, 1>>>((int *)16);
    EXPECT(cudaMemcpy(&back, p, 4, cudaMemcpyDeviceToHost) ==
           cudaErrorIllegalAddress);
    wild<<<1, 1>>>((int *)16);
    EXPECT(cudaEventSynchronize(event) == cudaErrorIllegalAddress);
    EXPECT(cudaGetLastError() == cudaErrorIllegalAddress);
    wild<<<1, 1>>>((int *)16);
    EXPECT(cudaPeekAtLastError() == cudaErrorIllegalAddress);
    EXPECT(cudaGetLastError() == cudaErrorIllegalAddress);
    EXPECT(!cudaDeviceSynchronize() && !cudaGetLastError());
    EXPECT(!cudaStreamDestroy(stream) && !cudaEventDestroy(event));
    EXPECT(!cudaFree(p));
    return 0;
}

EXPORT int sticky_errors(void) {
    int *p = 0, count, host = 3;
    cudaMalloc(&p, 4);
    wild<<<1, 1>>>((int *)16);
    cudaDeviceSynchronize();
    cudaGetLastError();
    EXPECT(cudaGetLastError() == cudaErrorIllegalAddress);
    EXPECT(cudaDeviceSynchronize() == cudaErrorIllegalAddress);
    EXPECT(cudaMemcpy(p, &host, 4, cudaMemcpyDefault) ==
           cudaErrorIllegalAddress);
    EXPECT(cudaMalloc(&p, 4) == cudaErrorIllegalAddress);
    EXPECT(cudaFree(p) == cudaErrorIllegalAddress);
    EXPECT(!cudaGetDeviceCount(&count) && count == 1);
    EXPECT(!cudaDeviceReset() && !cudaMalloc(&p, 4) && !cudaFree(p));
    return 0;
}

CHECK(names_of_errors) {
    EXPECT(!strcmp(cudaGetErrorName(cudaErrorGraphExecUpdateFailure),
                   "cudaErrorGraphExecUpdateFailure"));
    EXPECT(!strcmp(cudaGetErrorString(cudaErrorMemoryAllocation),
                   "out of memory"));
    EXPECT(!strcmp(cudaGetErrorString((cudaError_t)12345),
                   "unrecognized error code"));
    return 0;
}

/* ---- the device --------------------------------------------------------- */

CHECK(properties_and_attributes_agree) {
    cudaDeviceProp p;
    int value;
    EXPECT(!cudaGetDeviceProperties(&p, 0));
    EXPECT(p.warpSize == 32 && p.major == 9 && p.maxThreadsDim[2] == 64);
    EXPECT(p.clockRate == 1000000); // kHz: clock64() counts nanoseconds
    EXPECT(p.deviceOverlap && p.concurrentKernels);
    EXPECT(p.sharedMemPerBlock == 48 << 10 && p.computeMode == 0);
    EXPECT(p.name[0] && p.multiProcessorCount > 0 && p.regsPerBlock == 65536);
#define SAME(attribute, member)                                          \
    EXPECT(!cudaDeviceGetAttribute(&value, cudaDevAttr##attribute, 0) && \
           value == (int)p.member)
    SAME(MaxThreadsPerBlock, maxThreadsPerBlock);
    SAME(MaxGridDimX, maxGridSize[0]);
    SAME(MultiProcessorCount, multiProcessorCount);
    SAME(ClockRate, clockRate);
    SAME(MemoryClockRate, memoryClockRate);
    SAME(GlobalMemoryBusWidth, memoryBusWidth);
    SAME(L2CacheSize, l2CacheSize);
    SAME(MaxSharedMemoryPerBlockOptin, sharedMemPerBlockOptin);
    SAME(CooperativeLaunch, cooperativeLaunch);
    SAME(ManagedMemory, managedMemory);
    SAME(MaxBlocksPerMultiprocessor, maxBlocksPerMultiProcessor);
    EXPECT_ERROR(cudaDeviceGetAttribute(&value, (cudaDeviceAttr)9999, 0),
                 cudaErrorInvalidValue);
    EXPECT_ERROR(cudaGetDeviceProperties(&p, 1), cudaErrorInvalidDevice);
    return 0;
}

CHECK(device_calls) {
    int device = -1, can = -1, version = 0;
    size_t size = 0;
    unsigned flags;
    cudaDeviceProp prop = {};
    char id[32];
    enum cudaFuncCache config;
    EXPECT(!cudaChooseDevice(&device, &prop) && device == 0);
    EXPECT_ERROR(cudaSetDevice(1), cudaErrorInvalidDevice);
    EXPECT(!cudaDeviceCanAccessPeer(&can, 0, 0) && can == 0);
    EXPECT_ERROR(cudaDeviceEnablePeerAccess(1, 0), cudaErrorInvalidDevice);
    EXPECT(!cudaRuntimeGetVersion(&version) && version == CUDART_VERSION);
    EXPECT(!cudaDriverGetVersion(&version) && version == CUDART_VERSION);
    EXPECT(!cudaDeviceSetLimit(cudaLimitMallocHeapSize, 1 << 28));
    EXPECT(!cudaDeviceGetLimit(&size, cudaLimitMallocHeapSize));
    EXPECT(size == 1 << 28);
    EXPECT_ERROR(cudaDeviceGetLimit(&size, (cudaLimit)99),
                 cudaErrorUnsupportedLimit);
    EXPECT(!cudaSetDeviceFlags(cudaDeviceScheduleBlockingSync));
    EXPECT(!cudaGetDeviceFlags(&flags));
    EXPECT((flags & cudaDeviceScheduleMask) == cudaDeviceScheduleBlockingSync);
    EXPECT(!cudaDeviceSetCacheConfig(cudaFuncCachePreferL1));
    EXPECT(!cudaDeviceGetCacheConfig(&config));
    EXPECT(config == cudaFuncCachePreferL1);
    EXPECT(!cudaDeviceSetSharedMemConfig(cudaSharedMemBankSizeEightByte));
    EXPECT(!cudaDeviceGetPCIBusId(id, sizeof id, 0));
    EXPECT(!cudaDeviceGetByPCIBusId(&device, id) && device == 0);
    EXPECT(!cudaProfilerStart() && !cudaProfilerStop());
    return 0;
}

/* ---- launches by function ----------------------------------------------- */

CHECK(launches_by_function) {
    float *x, b = 2;
    int n = 40;
    double *y, by = 3;
    EXPECT(!cudaMallocManaged(&x, 64 * sizeof *x));
    EXPECT(!cudaMallocManaged(&y, 8 * sizeof *y));
    for (int i = 0; i < 64; i++) x[i] = i;
    for (int i = 0; i < 8; i++) y[i] = i;
    void *arguments[] = {&x, &x, &b, &n};
    EXPECT(!cudaLaunchKernel(add, dim3(2), dim3(32), arguments, 0, 0));
    EXPECT(!cudaDeviceSynchronize() && x[39] == 41 && x[40] == 40);
    void *others[] = {&y, &by};
    EXPECT(!cudaLaunchKernel(scale<double, 5>, 1, 8, others));
    EXPECT(y[4] == 12 && y[5] == 5);
    EXPECT(!cudaLaunchKernel(nothing, 1, 1, 0));
    EXPECT_ERROR(cudaLaunchKernel(nothing, 1, 2000, 0),
                 cudaErrorInvalidConfiguration);
    EXPECT_ERROR(cudaLaunchKernel((const void *)0, 1, 1, 0),
                 cudaErrorInvalidDeviceFunction);
    int seven = 7, two = 2;
    void *references[] = {&seven, &two};
    EXPECT(!cudaLaunchKernel(by_reference, 1, 1, references) && seven == 9);
    void *pointer = (void *)simt::typed(add); // as rewrite.py writes it
    EXPECT(!cudaLaunchKernel(pointer, 1, 1, arguments) && x[0] == 4);
    cudaFree(x);
    cudaFree(y);
    return 0;
}

CHECK(launches_with_attributes) {
    float *x;
    EXPECT(!cudaMallocManaged(&x, 64 * sizeof *x));
    for (int i = 0; i < 64; i++) x[i] = i;
    cudaLaunchAttribute attributes[2] = {};
    cudaLaunchConfig_t config = {};
    config.gridDim = 2;
    config.blockDim = 32;
    config.attrs = attributes;
    config.numAttrs = 2;
    attributes[0].id = cudaLaunchAttributeProgrammaticStreamSerialization;
    attributes[1].id = cudaLaunchAttributePriority;
    // An int becomes a float, and a float * a const float *.
    EXPECT(!cudaLaunchKernelEx(&config, add, x, x, 5, 64) && x[63] == 68);
    attributes[0].id = cudaLaunchAttributeCooperative;
    attributes[0].val.cooperative = 1;
    EXPECT(!cudaLaunchKernelEx(&config, scale<float, 9>, x, 2.0f));
    EXPECT(x[1] == 12 && x[9] == 14 && x[33] == 76 && x[41] == 46);
    attributes[1].id = cudaLaunchAttributeClusterDimension;
    attributes[1].val.clusterDim.x = 2;
    attributes[1].val.clusterDim.y = attributes[1].val.clusterDim.z = 1;
    EXPECT_ERROR(cudaLaunchKernelEx(&config, nothing), cudaErrorNotSupported);
    cudaFree(x);
    return 0;
}

CHECK(attributes_of_kernels) {
    cudaFuncAttributes a;
    int *out;
    EXPECT(!cudaMalloc(&out, 256 * sizeof *out));
    with_shared<<<1, 256, 1024>>>(out);
    EXPECT(!cudaDeviceSynchronize());
    EXPECT(!cudaFuncGetAttributes(&a, with_shared));
    EXPECT(a.maxThreadsPerBlock == 1024 && a.sharedSizeBytes == 8192);
    EXPECT(a.maxDynamicSharedSizeBytes == 48 << 10 && a.numRegs == 0);
    EXPECT(!cudaFuncSetAttribute(
        with_shared, cudaFuncAttributeMaxDynamicSharedMemorySize, 100 << 10));
    EXPECT(!cudaFuncGetAttributes(&a, (const void *)with_shared));
    EXPECT(a.maxDynamicSharedSizeBytes == 100 << 10);
    EXPECT(!cudaFuncSetCacheConfig(with_shared, cudaFuncCachePreferShared));
    EXPECT(!cudaFuncSetAttribute(with_shared,
                                 cudaFuncAttributePreferredSharedMemoryCarveout,
                                 cudaSharedmemCarveoutMaxShared));
    EXPECT_ERROR(cudaFuncSetAttribute(
                     with_shared, cudaFuncAttributeMaxDynamicSharedMemorySize,
                     227 << 10), // too much together with the kernel's 8 KB
                 cudaErrorInvalidValue);
    EXPECT_ERROR(cudaFuncGetAttributes(&a, (const void *)0),
                 cudaErrorInvalidDeviceFunction);
    cudaFree(out);
    return 0;
}

/* ---- occupancy ---------------------------------------------------------- */

static size_t four_bytes_a_thread(int threads) { return threads * 4; }

CHECK(occupancy_by_the_rules_of_an_sm_90) {
    int blocks, grid, size, processors;
    size_t bytes;
    EXPECT(!cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount,
                                   0));
    EXPECT(processors == 2); // the caller set this number
#define BLOCKS(threads, shared)                                               \
    (cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, nothing, threads, \
                                                   shared)                    \
         ? -1                                                                 \
         : blocks)
    EXPECT(BLOCKS(1024, 0) == 2 && BLOCKS(256, 0) == 8 && BLOCKS(257, 0) == 7);
    EXPECT(BLOCKS(768, 0) == 2 && BLOCKS(32, 0) == 32 && BLOCKS(1, 0) == 32);
    EXPECT(BLOCKS(128, 48 << 10) == 4); // 4 times 49 KB fit into 228
    EXPECT(BLOCKS(128, 49 << 10) == 0); // a kernel must opt in for more
    EXPECT(BLOCKS(2000, 0) == 0 && BLOCKS(0, 0) == -1);
    cudaGetLastError();
    EXPECT(!cudaOccupancyMaxPotentialBlockSize(&grid, &size, nothing, 0, 0));
    EXPECT(size == 1024 && grid == 4);
    EXPECT(!cudaOccupancyMaxPotentialBlockSize(&grid, &size, nothing, 0, 200));
    EXPECT(size == 128 && grid == 2 * 16); // 192 threads would leave some idle
    EXPECT(!cudaOccupancyMaxPotentialBlockSizeVariableSMem(
        &grid, &size, nothing, four_bytes_a_thread));
    EXPECT(size == 1024);
    EXPECT(!cudaOccupancyAvailableDynamicSMemPerBlock(&bytes, nothing, 8, 128));
    EXPECT(bytes == 28160); // 228 KB / 8 - 1 KB
    return 0;
}

CHECK(cooperative_launches_take_what_occupancy_says) {
    int blocks;
    cudaDeviceProp p;
    EXPECT(!cudaGetDeviceProperties(&p, 0));
    for (int threads : {32, 256, 1024}) {
        EXPECT(!cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, nothing,
                                                              threads, 0));
        const int most = blocks * p.multiProcessorCount;
        EXPECT(!cudaLaunchCooperativeKernel(nothing, most, threads, 0));
        EXPECT(!cudaDeviceSynchronize());
        EXPECT_ERROR(cudaLaunchCooperativeKernel(nothing, most + 1, threads, 0),
                     cudaErrorCooperativeLaunchTooLarge);
    }
    return 0;
}

/* These kernels need not be fast, and -O1 compiles them sooner than -O3. */
/* g++: -O1 */
