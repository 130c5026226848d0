/* simt.h -- CUDA C for g++: what nvcc would have known by itself.
 *
 *     engine.h           fibers, barriers, launches
 *     vector_types.h     float4, dim3, ...
 *     builtins.h         __global__, threadIdx, __syncthreads(), ...
 *     device_warp.h      shuffles and votes
 *     device_atomics.h   atomicAdd() and its like
 *     device_math.h      fmaxf(), __expf(), erfinv(), min(), ...
 *     device_intrinsics.h  __fadd_rz(), __float2int_rn(), __popc(), __vadd4()
 *     device_memory.h    __ldg(), printf(), malloc()
 *     cuda_api.h         cudaMalloc() and its like
 *
 * lib/weft/rewrite.py turns the few things that are not C++ (<<<>>>,
 * __shared__) into calls of these. Only the three cheapest C headers are
 * included: <math.h> alone would double the time that a small program takes to
 * compile. */
#ifndef SIMT_H
#define SIMT_H
#include "builtins.h"
#include "cuda_api.h"
#include "device_atomics.h"
#include "device_intrinsics.h"
#include "device_math.h"
#include "device_memory.h"
#include "device_warp.h"
#include "engine.h"
#include "simt_runtime.h"
#endif
