/* sm_60_atomic_functions.h -- an old name for what cuda_runtime.h brings. */
#ifndef SIMT_SM_60_ATOMIC_FUNCTIONS_H
#define SIMT_SM_60_ATOMIC_FUNCTIONS_H
#include "cuda_runtime.h"
#endif
