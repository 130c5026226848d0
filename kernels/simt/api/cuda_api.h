/* cuda_api.h -- the parts of CUDA's host side that are meaningful on a CPU.
 *
 * There is one device, number 0, and its memory is the host's. Every call
 * finishes its work before it returns. So streams and events are in order
 * automatically, and the asynchronous calls are the same as the synchronous
 * ones. Errors, their numbers and texts are CUDA's; cudaGetLastError() is per
 * host thread.
 *
 *     cuda_core.h      errors
 *     driver_types.h   structs, enums, flags
 *     cuda_memory.h    allocating, copying, filling
 *     cuda_device.h    the device, its properties and limits
 *     cuda_stream.h    streams and events
 *     cuda_launch.h    launches by function, attributes of kernels, occupancy
 *     cuda_graph.h     capture and graphs
 *     cuda_missing.h   functions that are not simulated, as errors
 *
 * The compilation of a notebook's cell defines SIMT_CELL, which excludes most
 * of these headers. A kernel needs none of them, and parsing them takes a third
 * of a small cell's compile time. */
#ifndef SIMT_CUDA_API_H
#define SIMT_CUDA_API_H
#include "cuda_core.h"

#ifndef SIMT_CELL
#include "cuda_device.h"
#include "cuda_graph.h"
#include "cuda_launch.h"
#include "cuda_memory.h"
#include "cuda_missing.h"
#include "cuda_stream.h"
#include "driver_types.h"
#endif
#endif
