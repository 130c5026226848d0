/* counters.cpp -- the cost of each kernel, over all its launches. */
#include "counters.h"

#include <map>
#include <mutex>
#include <vector>

#include "report.h"

namespace simt::SIMT_FIBERS {

namespace {

/* The key of the sums of one site for the arrays of one name. */
struct Key {
    unsigned site;
    Space space;
    std::string array;
    bool operator<(const Key &other) const {
        if (site != other.site) return site < other.site;
        if (space != other.space) return space < other.space;
        return array < other.array;
    }
};

struct Step {
    uint64_t threads, executions;
};

struct KernelTotals {
    const Kernel *kernel;
    std::string name;
    dim3 grid, block; /* of the last launch */
    uint64_t launches, blocks, threads, warps, barriers;
    uint64_t copied, copied_past;
    std::map<Key, Sums> sites;
    std::map<const void *, Step> steps;
};

// These are never destroyed, since a launch may outlive main().
std::mutex &busy = *new std::mutex;
std::vector<KernelTotals> &totals = *new std::vector<KernelTotals>;

KernelTotals &totals_of(const Kernel *kernel) {
    for (KernelTotals &known : totals)
        if (known.kernel == kernel) return known;
    totals.push_back(KernelTotals());
    totals.back().kernel = kernel;
    totals.back().name = kernel->name;
    return totals.back();
}

void add_tally(KernelTotals *to, Tally *tally) {
    to->barriers += tally->barriers;
    to->copied += tally->copied;
    to->copied_past += tally->copied_past;
    for (unsigned i = 0; i < tally->sites_count; i++) {
        SiteTally *t = tally->sites[tally->known_sites[i]];
        settle(t);
        for (const SiteArray *at = t->arrays; at; at = at->next) {
            if (!at->sums.requests) continue;
            to->sites[Key{t->site, at->space, at->name}].add(at->sums);
        }
    }
    for (unsigned i = 0; i < tally->steps_size; i++) {
        const StepTally *step = tally->steps[i];
        if (!step || !step->executions) continue;
        Step &sum = to->steps[step->pc];
        sum.threads += step->threads;
        sum.executions += step->executions;
    }
}

/* ---- JSON --------------------------------------------------------------- */

void write_dim(Sink *sink, const char *name, dim3 dim) {
    sink->print(", \"%s\": [%u, %u, %u]", name, dim.x, dim.y, dim.z);
}

void write_number(Sink *sink, const char *name, uint64_t value) {
    sink->print(", \"%s\": %llu", name, (unsigned long long)value);
}

void write_site(Sink *sink, const Key &key, const Sums &sums) {
    static const char *const kinds[] = {"read", "write", "atomic"};
    static const char *const spaces[] = {"global", "shared", "local", ""};
    const Site site = site_at(key.site);
    sink->print("{\"site\": ");
    sink->place(site.pc);
    sink->print(", \"kind\": \"%s\", \"space\": \"%s\", \"array\": ",
                kinds[counted_as(key.site)], spaces[key.space]);
    sink->quote(key.array.c_str());
    write_number(sink, "size", site.size);
    write_number(sink, "accesses", sums.accesses);
    write_number(sink, "requests", sums.requests);
    write_number(sink, "sectors", sums.sectors);
    write_number(sink, "wavefronts", sums.wavefronts);
    write_number(sink, "needed", sums.needed);
    sink->print("}");
}

void write_step(Sink *sink, const void *pc, const Step &step) {
    sink->print("{\"site\": ");
    sink->place(pc);
    write_number(sink, "threads", step.threads);
    write_number(sink, "executions", step.executions);
    sink->print("}");
}

void write_kernel(Sink *sink, const KernelTotals &kernel) {
    sink->print("{\"name\": ");
    sink->quote(kernel.name.c_str());
    write_number(sink, "launches", kernel.launches);
    write_dim(sink, "grid", kernel.grid);
    write_dim(sink, "block", kernel.block);
    write_number(sink, "blocks", kernel.blocks);
    write_number(sink, "threads", kernel.threads);
    write_number(sink, "warps", kernel.warps);
    write_number(sink, "barriers", kernel.barriers);
    write_number(sink, "copied", kernel.copied);
    write_number(sink, "copied_past", kernel.copied_past);
    write_number(sink, "shared", (uint64_t)kernel.kernel->static_shared);
    sink->print(", \"sites\": [");
    const char *between = "";
    for (const auto &one : kernel.sites) {
        sink->print("%s", between);
        write_site(sink, one.first, one.second);
        between = ",\n  ";
    }
    sink->print("], \"steps\": [");
    between = "";
    for (const auto &one : kernel.steps) {
        sink->print("%s", between);
        write_step(sink, one.first, one.second);
        between = ",\n  ";
    }
    sink->print("]}");
}

} // namespace

/* ---- the checker's calls ------------------------------------------------ */

void counters_end_launch(Job *job) {
    std::lock_guard<std::mutex> lock(busy);
    KernelTotals &to = totals_of(job->kernel);
    const uint64_t threads =
        (uint64_t)job->block.x * job->block.y * job->block.z;
    to.grid = job->grid;
    to.block = job->block;
    to.launches++;
    to.blocks += job->blocks;
    to.threads += job->blocks * threads;
    to.warps += job->blocks * ((threads + WARP - 1) / WARP);
    for (Tally *tally = first_tally(); tally; tally = tally->next) {
        if (tally->launch != job->number) continue;
        add_tally(&to, tally);
        begin_tally(tally, 0);
    }
}

void counters_clear() {
    std::lock_guard<std::mutex> lock(busy);
    totals.clear();
}

void write_counters(Sink *sink) {
    std::lock_guard<std::mutex> lock(busy);
    sink->print("[");
    for (size_t i = 0; i < totals.size(); i++) {
        if (i) sink->print(",\n ");
        write_kernel(sink, totals[i]);
    }
    sink->print("]");
}

} // namespace simt::SIMT_FIBERS
