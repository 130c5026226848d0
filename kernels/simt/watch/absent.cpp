/* absent.cpp -- lanes that are in the mask of a warp's call but do not take
 * part.
 *
 * CUDA's rules (Programming Guide, "Warp Shuffle Functions" and "Warp Vote
 * Functions"): all lanes of the mask that have not exited must make the same
 * call. A shuffle that reads from a lane outside the call gets an undefined
 * value. So there are two findings. Either a lane of the mask has reached the
 * kernel's end by another path, or a shuffle reads an absent lane. The
 * sentences are the same as in lib/weft/pykernel/sim/warp.py. */
#include "report.h"

namespace simt::SIMT_FIBERS {

namespace {

/* A call of a warp: the lanes that take part, and those that do not. */
struct Call {
    Checker *checker;
    const Warp *warp;
    unsigned group, mask, first; /* first: the index of lane 0's thread */

    unsigned threads() const { return (unsigned)checker->worker->threads; }
    bool exists(unsigned lane) const { return first + lane < threads(); }
    bool ended(unsigned lane) const {
        return exists(lane) && checker->arrivals[first + lane].ended;
    }
};

void tell(const Call &call, unsigned lane, const std::string &rest) {
    const Worker *worker = call.checker->worker;
    const Job *job = call.checker->job;
    const uint3 thread = position(call.first + lane, worker->block_dim);
    const std::string text =
        std::string(Who(job, worker->index, thread).text) + ": " + rest;
    Found found = {};
    found.kind = "absent-lane";
    found.pc = call.checker->arrivals[call.first + lane].met;
    found.block = &worker->index;
    found.thread = &thread;
    found.text = text.c_str();
    add_finding(job, found);
}

/* Return the reason why a lane does not take part. */
std::string reason(const Call &call, unsigned lane) {
    char text[80];
    if (!call.exists(lane))
        snprintf(text, sizeof text, "the block has %u threads", call.threads());
    else if (!(call.mask >> lane & 1))
        snprintf(text, sizeof text, "the mask 0x%08x does not name it",
                 call.mask);
    else
        snprintf(text, sizeof text, "%s",
                 call.ended(lane) ? "it came to the kernel's end another way"
                                  : "it has returned");
    return text;
}

/* Return whether the value that the lane reads spoils a result that matters. In
 * a sum over the first 8 lanes by steps of 4, 2 and 1, the last lanes read past
 * the group, but nothing uses their sums. So unless the lane reads an ended
 * lane of the mask, only the lane with the group's result counts. This is the
 * first lane if it reads upwards, else the last lane. */
bool is_misled(const Call &call, unsigned lane) {
    const unsigned source = call.warp->source[lane];
    if (call.group >> source & 1) return false;
    if (call.ended(source) && call.mask >> source & 1) return true;
    const unsigned last = 31 - (unsigned)__builtin_clz(call.group);
    return lane == (source > lane ? (unsigned)__builtin_ctz(call.group) : last);
}

bool tell_misled(const Call &call) {
    for (unsigned left = call.group; left; left &= left - 1) {
        const unsigned lane = (unsigned)__builtin_ctz(left);
        if (!is_misled(call, lane)) continue;
        const unsigned source = call.warp->source[lane];
        tell(call, lane,
             "lane " + std::to_string(lane) + " reads lane " +
                 std::to_string(source) +
                 ", which takes no part: " + reason(call, source));
        return true;
    }
    return false;
}

void tell_missing(const Call &call) {
    unsigned missing = 0;
    for (unsigned left = call.mask & ~call.group; left; left &= left - 1)
        if (call.ended((unsigned)__builtin_ctz(left))) missing |= left & -left;
    if (!missing) return;
    char mask[16];
    snprintf(mask, sizeof mask, "0x%08x", call.mask);
    const bool one = !(missing & (missing - 1));
    tell(call, (unsigned)__builtin_ctz(call.group),
         std::string("the mask ") + mask + " names " + lanes_text(missing) +
             ", which take" + (one ? "s" : "") + " no part: " +
             (one ? "it" : "they") + " came to the kernel's end another way");
}

} // namespace

void find_absent(Checker *checker, const Warp *warp, unsigned group) {
    if (group == ~0u) return;
    const unsigned lane = (unsigned)__builtin_ctz(group);
    const unsigned first = (unsigned)(warp - checker->worker->warps) * WARP;
    const Call call = {checker, warp, group, warp->mask[lane], first};
    if (warp->meeting[lane] == SHUFFLE && tell_misled(call)) return;
    tell_missing(call);
}

} // namespace simt::SIMT_FIBERS
