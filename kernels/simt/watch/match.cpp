/* match.cpp -- turns the logs of a warp's threads into requests. */
#include "counters.h"

#include <stdlib.h>

namespace simt::SIMT_FIBERS {

/* A request of lanes on different paths. */
struct Row {
    unsigned mask, site;
    uint64_t entries[WARP];
};

/* The part of a warp's logs that is being combined. */
struct Lanes {
    unsigned mask;        /* lanes that have entries */
    unsigned live;        /* lanes that may get more entries */
    int number;           /* number of lanes in the mask */
    unsigned count[WARP]; /* number of entries, by lane */
    uint64_t *log[WARP];  /* by lane */
    int lane[WARP];       /* indices of the lanes in the mask */
};

/* ---- lanes on the same path ---------------------------------------------- */

/* Return whether entry `k` of each lane differs from the first lane's by the
 * given distance. There are no branches, since this runs for every access. */
SIMT_INLINE bool fits(const Lanes *lanes, unsigned k, uint64_t first,
                      const uint64_t *delta) {
    uint64_t differ = 0;
    if (lanes->number == WARP) { // the logs are adjacent
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

/* Count entry `k`, an access that did not fit its site's last pattern. Return
 * false if the lanes are not all at one site. */
static bool count_odd_one(Tally *tally, SiteTally *t, const Lanes *lanes,
                          unsigned k) {
    uint64_t entries[WARP], differ = 0;
    for (int i = 0; i < lanes->number; i++) {
        const int lane = lanes->lane[i];
        entries[lane] = lanes->log[lane][k];
        differ |= entries[lane] ^ entries[lanes->lane[0]];
    }
    if (differ >> SITE_FROM) return false;
    count_request(tally, t, lanes->mask, entries);
    return true;
}

/* Count entries 0, 1, ... while all lanes have the same sites and basic blocks.
 * Return the index of the first entry that differs, or `end`. */
static unsigned count_together(Tally *tally, const Lanes *lanes, unsigned end) {
    const uint64_t *first = lanes->log[lanes->lane[0]];
    const unsigned mask = lanes->mask;
    for (unsigned k = 0; k < end; k++) {
        const uint64_t entry = first[k];
        const unsigned site = entry >> SITE_FROM;
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
        // The conditions are in this order so that only a complete request is
        // counted.
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

/* ---- lanes on different paths -------------------------------------------- */

/* Lanes that follow the same path after some entry. */
struct Group {
    int number, live; /* number of lanes; those that may get more entries */
    int lane[WARP];
    const uint64_t *log; /* log of the first lane */
    unsigned end;
};

/* The sites and basic blocks that the groups of lanes reach. */
struct Met {
    SiteTally *sites[WARP * LOG_ENTRIES];
    StepTally *steps[WARP * LOG_ENTRIES];
    int sites_count, steps_count, groups_count;
    Group groups[WARP];
};

/* Return whether entries [start, end) of the two logs belong to the same sites
 * and basic blocks. */
static bool same_way(const uint64_t *one, const uint64_t *other, unsigned start,
                     unsigned end) {
    for (unsigned k = start; k < end; k++) {
        const uint64_t apart = one[k] ^ other[k];
        if (one[k] >> SITE_FROM ? apart >> SITE_FROM : apart) return false;
    }
    return true;
}

static void group_lanes(Met *met, const Lanes *lanes, unsigned start) {
    enum { TRIED = 6 }; // beyond that, lanes are handled one by one
    met->groups_count = 0;
    for (int i = 0; i < lanes->number; i++) {
        const int lane = lanes->lane[i];
        const unsigned end = lanes->count[lane];
        if (end <= start) continue;
        Group *group = met->groups;
        int tried = met->groups_count < TRIED ? met->groups_count : TRIED;
        for (; tried; tried--, group++)
            if (group->end == end &&
                same_way(group->log, lanes->log[lane], start, end))
                break;
        if (!tried) {
            group = &met->groups[met->groups_count++];
            group->number = group->live = 0;
            group->log = lanes->log[lane];
            group->end = end;
        }
        group->lane[group->number++] = lane;
        group->live += (int)(lanes->live >> lane & 1);
    }
}

static void come_by(Times *times, int live) {
    if (times->seen > times->most) times->most = times->seen;
    if (live && times->seen) {
        if (!times->live || times->seen < times->least)
            times->least = times->seen;
        times->live += live;
    }
    times->seen = 0;
}

/* Count the times that a lane of each group reaches each site and basic
 * block. */
static void survey(Tally *tally, Met *met, unsigned start) {
    met->sites_count = met->steps_count = 0;
    for (int i = 0; i < met->groups_count; i++) {
        const Group *group = &met->groups[i];
        for (unsigned k = start; k < group->end; k++) {
            const uint64_t entry = group->log[k];
            const unsigned site = entry >> SITE_FROM;
            if (site) {
                SiteTally *t = site_tally(tally, site);
                if (!t->times.most && !t->times.seen)
                    met->sites[met->sites_count++] = t;
                t->times.seen++;
            } else {
                StepTally *step = find_step(tally, (const void *)entry);
                if (!step->times.most && !step->times.seen)
                    met->steps[met->steps_count++] = step;
                step->times.seen++;
            }
        }
        for (int j = 0; j < met->sites_count; j++)
            come_by(&met->sites[j]->times, group->live);
        for (int j = 0; j < met->steps_count; j++)
            come_by(&met->steps[j]->times, group->live);
    }
}

/* Return the number of requests to count now, and reset the visits. These are
 * all requests or, while lanes are still running, the requests that all of
 * these lanes have joined. */
static unsigned whole(Times *times, unsigned live) {
    times->take = times->most;
    if (live && times->live < __builtin_popcount(live))
        times->take = 0;
    else if (live)
        times->take = times->least;
    times->most = times->least = 0;
    times->live = 0;
    return times->take;
}

/* Count complete executions of basic blocks, make rows for complete requests,
 * and return the number of rows. */
static unsigned make_rows(Tally *tally, Met *met, unsigned live) {
    for (int i = 0; i < met->steps_count; i++)
        met->steps[i]->executions += whole(&met->steps[i]->times, live);
    unsigned rows = 0;
    for (int i = 0; i < met->sites_count; i++) {
        SiteTally *t = met->sites[i];
        t->start = rows;
        for (unsigned left = whole(&t->times, live); left; left--, rows++) {
            tally->rows[rows].mask = 0;
            tally->rows[rows].site = t->site;
        }
    }
    return rows;
}

/* Put a group's entries into their rows. Entries without a row move to the
 * beginning of the logs. */
static void fill_rows(Tally *tally, Lanes *lanes, const Group *group,
                      unsigned start) {
    unsigned kept = 0;
    for (unsigned k = start; k < group->end; k++) {
        const uint64_t entry = group->log[k];
        const unsigned site = entry >> SITE_FROM;
        Row *row = 0;
        if (!site) {
            StepTally *step = find_step(tally, (const void *)entry);
            if (step->times.seen++ < step->times.take) {
                step->threads += (unsigned)group->number;
                continue;
            }
        } else {
            SiteTally *t = tally->sites[site];
            const unsigned number = t->times.seen++;
            if (number < t->times.take) row = &tally->rows[t->start + number];
        }
        for (int j = 0; j < group->number; j++) {
            const int lane = group->lane[j];
            const uint64_t its = lanes->log[lane][k];
            if (row) {
                row->mask |= 1u << lane;
                row->entries[lane] = its;
            } else {
                lanes->log[lane][kept] = its;
            }
        }
        if (!row) kept++;
    }
    for (int j = 0; j < group->number; j++) lanes->count[group->lane[j]] = kept;
}

/* Match the entries, beginning with `start`: the k-th entry of a lane at a site
 * belongs to the k-th row of that site. */
static void count_apart(Tally *tally, Lanes *lanes, unsigned start) {
    Met *met = tally->met;
    group_lanes(met, lanes, start);
    survey(tally, met, start);
    const unsigned rows = make_rows(tally, met, lanes->live);
    for (int i = 0; i < met->groups_count; i++) {
        fill_rows(tally, lanes, &met->groups[i], start);
        for (int j = 0; j < met->sites_count; j++)
            met->sites[j]->times.seen = 0;
        for (int j = 0; j < met->steps_count; j++)
            met->steps[j]->times.seen = 0;
    }
    for (unsigned i = 0; i < rows; i++) {
        const Row *row = &tally->rows[i];
        count_request(tally, tally->sites[row->site], row->mask, row->entries);
    }
}

/* ---- a warp ------------------------------------------------------------- */

bool prepare_match(Tally *tally) {
    if (!tally->rows)
        tally->rows = (Row *)malloc(WARP * LOG_ENTRIES * sizeof(Row));
    if (!tally->met) tally->met = (Met *)malloc(sizeof(Met));
    return tally->rows && tally->met;
}

void count_warp(Log *log, unsigned warp, unsigned live) {
    unsigned *count = log->count + warp * WARP;
    Lanes lanes;
    lanes.mask = 0;
    lanes.live = live;
    lanes.number = 0;
    unsigned end = LOG_ENTRIES, longest = 0;
    for (unsigned i = 0; i < WARP; i++) {
        if (!count[i]) continue;
        lanes.mask |= 1u << i;
        lanes.lane[lanes.number++] = (int)i;
        lanes.count[i] = count[i];
        lanes.log[i] = log_of(log, warp * WARP + i);
        if (count[i] < end) end = count[i];
        if (count[i] > longest) longest = count[i];
        count[i] = 0;
    }
    if (!lanes.mask) return;
    unsigned same = 0;
    if (!(live & ~lanes.mask)) same = count_together(log->tally, &lanes, end);
    if (same == longest) return;
    for (int i = 0; i < lanes.number; i++) // entries that fill_rows() does not
                                           // handle
        if (lanes.count[lanes.lane[i]] == same) lanes.count[lanes.lane[i]] = 0;
    count_apart(log->tally, &lanes, same);
    if (live)
        for (int i = 0; i < lanes.number; i++)
            count[lanes.lane[i]] = lanes.count[lanes.lane[i]];
}

} // namespace simt::SIMT_FIBERS
