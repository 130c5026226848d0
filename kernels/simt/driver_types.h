/* driver_types.h -- cudaError_t and its like. */
#ifndef SIMT_DRIVER_TYPES_H
#define SIMT_DRIVER_TYPES_H
#include "cuda_runtime.h"
#endif
