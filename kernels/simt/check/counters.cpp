/* counters.cpp -- what each kernel has cost, over all its launches. */
#include "counters.h"

#include <map>
#include <mutex>
#include <vector>

namespace simt {
#ifdef SIMT_UCONTEXT
inline namespace ucontext_fibers {
#else
inline namespace asm_fibers {
#endif

namespace {

/* What one site did to the arrays of one name. */
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
    std::map<Key, Sums> sites;
    std::map<const void *, Step> steps;
};

// Never destroyed: a launch may outlive main().
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

void add_text(std::string *text, const std::string &value) {
    *text += '"';
    for (const char c : value) {
        if (c == '"' || c == '\\') *text += '\\';
        if ((unsigned char)c >= ' ') *text += c;
    }
    *text += '"';
}

void add_number(std::string *text, const char *name, uint64_t value) {
    *text += std::string(", \"") + name + "\": " + std::to_string(value);
}

void add_dim(std::string *text, const char *name, dim3 dim) {
    *text += std::string(", \"") + name + "\": [" + std::to_string(dim.x) +
             ", " + std::to_string(dim.y) + ", " + std::to_string(dim.z) + "]";
}

void add_site(std::string *text, const Key &key, const Sums &sums,
              void (*write_site)(std::string *, const void *)) {
    static const char *const kinds[] = {"read", "write", "atomic"};
    static const char *const spaces[] = {"global", "shared", "local", ""};
    const Site site = site_at(key.site);
    *text += "{\"site\": ";
    write_site(text, site.pc);
    *text += std::string(", \"kind\": \"") + kinds[counted_as(key.site)] +
             "\", \"space\": \"" + spaces[key.space] + "\", \"array\": ";
    add_text(text, key.array);
    add_number(text, "size", site.size);
    add_number(text, "accesses", sums.accesses);
    add_number(text, "requests", sums.requests);
    add_number(text, "sectors", sums.sectors);
    add_number(text, "wavefronts", sums.wavefronts);
    add_number(text, "needed", sums.needed);
    *text += "}";
}

void add_kernel(std::string *text, const KernelTotals &kernel,
                void (*write_site)(std::string *, const void *)) {
    *text += "{\"name\": ";
    add_text(text, kernel.name);
    add_number(text, "launches", kernel.launches);
    add_dim(text, "grid", kernel.grid);
    add_dim(text, "block", kernel.block);
    add_number(text, "blocks", kernel.blocks);
    add_number(text, "threads", kernel.threads);
    add_number(text, "warps", kernel.warps);
    add_number(text, "barriers", kernel.barriers);
    *text += ", \"sites\": [";
    const char *comma = "";
    for (const auto &one : kernel.sites) {
        *text += comma;
        add_site(text, one.first, one.second, write_site);
        comma = ",\n  ";
    }
    *text += "], \"steps\": [";
    comma = "";
    for (const auto &one : kernel.steps) {
        *text += comma;
        *text += "{\"site\": ";
        write_site(text, one.first);
        add_number(text, "threads", one.second.threads);
        add_number(text, "executions", one.second.executions);
        *text += "}";
        comma = ",\n  ";
    }
    *text += "]}";
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

void counters_write(std::string *text,
                    void (*write_site)(std::string *text, const void *pc)) {
    std::lock_guard<std::mutex> lock(busy);
    *text += "[";
    for (size_t i = 0; i < totals.size(); i++) {
        if (i) *text += ",\n ";
        add_kernel(text, totals[i], write_site);
    }
    *text += "]";
}

} // namespace
} // namespace simt
