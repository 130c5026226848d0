/* watch/async_copies.cpp -- the bytes of shared memory that asynchronous copies
 * are accessing. They are marked when a thread requests a copy, and released
 * when a thread has waited for it. Any access in between races with the copy,
 * regardless of barriers. */
#include "async_copies.h"

#include "counters.h"
#include "hooks.h"
#include "sync.h"

namespace simt::SIMT_FIBERS {

static constexpr Mark READING = {READ, EFFECT_READS, false, true};
static constexpr Mark WRITING = {WRITE, EFFECT_WRITES, false, true};

enum { PIECE = 16 };

static Checker *checker_here() {
    Checker *checker = here()->block->checker;
    return checker && running_checker() ? checker : 0;
}

/* Return the tally of the running block, or NULL if its costs are not
 * counted. */
static Tally *tally_here() {
    const Checker *checker = checker_here();
    return checker && checker->log_on ? checker->log.tally : 0;
}

/* ---- requests ----------------------------------------------------------- */

/* Record an access by the running thread, from code that continues at `pc`. */
static void touch(const void *at, size_t bytes, const void *pc, Mark mark) {
    switch (bytes) {
    case 4: return hook<4>(at, pc, mark);
    case 8: return hook<8>(at, pc, mark);
    case 16: return hook<16>(at, pc, mark);
    default:
        if (bytes) hook_range(at, bytes, pc, mark);
    }
}

/* Record an access like touch(). It is counted only if it costs anything. */
static void touch_counted(const void *at, size_t bytes, const void *pc,
                          Mark mark, bool costs) {
    Checker *checker = checker_here();
    if (costs || !checker) return touch(at, bytes, pc, mark);
    const bool log_on = checker->log_on;
    checker->log_on = false;
    touch(at, bytes, pc, mark);
    checker->log_on = log_on;
}

void checked_look(const void *at, size_t bytes, bool costs) {
    touch_counted(at, bytes, __builtin_return_address(0), READING, costs);
}
void checked_put(void *at, size_t bytes, bool costs) {
    touch_counted(at, bytes, __builtin_return_address(0), WRITING, costs);
}

/* Return the states of the operation's bytes, or NULL if they are not in shared
 * memory. */
static uint8_t *states_of(const Checker *checker, const Later *later) {
    const uintptr_t offset = (uintptr_t)later->shared - checker->shared;
    if (!later->bytes || offset >= SHADOWED - later->bytes) return 0;
    return checker->shared_states + offset;
}

static void begin(Later *later, const void *pc, Mark mark, State under_way) {
    touch(later->shared, later->bytes, pc, mark);
    Checker *checker = checker_here();
    if (!checker) return;
    later->site = (unsigned short)site_number(checker, pc, later->bytes,
                                              mark.kind, false);
    if (uint8_t *states = states_of(checker, later))
        for (unsigned i = 0; i < later->bytes; i++) states[i] |= under_way;
}

void checked_ask(Errand errand, Later *later) {
    const void *pc = __builtin_return_address(0);
    if (errand == COPIES) {
        begin(later, pc, WRITING, COMING);
        if (const Tally *tally = tally_here())
            ((LaterCopy *)later)->barriers = tally->barriers;
    } else if (errand == STORES)
        begin(later, pc, READING, GOING);
    else if (Checker *checker = checker_here())
        later->site =
            (unsigned short)site_number(checker, pc, PIECE, READ, false);
    Errands *all = later_room(errand, later->size);
    memcpy(all->room + all->end, later, later->size);
    all->end += later->size;
}

void checked_bulk(Later *later, const void *barrier) {
    begin(later, __builtin_return_address(0), WRITING, COMING);
    later_bulk(later, barrier);
}

/* ---- performing the operations ------------------------------------------- */

/* Record one access to shared memory, attributed to the line that requested
 * `later`. */
static void access_at(Checker *checker, Fiber *self, const Later *later,
                      uintptr_t address, unsigned size, Mark mark) {
    Access it = {};
    it.address = address;
    it.offset = address - checker->shared;
    it.size = size;
    it.site = later->site;
    it.kind = mark.kind;
    it.space = SHARED;
    it.effect = mark.effect;
    if (it.offset >= SHADOWED) return;
    uint8_t *states = checker->shared_states + it.offset;
    bool written = true;
    for (unsigned i = 0; i < size; i++) written &= states[i] == BOTH;
    if (!written && judge_states(checker, self, it, mark, states)) return;
    if (checker->races_on) races_access(checker, self, it);
}

/* Mark the operation's bytes as no longer in flight. They are read or written
 * now. */
static void end(Checker *checker, Fiber *self, const Later *later, Mark mark,
                State under_way) {
    uint8_t *states = states_of(checker, later);
    if (!states) return;
    for (unsigned i = 0; i < later->bytes; i++) {
        states[i] &= (uint8_t)~under_way;
        if (under_way == COMING) states[i] |= WRITTEN;
    }
    for (unsigned i = 0; i < later->bytes; i += PIECE) {
        const unsigned left = later->bytes - i;
        access_at(checker, self, later, (uintptr_t)later->shared + i,
                  left < PIECE ? left : (unsigned)PIECE, mark);
    }
}

void checked_read16(const Later *later, const void *at) {
    if (Checker *checker = checker_here())
        access_at(checker, here(), later, (uintptr_t)at, PIECE, READING);
}

CheckedUnseen::CheckedUnseen() : block(here()->block), checker(block->checker) {
    go_inside(block);
    block->checker = 0;
}
CheckedUnseen::~CheckedUnseen() {
    block->checker = checker;
    go_outside(block);
}

void check_act(Checker *checker, Fiber *self, Errand errand, Later *later) {
    if (errand == PRODUCTS) {
        // The operands are copied to the thread's stack, so that accesses to
        // them are watched as accesses of the thread.
        enum { MOST = 256 };
        alignas(16) char mine[MOST];
        memcpy(mine, later, later->size < MOST ? later->size : (size_t)MOST);
        return later->act((Later *)mine);
    }
    if (errand == COPIES) {
        end(checker, self, later, WRITING, COMING);
        if (Tally *tally = tally_here()) {
            tally->copied += later->bytes;
            tally->copied_past +=
                later->bytes *
                (tally->barriers - ((LaterCopy *)later)->barriers);
        }
    } else {
        end(checker, self, later, READING, GOING);
    }
    const CheckedUnseen unseen;
    later->act(later);
}

void check_land(Checker *checker, Bulk *bulk, const void *phase) {
    // Act for the requesting thread, which may have ended. A thread that waits
    // for the phase is then ordered after this copy, and after no other one.
    Fiber issuer = *here();
    issuer.thread = bulk->thread;
    const bool ordered = checker->races_on && !checker->races.off;
    if (ordered) checker->races.own_id[issuer.thread.linear] = take_id(checker);
    end(checker, &issuer, bulk->later(), WRITING, COMING);
    if (ordered) races_at_arrival(checker, &issuer, phase);
    const CheckedUnseen unseen;
    bulk->later()->act(bulk->later());
}

/* ---- findings ----------------------------------------------------------- */

/* A search for the operation that is accessing an address. */
struct Search {
    uintptr_t address;
    const Later *found;
    uint3 thread;

