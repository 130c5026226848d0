/* cuda_core.h -- errors, and the few names that kernels share with the host. */
#ifndef SIMT_CUDA_CORE_H
#define SIMT_CUDA_CORE_H
#include "../runtime/engine.h"

// The enum has a fixed type because a program may pass any number. An unknown
// number gives cudaErrorInvalidValue.
enum cudaError : int {
#define SIMT_ERROR(value, name, text) name = value,
#include "cuda_errors.h"
};
typedef enum cudaError cudaError_t;
typedef struct CUevent_st *cudaEvent_t;

enum cudaMemcpyKind : int {
    cudaMemcpyHostToHost = 0,
    cudaMemcpyHostToDevice = 1,
    cudaMemcpyDeviceToHost = 2,
    cudaMemcpyDeviceToDevice = 3,
    cudaMemcpyDefault = 4
};

/* The CUDA version that defines these names and numbers. */
#define CUDART_VERSION 13000

/* These are C++ functions, not extern "C". If a PyTorch with CUDA is loaded,
 * the process also has the real cudaMalloc(). The dynamic linker would prefer
 * that function to this one if both had the same symbol. */
#pragma GCC visibility push(default)

cudaError_t cudaGetLastError(void);
cudaError_t cudaPeekAtLastError(void);
const char *cudaGetErrorName(cudaError_t error);
const char *cudaGetErrorString(cudaError_t error);

/* Return the time of a monotonic clock in nanoseconds. */
long long simt_nanoseconds(void);

#pragma GCC visibility pop

#endif
