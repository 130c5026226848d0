/* watch/async_copies.h -- the watch build's checks of copies that are in
   flight. */
#ifndef SIMT_CHECK_LATER_H
#define SIMT_CHECK_LATER_H
#include "../runtime/asynchronous.h"
#include "../runtime/runtime.h"

namespace simt::SIMT_FIBERS {

/* Perform an operation that a thread requested earlier and has now waited
 * for. */
void check_act(Checker *checker, Fiber *self, Errand errand, Later *later);
void check_land(Checker *checker, Bulk *bulk, const void *phase);
/* Report, at the end of the block, each operation that still needs the block's
 * shared memory or threads and for which no thread has waited. */
void check_not_waited(Worker *worker);

} // namespace simt::SIMT_FIBERS
#endif
