/* cuda_api.cpp -- errors; see cuda_api.h. */
#include "../runtime/runtime.h"

using namespace simt;

static thread_local cudaError_t last_error = cudaSuccess;

cudaError_t simt::set_error(cudaError_t error) {
    if (error != cudaSuccess) last_error = error;
    return error;
}

cudaError_t cudaGetLastError(void) {
    if (const cudaError_t error = sticky_error()) return error;
    const cudaError_t error = last_error;
    last_error = cudaSuccess;
    if (error) pending_error(); // an error is reported only once
    return error;
}

cudaError_t cudaPeekAtLastError(void) {
    if (const cudaError_t error = sticky_error()) return error;
    return last_error;
}

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
