/* fiber_sanitize.h -- announces fiber switches to the sanitizers of g++:
 * AddressSanitizer identifies a thread by its stack, ThreadSanitizer by its
 * history. In a build without them this does nothing. */
#ifndef SIMT_FIBER_SANITIZE_H
#define SIMT_FIBER_SANITIZE_H

namespace simt::SIMT_FIBERS {

#ifdef SIMT_SANITIZE
#pragma GCC visibility push(default)
/* Call the first function immediately before a switch to `to`, and the second
 * function immediately after it. */
void announce_switch(Fiber *to);
void announce_arrival();
#pragma GCC visibility pop
/* Discard the remains of an abandoned thread, before `fiber` restarts. */
void announce_start(Fiber *fiber);
#else
SIMT_INLINE void announce_switch(Fiber *) {}
SIMT_INLINE void announce_arrival() {}
SIMT_INLINE void announce_start(Fiber *) {}
#endif

} // namespace simt::SIMT_FIBERS
#endif
