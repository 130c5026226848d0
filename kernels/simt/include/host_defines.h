/* host_defines.h -- the toolkit splits what is all in cuda_runtime.h here. */
#ifndef SIMT_HOST_DEFINES_H
#define SIMT_HOST_DEFINES_H
#include "cuda_runtime.h"
#endif
