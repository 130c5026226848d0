/* said.cpp -- the sentence about two accesses that nothing orders. */
#include <stdio.h>

#include <algorithm>

#include "check.h"

namespace simt {
#ifdef SIMT_UCONTEXT
inline namespace ucontext_fibers {
#else
inline namespace asm_fibers {
#endif

static const char *verb(Kind kind) {
    return kind == READ ? "reads" : kind == WRITE ? "writes" : "updates";
}

/* One of the two. Reads are told first, and then what comes first in the
 * program: whoever happened to run first. */
struct Side {
    Kind kind;
    unsigned site;
    uint3 block, thread;

    auto rank() const {
        return std::make_tuple(kind != READ, site_at(site).pc, block.z, block.y,
                               block.x, thread.z, thread.y, thread.x);
    }
};

static bool same(uint3 a, uint3 b) {
    return a.x == b.x && a.y == b.y && a.z == b.z;
}

static unsigned warp_of(uint3 thread, dim3 block) {
    return ((thread.z * block.y + thread.y) * block.x + thread.x) / WARP;
}

static void say_element(const Job *job, const Access &now, Found *found,
                        Array *array, char *out, size_t size) {
    if (!array_at(job, now.space, now.offset, array)) {
        snprintf(out, size, "memory at %p", (const void *)now.address);
        return;
    }
    const unsigned element = array->element ? array->element : now.size;
    found->index = (long long)((now.offset - array->offset) / element);
    found->indexed = array->name[0] != 0;
    found->array = array->name[0] ? array->name : 0;
    const Called called(*array);
    if (found->array)
        snprintf(out, size, "%s[%lld]", called.text, found->index);
    else
        snprintf(out, size, "element %lld of %s", found->index, called.text);
}

/* How a sentence goes on after "thread 1 reads s[0] while thread 2 writes it".
 */
static const char *why(const Job *job, const Side &a, const Side &b,
                       bool between, bool conflict) {
    if (between) return "blocks run in any order, and nothing orders these two";
    if (conflict) return "which of them stays is chance";
    return warp_of(a.thread, job->block) == warp_of(b.thread, job->block)
               ? "no barrier between them (both are in one warp: running in "
                 "step may hide it, but nothing promises that order)"
               : "no barrier between them";
}

void found_race(Checker *checker, const Fiber *self, const Access &now,
                const Earlier &earlier, bool conflict) {
    const Job *job = checker->job;
    Side a = {now.kind, now.site, checker->worker->index, self->thread.index};
    Side b = {earlier.kind, earlier.site, earlier.block, earlier.thread};
    if (b.rank() < a.rank()) std::swap(a, b);
    const bool between = !same(a.block, b.block);
    Found found = {};
    found.kind = conflict && !between ? "conflict" : "race";
    found.site = a.site;
    found.other_site = b.site;
    found.block = &a.block;
    found.thread = between ? 0 : &a.thread;
    found.other = between ? &b.block : &b.thread;
    Array array = {};
    char what[160], text[500], other[96];
    say_element(job, now, &found, &array, what, sizeof what);
    if (count_known(job, found)) return;
    const Who first(job, a.block, a.thread), second(job, b.block, b.thread);
    snprintf(other, sizeof other, "%s", second.text);
    if (!between) { // the block has been named
        const Named thread(b.thread, job->block);
        snprintf(other, sizeof other, "thread %s", thread.text);
    }
    snprintf(text, sizeof text, "%s %s %s %s %s %s it: %s", first.text,
             verb(a.kind), what, between || conflict ? "and" : "while", other,
             verb(b.kind), why(job, a, b, between, conflict));
    found.text = text;
    add_finding(job, found);
}

} // namespace
} // namespace simt
