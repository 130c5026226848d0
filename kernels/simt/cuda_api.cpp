/* cuda_api.cpp -- errors, the device, streams, events: see cuda_api.h. */
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <new>

#include "runtime.h"

using namespace simt;

/* ---- errors ------------------------------------------------------------- */

static thread_local cudaError_t last_error = cudaSuccess;

cudaError_t simt::set_error(cudaError_t error) {
    if (error != cudaSuccess) last_error = error;
    return error;
}

cudaError_t cudaGetLastError(void) {
    const cudaError_t error = last_error;
    last_error = cudaSuccess;
    return error;
}

cudaError_t cudaPeekAtLastError(void) { return last_error; }

const char *cudaGetErrorName(cudaError_t error) {
    switch (error) {
#define SIMT_ERROR(value, name, text) \
    case name: return #name;
#include "cuda_errors.h"
    }
    return "unrecognized error code";
}

const char *cudaGetErrorString(cudaError_t error) {
    switch (error) {
#define SIMT_ERROR(value, name, text) \
    case name: return text;
#include "cuda_errors.h"
    }
    return "unrecognized error code";
}

/* ---- the device --------------------------------------------------------- */

cudaError_t cudaGetDeviceCount(int *count) {
    if (!count) return set_error(cudaErrorInvalidValue);
    *count = 1;
    return cudaSuccess;
}

cudaError_t cudaGetDevice(int *device) {
    if (!device) return set_error(cudaErrorInvalidValue);
    *device = 0;
    return cudaSuccess;
}

cudaError_t cudaSetDevice(int device) {
    return set_error(device == 0 ? cudaSuccess : cudaErrorInvalidDevice);
}

cudaError_t cudaDeviceSynchronize(void) { return cudaSuccess; }
cudaError_t cudaDeviceReset(void) { return cudaSuccess; }

/* What the machine is called. */
static void name_device(char *name, size_t size) {
    char line[256], model[200] = "CPU";
    FILE *file = fopen("/proc/cpuinfo", "r");
    while (file && fgets(line, sizeof line, file))
        if (sscanf(line, "model name : %199[^\n]", model) == 1) break;
    if (file) fclose(file);
    snprintf(name, size, "SIMT on %s", model);
}

static size_t physical_memory() {
    return (size_t)sysconf(_SC_PHYS_PAGES) * (size_t)sysconf(_SC_PAGESIZE);
}

cudaError_t cudaGetDeviceProperties(struct cudaDeviceProp *prop, int device) {
    if (!prop) return set_error(cudaErrorInvalidValue);
    if (device != 0) return set_error(cudaErrorInvalidDevice);
    memset(prop, 0, sizeof *prop);
    name_device(prop->name, sizeof prop->name);
    prop->totalGlobalMem = physical_memory();
    prop->sharedMemPerBlock = STATIC_SHARED;
    prop->sharedMemPerBlockOptin = DYNAMIC_SHARED;
    prop->sharedMemPerMultiprocessor = 228 << 10;
    prop->totalConstMem = 64 << 10;
    prop->regsPerBlock = 65536;
    prop->warpSize = WARP;
    prop->maxThreadsPerBlock = MAX_THREADS;
    prop->maxThreadsDim[0] = prop->maxThreadsDim[1] = MAX_THREADS;
    prop->maxThreadsDim[2] = 64;
    prop->maxGridSize[0] = 0x7fffffff;
    prop->maxGridSize[1] = prop->maxGridSize[2] = 65535;
    prop->major = 9;
    prop->multiProcessorCount = simt_threads();
    prop->maxThreadsPerMultiProcessor = 2048;
    prop->integrated = prop->canMapHostMemory = 1;
    prop->unifiedAddressing = prop->managedMemory = 1;
    return cudaSuccess;
}

