/* vector_functions.h -- an old header; cuda_runtime.h has everything. */
#ifndef SIMT_VECTOR_FUNCTIONS_H
#define SIMT_VECTOR_FUNCTIONS_H
#include "cuda_runtime.h"
#endif
