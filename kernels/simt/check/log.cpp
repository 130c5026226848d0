/* log.cpp -- when the logs of a block are counted. */
#include "counters.h"

#include <stdlib.h>
#include <string.h>

namespace simt {
#ifdef SIMT_UCONTEXT
inline namespace ucontext_fibers {
#else
inline namespace asm_fibers {
#endif

static void count_block(Checker *checker, const Block *block) {
    for (int i = 0; i * WARP < block->threads; i++)
        count_warp(&checker->log, (unsigned)i, 0);
    checker->log.useless = 0;
}

/* ---- what happens to a block -------------------------------------------- */

static bool create(Checker *checker) {
    Log *log = &checker->log;
    Tally *tally = log->tally ? log->tally : create_tally(checker);
    if (!log->entries)
        log->entries = (uint64_t *)malloc((size_t)MAX_THREADS * LOG_BYTES);
    log->tally = tally;
    if (log->entries && tally && prepare_match(tally)) return true;
    checker->log_on = false; // out of memory: no counters
    return false;
}

void log_begin_block(Checker *checker, Block *block) {
    Log *log = &checker->log;
    if (SIMT_UNLIKELY(!log->tally || !log->tally->met) && !create(checker))
        return;
    Tally *tally = log->tally;
    tally->shared = (uintptr_t)block->shared;
    // What an abandoned block has left there.
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

/* ---- too much for a log ------------------------------------------------- */

/* Let the other lanes run until they have no more room either, so that the warp
 * goes on in step. False if it did not help: they wait for something. */
static bool catch_up(Log *log, Fiber *self, unsigned warp) {
    const unsigned *count = log->count + warp * WARP;
    const unsigned thread = self->thread.linear;
    uint64_t before = 0, after = 0;
    unsigned behind = 0;
    for (unsigned i = 0; i < WARP; i++) {
        before += count[i];
        if (count[i] < LOG_ENTRIES) behind |= 1u << i;
    }
    behind &= self->warp->live & ~self->warp->waiting;
    if (!behind || log->useless >> warp & 1) return false;
    yield(self);
    if (log->count[thread] < LOG_ENTRIES) return true; // counted by another
    for (unsigned i = 0; i < WARP; i++) after += count[i];
    if (before == after) log->useless |= 1u << warp;
    return false;
}

/* Requests that a lane which goes on may yet take part in stay in the logs. If
 * the lanes went such different ways that this makes no room, they are counted
 * as they are: one of two parts may then count as two. */
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
    if (catch_up(log, self, warp)) return;
    count_warp(log, warp, self->warp->live);
    if (log->count[thread] > LOG_ENTRIES - ROOM) count_warp(log, warp, 0);
}

/* The largest piece that the size is a multiple of: what a GPU's compiler moves
 * a struct of that size in. */
static unsigned piece_of(unsigned size) {
    unsigned piece = PIECE;
    while (size % piece) piece /= 2;
    return piece;
}

void log_range(Checker *checker, Fiber *self, const Access &access) {
    uint8_t *known = &checker->log.tally->pieces[access.site];
    if (!*known) *known = (uint8_t)piece_of(access.size);
    for (unsigned done = 0; done < access.size; done += *known)
        log_append(checker, self,
                   (uint64_t)access.site << SITE_FROM |
                       (access.address + done));
}

} // namespace
} // namespace simt
