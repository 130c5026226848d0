/* simt.h -- CUDA C for g++: the declarations that nvcc provides implicitly.
 *
 *     runtime/   fibers, barriers, launches, faults, time limits
 *     api/       the host's functions: cudaMalloc(), streams, graphs, ...
 *     device/    the kernels' functions: __syncthreads(), shuffles, atomics,
 *                mathematics, half, printf(), malloc(), wmma, cuRAND
 *     watch/     the watch build: it records accesses and finds errors
 *     include/   the headers that programs include by name: those of the
 *                toolkit, and assert.h
 *     program/   additions for a whole program: program.h, and its start
 *     libraries/ the CPU versions of cuBLAS and other libraries of NVIDIA's
 *     simt_runtime.h  functions of this runtime alone: orders, limits, faults
 *
 * All .cpp files form one library, the runtime, except program/start.cpp and
 * those in libraries/, which form one library for each of NVIDIA's. In
 * runtime/, engine.h has the declarations that kernels use, and runtime.h those
 * that the runtime's files share. runtime.cpp, block.cpp, grid.cpp and pool.cpp
 * launch blocks and run them on threads. fiber_* switch a block's threads, and
 * asynchronous.* holds copies and products that a kernel waits for. faults.cpp,
 * signals.cpp and faulting_address.cpp report a kernel's faults. watchdog.cpp,
 * preempt.cpp and interrupt.cpp end kernels that run too long.
 *
 * lib/weft/csource/rewrite.py converts the few constructs that are not
 * C++ (<<<>>>, __shared__) to calls of the runtime. Only the three cheapest C
 * headers are included, since <math.h> alone would double the compile time of a
 * small program. For the same reason, rarely used functions are only declared
 * in these headers, and defined in the runtime.
 *
 * These headers do not define __CUDACC__ and __CUDA_ARCH__, because `#ifdef
 * __CUDACC__` marks code that only a GPU can run. For whole programs, which do
 * not follow that rule, lib/weft/programs/program.py defines both. */
#ifndef SIMT_H
#define SIMT_H
#include "api/cuda_api.h"
#include "device/builtins.h"
#include "runtime/engine.h"
#include "simt_runtime.h"
/* A program's .cpp file defines its own min() and similar functions. nvcc, too,
 * omits these declarations if it does not compile CUDA C. */
#ifndef SIMT_HOST_FILE
#include "device/device_atomics.h"
#include "device/device_intrinsics.h"
#include "device/device_math.h"
#include "device/device_memory.h"
#include "device/device_undefined.h"
#include "device/device_warp.h"
#endif
#endif
