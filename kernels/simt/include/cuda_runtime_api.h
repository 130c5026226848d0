/* cuda_runtime_api.h -- programs that include only the API get all of it. */
#ifndef SIMT_CUDA_RUNTIME_API_H
#define SIMT_CUDA_RUNTIME_API_H
#include "cuda_runtime.h"
#endif
