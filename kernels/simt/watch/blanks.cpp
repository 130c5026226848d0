/* blanks.cpp -- reads of bytes that no thread has written yet.
 *
 * Whether another thread writes them before the next barrier depends on the
 * order in which threads run. If another thread does, that is a race and is
 * reported as a race. So such a read is reported only at the barrier, or at the
 * launch's end for global memory. */
#include <map>
#include <unordered_map>
#include <vector>

#include "hooks.h"

namespace simt::SIMT_FIBERS {

enum { MOST = 1 << 16, MOST_AT_ONE = 16 };

struct Blank {
    Access access;
    uint3 block;
    Thread thread;
    bool own; /* whether the same thread wrote the bytes after this read */
};

/* The blank reads by offset. */
struct Blanks {
    std::unordered_map<uintptr_t, std::vector<Blank>> shared, global;
    std::unordered_map<uintptr_t, std::vector<Blank>> &of(Space space) {
        return space == SHARED ? shared : global;
    }
};

void note_blank(Checker *checker, const Fiber *self, const Access &access) {
    if (!checker->blanks) checker->blanks = new Blanks;
    auto &all = checker->blanks->of(access.space);
    const Blank mine = {access, checker->worker->index, self->thread, false};
    if (all.size() >= MOST)
        return tell_blank(checker, access, mine.block, mine.thread.index);
    std::vector<Blank> &here = all[access.offset];
    for (Blank &other : here)
        if (other.access.site == access.site) {
            const bool before = other.block.x == mine.block.x &&
                                other.block.y == mine.block.y &&
                                other.block.z == mine.block.z &&
                                other.thread.linear <= mine.thread.linear;
            if (!before && !other.own) other = mine;
            return;
        }
    if (here.size() < MOST_AT_ONE) here.push_back(mine);
}

void note_first_write(Checker *checker, const Fiber *self,
                      const Access &access) {
    if (!checker->blanks) return;
    auto &all = checker->blanks->of(access.space);
    if (all.empty()) return;
    for (unsigned i = 0; i < access.size; i++) {
        const auto found = all.find(access.offset + i);
        if (found == all.end()) continue;
        const uint3 block = checker->worker->index;
        for (Blank &blank : found->second)
            blank.own |= blank.thread.linear == self->thread.linear &&
                         blank.block.x == block.x && blank.block.y == block.y &&
                         blank.block.z == block.z;
    }
}

/* Return whether to report the read: no other thread has written any of its
 * bytes by now. A volatile read is always reported: it does not race with such
 * a write, but it has read unwritten bytes. */
static bool is_blank(const Checker *checker, const Blank &blank) {
    if (blank.own || blank.access.is_volatile) return true;
    const uint8_t *states =
        blank.access.space == SHARED ? checker->shared_states : arena.states;
    for (unsigned i = 0; i < blank.access.size; i++)
        if (states[blank.access.offset + i] & WRITTEN) return false;
    return true;
}

void tell_blanks(Checker *checker, Space space) {
    if (!checker->blanks) return;
    auto &all = checker->blanks->of(space);
    if (all.empty()) return;
    // Sort by address, so that each thread's read at the lowest address is
    // reported.
    std::map<uintptr_t, const std::vector<Blank> *> sorted;
    for (const auto &entry : all) sorted[entry.first] = &entry.second;
    for (const auto &entry : sorted)
        for (const Blank &blank : *entry.second)
            if (is_blank(checker, blank))
                tell_blank(checker, blank.access, blank.block,
                           blank.thread.index);
    all.clear();
}

} // namespace simt::SIMT_FIBERS