cudaError_t cudaDeviceGetAttribute(int *value, enum cudaDeviceAttr attribute,
                                   int device) {
    struct cudaDeviceProp p;
    if (!value) return set_error(cudaErrorInvalidValue);
    const cudaError_t error = cudaGetDeviceProperties(&p, device);
    if (error) return error;
    switch (attribute) {
    case cudaDevAttrMaxThreadsPerBlock: *value = p.maxThreadsPerBlock; break;
    case cudaDevAttrMaxBlockDimX: *value = p.maxThreadsDim[0]; break;
    case cudaDevAttrMaxBlockDimY: *value = p.maxThreadsDim[1]; break;
    case cudaDevAttrMaxBlockDimZ: *value = p.maxThreadsDim[2]; break;
    case cudaDevAttrMaxGridDimX: *value = p.maxGridSize[0]; break;
    case cudaDevAttrMaxGridDimY: *value = p.maxGridSize[1]; break;
    case cudaDevAttrMaxGridDimZ: *value = p.maxGridSize[2]; break;
    case cudaDevAttrMaxSharedMemoryPerBlock:
        *value = (int)p.sharedMemPerBlock;
        break;
    case cudaDevAttrWarpSize: *value = p.warpSize; break;
    case cudaDevAttrMaxRegistersPerBlock: *value = p.regsPerBlock; break;
    case cudaDevAttrMultiProcessorCount: *value = p.multiProcessorCount; break;
    case cudaDevAttrMaxThreadsPerMultiProcessor:
        *value = p.maxThreadsPerMultiProcessor;
        break;
    case cudaDevAttrComputeCapabilityMajor: *value = p.major; break;
    case cudaDevAttrComputeCapabilityMinor: *value = p.minor; break;
    case cudaDevAttrMaxSharedMemoryPerMultiprocessor:
        *value = (int)p.sharedMemPerMultiprocessor;
        break;
    case cudaDevAttrMaxSharedMemoryPerBlockOptin:
        *value = (int)p.sharedMemPerBlockOptin;
        break;
    default: return set_error(cudaErrorInvalidValue);
    }
    return cudaSuccess;
}

enum { CUDA_VERSION_LIKE = 13000 }; // whose numbers and names these are

cudaError_t cudaDriverGetVersion(int *version) {
    return cudaRuntimeGetVersion(version);
}

cudaError_t cudaRuntimeGetVersion(int *version) {
    if (!version) return set_error(cudaErrorInvalidValue);
    *version = CUDA_VERSION_LIKE;
    return cudaSuccess;
}

/* ---- streams and events ------------------------------------------------- */

struct CUstream_st {
    char unused;
};

struct CUevent_st {
    long long time; /* nanoseconds; 0: not recorded yet */
};

long long simt_nanoseconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000000000ll + now.tv_nsec;
}

cudaError_t cudaStreamCreate(cudaStream_t *stream) {
    if (!stream) return set_error(cudaErrorInvalidValue);
    *stream = new (std::nothrow) CUstream_st();
    return set_error(*stream ? cudaSuccess : cudaErrorMemoryAllocation);
}

cudaError_t cudaStreamDestroy(cudaStream_t stream) {
    if (!stream || stream == cudaStreamLegacy || stream == cudaStreamPerThread)
        return set_error(cudaErrorInvalidResourceHandle);
    delete stream;
    return cudaSuccess;
}

cudaError_t cudaEventCreate(cudaEvent_t *event) {
    if (!event) return set_error(cudaErrorInvalidValue);
    *event = new (std::nothrow) CUevent_st();
    return set_error(*event ? cudaSuccess : cudaErrorMemoryAllocation);
}

cudaError_t cudaEventDestroy(cudaEvent_t event) {
    if (!event) return set_error(cudaErrorInvalidResourceHandle);
    delete event;
    return cudaSuccess;
}

cudaError_t simt_event_record(cudaEvent_t event) {
    if (!event) return set_error(cudaErrorInvalidResourceHandle);
    event->time = simt_nanoseconds();
    return cudaSuccess;
}

cudaError_t cudaEventElapsedTime(float *ms, cudaEvent_t from, cudaEvent_t to) {
    if (!ms) return set_error(cudaErrorInvalidValue);
    if (!from || !to || !from->time || !to->time)
        return set_error(cudaErrorInvalidResourceHandle);
    *ms = (float)((double)(to->time - from->time) * 1e-6);
    return cudaSuccess;
}

/* ---- kernels ------------------------------------------------------------ */

cudaError_t cudaFuncSetAttribute(const void *function,
                                 enum cudaFuncAttribute attribute, int value) {
    Kernel *kernel = kernel_of(function);
    if (!kernel) return set_error(cudaErrorInvalidDeviceFunction);
    if (attribute == cudaFuncAttributePreferredSharedMemoryCarveout)
        return cudaSuccess; // a hint
    if (attribute != cudaFuncAttributeMaxDynamicSharedMemorySize || value < 0 ||
        value > DYNAMIC_SHARED)
        return set_error(cudaErrorInvalidValue);
    kernel->max_dynamic_shared = value;
    return cudaSuccess;
}
