/* cuda_device_runtime_api.h -- a part in the toolkit; here cuda_runtime.h has
 * everything. */
#ifndef SIMT_CUDA_DEVICE_RUNTIME_API_H
#define SIMT_CUDA_DEVICE_RUNTIME_API_H
#include "cuda_runtime.h"
#endif
