/* float_rank.h -- floats as unsigned numbers of the same order, for CUDA C and
 * plain C. */
#ifndef WEFT_FLOAT_RANK_H
#define WEFT_FLOAT_RANK_H
#include <stdint.h>

#ifdef __cplusplus
#include "internal.cuh"
#define RANK_INLINE static inline __host__ __device__
#else
#define RANK_INLINE static inline __attribute__((always_inline, unused))
#endif

/* Return the rank of a float's bits. A negative float has all of its bits
 * flipped, since its magnitude counts downwards. -0 has the rank of 0,
 * 0x80000000, and each NaN the highest rank. */
RANK_INLINE uint32_t rank_float(uint32_t bits) {
    const uint32_t flips = (uint32_t)((int32_t)bits >> 31) | 0x80000000u;
    const uint32_t is_nan = (bits & 0x7fffffffu) > 0x7f800000u;
    const uint32_t is_minus_zero = bits == 0x80000000u;
    return ((bits ^ flips) + is_minus_zero) | (0 - is_nan); // without a branch
}

#endif
