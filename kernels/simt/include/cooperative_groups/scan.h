/* cooperative_groups/scan.h -- for each thread, the sum over the threads before
 * it. */
#ifndef SIMT_COOPERATIVE_GROUPS_SCAN_H
#define SIMT_COOPERATIVE_GROUPS_SCAN_H
#include "reduce.h"

namespace cooperative_groups {

/* Combine the values of ranks 0 to thread_rank(), inclusive, with op(). */
template <class Group, class T, class Op = plus<T>>
SIMT_INLINE T inclusive_scan(const Group &g, T value, Op op = {}) {
    const unsigned size = g.size(), rank = g.thread_rank();
    for (unsigned step = 1; step < size; step *= 2) {
        const T other = g.shfl_up(value, step);
        if (rank >= step) value = op(other, value);
    }
    return value;
}

/* Combine the values of all ranks below this thread's with op(). Return T() for
 * rank 0. */
template <class Group, class T, class Op = plus<T>>
SIMT_INLINE T exclusive_scan(const Group &g, T value, Op op = {}) {
    const T below = g.shfl_up(inclusive_scan(g, value, op), 1);
    return g.thread_rank() == 0 ? T() : below;
}

} // namespace cooperative_groups
#endif
