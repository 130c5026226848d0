/* cuda_api.h -- the host side of CUDA, as far as it has a meaning on a CPU.
 *
 * There is one device, number 0, and its memory is the host's. Everything is
 * finished when its call returns, so streams and events keep their order by
 * themselves and the asynchronous calls are the synchronous ones. Errors, their
 * numbers and texts are CUDA's; cudaGetLastError() is per host thread. Two
 * differences: no error is sticky (the process survives), and a launch that
 * Ctrl-C or a deadlock ended is cudaErrorLaunchTimeout. */
#ifndef SIMT_CUDA_API_H
#define SIMT_CUDA_API_H
#include "engine.h"

enum cudaError {
#define SIMT_ERROR(value, name, text) name = value,
#include "cuda_errors.h"
};
typedef enum cudaError cudaError_t;

enum cudaMemcpyKind {
    cudaMemcpyHostToHost = 0,
    cudaMemcpyHostToDevice = 1,
    cudaMemcpyDeviceToHost = 2,
    cudaMemcpyDeviceToDevice = 3,
    cudaMemcpyDefault = 4
};

enum cudaFuncAttribute {
    cudaFuncAttributeMaxDynamicSharedMemorySize = 8,
    cudaFuncAttributePreferredSharedMemoryCarveout = 9
};

enum cudaMemoryType {
    cudaMemoryTypeUnregistered = 0,
    cudaMemoryTypeHost = 1,
    cudaMemoryTypeDevice = 2,
    cudaMemoryTypeManaged = 3
};

struct cudaPointerAttributes {
    enum cudaMemoryType type;
    int device;
    void *devicePointer, *hostPointer;
};

/* The numbers of cudaDeviceGetAttribute() that are answered. */
enum cudaDeviceAttr {
    cudaDevAttrMaxThreadsPerBlock = 1,
    cudaDevAttrMaxBlockDimX = 2,
    cudaDevAttrMaxBlockDimY = 3,
    cudaDevAttrMaxBlockDimZ = 4,
    cudaDevAttrMaxGridDimX = 5,
    cudaDevAttrMaxGridDimY = 6,
    cudaDevAttrMaxGridDimZ = 7,
    cudaDevAttrMaxSharedMemoryPerBlock = 8,
    cudaDevAttrWarpSize = 10,
    cudaDevAttrMaxRegistersPerBlock = 12,
    cudaDevAttrMultiProcessorCount = 16,
    cudaDevAttrMaxThreadsPerMultiProcessor = 39,
    cudaDevAttrComputeCapabilityMajor = 75,
    cudaDevAttrComputeCapabilityMinor = 76,
    cudaDevAttrMaxSharedMemoryPerMultiprocessor = 81,
    cudaDevAttrMaxSharedMemoryPerBlockOptin = 97
};

struct cudaDeviceProp {
    char name[256];
    size_t totalGlobalMem, sharedMemPerBlock, sharedMemPerBlockOptin;
    size_t sharedMemPerMultiprocessor, totalConstMem;
    int regsPerBlock, warpSize, maxThreadsPerBlock;
    int maxThreadsDim[3], maxGridSize[3];
    int major, minor;
    int multiProcessorCount, maxThreadsPerMultiProcessor;
    int integrated, canMapHostMemory, unifiedAddressing, managedMemory;
    int concurrentKernels, asyncEngineCount, ECCEnabled;
    int pciBusID, pciDeviceID, pciDomainID;
    int l2CacheSize, memoryBusWidth;
};

typedef struct CUevent_st *cudaEvent_t;

enum {
    cudaStreamDefault = 0,
    cudaStreamNonBlocking = 1,
    cudaEventDefault = 0,
    cudaEventBlockingSync = 1,
    cudaEventDisableTiming = 2,
    cudaHostAllocDefault = 0
};
#define cudaStreamLegacy ((cudaStream_t)1)
#define cudaStreamPerThread ((cudaStream_t)2)

/* C++ functions, not extern "C": beside a PyTorch with CUDA there is a real
 * cudaMalloc() in the process, and the dynamic linker would prefer that one to
 * ours if both had the same symbol. */
#pragma GCC visibility push(default)

cudaError_t cudaGetLastError(void);
cudaError_t cudaPeekAtLastError(void);
const char *cudaGetErrorName(cudaError_t error);
const char *cudaGetErrorString(cudaError_t error);

cudaError_t cudaGetDeviceCount(int *count);
cudaError_t cudaGetDevice(int *device);
cudaError_t cudaSetDevice(int device);
cudaError_t cudaDeviceSynchronize(void);
cudaError_t cudaDeviceReset(void);
cudaError_t cudaGetDeviceProperties(struct cudaDeviceProp *prop, int device);
cudaError_t cudaDeviceGetAttribute(int *value, enum cudaDeviceAttr attribute,
                                   int device);
