/* cuda_runtime.h -- replaces the toolkit's header under g++. */
#ifndef SIMT_CUDA_RUNTIME_H
#define SIMT_CUDA_RUNTIME_H
#define __CUDA_RUNTIME_H__ /* programs test for this guard */
#include "simt.h"
#endif
