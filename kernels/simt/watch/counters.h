/* counters.h -- the cost of requests, and their sums.
 *
 * A request is one execution of a site by a warp: up to 32 addresses. Most of
 * them equal an earlier one at the same site, shifted by some bytes (the next
 * trip of a loop, the next warp or block). So each site keeps the patterns of
 * its last requests with their costs, and a request that fits one of them only
 * counts as a hit.
 *
 * The counters count the source's accesses as g++ -O1 leaves them: an element
 * that is read twice in a row is one read, and a float4 is one access of 16
 * bytes. nvcc does more: it merges a thread's neighbouring accesses, moves
 * loop-invariant accesses out of the loop, and drops unused ones. Four floats
 * of a row become one LDG.128 or LDS.128 if their alignment is certain. There a
 * profiler shows fewer requests than are counted here. */
#ifndef SIMT_CHECK_COUNTERS_H
#define SIMT_CHECK_COUNTERS_H
#include "check.h"

namespace simt {
#ifdef SIMT_UCONTEXT
inline namespace ucontext_fibers {
#else
inline namespace asm_fibers {
#endif

enum {
    PATTERNS = 4, /* that a site remembers */
    SECTOR = 32,  /* bytes of global memory that travel together */
    BANKS = 32    /* of shared memory, 4 bytes wide */
};

/* See lib/weft/report/costs.py. needed: wavefronts that requests would take
 * without bank conflicts. */
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
    uint8_t sectors, wavefronts, needed; /* 16 bytes * 32 lanes: 64 at most */
};

/* Addresses of a request relative to the first, and the cost of such requests.
 * The cost also depends on the position of the first address in its sector (or
 * word): that is the request's phase. */
struct Pattern {
    unsigned mask;        /* the lanes */
    unsigned lanes;       /* how many */
    uint64_t delta[WARP]; /* of lane i's entry to the first lane's */
    unsigned met;         /* phases that have hits */
    uint64_t hits[SECTOR];
    Cost cost[SECTOR];
};

/* The sums of a site for one array. */
struct SiteArray {
    unsigned site;
    Space space;
    uintptr_t low, size; /* addresses of the array, or of the memory around
                            it */
    char name[48];       /* of the array; "": unknown */
    Sums sums;
    SiteArray *next; /* of the same site */
};

/* How often lanes on different paths come by, while they are matched. */
struct Times {
    unsigned seen;        /* this lane, so far */
    unsigned most, least; /* the busiest lane; the laziest that comes and is not
                             at its end, */
    int live;             /* and how many such there are */
    unsigned take;        /* so many are counted now */
};

/* A site as a worker counts it. */
struct SiteTally {
    unsigned site, size;
    Kind kind;
    uint8_t phases;    /* the bits of an address that make its phase */
    SiteArray *at;     /* where the last request went */
    SiteArray *arrays; /* all of them */
    Pattern *recent;   /* the one that fitted last */
    Pattern *patterns; /* PATTERNS of them */
    unsigned next;     /* which of them is replaced next */
    Times times;
    unsigned start; /* of its rows, see match.cpp */
};

/* A basic block. */
struct StepTally {
    const void *pc;
    uint64_t threads, executions;
    Times times;
};

/* The counts of one worker for the running launch. */
struct Tally {
    Tally *next; /* another worker's */
    Checker *checker;
    unsigned launch; /* its number */
    uint64_t barriers;
    uint64_t copied;       /* bytes, by cp.async */
    uint64_t copied_past;  /* their sum of barriers met while under way */
    uintptr_t shared;      /* the block's shared memory begins here */
    SiteTally **sites;     /* by number */
    unsigned *known_sites; /* numbers */
    unsigned sites_count;
    StepTally **steps; /* a hash table by pc */
    unsigned steps_count, steps_size;
    struct Row *rows; /* match.cpp: the requests of lanes that part, */
    struct Met *met;  /* and what they came by */
};

/* ---- match.cpp ---------------------------------------------------------- */

bool prepare_match(Tally *tally); /* false: out of memory */
/* Count the entries in the logs of a warp. If no lane is `live` this empties
 * them; otherwise entries that may belong to a live lane's request stay. */
void count_warp(Log *log, unsigned warp, unsigned live);

/* ---- tally.cpp ---------------------------------------------------------- */

Tally *create_tally(Checker *checker);
Tally *first_tally(); /* of all that were created */
/* A launch begins on this worker: nothing is counted yet. */
void begin_tally(Tally *tally, unsigned launch);
SiteTally *make_site(Tally *tally, unsigned site);
StepTally *find_step(Tally *tally, const void *pc);
/* Set t->at to the array at an address (of the site's first lane). */
void change_array(Tally *tally, SiteTally *t, uintptr_t address);
/* Move the hits of all patterns of a site to its sums. */
void settle(SiteTally *t);
/* Add one request: entries of the lanes in `mask`, by lane. */
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

/* The cost of a request. `at`: the addresses by lane, valid for lanes of
 * `mask`. */
Cost cost_of(Space space, Kind kind, unsigned size, unsigned mask,
             const uintptr_t *at);

/* The kind as which a site's accesses count: to a GPU, the load() and store()
 * of a cuda::atomic are loads and stores. */
Kind counted_as(unsigned site);
void count_as(unsigned site, Kind kind);

/* ---- counters.cpp ------------------------------------------------------- */

void counters_clear();
/* counters_end_launch() is declared in log.h, write_counters() in report.h. */

} // namespace
} // namespace simt
#endif
