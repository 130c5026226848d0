/* race_findings.cpp -- the sentence about two accesses that nothing orders. It
 * does not depend on which of them came first in this run. */
#include <stdio.h>
#include <string.h>

#include <atomic>
#include <tuple>

#include "report.h"

namespace simt::SIMT_FIBERS {

/* One of the two accesses. */
struct Side {
    Kind kind;
    unsigned site;
    uint3 block, thread;
};

static bool same(uint3 a, uint3 b) {
    return a.x == b.x && a.y == b.y && a.z == b.z;
}

/* Return the key that orders the accesses: the sentence begins with the read,
 * or else with the first place in the code. */
static auto rank(const Side &s) {
    const uintptr_t pc = (uintptr_t)site_at(s.site).pc;
    return std::make_tuple(s.kind != READ, pc, s.block.z, s.block.y, s.block.x,
                           s.thread.z, s.thread.y, s.thread.x);
}

static std::string thread_of(const Side &side, const Job *job) {
    return std::string("thread ") + Named(side.thread, job->block).text;
}

static std::string block_of(const Side &side, const Job *job) {
    return std::string("block ") + Named(side.block, job->grid).text;
}

static std::string between_blocks(const Job *job, const Side &a, const Side &b,
                                  const std::string &what) {
    return block_of(a, job) + " " + verb(a.kind) + " " + what + " and " +
           block_of(b, job) + " " + verb(b.kind) +
           " it: blocks run in any order, and nothing orders these two";
}

static bool of_one_warp(const Job *job, const Side &a, const Side &b) {
    const dim3 d = job->block;
    const unsigned one = (a.thread.z * d.y + a.thread.y) * d.x + a.thread.x;
    const unsigned other = (b.thread.z * d.y + b.thread.y) * d.x + b.thread.x;
    return one / WARP == other / WARP;
}

static std::string in_block(const Job *job, const Side &a, const Side &b,
                            const std::string &what, bool conflict) {
    std::string text;
    if (job->blocks > 1) text = "in " + block_of(a, job) + ", ";
    text += thread_of(a, job) + " ";
    if (conflict)
        return text + "writes " + what + " and " + thread_of(b, job) +
               " writes it: which of them stays is chance";
    text += std::string(verb(a.kind)) + " " + what + " while " +
            thread_of(b, job) + " " + verb(b.kind) +
            " it: no barrier between them";
    if (of_one_warp(job, a, b))
        text += " (both are in one warp: running in step may hide it, but "
                "nothing promises that order)";
    return text;
}

/* Return the element as text, such as "x[3]", and enter the array in
 * `found`. */
static std::string element(const Job *job, const Access &access, Array *array,
                           Found *found) {
    if (!array_at(job, access.space, access.offset, array)) return "memory";
    const unsigned size = array->element ? array->element : access.size;
    found->index = (long long)((access.offset - array->offset) / size);
    const Called called(*array);
    if (!array->name[0])
        return "element " + std::to_string(found->index) + " of " + called.text;
    found->array = array->name;
    found->indexed = true;
    found->sides = array->sides;
    return std::string(called.text) +
           Subscript(found->index, array->sides).text;
}

/* ---- reads before a compare-and-swap ------------------------------------ */

static std::atomic<bool> first_looks[MAX_SITES];

void note_first_look(unsigned site) {
    if (!first_looks[site].load(std::memory_order_relaxed))
        first_looks[site] = true;
}

/* Return whether `found` is about a read before a compare-and-swap. Only the
 * swap reveals this, so the finding already exists and must be left out of the
 * report. */
bool is_first_look(const Found &found) {
    if (strcmp(found.kind, "race") || !first_looks[found.site]) return false;
    return site_at(found.site).kind == READ &&
           site_at(found.other_site).kind == ATOMIC;
}

/* ---- the finding -------------------------------------------------------- */

void found_race(Checker *checker, const Fiber *self, const Access &now,
                const Earlier &earlier, bool conflict) {
    const Job *job = checker->job;
    Side a = {now.kind, now.site, checker->worker->index, self->thread.index};
    Side b = {earlier.kind, earlier.site, earlier.block, earlier.thread};
    if (rank(b) < rank(a)) std::swap(a, b);
    const bool within = same(a.block, b.block);
    Found found = {};
    Array array;
    const std::string what = element(job, now, &array, &found);
    found.kind = within && conflict ? "conflict" : "race";
    found.site = a.site;
    found.other_site = b.site;
    found.block = &a.block;
    found.thread = within ? &a.thread : 0;
    found.other = within ? &b.thread : &b.block;
    found.barriers = within ? &checker->barriers : 0;
    found.one_warp = within && of_one_warp(job, a, b);
    if (count_known(job, found)) return;
    const std::string text = within ? in_block(job, a, b, what, conflict)
                                    : between_blocks(job, a, b, what);
    found.text = text.c_str();
    add_finding(job, found);
}

} // namespace simt::SIMT_FIBERS
