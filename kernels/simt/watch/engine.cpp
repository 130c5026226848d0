/* engine.cpp -- out-of-line versions of engine.h's functions, for instrumented
 * kernels. */
#include "check.h"
#include "launch.h"

namespace simt::SIMT_FIBERS {

/* ---- running threads ---------------------------------------------------- */

void checked_begin_thread(void *copy, const void *closure, size_t size) {
    memcpy(copy, closure, size);
    here()->block->inside = false;
}

bool checked_next_thread() {
    Fiber *self = here();
    Block *block = self->block;
    block->inside = true;
    if (block->promoted) return false;
    const int running = ++block->running;
    if (running == block->threads) return false;
    self->thread = block->order[running];
    return true;
}

/* Drop the last step from the log if it contains only a call that returns to
 * `pc`, since the program has no such step. */
static void forget_step(Checker *checker, const Fiber *self, const void *pc) {
    enum { CALL = 6 }; // maximum bytes of a call instruction
    Log *log = &checker->log;
    const unsigned thread = self->thread.linear;
    if (!checker->log_on || !log->count[thread]) return;
    const uint64_t last = log_of(log, thread)[log->count[thread] - 1];
    if ((uintptr_t)pc - last <= CALL) log->count[thread]--;
}

void checked_end() {
    Checker *checker = running_checker();
    if (!checker) return;
    forget_step(checker, here(), __builtin_return_address(0));
    Arrival &mine = checker->arrivals[here()->thread.linear];
    if (mine.left) return;
    mine.ended = true;
    checker->ended++;
}

void checked_leaves() {
    Checker *checker = running_checker();
    if (!checker) return;
    forget_step(checker, here(), __builtin_return_address(0));
    checker->arrivals[here()->thread.linear].left = true;
}

Fiber *checked_promoted() { return promoted(); }

/* ---- waiting ------------------------------------------------------------ */

static void arrive(Checker *checker, const Fiber *self, const void *pc,
                   const char *file, unsigned line) {
    Arrival &mine = checker->arrivals[self->thread.linear];
    mine = {pc, file, line, checker->worker->epoch, 0, false, false};
    const Arrival &first = checker->arrivals[checker->first_arrival];
    if (checker->worker->arrived == 0)
        checker->first_arrival = (uint16_t)self->thread.linear;
    else if (first.line != line || (!line && first.pc != pc))
        checker->arrivals_differ = true;
}

int check_barrier_from(int vote, const void *pc, const char *file,
                       unsigned line) {
    Block *block = here()->block;
    go_inside(block);
    Fiber *self = promoted();
    Checker *checker = block->checker;
    if (checker) arrive(checker, self, pc, file, line);
    const unsigned epoch = block->epoch;
    block->votes[epoch & 1] += vote;
    if (++block->arrived == block->live) {
        if (checker) check_at_barrier(checker->worker);
        open_barrier(block);
    } else {
        for (;;) {
            pass(self);
            if (block->epoch != epoch) break;
            in_vain(self);
        }
    }
    const int votes = block->votes[epoch & 1];
    go_outside(block);
    return votes;
}

int checked_barrier(int vote, const char *file, unsigned line) {
    return check_barrier_from(vote, __builtin_return_address(0), file, line);
}

/* ---- shared memory ------------------------------------------------------ */

/* Begin an array's first use in a block: its bytes exist, but are not written
 * yet. */
static void begin_shared(Checker *checker, unsigned offset, size_t size,
                         const SharedMember *members, int count) {
    memset(checker->shared_states + offset, LIVE, size);
    const unsigned end = offset + (unsigned)size;
    if (checker->shared_end < end) checker->shared_end = end;
    for (int i = 0; i < count; i++)
        name_shared(checker->job, members[i],
                    offset + (unsigned)members[i].offset);
}

void *checked_shared(SharedSite *site, size_t size, size_t align,
                     const SharedMember *members, int count) {
    Block *block = here()->block;
    unsigned offset;
    if (__atomic_load_n(&site->launch, __ATOMIC_ACQUIRE) == block->launch)
        offset = site->offset;
    else
        offset = place_shared(block, site, size, align);
    Checker *checker = block->checker;
    if (checker && checker->shared_states[offset] == NOWHERE)
        begin_shared(checker, offset, size, members, count);
    return block->shared + offset;
}

void *checked_dynamic_shared(const char *name, unsigned element) {
    Block *block = here()->block;
    Checker *checker = block->checker;
    if (checker && (checker->dynamic != name ||
                    checker->dynamic_launch != block->launch)) {
        checker->dynamic = name;
        checker->dynamic_launch = block->launch;
        const size_t size = checker->job->dynamic_shared;
        name_shared(checker->job, {name, 0, size, element, {}}, 0);
    }
    return block->shared;
}

/* ---- fences ------------------------------------------------------------- */

void checked_fence(bool device) {
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
    if (Checker *checker = running_checker())
        races_at_fence(checker, here(), device ? FENCE_DEVICE : FENCE_BLOCK);
}

} // namespace simt::SIMT_FIBERS
