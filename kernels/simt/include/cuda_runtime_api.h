/* cuda_runtime_api.h -- programs that ask for the API alone get all of it. */
#ifndef SIMT_CUDA_RUNTIME_API_H
#define SIMT_CUDA_RUNTIME_API_H
#include "cuda_runtime.h"
#endif
