/* block_signals.h -- what blocks tell one another by variables of global
 * memory. */
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

/* A thread writes a variable after a fence. base: what its block did below
 * this id is told; fenced: likewise, of each thread; or NULL. */
void tell_grid(Checker *checker, Variable variable, const Told &told,
               unsigned base, const Clock &fenced);

/* A thread is about to read variables, `words` words of memory. Which releases
 * it sees is known when it has: at the latest when anything depends on it. */
void begin_reading(Checker *checker, Variable first, unsigned words,
                   unsigned me);
void finish_reading(Checker *checker);

} // namespace
} // namespace simt
#endif
