/* watchdog.cpp -- how a launch that goes on for too long is ended. */
#include "runtime.h"

namespace simt {
#ifdef SIMT_UCONTEXT
inline namespace ucontext_fibers {
#else
inline namespace asm_fibers {
#endif

static std::atomic<int> timeout_ms;

bool stopped(Worker *worker) {
    if (interrupt_seen.load(std::memory_order_relaxed))
        note_fault(worker, 0, SIMT_FAULT_INTERRUPT, cudaErrorLaunchTimeout,
                   "interrupted");
    return worker->job->failed.load(std::memory_order_relaxed);
}

void leave_if_stopped(Worker *worker) {
    if (stopped(worker)) abandon(worker);
}

} // namespace
} // namespace simt

using namespace simt;

extern "C" void simt_set_timeout(int ms) { timeout_ms = ms < 0 ? 0 : ms; }
