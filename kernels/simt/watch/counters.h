/* counters.h -- the cost of requests, and their sums.
 *
 * A request is one execution of a site by a warp: up to 32 addresses. Most
 * requests equal an earlier one at the same site, shifted by some bytes (the
 * next iteration of a loop, the next warp or block). So each site stores the
 * patterns of its last requests with their costs. A request that fits such a
 * pattern only counts as a hit.
 *
 * The counters count the source's accesses as g++ -O1 leaves them. So an
 * element that is read twice in a row is one read, and a float4 is one access
 * of 16 bytes. nvcc does more: it merges a thread's neighbouring accesses,
 * moves loop-invariant accesses out of the loop, and drops unused ones. For
 * example, four floats of a row become one LDG.128 or LDS.128 if their
 * alignment is certain. In such cases a profiler shows fewer requests than
 * these counters. */
#ifndef SIMT_CHECK_COUNTERS_H
#define SIMT_CHECK_COUNTERS_H
#include "check.h"

namespace simt::SIMT_FIBERS {

enum {
    PATTERNS = 4, /* patterns that a site stores */
    SECTOR = 32,  /* bytes of global memory that are transferred together */
    BANKS = 32    /* banks of shared memory, each 4 bytes wide */
};

/* The sums of costs; see lib/weft/report/costs.py. needed: the wavefronts that
 * requests would take without bank conflicts. */
struct Sums {
    uint64_t accesses, requests, sectors, wavefronts, needed;

    void add(const Sums &other) {
        accesses += other.accesses;
        requests += other.requests;
        sectors += other.sectors;
        wavefronts += other.wavefronts;
        needed += other.needed;
    }
};

struct Cost {
    bool known;
    uint8_t sectors, wavefronts, needed; /* sectors: at most 64, two for each
                                          * of 32 lanes; the others: at most
                                          * 32 */
};

/* The addresses of a request relative to the first, and the cost of such
 * requests. The cost also depends on the position of the first address in its
 * sector (or word), which is the request's phase. */
struct Pattern {
    unsigned mask;        /* mask of the lanes */
    unsigned lanes;       /* number of lanes */
    uint64_t delta[WARP]; /* lane i's entry minus the first lane's */
    unsigned met;         /* number of phases that have hits */
    uint64_t hits[SECTOR];
    Cost cost[SECTOR];
};

/* The sums of a site for one array. */
struct SiteArray {
    unsigned site;
    Space space;
    uintptr_t low, size; /* addresses of the array, or of the memory around
                            it */
    char name[48];       /* name of the array; "": unknown */
    Sums sums;
    SiteArray *next; /* next array of the same site */
};

/* The numbers of times that lanes on different paths reach a site, counted
 * while their requests are matched. */
struct Times {
    unsigned seen;        /* visits of this lane so far */
    unsigned most, least; /* visits of the busiest lane; visits of the least
                             busy lane that reaches the site and has not
                             ended */
    int live;             /* number of such lanes */
    unsigned take;        /* number of visits that are counted now */
};

/* The counts of a site by one worker. */
struct SiteTally {
    unsigned site, size;
    Kind kind;
    uint8_t phases;    /* the bits of an address that determine its phase */
    SiteArray *at;     /* array of the last request */
    SiteArray *arrays; /* list of all arrays */
    Pattern *recent;   /* the pattern that fitted last */
    Pattern *patterns; /* PATTERNS elements */
    unsigned next;     /* index of the pattern that is replaced next */
    Times times;
    unsigned start; /* start of the site's rows; see match.cpp */
};

/* The counts of a basic block. */
struct StepTally {
    const void *pc;
    uint64_t threads, executions;
    Times times;
};

/* The counts of one worker for the running launch. */
struct Tally {
    Tally *next; /* tally of another worker */
    Checker *checker;
    unsigned launch; /* number of the launch */
    uint64_t barriers;
    uint64_t copied;       /* bytes copied by cp.async */
    uint64_t copied_past;  /* sum over these bytes of the barriers met while
                            * each was in flight */
    uintptr_t shared;      /* start of the block's shared memory */
    SiteTally **sites;     /* by site number */
    unsigned *known_sites; /* numbers of the known sites */
    unsigned sites_count;
    StepTally **steps; /* a hash table by pc */
    unsigned steps_count, steps_size;
    struct Row *rows; /* match.cpp: the requests of lanes on different paths, */
    struct Met *met;  /* the sites that they reached */
};

/* ---- match.cpp ---------------------------------------------------------- */

bool prepare_match(Tally *tally); /* false: out of memory */
/* Count the entries in the logs of a warp. If no lane is `live`, this empties
 * the logs; otherwise entries that may belong to a live lane's request stay. */
void count_warp(Log *log, unsigned warp, unsigned live);

/* ---- tally.cpp ---------------------------------------------------------- */

Tally *create_tally(Checker *checker);
Tally *first_tally(); /* the first tally in the list of all */
/* Begin a launch on this worker, with all counts zero. */
void begin_tally(Tally *tally, unsigned launch);
SiteTally *make_site(Tally *tally, unsigned site);
StepTally *find_step(Tally *tally, const void *pc);
/* Set t->at to the array at an address of the site's first lane. */
void change_array(Tally *tally, SiteTally *t, uintptr_t address);
/* Move the hits of all patterns of a site to its sums. */
void settle(SiteTally *t);
/* Count one request of the lanes in `mask`, whose entries are indexed by
 * lane. */
void count_request(Tally *tally, SiteTally *t, unsigned mask,
                   const uint64_t *entries);

SIMT_INLINE SiteTally *site_tally(Tally *tally, unsigned site) {
    SiteTally *t = tally->sites[site];
    return SIMT_UNLIKELY(!t) ? make_site(tally, site) : t;
}

SIMT_INLINE uintptr_t address_of(uint64_t entry) {
    return entry & (((uint64_t)1 << SITE_FROM) - 1);
}

/* ---- cost.cpp ----------------------------------------------------------- */

/* Return the cost of a request. `at` has the addresses by lane, valid for the
 * lanes of `mask`. */
Cost cost_of(Space space, Kind kind, unsigned size, unsigned mask,
             const uintptr_t *at);

/* Return the kind that a site's accesses count as: on a GPU, the load() and
 * store() of a cuda::atomic are plain loads and stores. */
Kind counted_as(unsigned site);
void count_as(unsigned site, Kind kind);

/* ---- counters.cpp ------------------------------------------------------- */

void counters_clear();
/* log.h declares counters_end_launch(), and report.h declares
 * write_counters(). */

} // namespace simt::SIMT_FIBERS
#endif
