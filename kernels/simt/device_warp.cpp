/* device_warp.cpp -- what lanes find out about each other in several steps. */
#include "device_warp.h"

namespace simt {

unsigned lane_of_rank(unsigned mask, unsigned rank) {
    for (; rank && mask; rank--) mask &= mask - 1;
    return mask ? __builtin_ctz(mask) : WARP;
}

unsigned match_any(unsigned mask, uint64_t value) {
    // The value of the first lane left is asked for, until each was once.
    unsigned left = __ballot_sync(mask, 1), equal = 0;
    while (left) {
        const bool same = shuffle(mask, value, __builtin_ctz(left)) == value;
        const unsigned group = __ballot_sync(mask, same);
        if (same) equal = group;
        left &= ~group;
    }
    return equal;
}

unsigned match_all(unsigned mask, uint64_t value, int *same) {
    const unsigned all = __ballot_sync(mask, 1);
    const uint64_t first = shuffle(mask, value, __builtin_ctz(all));
    *same = __all_sync(mask, first == value);
    return *same ? all : 0;
}

/* op() over the values of the lanes in `mask`, in the order of a tree. */
template <class T, class Op> static T reduce(unsigned mask, T value, Op op) {
    const unsigned here = __ballot_sync(mask, 1), me = lane();
    const unsigned size = __builtin_popcount(here);
    const unsigned rank = __builtin_popcount(here & ((1u << me) - 1));
    for (unsigned step = 1; step < size; step *= 2) {
        const bool in = rank + step < size;
        const T other =
            shuffle(mask, value, in ? lane_of_rank(here, rank + step) : me);
        if (in) value = op(value, other);
    }
    return shuffle(mask, value, __builtin_ctz(here));
}

} // namespace simt

#define SIMT_REDUCE(name, T, expression)                               \
    T name(unsigned mask, T value) {                                   \
        return simt::reduce(mask, value,                               \
                            [](T a, T b) -> T { return expression; }); \
    }
SIMT_REDUCE(__reduce_add_sync, int, (int)((unsigned)a + (unsigned)b))
SIMT_REDUCE(__reduce_min_sync, int, a < b ? a : b)
SIMT_REDUCE(__reduce_max_sync, int, a > b ? a : b)
SIMT_REDUCE(__reduce_add_sync, unsigned, a + b)
SIMT_REDUCE(__reduce_min_sync, unsigned, a < b ? a : b)
SIMT_REDUCE(__reduce_max_sync, unsigned, a > b ? a : b)
SIMT_REDUCE(__reduce_and_sync, unsigned, (a & b))
SIMT_REDUCE(__reduce_or_sync, unsigned, a | b)
SIMT_REDUCE(__reduce_xor_sync, unsigned, a ^ b)
