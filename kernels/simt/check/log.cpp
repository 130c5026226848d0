/* log.cpp -- the logs of a warp's threads become requests. */
#include "counters.h"

#include <stdlib.h>
#include <string.h>

namespace simt {
#ifdef SIMT_UCONTEXT
inline namespace ucontext_fibers {
#else
inline namespace asm_fibers {
#endif

/* Requests of lanes that went different ways. */
struct Row {
    unsigned mask, site;
    uint64_t entries[WARP];
};

/* The part of a warp's logs that is being put together. */
struct Lanes {
    unsigned mask;             /* lanes that have entries */
    int number;                /* of them */
    unsigned count[WARP];      /* how many each has, by lane */
    const uint64_t *log[WARP]; /* by lane */
    int lane[WARP];            /* the lanes of the mask */
};

/* ---- lanes that go the same way ----------------------------------------- */

/* Whether all lanes have entry `k` in common but for a distance from the first
 * lane's, as given. No branches: this is done for every access. */
SIMT_INLINE bool fits(const Lanes *lanes, unsigned k, uint64_t first,
                      const uint64_t *delta) {
    uint64_t differ = 0;
    if (lanes->number == WARP) { // their logs are neighbours
        const char *at = (const char *)(lanes->log[0] + k);
#pragma GCC unroll 32
        for (int i = 0; i < WARP; i++)
            differ |=
                (*(const uint64_t *)(at + i * LOG_BYTES) - first) ^ delta[i];
    } else {
        for (int i = 0; i < lanes->number; i++) {
            const int lane = lanes->lane[i];
            differ |= (lanes->log[lane][k] - first) ^ delta[lane];
        }
    }
    return !differ;
}

static const uint64_t no_delta[WARP] = {};

/* Count entry `k`, which is an access and did not fit its site's last pattern;
 * false if the lanes are not all at one site. */
static bool count_odd_one(Tally *tally, SiteTally *t, const Lanes *lanes,
                          unsigned k) {
    uint64_t entries[WARP], differ = 0;
    for (int i = 0; i < lanes->number; i++) {
        const int lane = lanes->lane[i];
        entries[lane] = lanes->log[lane][k];
        differ |= entries[lane] ^ entries[lanes->lane[0]];
    }
    if (differ >> SITE_SHIFT) return false;
    count_request(tally, t, lanes->mask, entries);
    return true;
}

/* Count entries 0, 1, ... as long as all lanes have the same sites and basic
 * blocks; returns the number of the first one that differs, or `end`. */
static unsigned count_together(Tally *tally, const Lanes *lanes, unsigned end) {
    const uint64_t *first = lanes->log[lanes->lane[0]];
    const unsigned mask = lanes->mask;
    for (unsigned k = 0; k < end; k++) {
        const uint64_t entry = first[k];
        const unsigned site = entry >> SITE_SHIFT;
        if (!site) {
            if (!fits(lanes, k, entry, no_delta)) return k;
            StepTally *step = find_step(tally, (const void *)entry);
            step->threads += (unsigned)lanes->number;
            step->executions++;
            continue;
        }
        SiteTally *t = site_tally(tally, site);
        Pattern *p = t->recent;
        const uintptr_t address = address_of(entry);
        const unsigned phase = address & t->phases;
        // In this order: nothing is counted before it is known to be whole.
        if (p->mask == mask && fits(lanes, k, entry, p->delta) &&
            p->cost[phase].known && address - t->at->low < t->at->size) {
            p->hits[phase]++;
            p->met |= 1u << phase;
        } else if (!count_odd_one(tally, t, lanes, k)) {
            return k;
        }
    }
    return end;
}

/* ---- lanes that went different ways ------------------------------------- */

/* The sites and basic blocks that were met. */
struct Met {
    SiteTally *sites[WARP * LOG_ENTRIES];
    StepTally *steps[WARP * LOG_ENTRIES];
    int sites_count, steps_count;
};

/* How often each lane comes to each site, and what the busiest lane has. Basic
 * blocks are counted on the way. */
static void survey(Tally *tally, const Lanes *lanes, unsigned start, Met *met) {
    for (int i = 0; i < lanes->number; i++) {
        const int lane = lanes->lane[i];
        for (unsigned k = start; k < lanes->count[lane]; k++) {
            const uint64_t entry = lanes->log[lane][k];
            const unsigned site = entry >> SITE_SHIFT;
            if (site) {
                SiteTally *t = site_tally(tally, site);
                if (!t->most) met->sites[met->sites_count++] = t;
                if (++t->seen > t->most) t->most = t->seen;
            } else {
                StepTally *step = find_step(tally, (const void *)entry);
                if (!step->most) met->steps[met->steps_count++] = step;
                if (++step->seen > step->most) step->most = step->seen;
                step->threads++;
            }
        }
        for (int j = 0; j < met->sites_count; j++) met->sites[j]->seen = 0;
        for (int j = 0; j < met->steps_count; j++) met->steps[j]->seen = 0;
    }
    for (int j = 0; j < met->steps_count; j++) {
        met->steps[j]->executions += met->steps[j]->most;
        met->steps[j]->most = 0;
    }
}

/* Match the entries from `start` on: the k-th of a lane at a site belongs to
 * the k-th row of that site. */
static void count_apart(Tally *tally, const Lanes *lanes, unsigned start) {
    Met *met = tally->met;
    met->sites_count = met->steps_count = 0;
    survey(tally, lanes, start, met);
    unsigned rows = 0;
    for (int j = 0; j < met->sites_count; j++) {
        SiteTally *t = met->sites[j];
        t->start = rows;
        for (unsigned i = 0; i < t->most; i++, rows++) {
            tally->rows[rows].mask = 0;
            tally->rows[rows].site = t->site;
        }
        t->most = 0;
    }
    for (int i = 0; i < lanes->number; i++) {
        const int lane = lanes->lane[i];
        for (unsigned k = start; k < lanes->count[lane]; k++) {
            const uint64_t entry = lanes->log[lane][k];
            const unsigned site = entry >> SITE_SHIFT;
            if (!site) continue;
            SiteTally *t = tally->sites[site];
            Row *row = &tally->rows[t->start + t->seen++];
            row->mask |= 1u << lane;
            row->entries[lane] = entry;
        }
        for (int j = 0; j < met->sites_count; j++) met->sites[j]->seen = 0;
    }
    for (unsigned i = 0; i < rows; i++) {
        Row *row = &tally->rows[i];
        count_request(tally, tally->sites[row->site], row->mask, row->entries);
    }
}

/* ---- a warp ------------------------------------------------------------- */

/* Count what is in the logs of a warp and empty them. */
static void count_warp(Checker *checker, unsigned warp) {
    Log *log = &checker->log;
    unsigned *count = log->count + warp * WARP;
    Lanes lanes;
    lanes.mask = 0;
    lanes.number = 0;
    unsigned end = LOG_ENTRIES, longest = 0;
    for (int i = 0; i < WARP; i++) {
        if (!count[i]) continue;
        lanes.mask |= 1u << i;
        lanes.lane[lanes.number++] = i;
        lanes.count[i] = count[i];
        lanes.log[i] =
            (const uint64_t *)((const char *)log->entries +
                               (warp * WARP + (unsigned)i) * LOG_BYTES);
        if (count[i] < end) end = count[i];
        if (count[i] > longest) longest = count[i];
        count[i] = 0;
    }
    if (!lanes.mask) return;
    const unsigned same = count_together(log->tally, &lanes, end);
    if (same < longest) count_apart(log->tally, &lanes, same);
}

static void count_block(Checker *checker, const Block *block) {
    for (int i = 0; i * WARP < block->threads; i++)
        count_warp(checker, (unsigned)i);
    checker->log.useless = 0;
}

/* ---- what happens to a block -------------------------------------------- */

static bool create(Checker *checker) {
    Log *log = &checker->log;
    Tally *tally = log->tally ? log->tally : create_tally(checker);
    if (!log->entries)
        log->entries = (uint64_t *)malloc((size_t)MAX_THREADS * LOG_BYTES);
    if (tally && !tally->rows)
        tally->rows = (Row *)malloc(WARP * LOG_ENTRIES * sizeof(Row));
    if (tally && !tally->met) tally->met = (Met *)malloc(sizeof(Met));
    log->tally = tally;
    if (log->entries && tally && tally->rows && tally->met) return true;
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

/* The other lanes run until they have no more room either, so that the warp
 * goes on in step. Where they cannot (they wait at a barrier, or have ended)
 * the warp is counted as it stands: if its lanes then went different ways, a
 * request of two parts may count as two. */
void log_full(Checker *checker, Fiber *self) {
    Log *log = &checker->log;
    const unsigned thread = self->thread.linear, warp = thread / WARP;
    const unsigned *count = log->count + warp * WARP;
    Block *block = self->block;
    if (!block->promoted) {
        block->inside = true;
        promote(self);
        block->inside = false;
    }
    unsigned behind = 0;
    for (unsigned i = 0; i < WARP; i++)
        if (count[i] < LOG_ENTRIES) behind |= 1u << i;
    behind &= self->warp->live & ~self->warp->waiting;
    if (behind && !(log->useless >> warp & 1)) {
        uint64_t before = 0, after = 0;
        for (unsigned i = 0; i < WARP; i++) before += count[i];
        yield(self);
        if (log->count[thread] < LOG_ENTRIES) return; // counted by another
        for (unsigned i = 0; i < WARP; i++) after += count[i];
        if (before == after) log->useless |= 1u << warp;
    }
    count_warp(checker, warp);
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
                   (uint64_t)access.site << SITE_SHIFT |
                       (access.address + done));
}

} // namespace
} // namespace simt
