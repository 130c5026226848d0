/* sync.h -- the order of accesses besides the barriers of a block: meetings of
 * lanes, fences, and atomics that one thread writes and another one reads.
 *
 * Inside of a block, vector clocks record the order. For each pair of threads
 * they hold an id: accesses of the second thread below it come before the first
 * thread's next ones. Ids only grow, so the clocks are never reset: old entries
 * are too low to matter. Between blocks only the atomics are recorded. They are
 * searched when accesses of two blocks meet that nothing else orders. */
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

/* The accesses that a thread released to its block by writing a variable. */
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
    unsigned id, warp; /* the last id known of its warp then */
};

struct Answer { /* of before_across() */
    Mention earlier;
    unsigned id, thread;
    size_t changes;
    bool before;
};

/* The order between the running block's threads. */
struct Sync {
    unsigned together[WARPS]; /* when all lanes of a warp last met */
    /* Lanes whose row holds more than that about their warp, or the block; and
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

/* The id below which every access of another thread of the block comes before
 * those of `me`. */
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
/* Whether `me` is ordered after an earlier atomic of this block on a
 * variable. */
bool update_before(const Races &races, unsigned me, Mention earlier,
                   const Access &now);
/* Whether another block's access came before the thread's current one. */
bool before_across(Checker *checker, const Fiber *self, Mention earlier,
                   uint64_t block);

/* ---- races.cpp ---------------------------------------------------------- */

unsigned take_id(Checker *checker);
bool is_own(const Checker *checker, unsigned id); /* of the running block */
uint64_t block_of(unsigned id);                   /* in one dimension */
/* Whether the id's worker is still in its interval: the access may not have
 * happened yet. */
bool may_be_under_way(unsigned id);

/* ---- cells.cpp ---------------------------------------------------------- */

void settle_doubt(Checker *checker);

} // namespace
} // namespace simt
#endif
