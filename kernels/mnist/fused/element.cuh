/* element.cuh -- the number type T in which a precision stores its arrays.
 *
 * FP32 and TF32 are float in memory. A kernel that writes numbers for tensor
 * cores rounds them to tf32, since the instruction only truncates the lower 13
 * bits. BF16 and FP16 take half the bytes. Arithmetic is always in float:
 * kernels widen() the numbers that they read and narrow() those that they
 * write. */
#ifndef WEFT_ELEMENT_H
#define WEFT_ELEMENT_H
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "common/ptx.cuh"
#include "fused.h"

template <enum precision P> struct element {
    typedef float T;
};
template <> struct element<BF16> {
    typedef __nv_bfloat16 T;
};
template <> struct element<FP16> {
    typedef __half T;
};

/* ---- one value ----------------------------------------------------------- */

static __device__ __forceinline__ float widen(float x) { return x; }
static __device__ __forceinline__ float widen(__nv_bfloat16 x) {
    return __bfloat162float(x);
}
static __device__ __forceinline__ float widen(__half x) {
    return __half2float(x);
}

/* Return the T nearest to x or, for TF32, the nearest float that tf32
 * represents exactly. */
template <enum precision P>
static __device__ __forceinline__ typename element<P>::T narrow(float x);

template <> __device__ __forceinline__ float narrow<FP32>(float x) { return x; }
template <> __device__ __forceinline__ float narrow<TF32>(float x) {
    return round_tf32(x);
}
template <> __device__ __forceinline__ __nv_bfloat16 narrow<BF16>(float x) {
    return __float2bfloat16_rn(x);
}
template <> __device__ __forceinline__ __half narrow<FP16>(float x) {
    return __float2half_rn(x);
}

/* ---- four neighbours, in one load or store ------------------------------- */

static __device__ __forceinline__ unsigned bits_of(__nv_bfloat16 x) {
    return __bfloat16_as_ushort(x);
}
static __device__ __forceinline__ unsigned bits_of(__half x) {
    return __half_as_ushort(x);
}
static __device__ __forceinline__ float from_bits(unsigned bits,
                                                  const __nv_bfloat16 *) {
    return __bfloat162float(__ushort_as_bfloat16((unsigned short)bits));
}
static __device__ __forceinline__ float from_bits(unsigned bits,
                                                  const __half *) {
    return __half2float(__ushort_as_half((unsigned short)bits));
}

/* Load v[0..4) from p[0..4), which is aligned to 16 bytes (float) or 8 bytes
 * (other types). */
static __device__ __forceinline__ void load4(float v[4], const float *p) {
    const float4 four = *(const float4 *)p;
    v[0] = four.x, v[1] = four.y, v[2] = four.z, v[3] = four.w;
}
template <class T>
static __device__ __forceinline__ void load4(float v[4], const T *p) {
    const uint2 four = *(const uint2 *)p;
    v[0] = from_bits(four.x & 0xffff, p), v[1] = from_bits(four.x >> 16, p);
    v[2] = from_bits(four.y & 0xffff, p), v[3] = from_bits(four.y >> 16, p);
}

/* Store four floats, or four 16-bit values, from v to p. */
static __device__ __forceinline__ void put4(float *p, const float v[4]) {
    *(float4 *)p = make_float4(v[0], v[1], v[2], v[3]);
}
template <class T>
static __device__ __forceinline__ void put4(T *p, const T v[4]) {
    *(uint2 *)p = make_uint2(bits_of(v[0]) | bits_of(v[1]) << 16,
                             bits_of(v[2]) | bits_of(v[3]) << 16);
}

/* Store v[0..4), narrowed, to p[0..4), which is aligned as for load4(). */
template <enum precision P>
static __device__ __forceinline__ void store4(typename element<P>::T *p,
                                              const float v[4]) {
    const typename element<P>::T four[4] = {narrow<P>(v[0]), narrow<P>(v[1]),
                                            narrow<P>(v[2]), narrow<P>(v[3])};
    put4(p, four);
}

/* ---- a product on tensor cores ------------------------------------------- */

/* Add a (16,K) @ b (K,8) to c (16,8). ptx.cuh describes the fragments; K is 8
 * for TF32, else 16. */
template <enum precision P>
static __device__ __forceinline__ void mma(float c[4], const uint32_t a[4],
                                           const uint32_t b[2]) {
    if (P == TF32) mma_tf32(c, a, b);
    if (P == BF16) mma_bf16(c, a, b);
    if (P == FP16) mma_f16(c, a, b);
}

#endif
