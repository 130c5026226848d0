/* block_signals.h -- the order between blocks that synchronise through
 * variables in global memory. */
#ifndef SIMT_CHECK_TOLD_H
#define SIMT_CHECK_TOLD_H
#include "sync.h"

namespace simt::SIMT_FIBERS {

SIMT_INLINE Variable variable_of(const Access &access) {
    return (access.offset & ~(uintptr_t)3) | (access.space == SHARED);
}

/* Record that a thread writes a variable after a fence. The write releases all
 * accesses of its block below the id `base`. fenced: such an id for each
 * thread, or NULL. */
void tell_grid(Checker *checker, Variable variable, const Told &told,
               unsigned base, const Clock &fenced);

/* Record that a thread is about to read variables, `words` words of memory. The
 * releases that the thread acquires are determined after the read, at the
 * latest when something depends on them. */
void begin_reading(Checker *checker, Variable first, unsigned words,
                   unsigned me);
void finish_reading(Checker *checker);

} // namespace simt::SIMT_FIBERS
#endif
