/* cuda_fp16.h -- replaces the toolkit's header under g++: half and half2. */
#ifndef SIMT_CUDA_FP16_H
#define SIMT_CUDA_FP16_H
#include "../device/device_half.h"

#define SIMT_FORMAT simt::Binary16
#define SIMT_T __half
#define SIMT_T2 __half2
#define SIMT_N(before, after) before##half##after
#define SIMT_N2(before, after) before##half2##after
#define SIMT_2N(before, after) before##half2half2##after
#include "../device/device_half_ops.h"

typedef __half half, nv_half;
typedef __half2 half2, nv_half2;
typedef __half __nv_half;
typedef __half2 __nv_half2;

#define CUDART_INF_FP16 __ushort_as_half(0x7c00)
#define CUDART_NAN_FP16 __ushort_as_half(0x7fff)
#define CUDART_MIN_DENORM_FP16 __ushort_as_half(0x0001)
#define CUDART_MAX_NORMAL_FP16 __ushort_as_half(0x7bff)
#define CUDART_NEG_ZERO_FP16 __ushort_as_half(0x8000)
#define CUDART_ZERO_FP16 __ushort_as_half(0x0000)
#define CUDART_ONE_FP16 __ushort_as_half(0x3c00)

#endif
