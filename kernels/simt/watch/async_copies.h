/* watch/async_copies.h -- how the watch build checks copies that are under
   way. */
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

/* Perform an operation that a thread requested earlier and has now waited
 * for. */
void check_act(Checker *checker, Fiber *self, Errand errand, Later *later);
void check_land(Checker *checker, Bulk *bulk, const void *phase);
/* The block is over: report each operation that still needs its shared memory
 * or its threads and that nobody has waited for. */
void check_not_waited(Worker *worker);

} // namespace
} // namespace simt
#endif
