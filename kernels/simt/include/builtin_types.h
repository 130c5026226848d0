/* builtin_types.h -- an old header; cuda_runtime.h has everything. */
#ifndef SIMT_BUILTIN_TYPES_H
#define SIMT_BUILTIN_TYPES_H
#include "cuda_runtime.h"
#endif
