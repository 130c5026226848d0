/* math_functions.h -- an old header; cuda_runtime.h has everything. */
#ifndef SIMT_MATH_FUNCTIONS_H
#define SIMT_MATH_FUNCTIONS_H
#include "cuda_runtime.h"
#endif
