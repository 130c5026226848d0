/* log.h -- the accesses of each thread, in order, until its warp is counted.
 *
 * A hook only appends eight bytes to the log of its thread: the site and the
 * address, or a basic block's pc. match.cpp combines the logs of each warp when
 * the block's threads have met at a barrier or ended, or when a log is full. A
 * thread's k-th visit to a site since the barrier belongs to the warp's k-th
 * request at that site. lib/weft/pykernel/sim/counters.py has the same rule.
 *
 * The functions of the log are called only if the checker's log_on is set. */
#ifndef SIMT_CHECK_LOG_H
#define SIMT_CHECK_LOG_H

namespace simt::SIMT_FIBERS {

struct Checker;
struct Tally;

enum {
    LOG_ENTRIES = 512, /* entries of one thread */
    /* This is not a power of two. The logs of a warp are written and read at
     * the same time, and must not compete for the same sets of the cache. */
    LOG_BYTES = LOG_ENTRIES * 8 + 64,
    SITE_FROM = 48 /* bit at which an entry's site begins; below it is the
                    * address or the pc */
};

/* A worker's logs of the running block. */
struct Log {
    uint64_t *entries; /* entries of thread i begin at byte i * LOG_BYTES */
    Tally *tally;      /* the counts so far (counters.h) */
    unsigned count[MAX_THREADS];
    unsigned useless; /* a bit for each warp: waiting for its other lanes did
                       * not help */
};

inline void log_begin_launch(Job *) {}
SIMT_INLINE uint64_t *log_of(const Log *log, unsigned thread) {
    return (uint64_t *)((char *)log->entries + thread * LOG_BYTES);
}

void log_begin_block(Checker *checker, Block *block);
void log_end_block(Checker *checker, Block *block);
/* Count the logs when all threads of the block that have not ended are at a
 * barrier. */
void log_at_barrier(Checker *checker, Block *block);
inline void log_at_meeting(Checker *, Warp *, unsigned) {}
/* After all workers have ended, add their sums to those of the kernel. Call
 * this for every instrumented launch, with or without counters. */
void counters_end_launch(Job *job);

/* Handle a full log of thread `self`. Return when the log has room again; by
 * then, other threads may have run. */
void log_full(Checker *checker, Fiber *self);
/* Append an entry. Return false if there would be no room after it. */
SIMT_INLINE bool log_try(Log *log, const Fiber *self, uint64_t entry) {
    const unsigned thread = self->thread.linear, count = log->count[thread];
    if (SIMT_UNLIKELY(count >= LOG_ENTRIES - 1)) return false;
    log_of(log, thread)[count] = entry;
    log->count[thread] = count + 1;
    return true;
}
/* Withdraw the last entry. Nothing else may have happened since it was
 * appended. */
SIMT_INLINE void log_take_back(Log *log, const Fiber *self) {
    log->count[self->thread.linear]--;
}

/* Append an entry, and return the number of entries. */
SIMT_INLINE unsigned log_put(Log *log, const Fiber *self, uint64_t entry) {
    const unsigned thread = self->thread.linear, count = log->count[thread];
    log_of(log, thread)[count] = entry;
    return log->count[thread] = count + 1;
}

/* In the following templates, C is Checker, whose members are not declared
 * yet. */
template <class C>
SIMT_INLINE void log_append(C *checker, Fiber *self, uint64_t entry) {
    if (SIMT_UNLIKELY(log_put(&checker->log, self, entry) == LOG_ENTRIES))
        log_full(checker, self);
}

template <class C>
SIMT_INLINE void log_access(C *checker, Fiber *self, const Access &access) {
    log_append(checker, self,
               (uint64_t)access.site << SITE_FROM | access.address);
}

/* Log the beginning of a basic block whose hook call returns to `pc`. */
template <class C>
SIMT_INLINE void log_step(C *checker, Fiber *self, const void *pc) {
    log_append(checker, self, (uint64_t)pc);
}

} // namespace simt::SIMT_FIBERS
#endif
