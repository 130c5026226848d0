/* block_signals.cpp -- releases and acquisitions between blocks, and the search
 * among them.
 *
 * A release is recorded with its variable. An acquisition is recorded with its
 * block, its variable, and the number of releases that the variable had at that
 * time. To decide whether an access of another block came first, the search
 * goes back from the acquisitions of the running block. In case of doubt the
 * answer is yes, which avoids false alarms. */
#include "block_signals.h"

namespace simt::SIMT_FIBERS {

enum {
    MOST = 1 << 22,    // maximum number of releases and acquisitions of a
                       // launch
    LONGEST = 1 << 12, // maximum number of releases examined for one block and
                       // variable
};

struct Release {
    uint64_t block;
    int previous; // previous release of this block on this variable; -1: none
    unsigned base, interval;
    Told told;
    Clock fenced;
    size_t heard; // number of the block's acquisitions until the release
};

struct Heard {
    Variable variable;
    unsigned releases; // number of the variable's releases that were acquired
    unsigned thread, id;
};

struct Spoken { // the releases of one variable
    std::vector<Release> releases;
    std::unordered_map<uint64_t, int> last; // index of each block's last
                                            // release
};

struct Listener { // the acquisitions of a block
    std::vector<Heard> heard;
    size_t changes = 0;
};

static struct Grid {
    std::mutex lock;
    std::atomic<size_t> releases{0};
    size_t entries = 0;
    std::unordered_map<Variable, Spoken> spoken;
    std::unordered_map<uint64_t, Listener> listeners;
} *const grid = new Grid(); // never destroyed: workers may outlive it

void sync_begin_launch() { sync_end_launch(); }

void sync_end_launch() {
    std::lock_guard<std::mutex> guard(grid->lock);
    grid->releases = grid->entries = 0;
    grid->spoken.clear();
    grid->listeners.clear();
}

/* ---- recording ---------------------------------------------------------- */

void tell_grid(Checker *checker, Variable variable, const Told &told,
               unsigned base, const Clock &fenced) {
    const Races &races = checker->races;
    std::lock_guard<std::mutex> guard(grid->lock);
    if (++grid->entries > MOST) return;
    Spoken &spoken = grid->spoken[variable];
    auto last = spoken.last.emplace(races.block, -1).first;
    auto listener = grid->listeners.find(races.block);
    const size_t heard =
        listener == grid->listeners.end() ? 0 : listener->second.heard.size();
    const int previous = last->second;
    last->second = (int)spoken.releases.size();
    spoken.releases.push_back(
        {races.block, previous, base, races.interval, told, fenced, heard});
    grid->releases++;
}

void begin_reading(Checker *checker, Variable first, unsigned words,
                   unsigned me) {
    if (first & 1 || checker->job->blocks == 1) return;
    Sync &sync = *checker->races.sync;
    sync.reading = words;
    sync.read_variable = first;
    sync.reader = me;
    sync.reader_id = current_id(checker->races, me);
}

/* Record an acquisition of the variable. The caller must hold the lock. */
static void hear(const Races &races, Variable variable) {
    const Sync &sync = *races.sync;
    auto found = grid->spoken.find(variable);
    if (found == grid->spoken.end()) return;
    const unsigned releases = (unsigned)found->second.releases.size();
    Listener &listener = grid->listeners[races.block];
    if (!listener.heard.empty()) {
        Heard &last = listener.heard.back();
        if (last.variable == variable && last.thread == sync.reader &&
            last.id == sync.reader_id) {
            listener.changes += last.releases != releases;
            last.releases = releases;
            return;
        }
    }
    grid->entries++;
    listener.changes++;
    listener.heard.push_back({variable, releases, sync.reader, sync.reader_id});
}

void finish_reading(Checker *checker) {
    Sync &sync = *checker->races.sync;
    const unsigned words = sync.reading;
    sync.reading = 0;
    if (!words || !grid->releases) return;
    std::lock_guard<std::mutex> guard(grid->lock);
    if (grid->entries > MOST) return;
    for (unsigned i = 0; i < words; i++)
        hear(checker->races, sync.read_variable + 4 * i);
}

/* ---- searching ---------------------------------------------------------- */

/* Return whether the release covers this access by the releasing block. */
static bool covers(const Release &release, Mention m) {
    const Told &told = release.told;
    const unsigned id = id_of(m), thread = thread_of(m);
    if (id < release.base) return true;
    if (thread == told.thread && id < told.own) return true;
    if (thread / WARP == told.thread / WARP && id < told.warp) return true;
    if (told.all && id < (*told.all)[thread]) return true;
    if (release.fenced && id < (*release.fenced)[thread]) return true;
    // An atomic is ordered without a fence.
    if (!(m & UPDATED)) return false;
    return id < release.interval ||
           (thread == told.thread && id <= told.update);
}

/* A search that starts from the acquisitions that come before the running
 * thread's current access. */
struct Search {
    Mention wanted;
    uint64_t block; // the block that made the access
    std::vector<std::pair<Variable, unsigned>> open;
    std::unordered_map<Variable, unsigned> seen; // number of releases seen, for
                                                 // each variable
    std::unordered_map<uint64_t, size_t> asked;  // number of acquisitions
                                                 // examined, for each block

