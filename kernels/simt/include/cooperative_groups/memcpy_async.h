/* cooperative_groups/memcpy_async.h -- joint copies by a group's threads.
 *
 * The copies are not asynchronous: each thread copies its share immediately,
 * and wait() waits for the other threads. */
#ifndef SIMT_COOPERATIVE_GROUPS_MEMCPY_ASYNC_H
#define SIMT_COOPERATIVE_GROUPS_MEMCPY_ASYNC_H
#include "../cooperative_groups.h"

namespace cuda {

/* A number of bytes that, like the pointers, is a multiple of `alignment`. */
template <size_t alignment> struct aligned_size_t {
    size_t value;
    constexpr explicit aligned_size_t(size_t value) : value(value) {}
    constexpr operator size_t() const { return value; }
};

} // namespace cuda

namespace cooperative_groups {

/* Copy `bytes` bytes. */
template <class Group, class To, class From>
SIMT_INLINE void memcpy_async(const Group &g, To *to, const From *from,
                              size_t bytes) {
    enum { PIECE = 16 };
    const size_t rank = g.thread_rank(), threads = g.size();
    for (size_t at = rank * PIECE; at < bytes; at += threads * PIECE)
        memcpy((char *)to + at, (const char *)from + at,
               bytes - at < PIECE ? bytes - at : (size_t)PIECE);
}

/* Copy as many elements as both arrays have. */
template <class Group, class T>
SIMT_INLINE void memcpy_async(const Group &g, T *to, size_t to_count,
                              const T *from, size_t from_count) {
    const size_t count = to_count < from_count ? to_count : from_count;
    memcpy_async(g, to, from, count * sizeof(T));
}

template <class Group> SIMT_INLINE void wait(const Group &g) { g.sync(); }
template <unsigned stages, class Group>
SIMT_INLINE void wait_prior(const Group &g) {
    g.sync();
}

} // namespace cooperative_groups
#endif
