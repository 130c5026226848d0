/* fiber_sanitize.h -- switches of fibers as the sanitizers of g++ want to hear
 * of them: AddressSanitizer knows a thread by its stack, ThreadSanitizer by
 * what it has seen. Nothing in a build without them. */
#ifndef SIMT_FIBER_SANITIZE_H
#define SIMT_FIBER_SANITIZE_H

namespace simt {
#ifdef SIMT_UCONTEXT
inline namespace ucontext_fibers {
#else
inline namespace asm_fibers {
#endif

#ifdef SIMT_SANITIZE
#pragma GCC visibility push(default)
/* Called right before a switch to `to`, and first thing after it. */
void announce_switch(Fiber *to);
void announce_arrival();
#pragma GCC visibility pop
/* `fiber` will start anew: what an abandoned thread left is forgotten. */
void announce_start(Fiber *fiber);
#else
SIMT_INLINE void announce_switch(Fiber *) {}
SIMT_INLINE void announce_arrival() {}
SIMT_INLINE void announce_start(Fiber *) {}
#endif

} // namespace
} // namespace simt
#endif
