/* faults.cpp -- findings about a launch or a block as a whole: the fault that
 * ended it, and barriers that not all threads reach. */
#include <stdio.h>

#include "report.h"

namespace simt::SIMT_FIBERS {

/* ---- the end of a launch ------------------------------------------------ */

static const char *kind_of(const simt_fault &fault) {
    switch (fault.kind) {
    case SIMT_FAULT_ADDRESS:
        return fault.error == cudaErrorMisalignedAddress ? "misaligned"
                                                         : "bounds";
    case SIMT_FAULT_STACK: return "stack";
    case SIMT_FAULT_TIMEOUT: return "hang";
    case SIMT_FAULT_DEADLOCK: return "deadlock";
    default: return "exception";
    }
}

/* Return the sentence without the names of the kernel and the thread. */
static const char *rest_of(const simt_fault &fault) {
    const char *text = fault.text;
    const size_t name = strlen(fault.kernel);
    if (!strncmp(text, fault.kernel, name) && !strncmp(text + name, ": ", 2))
        text += name + 2;
    const char *after = fault.thread[0] == ~0u ? 0 : strstr(text, "): ");
    return after && !strncmp(text, "block (", 7) ? after + 3 : text;
}

void found_fault(Job *job) {
    const simt_fault &fault = job->fault;
    if (job->fault_found || fault.kind == SIMT_FAULT_INTERRUPT) return;
    const bool one = fault.thread[0] != ~0u;
    const uint3 block = {fault.block[0], fault.block[1], fault.block[2]};
    const uint3 thread = {fault.thread[0], fault.thread[1], fault.thread[2]};
    char text[400];
    if (one)
        snprintf(text, sizeof text, "%s: %s", Who(job, block, thread).text,
                 rest_of(fault));
    else
        snprintf(text, sizeof text, "%s", rest_of(fault));
    Found found = {};
    found.kind = kind_of(fault);
    found.pc = job->fault_pc;
    found.text = text;
    if (one) found.block = &block, found.thread = &thread;
    add_finding(job, found);
}

/* ---- uneven barriers ---------------------------------------------------- */

/* A list of a block's threads, for a sentence. */
struct Several {
    int count = 0;
    uint3 shown[3];
    dim3 shape;

    void add(uint3 thread) {
        if (count < 3) shown[count] = thread;
        count++;
    }
    std::string text() const {
        std::string names[3];
        for (int i = 0; i < 3 && i < count; i++)
            names[i] = Named(shown[i], shape).text;
        if (count == 1) return "thread " + names[0];
        if (count == 2) return "threads " + names[0] + " and " + names[1];
        if (count == 3)
            return "threads " + names[0] + ", " + names[1] + " and " + names[2];
        return std::to_string(count) + " threads (" + names[0] + ", " +
               names[1] + ", " + names[2] + " ...)";
    }
    const char *wait() const { return count == 1 ? "waits" : "wait"; }
};

struct Groups {
    Several main, other, gone;
    const Arrival *at = 0, *other_at = 0;
};

static bool same_place(const Arrival &a, const Arrival &b) {
    return a.line || b.line ? a.line == b.line &&
                                  (a.file == b.file || !strcmp(a.file, b.file))
                            : a.pc == b.pc;
}

static bool is_here(const Checker *checker, int thread) {
    return checker->arrivals[thread].epoch == checker->worker->epoch;
}

/* Return a thread that waits at the place where most threads wait. */
static int busiest(const Checker *checker) {
    const int threads = checker->worker->threads;
    int best = checker->first_arrival, most = 0;
    for (int i = 0, looked = 0; i < threads && looked < 8; i++) {
        if (!is_here(checker, i)) continue;
        bool first = true; // whether it is the first thread of its place
        for (int j = 0; j < i && first; j++)
            first = !is_here(checker, j) ||
                    !same_place(checker->arrivals[i], checker->arrivals[j]);
        if (!first) continue;
        looked++;
        int count = 0;
        for (int j = i; j < threads; j++)
            count += is_here(checker, j) &&
                     same_place(checker->arrivals[i], checker->arrivals[j]);
        if (count > most) most = count, best = i;
    }
    return best;
}

static void divide(const Checker *checker, Groups *groups) {
    const dim3 shape = checker->worker->block_dim;
    groups->main.shape = groups->other.shape = groups->gone.shape = shape;
    groups->at = &checker->arrivals[busiest(checker)];
    for (int i = 0; i < checker->worker->threads; i++) {
        const uint3 thread = position((uint64_t)i, shape);
        const Arrival &mine = checker->arrivals[i];
        if (!is_here(checker, i)) {
            if (mine.ended) groups->gone.add(thread);
        } else if (same_place(mine, *groups->at)) {
            groups->main.add(thread);
        } else {
            groups->other.add(thread);
            if (!groups->other_at) groups->other_at = &mine;
        }
    }
}

void found_uneven(Checker *checker) {
    const Job *job = checker->job;
    const uint3 block = checker->worker->index;
    Groups groups;
    divide(checker, &groups);
    const Several &gone = groups.gone, &other = groups.other;
    if (!gone.count && !other.count) return;
    std::string text = groups.main.text() + " of block " +
                       Named(block, job->grid).text + " " + groups.main.wait() +
                       " at the barrier, but ";
    if (other.count) text += other.text() + " " + other.wait() + " at another";
    if (other.count && gone.count) text += " and ";
    if (gone.count)
        text += gone.text() + (gone.count == 1 ? " has" : " have") +
                " come to the kernel's end without it";
    Found found = {};
    found.kind = "barrier";
    found.pc = groups.at->pc;
    found.other_pc = groups.other_at ? groups.other_at->pc : 0;
    const uint3 missing = gone.count ? gone.shown[0] : other.shown[0];
    const uint3 waiting = groups.main.shown[0];
    found.block = &block;
    found.thread = &missing;
    found.other = &waiting;
    found.text = text.c_str();
    add_finding(job, found);
}

} // namespace simt::SIMT_FIBERS
