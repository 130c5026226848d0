/* order.h -- the order of keys, for CUDA C and plain C.
 *
 * Two's complement and floats need a change of bits before they have the order
 * of unsigned numbers. For integers it is the sign bit. A negative float has
 * all of its bits flipped, since its magnitude counts downwards. -0 gets the
 * rank of 0, and each NaN the highest rank. The ranks of a descending order are
 * the complements. */
#ifndef WEFT_SORT_ORDER_H
#define WEFT_SORT_ORDER_H
#include <stdint.h>

#ifdef __cplusplus
#include "common/internal.cuh"
#define ORDER_INLINE static inline __host__ __device__
#else
#include "../weft.h"
#define ORDER_INLINE static inline __attribute__((always_inline, unused))
#endif

struct sort_order {
    uint32_t flips;    // the rank of an integer is key ^ flips
    uint32_t is_float; // 0 or 1
};

/* Return the order of a kind of keys. */
ORDER_INLINE struct sort_order make_order(int kind, int descending) {
    const uint32_t mask = descending ? 0xffffffffu : 0;
    struct sort_order o;
    o.is_float = kind == WEFT_SORT_FLOAT;
    o.flips = (kind == WEFT_SORT_INT ? 0x80000000u : 0) ^ mask;
    return o;
}

/* Return the rank of a float's bits in ascending order. */
ORDER_INLINE uint32_t rank_float(uint32_t bits) {
    const uint32_t flips = (uint32_t)((int32_t)bits >> 31) | 0x80000000u;
    const uint32_t is_nan = (bits & 0x7fffffffu) > 0x7f800000u;
    const uint32_t is_minus_zero = bits == 0x80000000u;
    return ((bits ^ flips) + is_minus_zero) | (0 - is_nan); // without a branch
}

ORDER_INLINE uint32_t rank_key(uint32_t key, struct sort_order o) {
    return (o.is_float ? rank_float(key) : key) ^ o.flips;
}

#endif
