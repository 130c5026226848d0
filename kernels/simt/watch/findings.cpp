/* findings.cpp -- the errors found, each listed once. */
#include <string.h>

#include <algorithm>
#include <map>
#include <mutex>
#include <tuple>
#include <vector>

#include "report.h"

namespace simt::SIMT_FIBERS {

enum { MOST = 1000 }; // maximum number; repeated findings are counted

struct Kept {
    Found found; // the pointers of `found` point into the following members
    uint3 block, thread, other;
    std::string kernel, array, file, text, barriers;
    unsigned long long count;
};

/* The fields in which findings must agree to be counted as one finding. */
typedef std::tuple<std::string, unsigned, unsigned, const void *, const void *,
                   std::string, unsigned, unsigned, bool>
    Key;

struct Findings {
    std::mutex lock;
    std::map<Key, size_t> known;
    std::vector<Kept *> list;
};
static Findings &findings() {
    static Findings *the = new Findings; // never destroyed
    return *the;
}

static Key key_of(const Found &f) {
    return {std::string(f.kind) + (f.array ? f.array : ""),
            f.site,
            f.other_site,
            f.pc,
            f.other_pc,
            f.file ? f.file : "",
            f.line,
            f.column,
            f.thread != 0};
}

/* Return a key that orders blocks and threads by their numbers. */
static std::tuple<unsigned, unsigned, unsigned> rank(uint3 i) {
    return {i.z, i.y, i.x};
}

/* Return whether the thread of `f` comes before the kept finding's thread. */
static bool is_earlier(const Found &f, const Kept &kept) {
    const Found &told = kept.found;
    if (!f.block || !told.block) return false;
    if (rank(*f.block) != rank(*told.block))
        return rank(*f.block) < rank(*told.block);
    return f.thread && told.thread && rank(*f.thread) < rank(*told.thread);
}

/* Return the barriers as JSON; unknown values are null. */
static std::string barriers_text(const Barriers &barriers) {
    if (barriers.count > Barriers::MOST) return "null";
    Sink sink;
    sink.print("{\"last\": %d, \"at\": [",
               barriers.count ? (int)barriers.last : -1);
    for (unsigned i = 0; i < barriers.count; i++) {
        sink.print("%s{\"file\": ", i ? ", " : "");
        sink.quote(barriers.file[i] ? barriers.file[i] : "");
        sink.print(", \"line\": %u, \"visits\": %u, \"before\": [",
                   barriers.line[i], barriers.visits[i]);
        for (unsigned j = 0; j < barriers.count; j++)
            sink.print("%s%u", j ? ", " : "", barriers.before[i][j]);
        sink.print("]}");
    }
    sink.print("]}");
    return sink.text;
}

static void keep(const Job *job, const Found &f, Kept *kept) {
    kept->found = f;
    kept->kernel = job ? job->kernel->name : "";
    const uint3 none = {0, 0, 0};
    kept->block = f.block ? *f.block : none;
    kept->thread = f.thread ? *f.thread : none;
    kept->other = f.other ? *f.other : none;
    kept->array = f.array ? f.array : "";
    kept->file = f.file ? f.file : "";
    kept->text = f.text;
    kept->barriers = f.barriers ? barriers_text(*f.barriers) : "null";
    if (f.block) kept->found.block = &kept->block;
    if (f.thread) kept->found.thread = &kept->thread;
    if (f.other) kept->found.other = &kept->other;
}

static bool count(const Job *job, const Found &f, bool known_only) {
    Findings &all = findings();
    std::lock_guard<std::mutex> guard(all.lock);
    const Key key = key_of(f);
    auto known = all.known.find(key);
    if (known != all.known.end()) {
        Kept *kept = all.list[known->second];
        const bool better = is_earlier(f, *kept);
        if (known_only && better) return false; // the finding's text is needed
        const bool one_warp = kept->found.one_warp && f.one_warp;
        if (better) keep(job, f, kept);
        kept->found.one_warp = one_warp;
        kept->count++;
        return true;
    }
    if (known_only) return all.list.size() >= MOST;
    if (all.list.size() >= MOST) return true;
    all.known[key] = all.list.size();
    Kept *kept = new Kept{};
    keep(job, f, kept);
    kept->count = 1;
    all.list.push_back(kept);
    return true;
}

void add_finding(const Job *job, const Found &found) {
    count(job, found, false);
}

bool count_known(const Job *job, const Found &found) {
    return count(job, found, true);
}

size_t findings_known() {
    std::lock_guard<std::mutex> guard(findings().lock);
    return findings().list.size();
}

void clear_findings() {
    Findings &all = findings();
    std::lock_guard<std::mutex> guard(all.lock);
    for (Kept *kept : all.list) delete kept;
    all.list.clear();
    all.known.clear();
}

/* ---- as text ------------------------------------------------------------ */

static void write_index(Sink *sink, const char *name, const uint3 *index) {
    if (index)
        sink->print(", \"%s\": [%u, %u, %u]", name, index->x, index->y,
                    index->z);
    else
        sink->print(", \"%s\": null", name);
}

static void write_finding(Sink *sink, const Kept &kept) {
    const Found &f = kept.found;
    sink->print("{\"kind\": \"%s\", \"text\": ", f.kind);
    sink->quote(kept.text.c_str());
    sink->print(", \"site\": ");
    sink->place(f.site ? site_at(f.site).pc : f.pc);
    sink->print(", \"other_site\": ");
    sink->place(f.other_site ? site_at(f.other_site).pc : f.other_pc);
    sink->print(", \"file\": ");
    sink->quote(kept.file.c_str());
    sink->print(", \"line\": %u, \"column\": %u, \"kernel\": ", f.line,
                f.column);
    sink->quote(kept.kernel.c_str());
    write_index(sink, "block", f.block);
    write_index(sink, "thread", f.thread);
    write_index(sink, "other", f.other);
    sink->print(", \"array\": ");
    if (f.array)
        sink->quote(kept.array.c_str());
    else
        sink->print("null");
    if (f.indexed && f.sides.inner[0])
        sink->print(", \"index\": %s", Subscript(f.index, f.sides, ", ").text);
    else if (f.indexed)
        sink->print(", \"index\": %lld", f.index);
    else
        sink->print(", \"index\": null");
    sink->print(", \"barriers\": %s, \"one_warp\": %s, \"count\": %llu}",
                kept.barriers.c_str(), f.one_warp ? "true" : "false",
                kept.count);
}

/* Return whether another finding explains `found`. A finding about an early use
 * of the same copy explains why nothing orders the accesses, or why no thread
 * has waited for the copy. */
static bool is_told_better(const Found &found) {
    const bool race = !strcmp(found.kind, "race");
    if (!race && (strcmp(found.kind, "unwaited") || found.other_site))
        return false;
    for (const Kept *kept : findings().list) {
        const Found &other = kept->found;
        if (!other.other_site || strcmp(other.kind, "unwaited")) continue;
        const unsigned copy = other.other_site;
        if (race ? (found.site == other.site && found.other_site == copy) ||
                       (found.site == copy && found.other_site == other.site)
                 : found.site == copy)
            return true;
    }
    return false;
}

void write_findings(Sink *sink) {
    std::lock_guard<std::mutex> guard(findings().lock);
    sink->print("[");
    const char *between = "\n  ";
    for (const Kept *kept : findings().list) {
        if (is_first_look(kept->found) || is_told_better(kept->found)) continue;
        sink->print("%s", between);
        write_finding(sink, *kept);
        between = ",\n  ";
    }
    sink->print("]");
}

} // namespace simt::SIMT_FIBERS
