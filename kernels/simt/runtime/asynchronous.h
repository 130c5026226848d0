/* asynchronous.h -- asynchronous operations of a thread: cp.async, TMA, wgmma.
 *
 * A GPU performs them at any time between their start and the end of the wait.
 * This runtime performs them as late as possible, when a thread waits. So a
 * thread that does not wait, or waits for too few operations, gets wrong bytes,
 * as it may on a GPU. An operation for which no thread waits is never
 * performed. The watch build tracks the bytes of shared memory that are in
 * flight, and reports threads that access them (watch/async_copies.cpp). */
#ifndef SIMT_LATER_H
#define SIMT_LATER_H
#include "engine.h"

namespace simt::SIMT_FIBERS {

/* The kinds of operations. They are copies into shared memory, copies out of
 * it, and products of a warpgroup. A thread issues each kind in order, and
 * waits for it in groups. */
enum Errand : unsigned { COPIES, STORES, PRODUCTS, ERRANDS };

/* One operation. The other operands of act() follow it in memory. */
struct Later {
    void (*act)(Later *); /* NULL: this is the end of a group */
    void *shared;         /* first byte of shared memory that it writes or
                           * reads */
    unsigned bytes;       /* number of these bytes; 0: unknown */
    unsigned short size;  /* bytes of the whole operation, a multiple of 8 */
    unsigned short site;  /* for the watch build: the place of its issue */
};

struct Errands {
    char *room;
    unsigned begin, end, size, groups;
};

/* The operations of a thread. A worker has one Pending for each thread that has
 * ever issued an operation. */
struct Pending {
    Errands of[ERRANDS];
    Thread thread;
    unsigned long long block; /* number of the worker's block; a Pending of an
                               * older block is void */
};

/* A bit of Fiber::pending: this thread's copies by cp.async are not delayed. */
enum : uintptr_t { AT_ONCE = 1 };
SIMT_INLINE Pending *pending_at(const Fiber *self) {
    return (Pending *)(self->pending & ~(uintptr_t)AT_ONCE);
}

#pragma GCC visibility push(default)
/* Return the address of the next `bytes` bytes. */
Errands *later_room(Errand errand, unsigned bytes);
/* End a group, or perform operations; later_commit() and later_wait() call
 * these functions if operations may be pending. */
void later_end_group(Errand errand);
void later_act(Errand errand, unsigned groups);

/* Issue a TMA copy, which is performed when a thread waits for `barrier`. */
void later_bulk(Later *later, const void *barrier);
/* Perform the operations issued at `barrier`; `phase` is the watch build's name
 * for the barrier's phase. Return false if there were none. */
bool later_land(const void *barrier, const void *phase);

void later_copy(Later *copy); /* performs a LaterCopy */

/* Record for the watch build, at the time of issue, that the running thread
 * reads, writes, or issues an operation. costs: false for bytes of a sector
 * that another call has counted. */
void checked_look(const void *at, size_t bytes, bool costs);
void checked_put(void *at, size_t bytes, bool costs);
void checked_ask(Errand errand, Later *later);
void checked_bulk(Later *later, const void *barrier);
/* Record that the running thread reads 16 bytes of shared memory. */
void checked_read16(const Later *later, const void *at);
/* While an object of this class exists, the running thread's accesses are not
 * watched. */
class CheckedUnseen {
    Block *block;
    Checker *checker;

  public:
    CheckedUnseen();
    ~CheckedUnseen();
    CheckedUnseen(const CheckedUnseen &) = delete;
};
#pragma GCC visibility pop

/* A copy by cp.async, to be performed later. */
struct LaterCopy : Later {
    const void *from;
    size_t zeros; /* number of bytes at its end that are not read but set to
                   * zero */
    /* For the watch build: the number of barriers that its block had passed
       when it was issued. */
    uint64_t barriers = 0;
};

#ifdef SIMT_CHECK
template <class What> SIMT_INLINE void ask(Errand errand, What what) {
    checked_ask(errand, &what);
}
template <class What> SIMT_INLINE void ask_bulk(What what, const void *at) {
    checked_bulk(&what, at);
}
typedef CheckedUnseen Unseen;
SIMT_INLINE void reads16(const Later &later, const void *at) {
    checked_read16(&later, at);
}
SIMT_INLINE bool may_be_late() { return true; }
SIMT_INLINE void looks(const void *at, size_t bytes, bool costs = true) {
    checked_look(at, bytes, costs);
}
SIMT_INLINE void puts_at(void *at, size_t bytes, bool costs = true) {
    checked_put(at, bytes, costs);
}
#else
template <class What> SIMT_INLINE void ask(Errand errand, const What &what) {
    Pending *pending = pending_at(here());
    Errands *all = pending ? &pending->of[errand] : 0;
    if (SIMT_UNLIKELY(!all || all->size - all->end < sizeof what))
        all = later_room(errand, sizeof what);
    *(What *)(all->room + all->end) = what;
    all->end += sizeof what;
}
template <class What> SIMT_INLINE void ask_bulk(What what, const void *at) {
    later_bulk(&what, at);
}
struct Unseen {
    Unseen() {}
};
SIMT_INLINE void reads16(const Later &, const void *) {}
SIMT_INLINE bool may_be_late() { return pending_at(here()); }
SIMT_INLINE void looks(const void *, size_t, bool = true) {}
SIMT_INLINE void puts_at(void *, size_t, bool = true) {}
#endif

/* Make the operations since the last commit a group. */
SIMT_INLINE void later_commit(Errand errand) {
    if (may_be_late()) later_end_group(errand);
}
/* Perform all operations except those of the newest `groups` groups. */
SIMT_INLINE void later_wait(Errand errand, unsigned groups) {
    if (may_be_late()) later_act(errand, groups);
}

/* ---- cp.async ----------------------------------------------------------- */

typedef int Copied4 __attribute__((may_alias));
typedef int Copied8 __attribute__((vector_size(8), may_alias));
typedef int Copied16 __attribute__((vector_size(16), may_alias));

template <class Copied>
SIMT_INLINE void copy_now(void *to, const void *from, size_t zeros) {
    Copied value = {};
    if (zeros == 0)
        value = *(const Copied *)from;
    else
        memcpy(&value, from, sizeof value - zeros);
    *(Copied *)to = value;
}
SIMT_INLINE void copy_now(void *to, const void *from, size_t bytes,
                          size_t zeros) {
    if (bytes == 16)
        copy_now<Copied16>(to, from, zeros);
    else if (bytes == 8)
        copy_now<Copied8>(to, from, zeros);
    else
        copy_now<Copied4>(to, from, zeros);
}

/* Issue a copy of `bytes` (4, 8 or 16) bytes, of which the last `zeros` are set
 * to zero. In the watch build all copies are delayed. In other builds, only the
 * copies of each warp's first lane are delayed. That is enough to spoil the
 * result if a thread does not wait. Recording all copies would cost a sixth of
 * a kernel's speed. */
SIMT_INLINE void copy_later(void *to, const void *from, size_t bytes,
                            size_t zeros) {
    if (zeros > bytes || (bytes != 4 && bytes != 8 && bytes != 16)) trap();
#ifndef SIMT_CHECK
    Fiber *self = here();
    if (!self->pending && self->thread.linear % WARP) self->pending = AT_ONCE;
    if (self->pending & AT_ONCE) return copy_now(to, from, bytes, zeros);
#endif
    looks(from, bytes - zeros);
    ask(COPIES,
        LaterCopy{{later_copy, to, (unsigned)bytes, sizeof(LaterCopy), 0},
                  from,
                  zeros});
}

} // namespace simt::SIMT_FIBERS
#endif
