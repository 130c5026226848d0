/* cuda_device_runtime_api.h -- the toolkit splits what is all in cuda_runtime.h
 * here. */
#ifndef SIMT_CUDA_DEVICE_RUNTIME_API_H
#define SIMT_CUDA_DEVICE_RUNTIME_API_H
#include "cuda_runtime.h"
#endif
