/* simt.h -- CUDA C for g++: what nvcc would have known by itself.
 *
 *     engine.h             fibers, barriers, launches
 *     vector_types.h       float4, dim3, ...
 *     builtins.h           __global__, threadIdx, __syncthreads(), ...
 *     device_warp.h        shuffles and votes
 *     device_atomics.h     atomicAdd() and its like
 *     device_math.h        fmaxf(), __expf(), erfinv(), min(), ...
 *     device_intrinsics.h  __fadd_rz(), __float2int_rn(), __popc(), __vadd4()
 *     device_memory.h      __ldg(), printf(), malloc()
 *     cuda_api.h           cudaMalloc() and its like
 *
 * Under nvcc, too, a program includes these by name: cooperative_groups.h,
 * cuda_fp16.h, cuda_bf16.h, curand_kernel.h, cuda/atomic, math_constants.h,
 * nvtx3/nvToolsExt.h.
 *
 * lib/weft/rewrite.py turns the few things that are not C++ (<<<>>>,
 * __shared__) into calls of these. Only the three cheapest C headers are
 * included: <math.h> alone would double the time that a small program takes to
 * compile. For the same reason what is rare is only declared, and lies in the
 * runtime.
 *
 * __CUDACC__ and __CUDA_ARCH__ are not defined here: `#ifdef __CUDACC__` fences
 * code off that only a GPU can run. For whole programs, which were not written
 * with that in mind, lib/weft/program.py decides. */
#ifndef SIMT_H
#define SIMT_H
#include "builtins.h"
#include "cuda_api.h"
#include "engine.h"
#include "simt_runtime.h"
/* A program's .cpp, which has min() and its like of its own: nvcc, too, leaves
 * those out where it does not compile CUDA C. */
#ifndef SIMT_HOST_FILE
#include "device_atomics.h"
#include "device_intrinsics.h"
#include "device_math.h"
#include "device_memory.h"
#include "device_warp.h"
#endif
#endif
