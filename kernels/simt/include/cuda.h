/* cuda.h -- the types of the driver API. Its functions are not simulated, but
 * programs that use the runtime API also include this header for its names. */
#ifndef SIMT_CUDA_H
#define SIMT_CUDA_H
#include "cuda_runtime.h"

#define CUDA_VERSION CUDART_VERSION

typedef int CUdevice;
typedef unsigned long long CUdeviceptr;
typedef struct CUctx_st *CUcontext;
typedef struct CUmod_st *CUmodule;
typedef struct CUfunc_st *CUfunction;
typedef cudaStream_t CUstream;
typedef cudaEvent_t CUevent;

typedef enum cudaError_enum {
    CUDA_SUCCESS = 0,
    CUDA_ERROR_INVALID_VALUE = 1,
    CUDA_ERROR_OUT_OF_MEMORY = 2,
    CUDA_ERROR_NOT_INITIALIZED = 3,
    CUDA_ERROR_DEINITIALIZED = 4,
    CUDA_ERROR_NO_DEVICE = 100,
    CUDA_ERROR_INVALID_DEVICE = 101,
    CUDA_ERROR_NOT_READY = 600,
    CUDA_ERROR_ILLEGAL_ADDRESS = 700,
    CUDA_ERROR_LAUNCH_FAILED = 719,
    CUDA_ERROR_NOT_SUPPORTED = 801,
    CUDA_ERROR_UNKNOWN = 999
} CUresult;

#define SIMT_MISSING(name)                                                   \
    template <class... Any>                                                  \
    __attribute__((error(#name "(): the driver API is not simulated on the " \
                               "CPU"))) CUresult                             \
    name(Any...);
SIMT_MISSING(cuInit)
SIMT_MISSING(cuDeviceGet)
SIMT_MISSING(cuDeviceGetCount)
SIMT_MISSING(cuDeviceGetName)
SIMT_MISSING(cuDeviceGetAttribute)
SIMT_MISSING(cuCtxCreate)
SIMT_MISSING(cuCtxDestroy)
SIMT_MISSING(cuCtxSynchronize)
SIMT_MISSING(cuModuleUnload)
SIMT_MISSING(cuModuleLoad)
SIMT_MISSING(cuModuleLoadData)
SIMT_MISSING(cuModuleLoadDataEx)
SIMT_MISSING(cuModuleGetFunction)
SIMT_MISSING(cuModuleGetGlobal)
SIMT_MISSING(cuLaunchKernel)
SIMT_MISSING(cuMemAlloc)
SIMT_MISSING(cuMemFree)
SIMT_MISSING(cuMemcpyHtoD)
SIMT_MISSING(cuMemcpyDtoH)
SIMT_MISSING(cuMemMap)
SIMT_MISSING(cuMemCreate)
SIMT_MISSING(cuMemAddressReserve)
SIMT_MISSING(cuGetErrorName)
SIMT_MISSING(cuGetErrorString)
#undef SIMT_MISSING

#define SIMT_MISSING(name)                          \
    typedef struct SimtMissing name __attribute__(( \
        unavailable("the driver API is not simulated on the CPU")));
SIMT_MISSING(CUmemAllocationProp)
SIMT_MISSING(CUmemAccessDesc)
SIMT_MISSING(CUmemGenericAllocationHandle)
SIMT_MISSING(CUmemAllocationHandleType)
SIMT_MISSING(CUlinkState)
SIMT_MISSING(CUjit_option)
#undef SIMT_MISSING
#endif
