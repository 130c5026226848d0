/* builtin_types.h -- an old name for what cuda_runtime.h brings. */
#ifndef SIMT_BUILTIN_TYPES_H
#define SIMT_BUILTIN_TYPES_H
#include "cuda_runtime.h"
#endif
