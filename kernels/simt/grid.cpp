/* grid.cpp -- the barrier of a cooperative launch. */
#include "runtime.h"

namespace simt {
#ifdef SIMT_UCONTEXT
inline namespace ucontext_fibers {
#else
inline namespace asm_fibers {
#endif

void grid_barrier() {
    Worker *worker = this_worker;
    note_fault(worker, here(), SIMT_FAULT_TRAP, cudaErrorLaunchFailure,
               "grid barrier in a launch that is not cooperative");
    abandon(worker);
}

} // namespace
} // namespace simt
