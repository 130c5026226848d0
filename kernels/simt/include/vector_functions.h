/* vector_functions.h -- an old name for what cuda_runtime.h brings. */
#ifndef SIMT_VECTOR_FUNCTIONS_H
#define SIMT_VECTOR_FUNCTIONS_H
#include "cuda_runtime.h"
#endif
