/* fiber_sanitize.cpp -- implements fiber_sanitize.h. */
#include "runtime.h"

#ifdef SIMT_SANITIZE
#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#else
#include <sanitizer/tsan_interface.h>
#endif

namespace simt::SIMT_FIBERS {

#define UNSEEN __attribute__((no_sanitize("address", "thread", "undefined")))

static Worker *worker_of(Fiber *fiber) {
    return static_cast<Worker *>(fiber->block);
}

static int index_of(const Worker *worker, const Fiber *fiber) {
    return (int)(((uintptr_t)fiber - (uintptr_t)worker->slots) / SIMT_STACK);
}

#ifdef __SANITIZE_ADDRESS__

/* The stack of this thread's worker, saved while a fiber runs, and whether an
 * announced switch has not arrived yet. */
static thread_local struct {
    const void *bottom;
    size_t size;
    bool switching;
} host;

UNSEEN void announce_switch(Fiber *to) {
    // The watchdog may stop a thread in the middle of a switch, which then
    // never arrives. AddressSanitizer accepts no switch within a switch.
    if (host.switching) announce_arrival();
    host.switching = true;
    const uintptr_t slot = (uintptr_t)to & ~(uintptr_t)(SIMT_STACK - 1);
    if (to == &this_worker->main)
        __sanitizer_start_switch_fiber(0, host.bottom, host.size);
    else
        __sanitizer_start_switch_fiber(0, (void *)slot, (uintptr_t)to - slot);
}

UNSEEN void announce_arrival() {
    const void *bottom;
    size_t size;
    __sanitizer_finish_switch_fiber(0, &bottom, &size);
    host.switching = false;
    const uintptr_t from = (uintptr_t)bottom - (uintptr_t)this_worker->slots;
    if (from >= (uintptr_t)MAX_THREADS * SIMT_STACK)
        host.bottom = bottom, host.size = size;
}

/* Frames that were never left still have poisoned memory around them. */
UNSEEN void announce_start(Fiber *fiber) {
    const uintptr_t slot = (uintptr_t)fiber & ~(uintptr_t)(SIMT_STACK - 1);
    __asan_unpoison_memory_region((void *)slot, (uintptr_t)fiber - slot);
}

#else

UNSEEN void announce_switch(Fiber *to) {
    Worker *worker = this_worker;
    if (to == &worker->main) return __tsan_switch_to_fiber(worker->host, 0);
    if (!worker->host) worker->host = __tsan_get_current_fiber();
    __tsan_switch_to_fiber(worker->announced[index_of(worker, to)], 0);
}

UNSEEN void announce_arrival() {}

UNSEEN void announce_start(Fiber *fiber) {
    Worker *worker = worker_of(fiber);
    void **mine = &worker->announced[index_of(worker, fiber)];
    if (*mine) __tsan_destroy_fiber(*mine);
    *mine = __tsan_create_fiber(0);
}

#endif

} // namespace simt::SIMT_FIBERS
#endif
