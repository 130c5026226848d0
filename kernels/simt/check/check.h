/* check.h -- the check build: what the parts of kernels/simt/check share.
 *
 * Code that is compiled with SIMT_CHECK calls a hook before each of its loads,
 * stores and atomics (hooks.cpp): g++'s -fsanitize=thread puts the calls there,
 * and libtsan, whose functions they name, is not linked. Plain code never does,
 * and both run on this one runtime.
 *
 *     hooks.cpp, atomics.cpp, ubsan.cpp    what instrumented code calls
 *     engine.cpp                           barriers and the like, out of line
 *     memory.cpp, variables.cpp            which bytes may be touched
 *     names.cpp                            what arrays are called
 *     races.*, sync.*                      which accesses nothing orders
 *     log.*, counters.*                    what accesses cost
 *     findings.cpp, report.cpp             what is said about it
 *     sites.cpp                            places in the program
 */
#ifndef SIMT_CHECK_PRIVATE_H
#define SIMT_CHECK_PRIVATE_H
#include "../runtime.h"
#include "memory.h"
#include "simt_check.h"

namespace simt {
#ifdef SIMT_UCONTEXT
inline namespace ucontext_fibers {
#else
inline namespace asm_fibers {
#endif

enum Kind : uint8_t { READ, WRITE, ATOMIC };
enum Space : uint8_t { GLOBAL, SHARED, LOCAL, OTHER };

/* A place in a program's code that accesses memory. */
struct Site {
    const void *pc; /* what its call of the hook returns to */
    uint8_t size;   /* bytes; 0: they differ from time to time */
    Kind kind;
    bool is_volatile;
};

enum { MAX_SITES = 1 << 16 }; /* number 0 is no place */

/* One access by one thread. `offset` counts from where the shadows of its space
 * begin: SHARED, from the block's shared memory; GLOBAL, from the arena. What
 * lies outside of the arena (__device__ variables and the like) has a range of
 * it as its stand-in, whose bytes nobody uses. */
struct Access {
    uintptr_t address, offset;
    unsigned size, site;
    Kind kind;
    bool is_volatile;
    Space space;
    uint8_t order; /* of an atomic: __ATOMIC_RELAXED, ... */
};

} // namespace
} // namespace simt

#include "log.h"
#include "races.h"

namespace simt {
#ifdef SIMT_UCONTEXT
inline namespace ucontext_fibers {
#else
inline namespace asm_fibers {
#endif

enum { SITE_CACHE = 1024, SHADOWED = 512 << 10 /* bytes of shared memory */ };

/* What one worker knows while it runs the blocks of an instrumented launch. */
struct Checker {
    Worker *worker;
    Job *job;
    unsigned number; /* of this checker, 0, 1, ...: one for each worker */
    bool races_on, log_on;
    uintptr_t shared;               /* Block::shared */
    uint8_t *shared_states;         /* SHADOWED of them, enum State */
    unsigned shared_end;            /* past the last byte that has a state */
    const void *cached[SITE_CACHE]; /* the site at [hash(pc)] ... */
    uint16_t numbers[SITE_CACHE];   /* ... and its number */
    uint64_t accesses;              /* a sign of life for the watchdog */
    const Array *last;              /* outside of the arena: found last */
    bool any_volatile;
    Races races;
    Log log;
};

/* The checker of a block; NULL if its launch is not instrumented. */
SIMT_INLINE Checker *checker_of(const Block *block) { return block->checker; }

/* ---- sites.cpp ---------------------------------------------------------- */

Site site_at(unsigned number);
unsigned sites_known();
unsigned intern_site(Checker *checker, const void *pc, unsigned size, Kind kind,
                     bool is_volatile);

/* The number of the site whose hook returns to `pc`. */
SIMT_INLINE unsigned site_number(Checker *checker, const void *pc,
                                 unsigned size, Kind kind, bool is_volatile) {
    const uintptr_t hash = (uintptr_t)pc ^ (uintptr_t)pc >> 10;
    const unsigned slot = hash % SITE_CACHE;
    if (SIMT_UNLIKELY(checker->cached[slot] != pc))
        return intern_site(checker, pc, size, kind, is_volatile);
    return checker->numbers[slot];
}

/* ---- findings.cpp ------------------------------------------------------- */

/* A thread of another block, or the same: where and in which way it met. */
struct Earlier {
    Kind kind;
    unsigned site; /* 0: unknown */
    bool block_known, thread_known;
    uint3 block, thread;
};

/* Two accesses that nothing orders, `now` the later one of them as the threads
 * happened to run. conflict: both are writes, of different values. `values`,
 * where given, are what the two wrote, as text (now's first). hint: a
 * sentence's end, such as "running in step may hide it", or NULL. */
void found_race(Checker *checker, const Fiber *self, const Access &now,
                const Earlier &earlier, bool conflict,
                const char *const *values = 0, const char *hint = 0);

/* ---- lives of launches (check.cpp calls these of RACES and COUNTERS) ----- */

} // namespace
} // namespace simt
#endif
