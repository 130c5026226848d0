/* device_warp.cpp -- warp operations that take several steps. */
#include "device_warp.h"

#include "../watch/launch.h"

namespace simt {

/* A kernel's call for which the lanes meet several times. */
struct Call {
    unsigned mask;
    const void *pc; /* the call's return address, which is its place in the
                     * watch build's reports */

    uint64_t shuffle(uint64_t value, unsigned source) const {
        return check_meet_from(mask, SHUFFLE, value, source, pc);
    }
    unsigned ballot(bool predicate) const {
        return (unsigned)check_meet_from(mask, BALLOT, predicate, 0, pc);
    }
};

unsigned lane_of_rank(unsigned mask, unsigned rank) {
    for (; rank && mask; rank--) mask &= mask - 1;
    return mask ? __builtin_ctz(mask) : WARP;
}

unsigned match_any(unsigned mask, uint64_t value) {
    const Call call = {mask, __builtin_return_address(0)};
    // Compare with the value of the first remaining lane, and remove the lanes
    // with this value, until none is left.
    unsigned left = call.ballot(true), equal = 0;
    while (left) {
        const bool same = call.shuffle(value, __builtin_ctz(left)) == value;
        const unsigned group = call.ballot(same);
        if (same) equal = group;
        left &= ~group;
    }
    return equal;
}

unsigned match_all(unsigned mask, uint64_t value, int *same) {
    const Call call = {mask, __builtin_return_address(0)};
    const unsigned all = call.ballot(true);
    const uint64_t first = call.shuffle(value, __builtin_ctz(all));
    *same = call.ballot(first == value) == all;
    return *same ? all : 0;
}

/* Reduce the values of the call's lanes with op(), in pairs as in a tree. */
template <class T, class Op> static T reduce(Call call, T value, Op op) {
    const unsigned here = call.ballot(true), me = lane();
    const unsigned size = __builtin_popcount(here);
    const unsigned rank = __builtin_popcount(here & ((1u << me) - 1));
    for (unsigned step = 1; step < size; step *= 2) {
        const bool in = rank + step < size;
        const unsigned source = in ? lane_of_rank(here, rank + step) : me;
        const T other = (T)call.shuffle((unsigned)value, source);
        if (in) value = op(value, other);
    }
    return (T)call.shuffle((unsigned)value, __builtin_ctz(here));
}

} // namespace simt

#define SIMT_REDUCE(name, T, expression)                                \
    T name(unsigned mask, T value) {                                    \
        return simt::reduce({mask, __builtin_return_address(0)}, value, \
                            [](T a, T b) -> T { return expression; });  \
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
