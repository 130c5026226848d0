/* math_functions.h -- an old name for what cuda_runtime.h brings. */
#ifndef SIMT_MATH_FUNCTIONS_H
#define SIMT_MATH_FUNCTIONS_H
#include "cuda_runtime.h"
#endif
