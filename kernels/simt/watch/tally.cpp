/* tally.cpp -- the counts of a worker. */
#include "counters.h"

#include <stdlib.h>
#include <string.h>

#include <new>

namespace simt::SIMT_FIBERS {

/* ---- patterns ----------------------------------------------------------- */

static void settle_one(SiteTally *t, Pattern *p) {
    Sums *sums = &t->at->sums;
    for (unsigned left = p->met; left; left &= left - 1) {
        const int phase = __builtin_ctz(left);
        const uint64_t hits = p->hits[phase];
        const Cost cost = p->cost[phase];
        p->hits[phase] = 0;
        sums->accesses += hits * p->lanes;
        sums->requests += hits;
        sums->sectors += hits * cost.sectors;
        sums->wavefronts += hits * cost.wavefronts;
        sums->needed += hits * cost.needed;
    }
    p->met = 0;
}

void settle(SiteTally *t) {
    for (int i = 0; i < PATTERNS; i++) settle_one(t, &t->patterns[i]);
}

static bool same_pattern(const Pattern *p, unsigned mask, uint64_t first,
                         const uint64_t *entries) {
    if (p->mask != mask) return false;
    const int last = WARP - 1 - __builtin_clz(mask);
    if (entries[last] - first != p->delta[last]) return false; // usual case
    uint64_t differ = 0;
    if (mask == ~0u)
        for (int lane = 0; lane < WARP; lane++)
            differ |= (entries[lane] - first) ^ p->delta[lane];
    else
        for (unsigned left = mask; left; left &= left - 1) {
            const int lane = __builtin_ctz(left);
            differ |= (entries[lane] - first) ^ p->delta[lane];
        }
    return !differ;
}

/* Return the pattern of these entries, creating it if necessary. */
static Pattern *pattern_of(SiteTally *t, unsigned mask, uint64_t first,
                           const uint64_t *entries) {
    for (int i = 0; i < PATTERNS; i++)
        if (same_pattern(&t->patterns[i], mask, first, entries))
            return &t->patterns[i];
    Pattern *p = &t->patterns[t->next++ % PATTERNS];
    settle_one(t, p);
    p->mask = mask;
    p->lanes = (unsigned)__builtin_popcount(mask);
    for (unsigned left = mask; left; left &= left - 1) {
        const int lane = __builtin_ctz(left);
        p->delta[lane] = entries[lane] - first;
    }
    memset(p->cost, 0, sizeof p->cost);
    return p;
}

void count_request(Tally *tally, SiteTally *t, unsigned mask,
                   const uint64_t *entries) {
    const uint64_t first = entries[__builtin_ctz(mask)];
    const uintptr_t address = address_of(first);
    if (address - t->at->low >= t->at->size) change_array(tally, t, address);
    Pattern *p = pattern_of(t, mask, first, entries);
    const unsigned phase = address & t->phases;
    if (!p->cost[phase].known) {
        uintptr_t at[WARP];
        for (unsigned left = mask; left; left &= left - 1) {
            const int lane = __builtin_ctz(left);
            at[lane] = address_of(entries[lane]);
        }
        p->cost[phase] = cost_of(t->at->space, t->kind, t->size, mask, at);
    }
    p->hits[phase]++;
    p->met |= 1u << phase;
    t->recent = p;
}

/* ---- sites and their arrays --------------------------------------------- */

template <class T> static T *zeroed(size_t count) {
    T *made = (T *)calloc(count, sizeof(T));
    if (!made) throw std::bad_alloc();
    return made;
}

/* Enter the array's name and its range in memory or, outside of any array, only
 * the name. */
static void describe(SiteArray *at, Space space, uintptr_t address,
                     const Array *array, uintptr_t base) {
    at->space = space;
    at->low = address;
    at->size = 1;
    if (!array) return;
    static_assert(sizeof at->name == sizeof array->name, "a name is copied");
    memcpy(at->name, array->name, sizeof at->name);
    if (address - base >= array->size) return; // nearest, but not inside
    at->low = base;
    at->size = array->size;
}

/* Fill in the array at an address. */
static void locate(Tally *tally, uintptr_t address, SiteArray *at) {
    const Job *job = tally->checker->job;
    Array array = {};
    bool known;
    if (address - tally->shared < SHADOWED) {
        const uintptr_t offset = address - tally->shared;
        const bool found = array_at(job, SHARED, offset, &array);
        describe(at, SHARED, address, found ? &array : 0,
                 tally->shared + array.offset);
    } else if (address - arena.base < arena.bytes) {
        const uintptr_t offset = address - arena.base;
        const bool found = array_at(job, GLOBAL, offset, &array);
        describe(at, GLOBAL, address, found ? &array : 0,
                 arena.base + array.offset);
    } else if (find_variable(address, &array, &known)) {
        describe(at, GLOBAL, address, &array, array.address);
    } else {
        describe(at, GLOBAL, address, 0, 0);
    }
}

SiteTally *make_site(Tally *tally, unsigned site) {
    SiteTally *t = zeroed<SiteTally>(1);
    t->site = site;
    t->size = site_at(site).size;
    t->kind = counted_as(site);
    if (!t->size) t->size = 4; // this site's sizes differ
    t->patterns = t->recent = zeroed<Pattern>(PATTERNS);
    t->at = t->arrays = zeroed<SiteArray>(1); // empty: it contains no address
    tally->known_sites[tally->sites_count++] = site;
    return tally->sites[site] = t;
}

void change_array(Tally *tally, SiteTally *t, uintptr_t address) {
    settle(t);
    SiteArray *found = t->arrays;
    while (found && address - found->low >= found->size) found = found->next;
    if (!found) {
        found = zeroed<SiteArray>(1);
        found->site = t->site;
        locate(tally, address, found);
        found->next = t->arrays;
        t->arrays = found;
    }
    if (found->space != t->at->space || !t->at->size)
        for (int i = 0; i < PATTERNS; i++) // the patterns' costs differ in the
                                           // new array
            memset(t->patterns[i].cost, 0, sizeof t->patterns[i].cost);
    t->at = found;
    const unsigned word = t->size < 4 ? 4 : t->size;
    t->phases = found->space == GLOBAL   ? SECTOR - 1
                : found->space == SHARED ? (uint8_t)(word - 1)
                                         : 0;
}

/* ---- basic blocks ------------------------------------------------------- */

static StepTally **slot_of(const Tally *tally, const void *pc) {
    const unsigned last = tally->steps_size - 1; // a power of two minus one
    const uint64_t hash = (uintptr_t)pc * 0x9e3779b97f4a7c15u;
    unsigned slot = (unsigned)(hash >> 32) & last;
    while (tally->steps[slot] && tally->steps[slot]->pc != pc)
        slot = (slot + 1) & last;
    return &tally->steps[slot];
}

static void grow_steps(Tally *tally) {
    StepTally **old = tally->steps;
    const unsigned size = tally->steps_size;
    tally->steps = zeroed<StepTally *>(size * 2);
    tally->steps_size = size * 2;
    for (unsigned i = 0; i < size; i++)
        if (old[i]) *slot_of(tally, old[i]->pc) = old[i];
    free(old);
}

StepTally *find_step(Tally *tally, const void *pc) {
    StepTally **slot = slot_of(tally, pc);
    if (*slot) return *slot;
    StepTally *made = zeroed<StepTally>(1);
    made->pc = pc;
    *slot = made;
    if (++tally->steps_count > tally->steps_size / 2) grow_steps(tally);
    return made;
}

/* ---- a worker's tally --------------------------------------------------- */

static std::atomic<Tally *> tallies; // all tallies that were ever created

Tally *create_tally(Checker *checker) {
    enum { STEPS = 1024 };
    Tally *tally = zeroed<Tally>(1);
    tally->checker = checker;
    tally->sites = zeroed<SiteTally *>(MAX_SITES);
    tally->known_sites = zeroed<unsigned>(MAX_SITES);
    tally->steps = zeroed<StepTally *>(STEPS);
    tally->steps_size = STEPS;
    tally->next = tallies.load();
    while (!tallies.compare_exchange_weak(tally->next, tally))
        continue; // the other entry follows `tally`
    return tally;
}

Tally *first_tally() { return tallies.load(); }

void begin_tally(Tally *tally, unsigned launch) {
    tally->launch = launch;
    tally->barriers = tally->copied = tally->copied_past = 0;
    for (unsigned i = 0; i < tally->sites_count; i++) {
        SiteTally *t = tally->sites[tally->known_sites[i]];
        memset(t->patterns, 0, PATTERNS * sizeof *t->patterns);
        while (SiteArray *first = t->arrays) {
            t->arrays = first->next;
            free(first);
        }
        t->at = t->arrays = zeroed<SiteArray>(1); // empty: it contains no
                                                  // address
    }
    for (unsigned i = 0; i < tally->steps_size; i++)
        if (StepTally *step = tally->steps[i])
            step->threads = step->executions = 0;
}

} // namespace simt::SIMT_FIBERS
