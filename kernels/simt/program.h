/* program.h -- the headers that nvcc implicitly includes in the .cu files of a
 * whole program.
 *
 * lib/weft/csource/preprocess.py includes this header before the first line of
 * every source. A notebook's cell does not include it, since <math.h> alone
 * would double the time to compile a cell. */
#ifndef SIMT_PROGRAM_H
#define SIMT_PROGRAM_H
#include <assert.h>
#include <ctype.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmath>
#include <cstdlib>
#include <new>
#include <utility>

#include "cuda_runtime.h"

/* The include guards of the toolkit, which other headers test. */
#define __CUDA_RUNTIME_H__
#define __CUDA_RUNTIME_API_H__
#define __DRIVER_TYPES_H__
#define __VECTOR_TYPES_H__
#define __VECTOR_FUNCTIONS_H__
#define __HOST_DEFINES_H__
#ifndef CUDART_VERSION
#define CUDART_VERSION 13000
#endif

/* The preprocessor runs before the rewriter, which looks for these words. They
 * become macros again when the rewritten text is compiled. */
#ifdef SIMT_PREPROCESS
#undef __global__
#undef __device__
#undef __host__
#undef __constant__
#undef __managed__
#undef __shared__
#undef __forceinline__
#undef __noinline__
#endif
#endif
