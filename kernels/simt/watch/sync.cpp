/* sync.cpp -- the order between the threads of a block. */
#include "sync.h"

#include <sys/mman.h>

#include "block_signals.h"

namespace simt::SIMT_FIBERS {

static void *reserve(size_t bytes) {
    void *memory = mmap(0, bytes, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    return memory == MAP_FAILED ? 0 : memory;
}

enum : size_t {
    ROW = MAX_THREADS * sizeof(unsigned),
    ROWS = MAX_THREADS * ROW,
    WARP_ROWS = WARPS * ROW
};

bool create_sync(Races *races) {
    Sync *sync = new Sync();
    sync->rows = (unsigned (*)[MAX_THREADS])reserve(ROWS);
    sync->warp_rows = (unsigned (*)[MAX_THREADS])reserve(WARP_ROWS);
    if (sync->rows && sync->warp_rows) races->sync = sync;
    return races->sync;
}

void forget_sync(Races *races) {
    Sync &sync = *races->sync;
    memset(sync.together, 0, sizeof sync.together);
    memset(sync.fences, 0, sizeof sync.fences);
    memset((void *)sync.answers, 0, sizeof sync.answers);
    madvise(sync.rows, ROWS, MADV_DONTNEED);
    madvise(sync.warp_rows, WARP_ROWS, MADV_DONTNEED);
}

void sync_begin_block(Checker *checker) {
    Sync &sync = *checker->races.sync;
    const int warps = (checker->worker->threads + WARP - 1) / WARP;
    for (int i = 0; i < warps; i++)
        sync.near[i] = sync.far[i] = sync.warp_far[i] = 0;
    sync.fenced = false;
    sync.reading = 0;
    sync.fence_base = 0;
    sync.fence_ids.reset();
    if (!sync.locals.empty()) sync.locals.clear();
}

/* ---- meetings ----------------------------------------------------------- */

static void learn(unsigned *row, const unsigned *other, unsigned count) {
    for (unsigned i = 0; i < count; i++)
        row[i] = row[i] < other[i] ? other[i] : row[i];
}

static unsigned all_lanes(unsigned threads, unsigned warp) {
    const unsigned count = threads - warp * WARP;
    return count >= WARP ? ~0u : (1u << count) - 1;
}

/* Handle a meeting of every lane of a warp: each lane then has all the
 * information that any of them had. */
static void meet_all(Races &races, unsigned threads, unsigned warp,
                     unsigned id) {
    Sync &sync = *races.sync;
    for (unsigned far = sync.far[warp]; far; far &= far - 1) {
        const unsigned *row = sync.rows[warp * WARP + __builtin_ctz(far)];
        learn(sync.warp_rows[warp], row, threads);
        sync.warp_far[warp] = true;
    }
    sync.near[warp] = sync.far[warp] = 0;
    sync.together[warp] = id;
}

/* Handle a meeting of some lanes: the row of each lane becomes the union of
 * these lanes' rows, plus the meeting. */
static void meet_some(Races &races, unsigned threads, unsigned warp,
                      unsigned group, unsigned id) {
    Sync &sync = *races.sync;
    const unsigned base = warp * WARP, far = sync.far[warp] & group;
    const unsigned low = far ? 0 : base;
    const unsigned count = far ? threads : (unsigned)WARP;
    unsigned both[MAX_THREADS];
    memset(both + low, 0, count * sizeof *both);
    for (unsigned left = group; left; left &= left - 1) {
        const unsigned lane = __builtin_ctz(left);
        if (sync.far[warp] >> lane & 1)
            learn(both, sync.rows[base + lane], threads);
        else if (sync.near[warp] >> lane & 1)
            learn(both + base, sync.rows[base + lane] + base, WARP);
        both[base + lane] = id;
    }
    for (unsigned left = group; left; left &= left - 1)
        learn(sync.rows[base + __builtin_ctz(left)] + low, both + low, count);
    sync.near[warp] |= group;
    if (far) sync.far[warp] |= group;
}

void races_at_meeting(Checker *checker, Warp *warp, unsigned group) {
    Races &races = checker->races;
    if (races.off) return;
    if (races.in_doubt) settle_doubt(checker);
    finish_reading(checker);
    const unsigned threads = (unsigned)checker->worker->threads;
    const unsigned number = (unsigned)(warp - checker->worker->warps);
    const unsigned all = all_lanes(threads, number), id = take_id(checker);
    // Lanes that were waited for and have ended count as having arrived.
    const unsigned asked = warp->mask[__builtin_ctz(group)];
    const unsigned met = group | (asked & all & ~warp->live);
    for (unsigned left = group; left; left &= left - 1)
        races.own_id[number * WARP + __builtin_ctz(left)] = id;
    if (met == all)
        meet_all(races, threads, number, id);
    else
        meet_some(races, threads, number, met, id);
}

void sync_at_barrier(Checker *checker, unsigned old_interval) {
    finish_reading(checker);
    Sync &sync = *checker->races.sync;
    if (!sync.fenced) return;
    sync.fenced = false;
    sync.fence_base = old_interval;
    auto fences = std::make_shared<std::vector<unsigned>>();
    for (int i = 0; i < checker->worker->threads; i++)
        fences->push_back(sync.fences[FENCE_DEVICE][i].id);
    sync.fence_ids = fences;
}

/* ---- fences ------------------------------------------------------------- */

void races_at_fence(Checker *checker, Fiber *self, FenceScope scope) {
    Races &races = checker->races;
    if (races.off) return;
    if (races.in_doubt) settle_doubt(checker);
    Sync &sync = *races.sync;
    const unsigned me = self->thread.linear;
    const Fence fence = {take_id(checker), sync.together[me / WARP]};
    races.own_id[me] = fence.id;
    sync.fences[FENCE_BLOCK][me] = fence;
    if (scope == FENCE_BLOCK) return;
    sync.fences[FENCE_DEVICE][me] = fence;
    sync.fenced = true;
}

/* ---- variables ---------------------------------------------------------- */

/* Return a thread's release; `fence` is the thread's last fence, or the release
 * itself. */
static Told told_by(const Checker *checker, unsigned me, const Fence &fence) {
    const Races &races = checker->races;
    const Sync &sync = *races.sync;
    const unsigned warp = me / WARP, bit = 1u << me % WARP;
    Told told = {me, fence.id, fence.warp, current_id(races, me), nullptr};
    const bool far = sync.warp_far[warp] || sync.far[warp] & bit;
    if (!far && !(sync.near[warp] & bit)) return told;
    auto all = std::make_shared<std::vector<unsigned>>();
    all->resize((size_t)checker->worker->threads);
    for (unsigned i = 0; i < all->size(); i++)
        if (far || i / WARP == warp) (*all)[i] = known(races, me, i);
    (*all)[me] = fence.id;
    told.all = all;
    return told;
}

static void tell_block(Checker *checker, Variable variable, const Told &told) {
    checker->races.sync->locals[variable].told.push_back(told);
}

static void hear_block(Checker *checker, Variable variable, unsigned me) {
    Races &races = checker->races;
    Sync &sync = *races.sync;
    auto found = sync.locals.find(variable);
    if (found == sync.locals.end()) return;
    Local &local = found->second;
    if (local.heard.empty()) local.heard.resize(checker->worker->threads);
    const unsigned threads = (unsigned)checker->worker->threads;
    unsigned &heard = local.heard[me], *row = sync.rows[me];
    if (heard == local.told.size()) return;
    for (; heard < local.told.size(); heard++) {
        const Told &told = local.told[heard];
        const unsigned base = told.thread / WARP * WARP;
        for (unsigned i = base; i < base + WARP && i < threads; i++)
            if (row[i] < told.warp) row[i] = told.warp;
        if (row[told.thread] < told.own) row[told.thread] = told.own;
        if (told.all) learn(row, told.all->data(), threads);
    }
    sync.far[me / WARP] |= 1u << me % WARP;
}

bool update_before(const Races &races, unsigned me, Mention earlier,
                   const Access &now) {
    auto found = races.sync->locals.find(variable_of(now));
    if (found == races.sync->locals.end()) return false;
    const Local &local = found->second;
    for (unsigned i = local.heard.empty() ? 0 : local.heard[me]; i--;) {
        const Told &told = local.told[i];
        if (told.thread == thread_of(earlier) && told.update >= id_of(earlier))
            return true;
    }
    return false;
}

/* Add the fences that the warp's other threads have made in this interval and
 * that come before the current access of `me`. */
static void tell_mates_fences(const Checker *checker, unsigned me, Told *told) {
    const Races &races = checker->races;
    const Sync &sync = *races.sync;
    if (!sync.fenced) return;
    const unsigned threads = (unsigned)checker->worker->threads;
    const unsigned base = me / WARP * WARP;
    std::shared_ptr<std::vector<unsigned>> ids;
    for (unsigned i = base; i < base + WARP && i < threads; i++) {
        const unsigned id = sync.fences[FENCE_DEVICE][i].id;
        if (i == me || id < races.interval || id > known(races, me, i))
            continue;
        if (!ids && told->all)
            ids = std::make_shared<std::vector<unsigned>>(*told->all);
        if (!ids) ids = std::make_shared<std::vector<unsigned>>(threads);
        if ((*ids)[i] < id) (*ids)[i] = id;
    }
    if (ids) told->all = ids;
}

static bool releases(const Access &access) {
    if (access.kind != ATOMIC) return false;
    return access.order == __ATOMIC_RELEASE ||
           access.order == __ATOMIC_ACQ_REL || access.order == __ATOMIC_SEQ_CST;
}

/* Make accesses before the release precede the later accesses of threads that
 * read the variable. */
static void release(Checker *checker, unsigned me, Variable variable,
                    const Fence *fence) {
    Races &races = checker->races;
    Sync &sync = *races.sync;
    const Fence &nearby = fence ? *fence : sync.fences[FENCE_BLOCK][me];
    // A fence of an earlier interval adds nothing to the barrier after it,
    // except for the atomics on the variable itself.
    if (nearby.id >= races.first)
        tell_block(checker, variable, told_by(checker, me, nearby));
    if (variable & 1 || checker->job->blocks == 1) return;
    const Fence &wide = fence ? *fence : sync.fences[FENCE_DEVICE][me];
    const bool now = wide.id >= races.interval; // otherwise the fence came
                                                // before a barrier
    Told told = told_by(checker, me, wide);
    if (!now) told.warp = 0, told.all.reset();
    tell_mates_fences(checker, me, &told);
    const unsigned base = now ? races.interval : sync.fence_base;
    if (base || told.all)
        tell_grid(checker, variable, told, base,
                  now ? nullptr : sync.fence_ids);
}

/* Return the key of a barrier of the runtime. No variable of a program has such
 * a key. */
static Variable variable_of(const void *barrier) {
    return (uint64_t)(uintptr_t)barrier | 1ull << 63 | 1;
}

void races_at_arrival(Checker *checker, Fiber *self, const void *barrier) {
    Races &races = checker->races;
    if (races.off) return;
    if (races.in_doubt) settle_doubt(checker);
    finish_reading(checker);
    const unsigned me = self->thread.linear;
    const Fence fence = {take_id(checker), races.sync->together[me / WARP]};
    races.own_id[me] = fence.id;
    tell_block(checker, variable_of(barrier), told_by(checker, me, fence));
}

void races_at_departure(Checker *checker, Fiber *self, const void *barrier) {
    if (checker->races.off) return;
    hear_block(checker, variable_of(barrier), self->thread.linear);
}

void sync_at_access(Checker *checker, Fiber *self, const Access &access) {
    Races &races = checker->races;
    finish_reading(checker);
    const unsigned me = self->thread.linear;
    const bool atomic = access.kind == ATOMIC;
    const bool reads =
        atomic ? access.effect & EFFECT_READS : access.kind == READ;
    const bool writes =
        atomic ? access.effect & EFFECT_WRITES : access.kind == WRITE;
    const bool ordered = releases(access);
    const unsigned words = (access.size + 3) / 4;
    const Variable variable = variable_of(access);
    if (reads) {
        for (unsigned i = 0; i < words; i++)
            hear_block(checker, variable + 4 * i, me);
        begin_reading(checker, variable, words, me);
    }
    if (!writes) return;
    Fence fence = {0, races.sync->together[me / WARP]};
    if (ordered) races.own_id[me] = fence.id = take_id(checker);
    for (unsigned i = 0; i < words; i++)
        release(checker, me, variable + 4 * i, ordered ? &fence : 0);
}

} // namespace simt::SIMT_FIBERS

using namespace simt;

#pragma GCC visibility push(default)
extern "C" bool simt_block_barrier(const void *barrier) {
    const Checker *checker = running_checker();
    return checker && checker->races_on &&
           (uintptr_t)barrier - checker->shared < SHADOWED;
}
extern "C" void simt_tile_arrival(const void *barrier) {
    if (Checker *checker = running_checker())
        if (checker->races_on) races_at_arrival(checker, here(), barrier);
}
extern "C" void simt_tile_departure(const void *barrier) {
    if (Checker *checker = running_checker())
        if (checker->races_on) races_at_departure(checker, here(), barrier);
}
#pragma GCC visibility pop
