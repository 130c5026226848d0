/* simt.h -- CUDA C for g++: what nvcc would have known by itself.
 *
 *     runtime/   fibers, barriers, launches, faults, limits of time
 *     api/       what the host calls: cudaMalloc(), streams, graphs, ...
 *     device/    what kernels call: __syncthreads(), shuffles, atomics,
 *                mathematics, half, printf(), malloc(), wmma, cuRAND
 *     watch/     the watch build: what it records of accesses, and its judge
 *     include/   the headers that programs include by name: those of the
 *                toolkit, and assert.h
 *     program/   what a whole program has besides: program.h, and its start
 *     simt_runtime.h  what only this runtime has: orders, limits, faults
 *
 * All .cpp files but program/start.cpp are one library, the runtime. In
 * runtime/, engine.h is what kernels see of it and runtime.h what its own files
 * share: runtime.cpp, block.cpp, grid.cpp and pool.cpp launch blocks and run
 * them on threads; fiber_* switch a block's threads; asynchronous.* holds
 * copies and products that a kernel waits for; faults.cpp, signals.cpp and
 * faulting_address.cpp report what a kernel does wrong; watchdog.cpp,
 * preempt.cpp and interrupt.cpp end kernels that run too long.
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
#include "api/cuda_api.h"
#include "device/builtins.h"
#include "runtime/engine.h"
#include "simt_runtime.h"
/* A program's .cpp, which has min() and its like of its own: nvcc, too, leaves
 * those out where it does not compile CUDA C. */
#ifndef SIMT_HOST_FILE
#include "device/device_atomics.h"
#include "device/device_intrinsics.h"
#include "device/device_math.h"
#include "device/device_memory.h"
#include "device/device_undefined.h"
#include "device/device_warp.h"
#endif
#endif
