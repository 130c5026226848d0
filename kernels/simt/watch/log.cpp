/* log.cpp -- counts the logs of a block at its barriers and at its end, and
 * handles full logs. */
#include "counters.h"

#include <stdlib.h>
#include <string.h>

namespace simt::SIMT_FIBERS {

static void count_block(Checker *checker, const Block *block) {
    for (int i = 0; i * WARP < block->threads; i++)
        count_warp(&checker->log, (unsigned)i, 0);
    checker->log.useless = 0;
}

/* ---- the life of a block ------------------------------------------------ */

static bool create(Checker *checker) {
    Log *log = &checker->log;
    Tally *tally = log->tally ? log->tally : create_tally(checker);
    if (!log->entries)
        log->entries = (uint64_t *)malloc((size_t)MAX_THREADS * LOG_BYTES);
    log->tally = tally;
    if (log->entries && tally && prepare_match(tally)) return true;
    checker->log_on = false; // out of memory: nothing is counted
    return false;
}

void log_begin_block(Checker *checker, Block *block) {
    Log *log = &checker->log;
    if (SIMT_UNLIKELY(!log->tally || !log->tally->met) && !create(checker))
        return;
    Tally *tally = log->tally;
    tally->shared = (uintptr_t)block->shared;
    // Discard the entries of an abandoned block.
    memset(log->count, 0, (size_t)block->threads * sizeof log->count[0]);
    log->useless = 0;
    if (tally->launch != block->launch) begin_tally(tally, block->launch);
}

void log_end_block(Checker *checker, Block *block) {
    count_block(checker, block);
}

void log_at_barrier(Checker *checker, Block *block) {
    count_block(checker, block);
    checker->log.tally->barriers++;
}

/* ---- full logs ---------------------------------------------------------- */

/* Return the lanes of a warp that may add entries before the next barrier. */
static unsigned going_on(const Checker *checker, const Fiber *self) {
    const unsigned first = self->thread.linear / WARP * WARP;
    unsigned lanes = self->warp->live;
    for (unsigned left = lanes; left; left &= left - 1) {
        const unsigned lane = (unsigned)__builtin_ctz(left);
        if (checker->arrivals[first + lane].epoch == self->block->epoch)
            lanes &= ~(1u << lane);
    }
    return lanes;
}

/* Let the other lanes run until their logs are full too, so that the warp stays
 * in step. Return true if another lane has made room in this lane's log. One
 * turn may not suffice, since the watchdog may interrupt the turn of a lane. */
static bool catch_up(Checker *checker, Fiber *self) {
    Log *log = &checker->log;
    const unsigned thread = self->thread.linear, warp = thread / WARP;
    const unsigned *count = log->count + warp * WARP;
    while (!(log->useless >> warp & 1)) {
        uint64_t before = 0, after = 0;
        unsigned behind = 0;
        for (unsigned i = 0; i < WARP; i++) {
            before += count[i];
            if (count[i] < LOG_ENTRIES) behind |= 1u << i;
        }
        behind &= going_on(checker, self) & ~self->warp->waiting;
        if (!behind) return false;
        yield(self);
        if (log->count[thread] < LOG_ENTRIES) return true;
        for (unsigned i = 0; i < WARP; i++) after += count[i];
        if (before == after) log->useless |= 1u << warp;
    }
    return false;
}

/* Handle a full log. Requests that a running lane may still join stay in the
 * logs. If the lanes' paths differ so much that this makes no room, all
 * requests are counted in their present state. A request in two parts may then
 * count as two. */
void log_full(Checker *checker, Fiber *self) {
    enum { ROOM = LOG_ENTRIES / 8 };
    Log *log = &checker->log;
    const unsigned thread = self->thread.linear, warp = thread / WARP;
    Block *block = self->block;
    if (!block->promoted) {
        go_inside(block);
        promote(self);
        go_outside(block);
    }
    if (catch_up(checker, self)) return;
    count_warp(log, warp, going_on(checker, self));
    if (log->count[thread] > LOG_ENTRIES - ROOM) count_warp(log, warp, 0);
}

} // namespace simt::SIMT_FIBERS
