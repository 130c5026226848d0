/* sync.h -- what orders accesses besides the barriers of a block: meetings of
 * lanes, fences, and atomics that one thread writes and another one reads.
 *
 * Inside of a block knowledge is kept as vector clocks: for a thread, the id
 * below which another thread's accesses come before whatever it does now. Ids
 * only grow, so nothing of this is ever reset: what is stale says too little to
 * matter. Between blocks only the atomics are written down, and looked through
 * when two blocks have met that nothing else orders. */
#ifndef SIMT_CHECK_SYNC_H
#define SIMT_CHECK_SYNC_H
#include <memory>
#include <unordered_map>
#include <vector>

#include "check.h"

namespace simt {
#ifdef SIMT_UCONTEXT
inline namespace ucontext_fibers {
#else
inline namespace asm_fibers {
#endif

enum { WARPS = MAX_THREADS / WARP };

/* A variable: its offset in its space, to the word; bit 0: of shared memory. */
typedef uint64_t Variable;

typedef std::shared_ptr<const std::vector<unsigned>> Clock;

/* What a thread told the others of its block by writing a variable. */
struct Told {
    unsigned thread, own, warp; /* known: its own ids, its warp's, */
    unsigned update;            /* and its atomics up to this one */
    Clock all;                  /* of each thread; NULL: no more than that */
};

/* A variable as the running block's threads wrote and read it. */
struct Local {
    std::vector<Told> told;
    std::vector<unsigned> heard; /* by each thread: how many of those */
};

struct Fence {         /* a thread's last one */
    unsigned id, warp; /* before it: what was known of its warp */
};

struct Answer { /* of before_across() */
    Mention earlier;
    unsigned id, thread;
    size_t changes;
    bool before;
};

/* What the running block's threads know of one another. */
struct Sync {
    unsigned together[WARPS]; /* when all lanes of a warp last met */
    /* Lanes whose row says more than that about their warp, or the block; and
     * whether the row of their warp does. */
    unsigned near[WARPS], far[WARPS];
    bool warp_far[WARPS];
    unsigned (*rows)[MAX_THREADS];      /* of each thread */
    unsigned (*warp_rows)[MAX_THREADS]; /* of each warp */
    Fence fences[2][MAX_THREADS];       /* by FenceScope */
    bool fenced;         /* somebody has, for the device, in this interval */
    unsigned fence_base; /* all before it was fenced before this interval */
    Clock fence_ids;     /* likewise, of each thread */
    std::unordered_map<Variable, Local> locals;
    /* A read of a variable that has not happened when its hook runs. */
    unsigned reading; /* words */
    Variable read_variable;
    unsigned reader, reader_id;
    Answer answers[256];
};

/* Everything of another thread of the block below this id is known. */
SIMT_INLINE unsigned known(const Races &races, unsigned me, unsigned other) {
    const Sync &sync = *races.sync;
    const unsigned warp = me / WARP, bit = 1u << me % WARP;
    const bool mates = other / WARP == warp;
    unsigned id = races.interval;
    if (mates && sync.together[warp] > id) id = sync.together[warp];
    if (sync.warp_far[warp] && sync.warp_rows[warp][other] > id)
        id = sync.warp_rows[warp][other];
    if (((sync.far[warp] | (mates ? sync.near[warp] : 0)) & bit) &&
        sync.rows[me][other] > id)
        id = sync.rows[me][other];
    return id;
}

bool create_sync(Races *races);
void forget_sync(Races *races); /* ids begin anew */
void sync_begin_launch();
void sync_end_launch();
void sync_begin_block(Checker *checker);
void sync_at_barrier(Checker *checker, unsigned old_interval);
/* A volatile or atomic access. */
void sync_at_access(Checker *checker, Fiber *self, const Access &access);
/* Whether an atomic of this block on a variable came before, as `me` knows. */
bool update_before(const Races &races, unsigned me, Mention earlier,
                   const Access &now);
/* Whether another block's access came before what the thread does now. */
bool before_across(Checker *checker, const Fiber *self, Mention earlier,
                   uint64_t block);

/* ---- races.cpp ---------------------------------------------------------- */

unsigned take_id(Checker *checker);
bool is_own(const Checker *checker, unsigned id); /* of the running block */
uint64_t block_of(unsigned id);                   /* in one dimension */
/* The worker that an id is of is at it, or beyond: not yet, maybe. */
bool may_be_under_way(unsigned id);

/* ---- cells.cpp ---------------------------------------------------------- */

void settle_doubt(Checker *checker);

} // namespace
} // namespace simt
#endif
