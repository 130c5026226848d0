/* races.h -- accesses that nothing orders. */
#ifndef SIMT_CHECK_RACES_H
#define SIMT_CHECK_RACES_H

namespace simt {
#ifdef SIMT_UCONTEXT
inline namespace ucontext_fibers {
#else
inline namespace asm_fibers {
#endif

struct Checker;

/* What a worker knows about the running block. */
struct Races {};

inline void races_begin_launch(Job *) {}
inline void races_end_launch(Job *) {}
inline void races_begin_block(Checker *, Block *) {}
inline void races_end_block(Checker *, Block *) {}
inline void races_at_barrier(Checker *, Block *) {}
/* Lanes `group` of the warp have met. */
inline void races_at_meeting(Checker *, Warp *, unsigned) {}
/* A block has come to the grid barrier number `epoch` of a launch, and left. */
inline void races_before_grid_barrier(Checker *, Block *, unsigned) {}
inline void races_after_grid_barrier(Checker *, Block *, unsigned) {}
enum FenceScope { FENCE_BLOCK, FENCE_DEVICE };
inline void races_at_fence(Checker *, Fiber *, FenceScope) {}
inline void races_access(Checker *, Fiber *, const Access &) {}
/* [offset, offset + size) of the arena begins a new life (or ends one). */
inline void races_forget(uintptr_t, size_t) {}

} // namespace
} // namespace simt
#endif