cudaError_t cudaDriverGetVersion(int *version);
cudaError_t cudaRuntimeGetVersion(int *version);

/* 256-byte aligned. More than the machine's memory: out of memory. */
cudaError_t cudaMalloc(void **pointer, size_t size);
cudaError_t cudaMallocHost(void **pointer, size_t size);
cudaError_t cudaFree(void *pointer);
cudaError_t cudaFreeHost(void *pointer);
cudaError_t cudaMallocAsync(void **pointer, size_t size, cudaStream_t stream);
cudaError_t cudaFreeAsync(void *pointer, cudaStream_t stream);
cudaError_t cudaMemGetInfo(size_t *free, size_t *total);
cudaError_t cudaPointerGetAttributes(struct cudaPointerAttributes *attributes,
                                     const void *pointer);

cudaError_t cudaMemcpy(void *to, const void *from, size_t size,
                       enum cudaMemcpyKind kind);
cudaError_t cudaMemset(void *to, int byte, size_t size);

cudaError_t cudaStreamCreate(cudaStream_t *stream);
cudaError_t cudaStreamDestroy(cudaStream_t stream);

cudaError_t cudaEventCreate(cudaEvent_t *event);
cudaError_t cudaEventDestroy(cudaEvent_t event);
cudaError_t cudaEventElapsedTime(float *ms, cudaEvent_t from, cudaEvent_t to);
cudaError_t simt_event_record(cudaEvent_t event);

/* `kernel` is a pointer to a __global__ function. */
cudaError_t cudaFuncSetAttribute(const void *kernel,
                                 enum cudaFuncAttribute attribute, int value);

/* A clock that only goes forward. */
long long simt_nanoseconds(void);

#pragma GCC visibility pop

/* ---- what is the same as another call, since nothing is asynchronous ---- */

static inline cudaError_t cudaMemcpyAsync(void *to, const void *from,
                                          size_t size, enum cudaMemcpyKind kind,
                                          cudaStream_t = 0) {
    return cudaMemcpy(to, from, size, kind);
}
static inline cudaError_t cudaMemsetAsync(void *to, int byte, size_t size,
                                          cudaStream_t = 0) {
    return cudaMemset(to, byte, size);
}
static inline cudaError_t cudaStreamCreateWithFlags(cudaStream_t *stream,
                                                    unsigned) {
    return cudaStreamCreate(stream);
}
static inline cudaError_t cudaStreamSynchronize(cudaStream_t) {
    return cudaSuccess;
}
static inline cudaError_t cudaStreamQuery(cudaStream_t) { return cudaSuccess; }
static inline cudaError_t cudaStreamWaitEvent(cudaStream_t, cudaEvent_t,
                                              unsigned = 0) {
    return cudaSuccess;
}
static inline cudaError_t cudaEventCreateWithFlags(cudaEvent_t *event,
                                                   unsigned) {
    return cudaEventCreate(event);
}
static inline cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t = 0) {
    return simt_event_record(event);
}
static inline cudaError_t cudaEventSynchronize(cudaEvent_t) {
    return cudaSuccess;
}
static inline cudaError_t cudaEventQuery(cudaEvent_t) { return cudaSuccess; }

/* ---- typed pointers, as nvcc takes them --------------------------------- */

template <class T> cudaError_t cudaMalloc(T **pointer, size_t size) {
    return cudaMalloc((void **)pointer, size);
}
template <class T> cudaError_t cudaMallocHost(T **pointer, size_t size) {
    return cudaMallocHost((void **)pointer, size);
}
template <class T>
cudaError_t cudaMallocAsync(T **pointer, size_t size, cudaStream_t stream) {
    return cudaMallocAsync((void **)pointer, size, stream);
}
template <class... P>
cudaError_t cudaFuncSetAttribute(void (*kernel)(P...),
                                 enum cudaFuncAttribute attribute, int value) {
    return cudaFuncSetAttribute((const void *)kernel, attribute, value);
}

/* A __constant__ or __device__ variable is an ordinary one here. */
template <class T>
cudaError_t cudaMemcpyToSymbol(T &symbol, const void *from, size_t size,
                               size_t offset = 0,
                               enum cudaMemcpyKind = cudaMemcpyHostToDevice) {
    return cudaMemcpy((char *)&symbol + offset, from, size, cudaMemcpyDefault);
}
template <class T>
cudaError_t cudaMemcpyFromSymbol(void *to, const T &symbol, size_t size,
                                 size_t offset = 0,
                                 enum cudaMemcpyKind = cudaMemcpyDeviceToHost) {
    return cudaMemcpy(to, (const char *)&symbol + offset, size,
                      cudaMemcpyDefault);
}

#endif
