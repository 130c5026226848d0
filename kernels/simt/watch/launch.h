/* launch.h -- the calls by which the engine notifies the watch build of the
 * events of a launch. */
#ifndef SIMT_CHECK_LAUNCH_H
#define SIMT_CHECK_LAUNCH_H
#include "../runtime/runtime.h"

namespace simt::SIMT_FIBERS {

/* ---- launch.cpp: only for launches of instrumented kernels -------------- */

void check_begin_launch(Job *job);
void check_end_launch(Job *job);             /* all workers have left */
Checker *check_begin_worker(Worker *worker); /* NULL: no checks */
void check_begin_block(Worker *worker);
void check_end_block(Worker *worker);  /* call this at the block's end, or after
                                        * it was abandoned */
void check_at_barrier(Worker *worker); /* before the barrier opens */
void check_at_meeting(Worker *worker, Warp *warp, unsigned group);
void check_before_grid_barrier(Worker *worker, unsigned epoch);
void check_after_grid_barrier(Worker *worker, unsigned epoch);

/* Return the number of times that the worker's threads have changed memory that
 * other threads may read. */
uint64_t check_changes(const Worker *worker);
/* Return the start of the basic block that the worker was last in. */
const void *check_step(const Worker *worker);

/* ---- waits.cpp ---------------------------------------------------------- */

/* Write "; it waits for flag[3], ..." if this thread of the worker reads one
 * element again and again, and its value does not change; otherwise "". */
void describe_wait(const Worker *worker, const Fiber *self, char *text,
                   size_t size);

/* ---- meetings.cpp ------------------------------------------------------- */

/* Return whether all live lanes of the mask wait for each other. */
bool check_together(const Warp *warp, unsigned mask, Meeting meeting);
/* Handle a block whose threads all wait forever. If they wait for a lane,
 * report which thread waits for which. */
void check_deadlock(Worker *worker);
/* Perform meet() under a GPU's strict rules, for a call that returns to
 * `pc`. */
uint64_t check_meet_from(unsigned mask, Meeting meeting, uint64_t value,
                         unsigned source, const void *pc);

/* ---- engine.cpp --------------------------------------------------------- */

/* Wait at a barrier at `pc` and, if known, at this file and line. */
int check_barrier_from(int vote, const void *pc, const char *file,
                       unsigned line);

} // namespace simt::SIMT_FIBERS
#endif
