/* device_warp.h -- what the 32 lanes of a warp do together: shuffles, votes.
 *
 * `mask` names the lanes that take part; lanes whose threads have ended are
 * not waited for. The rules about sources out of range are those of the PTX
 * instruction shfl.sync: such a lane keeps its own value. */
#ifndef SIMT_DEVICE_WARP_H
#define SIMT_DEVICE_WARP_H
#include "engine.h"

namespace simt {

SIMT_INLINE unsigned lane() { return here()->thread.linear % WARP; }

template <class T>
SIMT_INLINE T shuffle(unsigned mask, T value, unsigned source) {
    static_assert(sizeof(T) <= 8, "shuffles move at most 8 bytes");
    uint64_t bits = 0;
    memcpy(&bits, &value, sizeof value);
    bits = meet(mask, SHUFFLE, bits, source);
    memcpy(&value, &bits, sizeof value);
    return value;
}

/* The last lane of this lane's segment of `width` lanes. */
SIMT_INLINE unsigned last_lane(int width) {
    return lane() | ((unsigned)width - 1);
}

} // namespace simt

/* The value of lane `source`, counted within the segment of `width` lanes. */
template <class T>
SIMT_INLINE T __shfl_sync(unsigned mask, T value, int source, int width = 32) {
    const unsigned inside = (unsigned)width - 1;
    return simt::shuffle(mask, value,
                         (simt::lane() & ~inside) | (source & inside));
}

/* The value of the lane `delta` below. */
template <class T>
SIMT_INLINE T __shfl_up_sync(unsigned mask, T value, unsigned delta,
                             int width = 32) {
    const unsigned lane = simt::lane();
    const bool in = (lane & ((unsigned)width - 1)) >= delta;
    return simt::shuffle(mask, value, in ? lane - delta : lane);
}

/* The value of the lane `delta` above. */
template <class T>
SIMT_INLINE T __shfl_down_sync(unsigned mask, T value, unsigned delta,
                               int width = 32) {
    const unsigned lane = simt::lane();
    const bool in = delta < 32 && lane + delta <= simt::last_lane(width);
    return simt::shuffle(mask, value, in ? lane + delta : lane);
}

/* The value of the lane whose number differs in the bits of `flip`. */
template <class T>
SIMT_INLINE T __shfl_xor_sync(unsigned mask, T value, int flip,
                              int width = 32) {
    const unsigned lane = simt::lane(), source = lane ^ (unsigned)flip;
    const bool in = source <= simt::last_lane(width);
    return simt::shuffle(mask, value, in ? source : lane);
}

/* Bit i is set if lane i takes part and its predicate is not 0. */
SIMT_INLINE unsigned __ballot_sync(unsigned mask, int predicate) {
    return (unsigned)simt::meet(mask, simt::BALLOT, predicate != 0, 0);
}
SIMT_INLINE int __any_sync(unsigned mask, int predicate) {
    return __ballot_sync(mask, predicate) != 0;
}
SIMT_INLINE int __all_sync(unsigned mask, int predicate) {
    return __ballot_sync(mask, !predicate) == 0;
}

SIMT_INLINE void __syncwarp(unsigned mask = 0xffffffffu) {
    simt::meet(mask, simt::SYNC, 0, simt::lane());
}

/* The lanes that are at this very call together. */
SIMT_INLINE unsigned __activemask() {
    return simt::active_lanes(simt::promoted());
}

/* ---- lanes with equal values -------------------------------------------- */

/* The lanes whose value has the same bytes as this one's. */
template <class T>
SIMT_INLINE unsigned __match_any_sync(unsigned mask, T value) {
    // The value of the first lane left is asked for, until each was once.
    unsigned left = __ballot_sync(mask, 1), equal = 0;
    while (left) {
        const T first = simt::shuffle(mask, value, __builtin_ctz(left));
        const bool same = !memcmp(&first, &value, sizeof value);
        const unsigned group = __ballot_sync(mask, same);
        if (same) equal = group;
        left &= ~group;
    }
    return equal;
}

/* All lanes that take part, if their values are the same; else 0. */
template <class T>
SIMT_INLINE unsigned __match_all_sync(unsigned mask, T value, int *same) {
    const unsigned all = __ballot_sync(mask, 1);
    const T first = simt::shuffle(mask, value, __builtin_ctz(all));
    *same = __all_sync(mask, !memcmp(&first, &value, sizeof value));
    return *same ? all : 0;
}

/* ---- reductions --------------------------------------------------------- */

namespace simt {

/* The lane that has the `rank`-th bit of `mask`; 32: it has not so many. */
SIMT_INLINE unsigned lane_of_rank(unsigned mask, unsigned rank) {
    if (mask == 0xffffffffu) return rank < 32 ? rank : 32;
    for (; rank && mask; rank--) mask &= mask - 1;
    return mask ? __builtin_ctz(mask) : 32;
}

/* op() over the values of the lanes in `mask`, in the order of a tree; every
 * lane gets the result. */
template <class T, class Op>
SIMT_INLINE T reduce_lanes(unsigned mask, T value, Op op) {
    const unsigned here = __ballot_sync(mask, 1), me = lane();
    const unsigned rank = __builtin_popcount(here & ((1u << me) - 1));
    const unsigned size = __builtin_popcount(here);
    for (unsigned step = 1; step < size; step *= 2) {
        const bool in = rank + step < size;
        const T other =
            shuffle(mask, value, in ? lane_of_rank(here, rank + step) : me);
        if (in) value = op(value, other);
    }
    return shuffle(mask, value, __builtin_ctz(here));
}

} // namespace simt

#define SIMT_REDUCE(name, T, expression)                                     \
    SIMT_INLINE T name(unsigned mask, T value) {                             \
        return simt::reduce_lanes(mask, value,                               \
                                  [](T a, T b) -> T { return expression; }); \
    }
SIMT_REDUCE(__reduce_add_sync, unsigned, a + b)
SIMT_REDUCE(__reduce_add_sync, int, (int)((unsigned)a + (unsigned)b))
SIMT_REDUCE(__reduce_min_sync, unsigned, a < b ? a : b)
SIMT_REDUCE(__reduce_min_sync, int, a < b ? a : b)
SIMT_REDUCE(__reduce_max_sync, unsigned, a > b ? a : b)
SIMT_REDUCE(__reduce_max_sync, int, a > b ? a : b)
SIMT_REDUCE(__reduce_and_sync, unsigned, a &b)
SIMT_REDUCE(__reduce_or_sync, unsigned, a | b)
SIMT_REDUCE(__reduce_xor_sync, unsigned, a ^ b)
#undef SIMT_REDUCE

/* ---- what CUDA had before version 9 ------------------------------------- */

#define SIMT_GONE(name, now)                                               \
    template <class T, class... Rest>                                      \
    __attribute__((error(#name "() is gone since CUDA 13: write " now))) T \
    name(T, Rest...);
SIMT_GONE(__shfl, "__shfl_sync(mask, value, lane)")
SIMT_GONE(__shfl_up, "__shfl_up_sync(mask, value, delta)")
SIMT_GONE(__shfl_down, "__shfl_down_sync(mask, value, delta)")
SIMT_GONE(__shfl_xor, "__shfl_xor_sync(mask, value, flip)")
SIMT_GONE(__ballot, "__ballot_sync(mask, predicate)")
SIMT_GONE(__any, "__any_sync(mask, predicate)")
SIMT_GONE(__all, "__all_sync(mask, predicate)")
#undef SIMT_GONE

#endif
