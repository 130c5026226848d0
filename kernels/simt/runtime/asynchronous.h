/* asynchronous.h -- what a thread asks for and goes on: cp.async, TMA, wgmma.
 *
 * A GPU does it some time between the asking and the end of the waiting. Here
 * it is done as late as that: when a thread waits. So who forgets to wait, or
 * waits for too few, finds the wrong bytes here, too; and what nobody waits for
 * is not done at all. The watch build knows which bytes of shared memory are
 * under way, and says who touches them (watch/async_copies.cpp). */
#ifndef SIMT_LATER_H
#define SIMT_LATER_H
#include "engine.h"

namespace simt {
#ifdef SIMT_UCONTEXT
inline namespace ucontext_fibers {
#else
inline namespace asm_fibers {
#endif

/* What a thread has asked for, in order, and waits for by groups: copies into
 * shared memory, copies out of it, products of a warpgroup. */
enum Errand : unsigned { COPIES, STORES, PRODUCTS, ERRANDS };

/* One of them; what else do() needs to know lies behind it. */
struct Later {
    void (*act)(Later *); /* NULL: a group ends here */
    void *shared;         /* the first byte that it writes, or reads */
    unsigned bytes;       /* how many of them; 0: not known */
    unsigned short size;  /* of all this, a multiple of 8 */
    unsigned short site;  /* the watch build's: where it was asked for */
};

struct Errands {
    char *room;
    unsigned begin, end, size, groups;
};

/* Of a thread; a worker has one for each that has ever needed it. */
struct Pending {
    Errands of[ERRANDS];
    Thread thread;
    unsigned long long block; /* of the worker's; others are forgotten */
};

/* Of Fiber::pending: this thread's copies by cp.async are not late. */
enum : uintptr_t { AT_ONCE = 1 };
SIMT_INLINE Pending *pending_at(const Fiber *self) {
    return (Pending *)(self->pending & ~(uintptr_t)AT_ONCE);
}

#pragma GCC visibility push(default)
/* Where `bytes` more will have room. */
Errands *later_room(Errand errand, unsigned bytes);
/* later_commit() and later_wait(), if there can be anything. */
void later_end_group(Errand errand);
void later_act(Errand errand, unsigned groups);

/* A copy by TMA: done when somebody waits for `barrier`. */
void later_bulk(Later *later, const void *barrier);
/* Do what was asked for at it; `phase` is what the watch build calls its phase.
 * False: there was nothing. */
bool later_land(const void *barrier, const void *phase);

void later_copy(Later *copy); /* a LaterCopy */

/* The watch build's accesses at the time of asking, as if the running thread
 * made them: it reads, it writes; and it asks. */
void checked_look(const void *at, size_t bytes);
void checked_put(void *at, size_t bytes);
void checked_ask(Errand errand, Later *later);
void checked_bulk(Later *later, const void *barrier);
/* It reads 16 bytes of shared memory now. */
void checked_read16(const Later *later, const void *at);
/* While there is one, the running thread's accesses are not looked at. */
class CheckedUnseen {
    Block *block;
    Checker *checker;

  public:
    CheckedUnseen();
    ~CheckedUnseen();
    CheckedUnseen(const CheckedUnseen &) = delete;
};
#pragma GCC visibility pop

/* A copy by cp.async. */
struct LaterCopy : Later {
    const void *from;
    size_t zeros; /* of its bytes: the last ones, not read */
    /* The watch build's: barriers that its block had met when it was asked for.
     */
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
SIMT_INLINE void looks(const void *at, size_t bytes) {
    checked_look(at, bytes);
}
SIMT_INLINE void puts_at(void *at, size_t bytes) { checked_put(at, bytes); }
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
SIMT_INLINE void looks(const void *, size_t) {}
SIMT_INLINE void puts_at(void *, size_t) {}
#endif

/* The errands since the last commit are a group ... */
SIMT_INLINE void later_commit(Errand errand) {
    if (may_be_late()) later_end_group(errand);
}
/* ... and now all are done but those of the newest `groups` groups. */
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

/* Copy `bytes` (4, 8 or 16) bytes, later; the last `zeros` become 0. All copies
 * are late in the watch build. Elsewhere those of the warps' first lanes: that
 * spoils the result of who does not wait, too, and to keep them all in mind
 * would cost a sixth of a kernel's speed. */
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

} // namespace
} // namespace simt
#endif
