/* watch/async_copies.h -- what the watch build has to say of copies under way.
 */
#ifndef SIMT_CHECK_LATER_H
#define SIMT_CHECK_LATER_H
#include "../runtime/asynchronous.h"
#include "../runtime/runtime.h"

namespace simt {
#ifdef SIMT_UCONTEXT
inline namespace ucontext_fibers {
#else
inline namespace asm_fibers {
#endif

/* Do what was asked for, which a thread has waited for now. */
void check_act(Checker *checker, Fiber *self, Errand errand, Later *later);
void check_land(Checker *checker, Bulk *bulk, const void *phase);
/* The block is over: tell what needs its shared memory, or its threads, and
 * was not waited for. */
void check_not_waited(Worker *worker);

} // namespace
} // namespace simt
#endif
