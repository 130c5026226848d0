/* asynchronous.cpp -- the operations that threads have issued and not yet
 * waited for. */
#include "asynchronous.h"

#include <stdlib.h>
#include <string.h>

#include "../watch/async_copies.h"
#include "runtime.h"

namespace simt::SIMT_FIBERS {

static Worker *running_worker() { return static_cast<Worker *>(here()->block); }

[[noreturn]] static void no_memory(Worker *worker) {
    note_fault(worker, here(), SIMT_FAULT_EXCEPTION, cudaErrorMemoryAllocation,
               "out of memory for pending asynchronous copies");
    abandon(worker);
}

/* ---- the operations of a thread ------------------------------------------ */

/* Return the running thread's Pending, which is empty at its first
 * operation. */
static Pending *pending_of(Worker *worker, Fiber *self) {
    Pending *&pending = worker->pending[self->thread.linear];
    if (!pending) pending = (Pending *)calloc(1, sizeof *pending);
    if (!pending) no_memory(worker);
    if (pending->block != worker->blocks) {
        for (Errands &all : pending->of) all.begin = all.end = all.groups = 0;
        pending->block = worker->blocks;
        pending->thread = self->thread;
    }
    worker->asked = true;
    self->pending = (uintptr_t)pending | (self->pending & AT_ONCE);
    return pending;
}

Errands *later_room(Errand errand, unsigned bytes) {
    Worker *worker = running_worker();
    go_inside(worker);
    Fiber *self = here();
    promote(self); // the end of a thread is recorded only in a promoted block
    Pending *pending = pending_at(self);
    if (!pending) pending = pending_of(worker, self);
    Errands *all = &pending->of[errand];
    if (all->begin) {
        memmove(all->room, all->room + all->begin, all->end - all->begin);
        all->end -= all->begin;
        all->begin = 0;
    }
    if (all->size - all->end < bytes) {
        const unsigned size = (all->size ? 2 * all->size : 512) + bytes;
        char *room = (char *)realloc(all->room, size);
        if (!room) no_memory(worker);
        all->room = room;
        all->size = size;
    }
    go_outside(worker);
    return all;
}

void later_end_group(Errand errand) {
    Pending *pending = pending_at(here());
    if (!pending) return; // there is nothing to wait for
    Errands *all = &pending->of[errand];
    if (all->size - all->end < sizeof(Later))
        all = later_room(errand, sizeof(Later));
    *(Later *)(all->room + all->end) = {0, 0, 0, sizeof(Later), 0};
    all->end += sizeof(Later);
    all->groups++;
}

void later_act(Errand errand, unsigned groups) {
    Fiber *self = here();
    Pending *pending = pending_at(self);
    if (!pending) return;
    Errands *all = &pending->of[errand];
    Checker *checker = self->block->checker;
    while (all->groups > groups) {
        Later *it = (Later *)(all->room + all->begin);
        all->begin += it->size;
        if (!it->act)
            all->groups--;
        else if (checker)
            check_act(checker, self, errand, it);
        else
            it->act(it);
    }
    if (all->begin == all->end) all->begin = all->end = 0;
}

/* ---- operations completed at a barrier ----------------------------------- */

void later_bulk(Later *later, const void *barrier) {
    Worker *worker = running_worker();
    go_inside(worker);
    promote(here());
    Bulk *bulk = (Bulk *)malloc(sizeof *bulk + later->size);
    if (!bulk) no_memory(worker);
    bulk->barrier = barrier;
    bulk->thread = here()->thread;
    bulk->next = 0;
    memcpy(bulk->later(), later, later->size);
    Bulk **last = &worker->bulks;
    while (*last) last = &(*last)->next;
    *last = bulk;
    worker->asked = true;
    go_outside(worker);
}

bool later_land(const void *barrier, const void *phase) {
    Worker *worker = running_worker();
    bool any = false;
    for (Bulk **at = &worker->bulks; *at;) {
        Bulk *bulk = *at;
        if (bulk->barrier != barrier) {
            at = &bulk->next;
            continue;
        }
        any = true;
        go_inside(worker);
        *at = bulk->next;
        if (worker->checker)
            check_land(worker->checker, bulk, phase);
        else
            bulk->later()->act(bulk->later());
        free(bulk);
        go_outside(worker);
    }
    return any;
}

/* ---- the ends of blocks ------------------------------------------------- */

void later_end_block(Worker *worker, bool whole) {
    worker->asked = false;
    if (worker->checker && whole) check_not_waited(worker);
    while (Bulk *bulk = worker->bulks) {
        worker->bulks = bulk->next;
        free(bulk);
    }
}

/* ---- copies ------------------------------------------------------------- */

void later_copy(Later *it) {
    const LaterCopy *copy = (LaterCopy *)it;
    copy_now(copy->shared, copy->from, copy->bytes, copy->zeros);
}

} // namespace simt::SIMT_FIBERS