    void look(const Later *later, const Thread &who) {
        if (found || !later->act) return;
        if (address - (uintptr_t)later->shared >= later->bytes) return;
        found = later;
        thread = who.index;
    }
};

template <class F>
static void each_pending(const Worker *worker, Errand errand, F f) {
    for (int i = 0; i < worker->threads; i++) {
        const Pending *pending = worker->pending[i];
        if (!pending || pending->block != worker->blocks) continue;
        const Errands &all = pending->of[errand];
        for (unsigned at = all.begin; at < all.end;) {
            const Later *later = (const Later *)(all.room + at);
            f(later, pending->thread);
            at += later->size;
        }
    }
}

bool judge_under_way(Checker *checker, const Fiber *self, const Access &access,
                     Mark mark, const uint8_t *states) {
    const bool writes = mark.effect & EFFECT_WRITES;
    const int wrong = writes ? COMING | GOING : COMING;
    unsigned at = 0;
    while (at < access.size && !(states[at] & wrong)) at++;
    if (at == access.size) return false;
    const bool coming = states[at] & COMING;
    const Worker *worker = checker->worker;
    Search search = {access.address + at, 0, {}};
    auto look = [&](const Later *it, const Thread &who) {
        search.look(it, who);
    };
    each_pending(worker, coming ? COPIES : STORES, look);
    if (coming)
        for (Bulk *bulk = worker->bulks; bulk; bulk = bulk->next)
            look(bulk->later(), bulk->thread);
    Access told = access;
    told.offset += at;
    told.address += at;
    tell_under_way(checker, self, told, search.found,
                   search.found ? &search.thread : 0, coming);
    return true;
}

void check_not_waited(Worker *worker) {
    Checker *checker = worker->checker;
    auto tell = [&](const Later *later, const Thread &who) {
        if (later->act) tell_not_waited(checker, later, who.index);
    };
    // Copies by cp.async that are still in flight at the end do no harm.
    for (Errand errand : {STORES, PRODUCTS}) each_pending(worker, errand, tell);
    for (Bulk *bulk = worker->bulks; bulk; bulk = bulk->next)
        tell(bulk->later(), bulk->thread);
}

} // namespace simt::SIMT_FIBERS
