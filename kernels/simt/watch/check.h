/* check.h -- the watch build: declarations shared by the parts of
 * kernels/simt/watch.
 *
 * Code compiled with SIMT_CHECK calls a hook before each of its loads, stores
 * and atomics (hooks.cpp). g++'s -fsanitize=thread inserts the calls; libtsan,
 * which defines those functions, is not linked. Plain code never calls them,
 * and both kinds of code run on the same runtime.
 *
 *     hooks.*, plain.h, atomics.cpp        the hooks of instrumented code ...
 *     ubsan.*, undefined.cpp               ... for an index, a shift, a cast
 *     library.cpp                          ... for malloc() and so on
 *     engine.cpp, meetings.cpp             barriers and similar, out of line
 *     absent.cpp                           lanes that do not reach a call
 *     launch.*                             the life of a launch
 *     sites.cpp                            places in the program
 *     memory.*, variables.cpp              bytes that may be accessed
 *     judge.cpp, blanks.cpp                errors of a single access
 *     async_copies.*                       copies without a wait
 *     races.*, cells.cpp, sync.*           accesses that nothing orders
 *     block_signals.*                      the order between blocks
 *     race_findings.cpp                    the sentence about a race
 *     faults.cpp                           faults of a block or a launch
 *     waits.cpp                            the element that a thread waits for
 *     names.cpp                            the names of arrays and threads
 *     log.*, match.cpp                     from accesses to requests of warps
 *     tally.cpp, cost.cpp, counters.*      the cost of requests, and the sums
 *     findings.cpp, report.*               all results as text
 *     simt_check.h                         calls for the rest of the project */
#ifndef SIMT_CHECK_PRIVATE_H
#define SIMT_CHECK_PRIVATE_H
#include "../runtime/runtime.h"
#include "memory.h"
#include "simt_check.h"

namespace simt::SIMT_FIBERS {

enum Kind : uint8_t { READ, WRITE, ATOMIC };
enum Space : uint8_t { GLOBAL, SHARED, LOCAL, OTHER };

/* The effects of an access on its bytes. An atomic may only read, or only
 * write, or write only if the bytes still hold the expected value. */
enum Effect : uint8_t {
    EFFECT_READS = 1,
    EFFECT_WRITES = 2,
    EFFECT_UPDATES = 3,
    EFFECT_SWAPS = 7
};

/* A place in a program's code that accesses memory. Its pc identifies it. */
struct Site {
    const void *pc; /* return address of the site's hook call */
    uint8_t size;   /* in bytes; 0: accesses vary in size */
    Kind kind;
    bool is_volatile;
};

enum { MAX_SITES = 1 << 16 }; /* number 0 means no place */

/* One access by one thread. `offset` is in bytes from the start of the space's
 * shadows: for SHARED from the block's shared memory, for GLOBAL from the
 * arena. Memory outside the arena (such as __device__ variables) is represented
 * by a range of the arena whose bytes are not used. */
struct Access {
    uintptr_t address, offset;
    unsigned size, site;
    Kind kind;
    bool is_volatile;
    Space space;
    Effect effect;
    uint8_t order; /* for an atomic: __ATOMIC_RELAXED, ... */
};

} // namespace simt::SIMT_FIBERS

#include "log.h"
#include "races.h"

