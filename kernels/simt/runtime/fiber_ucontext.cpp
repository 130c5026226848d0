/* fiber_ucontext.cpp -- the portable fiber switch, which uses ucontext. */
#include "runtime.h"

#ifdef SIMT_UCONTEXT
#include <ucontext.h>
#include <unistd.h>

#include <new>

namespace simt::SIMT_FIBERS {

void create_contexts(Worker *worker) {
    ucontext_t *contexts = new ucontext_t[MAX_THREADS + 1]();
    worker->contexts = contexts;
    worker->main.resume = &contexts[MAX_THREADS];
}

void prepare_fiber(Fiber *fiber, void (*entry)()) {
    Worker *worker = static_cast<Worker *>(fiber->block);
    const size_t index = ((char *)fiber - worker->slots) / SIMT_STACK;
    ucontext_t *context = (ucontext_t *)worker->contexts + index;
    getcontext(context);
    char *slot = worker->slots + index * SIMT_STACK;
    context->uc_stack.ss_sp = slot;
    context->uc_stack.ss_size = (size_t)((char *)fiber - slot);
    context->uc_link = 0;
    makecontext(context, entry, 0);
    fiber->resume = context;
}

void switch_fiber(Fiber *from, Fiber *to) {
    Worker *worker = this_worker;
    announce_switch(to);
    worker->switching = true;
    swapcontext((ucontext_t *)from->resume, (ucontext_t *)to->resume);
    worker->switching = false;
    announce_arrival();
}

} // namespace simt::SIMT_FIBERS
#else
namespace simt::SIMT_FIBERS {
void create_contexts(Worker *) {} // the asm switch keeps them on the stacks
} // namespace simt::SIMT_FIBERS
#endif
