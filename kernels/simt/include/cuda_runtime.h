/* cuda_runtime.h -- stands in for the toolkit's under g++. */
#ifndef SIMT_CUDA_RUNTIME_H
#define SIMT_CUDA_RUNTIME_H
#define __CUDA_RUNTIME_H__ /* programs ask whether the toolkit's was included \
                            */
#include "simt.h"
#endif
