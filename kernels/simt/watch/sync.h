/* sync.h -- the order of accesses that does not come from a block's barriers.
 * It comes from meetings of lanes, from fences, and from atomics that one
 * thread writes and another thread reads.
 *
 * Inside a block, vector clocks record the order. For each pair of threads they
 * hold an id: accesses of the second thread with lower ids come before the
 * first thread's next accesses. Ids only grow, so the clocks are never reset,
 * since old entries are too low to matter. Between blocks only the atomics are
 * recorded. They are searched when nothing else orders two blocks' accesses to
 * the same memory. */
#ifndef SIMT_CHECK_SYNC_H
#define SIMT_CHECK_SYNC_H
#include <memory>
#include <unordered_map>
#include <vector>

#include "check.h"

namespace simt::SIMT_FIBERS {

enum { WARPS = MAX_THREADS / WARP };

/* The key of a variable: its offset in its space, rounded down to a word; bit
 * 0: whether it is in shared memory. */
typedef uint64_t Variable;

typedef std::shared_ptr<const std::vector<unsigned>> Clock;

/* The accesses that a thread released to its block by writing a variable. */
struct Told {
    unsigned thread, own, warp; /* ids released: below `own` by the thread, */
    unsigned update;            /* below `warp` by its warp; last atomic's id */
    Clock all;                  /* ids of each thread; NULL: nothing more is
                                 * known */
};

/* The writes and reads of a variable by the running block's threads. */
struct Local {
    std::vector<Told> told;
    std::vector<unsigned> heard; /* number of releases each thread has read */
};

struct Fence {         /* the last fence of a thread */
    unsigned id, warp; /* id of the fence; its warp's last id known then */
};

struct Answer { /* the result of before_across() */
    Mention earlier;
    unsigned id, thread;
    size_t changes;
    bool before;
};

/* The order between the running block's threads. */
struct Sync {
    unsigned together[WARPS]; /* id of the last meeting of all lanes of a
                               * warp */
    /* Lanes whose row has more information than `together`: about their warp
     * (near) or about the block (far). warp_far: whether the row of their warp
     * has such information about the block. */
    unsigned near[WARPS], far[WARPS];
    bool warp_far[WARPS];
    unsigned (*rows)[MAX_THREADS];      /* row of each thread */
    unsigned (*warp_rows)[MAX_THREADS]; /* row of each warp */
    Fence fences[2][MAX_THREADS];       /* indexed by FenceScope */
    bool fenced;         /* whether a thread has made a fence for the device in
                          * this interval */
    unsigned fence_base; /* ids below it were fenced before this interval */
    Clock fence_ids;     /* the same for each thread */
    std::unordered_map<Variable, Local> locals;
    /* A read of a variable that has not yet happened when its hook runs. */
    unsigned reading; /* number of words */
    Variable read_variable;
    unsigned reader, reader_id;
    Answer answers[256];
};

/* Return the id below which every access of thread `other` of the block comes
 * before the next access of thread `me`. */
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
void forget_sync(Races *races); /* when the ids start again */
void sync_begin_launch();
void sync_end_launch();
void sync_begin_block(Checker *checker);
void sync_at_barrier(Checker *checker, unsigned old_interval);
/* Handle a volatile or atomic access. */
void sync_at_access(Checker *checker, Fiber *self, const Access &access);
/* Return whether `me` is ordered after an earlier atomic of this block on a
 * variable. */
bool update_before(const Races &races, unsigned me, Mention earlier,
                   const Access &now);
/* Return whether another block's access came before the thread's current
 * one. */
bool before_across(Checker *checker, const Fiber *self, Mention earlier,
                   uint64_t block);

/* ---- races.cpp ---------------------------------------------------------- */

unsigned take_id(Checker *checker);
bool is_own(const Checker *checker, unsigned id); /* whether the id belongs to
                                                   * the running block */
uint64_t block_of(unsigned id);                   /* linear index of the
                                                   * block */
/* Return whether the worker that took this id is still in the id's interval, so
 * that the access may not have happened yet. */
bool may_be_under_way(unsigned id);

/* ---- cells.cpp ---------------------------------------------------------- */

void settle_doubt(Checker *checker);

} // namespace simt::SIMT_FIBERS
#endif
