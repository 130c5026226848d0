/* cuda_runtime.h -- stands in for the toolkit's under g++. */
#ifndef SIMT_CUDA_RUNTIME_H
#define SIMT_CUDA_RUNTIME_H
#include "simt.h"
#endif