namespace simt::SIMT_FIBERS {

enum { SITE_CACHE = 1024, SHADOWED = 512 << 10 /* bytes of shared memory */ };

/* The place where a thread waits at a barrier, or how the thread ended. */
struct Arrival {
    const void *pc;
    const char *file; /* NULL: unknown */
    unsigned line, epoch;
    const void *met; /* the place where the thread waits for lanes, or NULL */
    bool left;       /* whether the thread has since left a device function
                      * before that function's end */
    bool ended;      /* whether the thread has reached the end of the kernel
                      * without leaving early */
};

/* A thread's latest volatile or atomic read. A wait is a series of equal
 * reads. */
struct Look {
    Access access;
    uint64_t value; /* the bytes before the access */
    unsigned count; /* consecutive reads of this address with this value */
};

/* The barriers that a block has passed, with the number of passes for each
 * line. These numbers count the iterations of a loop, so an access after a
 * barrier can be assigned to its iteration. */
struct Barriers {
    enum { MOST = 16 };
    unsigned count; /* number of lines; above MOST, further lines were not
                     * kept */
    unsigned last;  /* index of the barrier that it left last, if any */
    const char *file[MOST];
    unsigned line[MOST], visits[MOST];
    unsigned before[MOST][MOST]; /* [i][j]: visits[j] when the block was last at
                                  * i */
};

/* The state of one worker while it runs the blocks of an instrumented
 * launch. */
struct Checker {
    Worker *worker;
    Job *job;
    unsigned number; /* number of this checker; each worker has one */
    bool races_on, log_on;
    uintptr_t shared;              /* Block::shared */
    uint8_t *shared_states;        /* SHADOWED elements of enum State */
    unsigned shared_end;           /* past the last byte that has a state */
    uint64_t changes;              /* stores, and atomics that changed a
                                    * value */
    const void *step;              /* start of the last basic block */
    uint64_t sites[SITE_CACHE];    /* index: hash(pc); see site_tag() */
    Array last;                    /* last array found outside the arena */
    Arrival arrivals[MAX_THREADS]; /* each is of this epoch or an earlier one */
    const char *dynamic; /* name of the dynamic memory that was used last */
    unsigned dynamic_launch;
    struct Blanks *blanks; /* see blanks.cpp; NULL: none so far */
    int ended;             /* number of the block's threads with an ended
                            * arrival */
    uint16_t first_arrival;
    bool arrivals_differ;
    Barriers barriers;
    Look looks[MAX_THREADS]; /* the latest one of each thread of the block */
    Races races;
    Log log;
};

/* Return the checker of the calling thread, or NULL if this is a host thread or
 * is not checked. */
SIMT_INLINE Checker *running_checker() {
    const uintptr_t stack = (uintptr_t)__builtin_frame_address(0);
    if (stack - fibers.base >= fibers.bytes) return 0;
    return fiber_at(stack)->block->checker;
}

/* ---- sites.cpp ---------------------------------------------------------- */

Site site_at(unsigned number);
unsigned intern_site(Checker *checker, const void *pc, unsigned size, Kind kind,
                     bool is_volatile);

SIMT_INLINE unsigned site_slot(const void *pc) {
    return (unsigned)((uintptr_t)pc ^ (uintptr_t)pc >> 10) % SITE_CACHE;
}

/* Return the number of the site whose hook returns to `pc`, shifted above the
 * 48 bits of an address. If the site is not cached, the result is not a valid
 * tag. A cached word combines a pc and its tag, so one load serves both the
 * comparison and the lookup. */
enum { SITE_TAG = 48 };
SIMT_INLINE uint64_t site_tag(const Checker *checker, const void *pc) {
    return checker->sites[site_slot(pc)] ^ (uintptr_t)pc;
}
SIMT_INLINE bool is_tag(uint64_t tag) { return !(tag << (64 - SITE_TAG)); }

SIMT_INLINE unsigned site_number(Checker *checker, const void *pc,
                                 unsigned size, Kind kind, bool is_volatile) {
    const uint64_t tag = site_tag(checker, pc);
    if (SIMT_UNLIKELY(!is_tag(tag)))
        return intern_site(checker, pc, size, kind, is_volatile);
    return (unsigned)(tag >> SITE_TAG);
}

/* ---- race_findings.cpp -------------------------------------------------- */

/* An earlier access by a thread of this or another block. */
struct Earlier {
    Kind kind;
    unsigned site;
    uint3 block, thread;
};

/* Report two accesses that nothing orders; `now` is the later one in this run.
 * conflict: whether both are writes of different values. */
void found_race(Checker *checker, const Fiber *self, const Access &now,
                const Earlier &earlier, bool conflict);
/* Note that a compare-and-swap by the same thread follows a plain read of the
 * same bytes, at `site`. If that read got a stale value, the swap corrects
 * it. */
void note_first_look(unsigned site);

/* ---- findings.cpp ------------------------------------------------------- */

/* The fields of a finding, except for its sentence. */
struct Found {
    const char *kind;          /* one of weft.report.KINDS */
    unsigned site, other_site; /* 0: there is none, or it is unknown */
    const void *pc;            /* the place if there is no site, else NULL */
    const void *other_pc;      /* the same for the other site */
    const char *file;          /* NULL unless the compiler supplied it */
    unsigned line, column;
    const uint3 *block, *thread, *other; /* NULL: none */
    const char *array;                   /* NULL: none */
    bool indexed;
    long long index;
    Sides sides;              /* the sides of the array */
    const Barriers *barriers; /* NULL unless a race is within a block */
    bool one_warp;            /* whether the two threads of the race are in the
                               * same warp */
    const char *text;
};

/* Keep a finding, or count it with those of the same kind, places and array. Of
 * these, the finding with the first block and thread is reported. */
void add_finding(const Job *job, const Found &found);
/* Return whether add_finding() would only count the finding, so that its text
 * is not needed. If so, this function counts it. */
bool count_known(const Job *job, const Found &found);
size_t findings_known();
void clear_findings();

/* ---- waits.cpp ---------------------------------------------------------- */

/* Note a volatile or atomic read of at most eight bytes. */
void note_look(Checker *checker, const Fiber *self, const Access &access);

/* ---- names.cpp ---------------------------------------------------------- */

/* Return "reads", "writes" or "updates". */
const char *verb(Kind kind);
/* Return the (x, y, z) of a linear index, in which x runs fastest. */
uint3 position(uint64_t number, dim3 size);
/* An index as text: "4", "(1,2)" or "(0,1,2)". Trailing dimensions of size 1
 * are omitted. */
struct Named {
    char text[40];
    Named(uint3 index, dim3 shape);
};
/* A thread as text: "thread 4 of block 2", without the block if there is only
 * one. */
struct Who {
    char text[96];
    Who(const Job *job, uint3 block, uint3 thread);
};
/* Find the array around an offset or, failing that, the nearest array. For
 * SHARED arrays, `block` is the block that owns them. Return false if there is
 * none. */
bool array_at(const Job *job, Space space, uintptr_t offset, Array *found);
/* The name of an array in a sentence: "x", or "an array of 64 bytes
 * (cudaMalloc)". */
struct Called {
    char text[96];
    explicit Called(const Array &array);
};
/* The index of an element, row by row: "[7]", or "[1][3]" of x[2][4]. */
struct Subscript {
    char text[64];
    Subscript(long long index, const Sides &sides, const char *between = "][");
};
void name_parameters(Job *job);
/* Record that a shared array of the launch is at `offset`. */
void name_shared(const Job *job, const SharedMember &array, unsigned offset);

/* ---- variables.cpp ------------------------------------------------------ */

/* Find the variable of a library or program at `address`, and represent it by a
 * range of the arena. *known receives whether any module's image contains the
 * address at all. */
bool find_variable(uintptr_t address, Array *found, bool *known);
/* Find pinned or registered memory of the host, or device memory that is older
 * than the arena, and represent it in the same way. */
bool find_host_memory(uintptr_t address, Array *found);
/* Return the file of the module that contains `pc`, or NULL if there is none;
 * *offset receives pc relative to the module's addresses. */
const char *module_of(const void *pc, uintptr_t *offset);

} // namespace simt::SIMT_FIBERS
#endif
