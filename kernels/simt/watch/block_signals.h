/* block_signals.h -- order between blocks that synchronize through variables in
 * global memory. */
#ifndef SIMT_CHECK_TOLD_H
#define SIMT_CHECK_TOLD_H
#include "sync.h"

namespace simt {
#ifdef SIMT_UCONTEXT
inline namespace ucontext_fibers {
#else
inline namespace asm_fibers {
#endif

SIMT_INLINE Variable variable_of(const Access &access) {
    return (access.offset & ~(uintptr_t)3) | (access.space == SHARED);
}

/* A thread writes a variable after a fence. The write releases all that its
 * block did below the id `base`; fenced: such an id for each thread, or
 * NULL. */
void tell_grid(Checker *checker, Variable variable, const Told &told,
               unsigned base, const Clock &fenced);

/* A thread is about to read variables, `words` words of memory. Which releases
 * it sees is fixed after the read: at the latest when something depends on
 * it. */
void begin_reading(Checker *checker, Variable first, unsigned words,
                   unsigned me);
void finish_reading(Checker *checker);

} // namespace
} // namespace simt
#endif