    void ask(Variable variable, unsigned releases) {
        unsigned &known = seen[variable];
        if (known >= releases) return;
        known = releases;
        open.push_back({variable, releases});
    }

    bool find();
};

bool Search::find() {
    while (!open.empty()) {
        const auto [variable, releases] = open.back();
        open.pop_back();
        const Spoken &spoken = grid->spoken[variable];
        auto last = spoken.last.find(block);
        int steps = 0, at = last == spoken.last.end() ? -1 : last->second;
        for (; at >= 0; at = spoken.releases[at].previous) {
            if (++steps > LONGEST) return true;
            if ((unsigned)at < releases && covers(spoken.releases[at], wanted))
                return true;
        }
        for (unsigned i = 0; i < releases; i++) {
            const Release &release = spoken.releases[i];
            size_t &known = asked[release.block];
            if (known >= release.heard) continue;
            const auto &heard = grid->listeners[release.block].heard;
            for (; known < release.heard; known++)
                ask(heard[known].variable, heard[known].releases);
        }
    }
    return false;
}

static bool search(const Races &races, unsigned me, Mention earlier,
                   uint64_t block, const Listener &listener) {
    Search search;
    search.wanted = earlier;
    search.block = block;
    for (const Heard &heard : listener.heard)
        if (heard.thread == me || heard.id < known(races, me, heard.thread))
            search.ask(heard.variable, heard.releases);
    return search.find();
}

bool before_across(Checker *checker, const Fiber *self, Mention earlier,
                   uint64_t block) {
    finish_reading(checker);
    if (!grid->releases) return false;
    const Races &races = checker->races;
    const unsigned me = self->thread.linear;
    std::lock_guard<std::mutex> guard(grid->lock);
    // There are too many releases and acquisitions to search. Assume that the
    // access came first, so that there is no false alarm.
    if (grid->entries > MOST) return true;
    auto found = grid->listeners.find(races.block);
    if (found == grid->listeners.end()) return false;
    const Listener &listener = found->second;
    const Mention question = earlier & (ID_AND_THREAD | UPDATED);
    const unsigned id = current_id(races, me);
    Answer &answer =
        races.sync
            ->answers[(question >> THREAD_SHIFT) * 0x9e3779b97f4a7c15u >> 56];
    if (answer.earlier == question && answer.id == id && answer.thread == me &&
        answer.changes == listener.changes)
        return answer.before;
    answer = {question, id, me, listener.changes,
              search(races, me, earlier, block, listener)};
    return answer.before;
}

} // namespace simt::SIMT_FIBERS
