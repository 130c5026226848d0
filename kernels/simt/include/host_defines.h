/* host_defines.h -- a separate header in the toolkit; under g++, cuda_runtime.h
 * has everything. */
#ifndef SIMT_HOST_DEFINES_H
#define SIMT_HOST_DEFINES_H
#include "cuda_runtime.h"
#endif
