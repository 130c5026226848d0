/* device_launch_parameters.h -- threadIdx and similar variables, for editors;
 * they are already declared. */
#ifndef SIMT_DEVICE_LAUNCH_PARAMETERS_H
#define SIMT_DEVICE_LAUNCH_PARAMETERS_H
#include "cuda_runtime.h"
#endif
