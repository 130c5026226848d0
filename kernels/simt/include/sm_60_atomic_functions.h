/* sm_60_atomic_functions.h -- an old header; cuda_runtime.h has everything. */
#ifndef SIMT_SM_60_ATOMIC_FUNCTIONS_H
#define SIMT_SM_60_ATOMIC_FUNCTIONS_H
#include "cuda_runtime.h"
#endif
