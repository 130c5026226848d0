/* cuda_bf16.h -- replaces the toolkit's header under g++: bfloat16. */
#ifndef SIMT_CUDA_BF16_H
#define SIMT_CUDA_BF16_H
#include "../device/device_half.h"

#define SIMT_FORMAT simt::BFloat16
#define SIMT_T __nv_bfloat16
#define SIMT_T2 __nv_bfloat162
#define SIMT_N(before, after) before##bfloat16##after
#define SIMT_N2(before, after) before##bfloat162##after
#define SIMT_2N(before, after) before##bfloat162bfloat162##after
#include "../device/device_half_ops.h"

typedef __nv_bfloat16 nv_bfloat16;
typedef __nv_bfloat162 nv_bfloat162;

#define CUDART_INF_BF16 __ushort_as_bfloat16(0x7f80)
#define CUDART_NAN_BF16 __ushort_as_bfloat16(0x7fff)
#define CUDART_MIN_DENORM_BF16 __ushort_as_bfloat16(0x0001)
#define CUDART_MAX_NORMAL_BF16 __ushort_as_bfloat16(0x7f7f)
#define CUDART_NEG_ZERO_BF16 __ushort_as_bfloat16(0x8000)
#define CUDART_ZERO_BF16 __ushort_as_bfloat16(0x0000)
#define CUDART_ONE_BF16 __ushort_as_bfloat16(0x3f80)

#endif
