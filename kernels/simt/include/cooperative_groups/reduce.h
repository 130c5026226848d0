/* cooperative_groups/reduce.h -- reductions over the values of a group's
 * threads. */
#ifndef SIMT_COOPERATIVE_GROUPS_REDUCE_H
#define SIMT_COOPERATIVE_GROUPS_REDUCE_H
#include "../cooperative_groups.h"

namespace cooperative_groups {

#define SIMT_OPERATOR(name, expression)                                 \
    template <class T> struct name {                                    \
        SIMT_MEMBER T operator()(T a, T b) const { return expression; } \
    };
SIMT_OPERATOR(plus, a + b)
SIMT_OPERATOR(less, b < a ? b : a)
SIMT_OPERATOR(greater, a < b ? b : a)
SIMT_OPERATOR(bit_and, a &b)
SIMT_OPERATOR(bit_or, a | b)
SIMT_OPERATOR(bit_xor, a ^ b)
#undef SIMT_OPERATOR

/* Apply op() to the values of all threads of the group, and return the result
 * to each of them. */
template <unsigned Size, class Parent, class T, class Op>
SIMT_INLINE T reduce(const thread_block_tile<Size, Parent> &g, T value, Op op) {
    // A GPU uses the same order, so sums of floats have the same bits.
    for (unsigned flip = Size < 32 ? Size / 2 : 16; flip; flip /= 2)
        value = op(value, g.shfl_xor(value, flip));
    for (unsigned flip = 32; flip < Size; flip *= 2)
        value = op(value, g.shfl_xor(value, flip));
    return value;
}
template <class T, class Op>
SIMT_INLINE T reduce(const coalesced_group &g, T value, Op op) {
    const unsigned size = g.size(), rank = g.thread_rank();
    for (unsigned step = 1; step < size; step *= 2) {
        const T other = g.shfl_down(value, step);
        if (rank + step < size) value = op(value, other);
    }
    return g.shfl(value, 0);
}

} // namespace cooperative_groups
#endif
