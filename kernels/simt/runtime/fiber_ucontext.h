/* fiber_ucontext.h -- fibers on any POSIX machine. A switch is a call into the
 * runtime that also makes a system call. It costs 20 to 100 times as much as a
 * switch of fiber_x86.h. */
#ifndef SIMT_FIBER_UCONTEXT_H
#define SIMT_FIBER_UCONTEXT_H

namespace simt::SIMT_FIBERS {

/* Return the running thread's Fiber. */
static inline __attribute__((always_inline, const)) Fiber *here() {
    return fiber_at((uintptr_t)__builtin_frame_address(0));
}

#pragma GCC visibility push(default)
/* Suspend `from` and continue `to`. Return when another fiber switches
 * back. */
void switch_fiber(Fiber *from, Fiber *to);
#pragma GCC visibility pop

/* Make the next switch to `fiber` call entry() on its empty stack. */
void prepare_fiber(Fiber *fiber, void (*entry)());

} // namespace simt::SIMT_FIBERS
#endif
