/* meetings.cpp -- meetings of a warp's lanes under a GPU's strict rules, and
 * the report of lanes that wait for each other forever.
 *
 * A lane that calls a shuffle, a vote or __syncwarp() must be in its own mask.
 * All lanes of that mask that have not returned must make the same kind of call
 * with the same mask. The sentences are the same as in
 * lib/weft/pykernel/sim/schedule.py. */
#include <stdio.h>

#include "report.h"

namespace simt::SIMT_FIBERS {

static const char *const names[] = {"__syncwarp()", "a shuffle", "a vote"};

/* ---- lanes in a sentence ------------------------------------------------ */

std::string lanes_text(unsigned lanes) {
    std::string parts[WARP];
    int count = 0;
    const bool one = !(lanes & (lanes - 1));
    while (lanes) {
        const int from = __builtin_ctz(lanes);
        int to = from;
        while (to < WARP - 1 && lanes >> (to + 1) & 1) to++;
        for (int lane = from; lane <= to; lane++) lanes &= ~(1u << lane);
        parts[count] = std::to_string(from);
        if (to > from) parts[count] += "-" + std::to_string(to);
        count++;
    }
    std::string text = one ? "lane " : "lanes ";
    for (int i = 0; i < count; i++)
        text += (i == 0 ? "" : i < count - 1 ? ", " : " and ") + parts[i];
    return text;
}

/* ---- errors ------------------------------------------------------------- */

static const Fiber *fiber_of(unsigned thread) {
    const Fiber *self = here(), *it = self;
    do {
        if (it->thread.linear == thread) return it;
        it = it->next;
    } while (it != self);
    return 0;
}

/* Keep the finding about this thread, and make it the launch's fault. */
static void end_with(Checker *checker, unsigned thread, const void *other_pc,
                     const char *text) {
    Worker *worker = checker->worker;
    const Fiber *fiber = fiber_of(thread);
    if (!fiber || worker->job->failed.load()) return;
    Found found = {};
    found.kind = "deadlock";
    found.pc = checker->arrivals[thread].met;
    found.other_pc = other_pc;
    found.block = &worker->index;
    found.thread = &fiber->thread.index;
    const Who who(checker->job, worker->index, fiber->thread.index);
    const std::string sentence = std::string(who.text) + " " + text;
    found.text = sentence.c_str();
    add_finding(checker->job, found);
    checker->job->fault_found = true;
    note_fault(worker, fiber, SIMT_FAULT_DEADLOCK, cudaErrorLaunchTimeout, "%s",
               text);
}

/* Return whether this lane waits with the lanes that call `meeting` for
 * `group`. */
static bool comes(const Warp *warp, int lane, unsigned group, Meeting meeting) {
    return warp->waiting >> lane & 1 && warp->meeting[lane] == meeting &&
           (warp->mask[lane] & warp->live) == group;
}

bool check_together(const Warp *warp, unsigned mask, Meeting meeting) {
    const unsigned group = mask & warp->live;
    for (unsigned left = group; left; left &= left - 1)
        if (!comes(warp, __builtin_ctz(left), group, meeting)) return false;
    return true;
}

static void tell_lane(Checker *checker, const Warp *warp, unsigned thread) {
    const unsigned lane = thread % WARP;
    const unsigned mask = warp->mask[lane], group = mask & warp->live;
    const Meeting meeting = warp->meeting[lane];
    unsigned missing = 0;
    for (unsigned left = group; left; left &= left - 1)
        if (!comes(warp, __builtin_ctz(left), group, meeting))
            missing |= left & -left;
    if (!missing) return;
    const unsigned other = (unsigned)__builtin_ctz(missing);
    const Arrival &there = checker->arrivals[thread - lane + other];
    const bool at_barrier = there.epoch == checker->worker->epoch;
    const void *other_pc = 0;
    char where[80] = "is elsewhere";
    if (warp->waiting >> other & 1) {
        other_pc = there.met;
        snprintf(where, sizeof where, "waits at %s with the mask 0x%08x",
                 names[warp->meeting[other]], warp->mask[other]);
    } else if (at_barrier) {
        other_pc = there.pc;
        snprintf(where, sizeof where, "waits at the block's barrier");
    }
    char text[300];
    snprintf(text, sizeof text,
             "waits at %s with the mask 0x%08x for %s of its warp, which never "
             "come%s: lane %u %s",
             names[meeting], mask, lanes_text(missing).c_str(),
             missing & (missing - 1) ? "" : "s", other, where);
    end_with(checker, thread, other_pc, text);
}

void check_deadlock(Worker *worker) {
    for (int w = 0; w * WARP < worker->threads; w++) {
        const Warp *warp = &worker->warps[w];
        if (!warp->waiting) continue;
        const unsigned lane = (unsigned)__builtin_ctz(warp->waiting);
        return tell_lane(worker->checker, warp, (unsigned)w * WARP + lane);
    }
}

/* ---- meeting ------------------------------------------------------------ */

static void check_own_lane(Checker *checker, const Fiber *self, unsigned mask,
                           Meeting meeting) {
    const unsigned thread = self->thread.linear, lane = thread % WARP;
    if (mask >> lane & 1) return;
    char text[120];
    snprintf(text, sizeof text,
             "calls %s with the mask 0x%08x, in which its own lane %u is not "
             "named",
             names[meeting], mask, lane);
    end_with(checker, thread, 0, text);
    abandon(checker->worker);
}

static uint64_t meet_strictly(Checker *checker, unsigned mask, Meeting meeting,
                              uint64_t value, unsigned source, const void *pc) {
    Block *block = here()->block;
    go_inside(block);
    Fiber *self = promoted();
    Warp *warp = self->warp;
    const unsigned thread = self->thread.linear, lane = thread % WARP;
    checker->arrivals[thread].met = pc;
    check_own_lane(checker, self, mask, meeting);
    warp->in[lane] = value;
    warp->source[lane] = (unsigned char)source;
    warp->mask[lane] = mask;
    warp->meeting[lane] = meeting;
    warp->waiting |= 1u << lane;
    if (check_together(warp, mask, meeting)) {
        complete(warp, mask & warp->live, meeting);
    } else {
        for (;;) {
            pass(self);
            if (!(warp->waiting >> lane & 1)) break;
            in_vain(self);
        }
    }
    checker->arrivals[thread].met = 0;
    const uint64_t result = warp->out[lane];
    go_outside(block);
    return result;
}

uint64_t check_meet_from(unsigned mask, Meeting meeting, uint64_t value,
                         unsigned source, const void *pc) {
    if (Checker *checker = here()->block->checker)
        return meet_strictly(checker, mask, meeting, value, source, pc);
    return meet(mask, meeting, value, source);
}

uint64_t checked_meet(unsigned mask, Meeting meeting, uint64_t value,
                      unsigned source) {
    return check_meet_from(mask, meeting, value, source,
                           __builtin_return_address(0));
}

} // namespace simt::SIMT_FIBERS
