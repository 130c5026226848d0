/* simt.h -- CUDA C for g++: what nvcc would have known by itself.
 *
 *     engine.h             fibers, barriers, launches
 *     builtins.h           __global__, threadIdx, __syncthreads(), ...
 *     device_*.h           what kernels call: shuffles and votes, atomics,
 *                          mathematics, intrinsics, printf(), malloc()
 *     cuda_api.h           what the host calls, cuda_*.h: cudaMalloc(), ...
 *     later.*              copies and products that a kernel waits for
 *     simt_runtime.h       what only this runtime has: orders, limits, faults
 *     program.h, program/  what a whole program has besides
 *     include/             the headers that programs include by name: those of
 *                          the toolkit, and assert.h; what they share or are
 *                          made of is cuda_atomic.h, cuda_barrier.h,
 *                          cuda_pipelines.h and cooperative_tiles.h
 *
 * The .cpp files are one library, the runtime; runtime.h and signals.h are what
 * they share.
 *
 *     runtime.cpp, block.cpp, grid.cpp, pool.cpp    launches, their blocks, the
 *                                                   threads that run these
 *     fiber_*                                       how a block's threads are
 *                                                   switched
 *     faults.cpp, signals.cpp, operand.cpp          what a kernel does wrong
 *     watchdog.cpp, preempt.cpp, interrupt.cpp      kernels that run too long
 *     cuda_*.cpp                                    the host's calls
 *     device_*.cpp, curand.cpp                      what is rare in kernels
 *     check/                                        the check build: what it
 *                                                   watches, see check/check.h
 *
 * lib/weft/csource/rewriter/rewrite.py turns the few things that are not C++
 * (<<<>>>, __shared__) into calls of these. Only the three cheapest C headers
 * are included: <math.h> alone would double the time that a small program takes
 * to compile. For the same reason what is rare is only declared, and lies in
 * the runtime.
 *
 * __CUDACC__ and __CUDA_ARCH__ are not defined here: `#ifdef __CUDACC__` fences
 * code off that only a GPU can run. For whole programs, which were not written
 * with that in mind, lib/weft/programs/program.py decides. */
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
#include "device_undefined.h"
#include "device_warp.h"
#endif
#endif
