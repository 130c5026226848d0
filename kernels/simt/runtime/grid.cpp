/* grid.cpp -- the barrier of a cooperative launch. All blocks of the launch run
 * at the same time, each on a separate worker, which sleeps while it waits. */
#include <chrono>
#include <condition_variable>

#include "../watch/launch.h"
#include "runtime.h"

namespace simt::SIMT_FIBERS {

static struct Grid {
    std::mutex lock;
    std::condition_variable wake;
    unsigned epoch;
    uint64_t arrived, ended; /* blocks at the barrier; blocks that have ended */
} *grid = new Grid();        // never destroyed: waiting threads may outlive it

bool prepare_grid(Job *job) {
    grid->arrived = grid->ended = 0;
    job->chunk = 1;
    return have_workers((int)job->blocks);
}

/* Report a deadlock if the waiting blocks wait for blocks that have ended. */
static void note_deadlock(Worker *worker) {
    if (!grid->arrived || !grid->ended) return;
    if (grid->arrived + grid->ended < worker->job->blocks) return;
    note_fault(worker, 0, SIMT_FAULT_DEADLOCK, cudaErrorLaunchTimeout,
               "deadlock: %llu blocks wait at a grid barrier, and %llu have "
               "ended without it",
               (unsigned long long)grid->arrived,
               (unsigned long long)grid->ended);
    grid->wake.notify_all();
}

void leave_grid(Worker *worker) {
    std::lock_guard<std::mutex> guard(grid->lock);
    grid->ended++;
    note_deadlock(worker);
}

static void wait_for_blocks(Worker *worker) {
    std::unique_lock<std::mutex> guard(grid->lock);
    const unsigned epoch = grid->epoch;
    if (++grid->arrived == worker->job->blocks) {
        grid->arrived = 0;
        grid->epoch++;
        grid->wake.notify_all();
        return;
    }
    note_deadlock(worker);
    worker->waiting = true;
    while (grid->epoch == epoch && !stopped(worker))
        grid->wake.wait_for(guard, std::chrono::milliseconds(5));
    worker->waiting = false;
}

void grid_barrier(const char *file, unsigned line) {
    Worker *worker = this_worker;
    const Fiber *self = here();
    if (!worker->cooperative) {
        note_fault(worker, self, SIMT_FAULT_TRAP, cudaErrorLaunchFailure,
                   "a grid barrier needs cudaLaunchCooperativeKernel()");
        abandon(worker);
    }
    const int here =
        worker->checker
            ? check_barrier_from(1, __builtin_return_address(0), file, line)
            : barrier(1);
    if (here != worker->threads) {
        note_fault(worker, 0, SIMT_FAULT_DEADLOCK, cudaErrorLaunchTimeout,
                   "deadlock: of the %d threads of block (%u,%u,%u), %d came "
                   "to a grid barrier",
                   worker->threads, worker->index.x, worker->index.y,
                   worker->index.z, here);
        abandon(worker);
    }
    if (self->thread.linear == 0) {
        if (worker->checker) check_before_grid_barrier(worker, grid->epoch);
        wait_for_blocks(worker);
        if (worker->checker) check_after_grid_barrier(worker, grid->epoch - 1);
    }
    leave_if_stopped(worker);
    if (worker->checker)
        check_barrier_from(0, __builtin_return_address(0), file, line);
    else
        barrier();
}

} // namespace simt::SIMT_FIBERS
