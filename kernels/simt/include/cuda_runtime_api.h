/* cuda_runtime_api.h -- a separate header in the toolkit; under g++,
 * cuda_runtime.h has everything. */
#ifndef SIMT_CUDA_RUNTIME_API_H
#define SIMT_CUDA_RUNTIME_API_H
#include "cuda_runtime.h"
#endif
