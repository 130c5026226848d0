/* launch.cpp -- the start and the end of a launch of instrumented code, and its
 * blocks. */
#include "launch.h"

#include <stdlib.h>
#include <sys/mman.h>

#include "hooks.h"
#include "report.h"

namespace simt::SIMT_FIBERS {

static std::atomic<bool> counters_wanted{true}, races_wanted{true};

/* ---- the launch --------------------------------------------------------- */

void check_begin_launch(Job *job) {
    name_parameters(job);
    races_begin_launch(job);
    log_begin_launch(job);
}

void check_end_launch(Job *job) {
    for (int i = 0; Worker *worker = worker_number(i); i++)
        if (worker->own_checker && worker->own_checker->job == job)
            tell_blanks(worker->own_checker, GLOBAL);
    races_end_launch(job);
    counters_end_launch(job);
    if (job->failed) found_fault(job);
    write_report_if_asked();
}

/* ---- a worker ----------------------------------------------------------- */

static Checker *create_checker(Worker *worker) {
    static std::atomic<unsigned> number;
    void *memory = mmap(0, sizeof(Checker), PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    void *states = mmap(0, SHADOWED + 64, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED || states == MAP_FAILED) return 0;
    Checker *checker = new (memory) Checker();
    checker->worker = worker;
    checker->number = number++;
    checker->shared = (uintptr_t)worker->shared;
    checker->shared_states = (uint8_t *)states;
    return checker;
}

Checker *check_begin_worker(Worker *worker) {
    // If the worker's stacks are elsewhere, the hooks treat its code as the
    // host's.
    const uintptr_t slots = (uintptr_t)worker->slots;
    if (!checking() || slots - fibers.base >= fibers.bytes) return 0;
    if (!worker->own_checker) worker->own_checker = create_checker(worker);
    Checker *checker = worker->own_checker;
    if (!checker) return 0;
    checker->job = worker->job;
    checker->races_on = races_wanted;
    checker->log_on = counters_wanted;
    checker->last = {};
    return checker;
}

/* ---- a block ------------------------------------------------------------ */

void check_begin_block(Worker *worker) {
    Checker *checker = worker->checker;
    const unsigned dynamic = (unsigned)worker->job->dynamic_shared;
    memset(checker->shared_states, NOWHERE, checker->shared_end);
    memset(checker->shared_states, LIVE, dynamic);
    checker->shared_end = dynamic;
    checker->arrivals_differ = false;
    checker->barriers.count = 0;
    checker->ended = 0;
    for (int i = 0; i < worker->threads; i++) checker->looks[i].count = 0;
    for (int i = 0; i < worker->threads; i++)
        checker->arrivals[i] = {0, 0, 0, worker->epoch - 1, 0, false, false};
    if (checker->races_on) races_begin_block(checker, worker);
    if (checker->log_on) log_begin_block(checker, worker);
}

void check_end_block(Worker *worker) {
    Checker *checker = worker->checker;
    tell_blanks(checker, SHARED);
    if (checker->log_on) log_end_block(checker, worker);
    if (checker->races_on) races_end_block(checker, worker);
}

/* Record that the block leaves the barrier at which `arrival` waited. */
static void note_barrier(Barriers *barriers, const Arrival &arrival) {
    unsigned i = 0;
    while (i < barriers->count && i < Barriers::MOST &&
           (barriers->line[i] != arrival.line ||
            barriers->file[i] != arrival.file))
        i++;
    if (i == Barriers::MOST || !arrival.line) barriers->count = ~0u;
    if (barriers->count > Barriers::MOST) return;
    if (i == barriers->count) {
        barriers->count++;
        barriers->file[i] = arrival.file;
        barriers->line[i] = arrival.line;
        barriers->visits[i] = 0;
        for (unsigned j = 0; j < Barriers::MOST; j++)
            barriers->before[j][i] = 0;
    }
    barriers->visits[i]++;
    barriers->last = i;
    memcpy(barriers->before[i], barriers->visits, sizeof barriers->visits);
}

void check_at_barrier(Worker *worker) {
    Checker *checker = worker->checker;
    // On a GPU a barrier counts only the threads that have not returned. A
    // thread that reached the kernel's end took a path without this barrier.
    if (checker->arrivals_differ || checker->ended) found_uneven(checker);
    tell_blanks(checker, SHARED);
    checker->arrivals_differ = false;
    if (checker->log_on) log_at_barrier(checker, worker);
    if (checker->races_on) races_at_barrier(checker, worker);
    note_barrier(&checker->barriers, checker->arrivals[checker->first_arrival]);
}

void check_at_meeting(Worker *worker, Warp *warp, unsigned group) {
    Checker *checker = worker->checker;
    find_absent(checker, warp, group);
    if (checker->log_on) log_at_meeting(checker, warp, group);
    if (checker->races_on) races_at_meeting(checker, warp, group);
}

uint64_t check_changes(const Worker *worker) {
    const Checker *checker = worker->own_checker;
    return checker ? *(const volatile uint64_t *)&checker->changes : 0;
}

/* Return the place where a signal ended the worker, if it is in the kernel's
 * code, or else the last step. The result has the form of a hook call's return
 * address. */
const void *check_step(const Worker *worker) {
    const void *step = worker->checker->step;
    const void *at = (const void *)worker->stopped_at;
    uintptr_t offset, kernel;
    const char *module = at ? module_of(at, &offset) : 0;
    const char *own = module_of((const void *)worker->body, &kernel);
    return module && own && !strcmp(module, own) ? (const char *)at + 1 : step;
}

void check_before_grid_barrier(Worker *worker, unsigned epoch) {
    Checker *checker = worker->checker;
    if (checker->races_on) races_before_grid_barrier(checker, worker, epoch);
}

void check_after_grid_barrier(Worker *worker, unsigned epoch) {
    Checker *checker = worker->checker;
    if (checker->races_on) races_after_grid_barrier(checker, worker, epoch);
}

} // namespace simt::SIMT_FIBERS

using namespace simt;

extern "C" void simt_check_counters(int on) { counters_wanted = on != 0; }
extern "C" void simt_check_races(int on) { races_wanted = on != 0; }
