/* log.h -- what each thread has accessed, in order, until its warp is counted.
 */
#ifndef SIMT_CHECK_LOG_H
#define SIMT_CHECK_LOG_H

namespace simt {
#ifdef SIMT_UCONTEXT
inline namespace ucontext_fibers {
#else
inline namespace asm_fibers {
#endif

struct Checker;

struct Log {};

inline void log_begin_launch(Job *) {}
inline void log_begin_block(Checker *, Block *) {}
inline void log_end_block(Checker *, Block *) {}
inline void log_at_barrier(Checker *, Block *) {}
inline void log_at_meeting(Checker *, Warp *, unsigned) {}
inline void log_access(Checker *, Fiber *, const Access &) {}
/* A basic block begins, whose call of the hook returns to `pc`. */
inline void log_step(Checker *, Fiber *, const void *) {}
inline void counters_end_launch(Job *) {}

} // namespace
} // namespace simt
#endif
