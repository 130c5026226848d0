/* device_launch_parameters.h -- threadIdx and its like, for editors; all is
 * known. */
#ifndef SIMT_DEVICE_LAUNCH_PARAMETERS_H
#define SIMT_DEVICE_LAUNCH_PARAMETERS_H
#include "cuda_runtime.h"
#endif
