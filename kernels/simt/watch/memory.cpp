/* memory.cpp -- the arena, which holds device memory while watch builds are
 * loaded. */
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <deque>
#include <map>
#include <mutex>

#include "check.h"

namespace simt::SIMT_FIBERS {

enum : size_t {
    LARGEST = (size_t)64 << 30,    // bytes of addresses, not of memory
    SMALLEST = (size_t)256 << 20,  // the minimum, if ulimit -v limits them
    ALIGN = 256,                   // as cudaMalloc() guarantees
    LEAST_ZONE = 4096,             // minimum of the red zone on each side of an
                                   // array, usually as large as the array
    MOST_ZONE = 1 << 20,           // maximum of that red zone
    NEAR_ZONE = 64,                // red zone for memory that kernels allocate
    LATE_PART = 8,                 // part of the arena that may be freed and
                                   // not yet reused
    LATE_MEMORY = (size_t)4 << 20, // maximum bytes of freed memory that is not
                                   // given back
    PAGES_FROM = 64 << 10,         // bytes of an array worth giving back to the
                                   // system
    STEP = (size_t)64 << 20        // step by which the arena grows
};

Arena arena;
static std::atomic<bool> started;

/* A piece of the arena with its red zones. */
struct Extent {
    size_t start, size;
};

struct Owner {
    std::mutex lock;
    std::map<uintptr_t, Array> live; // arrays by offset
    std::deque<std::pair<Array, Extent>> late;
    std::map<uintptr_t, Extent> extents; // extents of the live arrays
    std::map<size_t, size_t> room;       // free ranges: start -> size
    size_t top = ALIGN, late_bytes = 0, late_memory = 0, live_bytes = 0;
    unsigned births = 0;
};
static Owner &owner() {
    static Owner *the = new Owner; // never destroyed
    return *the;
}

/* ---- addresses ---------------------------------------------------------- */

/* A shadow of the arena. Only the part that may hold arrays is writable;
 * otherwise a plain kernel's wild store into this memory would go unnoticed. */
struct Shadow {
    char *at;
    size_t each; // bytes for each word of the arena
};

static struct Opened {
    std::mutex lock;
    Shadow shadows[16];
    int count = 0;
    size_t bytes = 0;         // bytes of the arena that are open
} *const opened = new Opened; // never destroyed

static bool make_writable(const Shadow &shadow, size_t from, size_t to) {
    return to == from ||
           !mprotect(shadow.at + from / 4 * shadow.each,
                     (to - from) / 4 * shadow.each, PROT_READ | PROT_WRITE);
}

static void *reserve(size_t bytes, size_t each, int access) {
    void *at = mmap(0, bytes / 4 * each, access,
                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (at == MAP_FAILED) return 0;
    madvise(at, bytes / 4 * each, MADV_DONTDUMP);
    std::lock_guard<std::mutex> guard(opened->lock);
    const Shadow shadow = {(char *)at, each};
    if (opened->count == 16 || !make_writable(shadow, 0, opened->bytes)) {
        munmap(at, bytes / 4 * each);
        return 0;
    }
    opened->shadows[opened->count++] = shadow;
    return at;
}

static void forget_shadow(void *at, size_t bytes) {
    munmap(at, bytes);
    std::lock_guard<std::mutex> guard(opened->lock);
    opened->count--;
}

void *reserve_shadow(size_t each) {
    return reserve(arena.bytes, each, PROT_READ);
}

/* Open the arena up to `top`. Return false if the system refuses. */
static bool open_to(size_t top) {
    std::lock_guard<std::mutex> guard(opened->lock);
    if (top <= opened->bytes) return true;
    size_t to = (top + STEP - 1) / STEP * STEP;
    if (to > arena.bytes) to = arena.bytes;
    for (int i = 0; i < opened->count; i++)
        if (!make_writable(opened->shadows[i], opened->bytes, to)) return false;
    opened->bytes = to;
    return true;
}

bool start_checking() {
    std::lock_guard<std::mutex> guard(owner().lock);
    if (started) return true;
    for (size_t bytes = LARGEST; bytes >= SMALLEST && !arena.bytes;
         bytes /= 2) {
        void *base = reserve(bytes, 4, PROT_NONE);
        void *states = base ? reserve(bytes, 4, PROT_READ) : 0;
        if (base && !states) forget_shadow(base, bytes);
        if (!states) continue;
        arena = {(uintptr_t)base, bytes, (uint8_t *)states};
    }
    started = arena.bytes != 0;
    return started;
}

bool checking() { return started.load(std::memory_order_relaxed); }

/* ---- room --------------------------------------------------------------- */

static size_t round_up(size_t n, size_t to) { return (n + to - 1) / to * to; }

static void add_room(Owner &o, Extent e) {
    auto after = o.room.lower_bound(e.start);
    if (after != o.room.end() && after->first == e.start + e.size) {
        e.size += after->second;
        after = o.room.erase(after);
    }
    if (after != o.room.begin()) {
        auto before = std::prev(after);
        if (before->first + before->second == e.start) {
            before->second += e.size;
            return;
        }
    }
    o.room[e.start] = e.size;
}

static bool take_room(Owner &o, size_t size, Extent *out) {
    for (auto at = o.room.begin(); at != o.room.end(); ++at) {
        if (at->second < size) continue;
        const Extent rest = {at->first + size, at->second - size};
        *out = {at->first, size};
        o.room.erase(at);
        if (rest.size) o.room[rest.start] = rest.size;
        return true;
    }
    return false;
}

/* Return the number of bytes of a freed array's memory that are not given back.
 * These are all pages of a small array, or the first and last page of a large
 * array. The shadows of these pages take several times as much. */
static size_t memory_of(const Array &array, const Extent &extent) {
    const bool large = array.size >= PAGES_FROM;
    const size_t pages = large ? 2 * 4096 : round_up(array.size, 4096);
    return pages < extent.size ? pages : extent.size;
}

/* Release the oldest freed arrays until at most `keep` bytes are held back. */
static void reuse(Owner &o, size_t keep) {
    while (!o.late.empty() &&
           (o.late_bytes > keep || o.late_memory > LATE_MEMORY)) {
        const auto &[array, extent] = o.late.front();
        o.late_bytes -= extent.size;
        o.late_memory -= memory_of(array, extent);
        add_room(o, extent);
        o.late.pop_front();
    }
}

static bool take(Owner &o, size_t size, Extent *out) {
    if (size > arena.bytes) return false;
    reuse(o, arena.bytes / LATE_PART);
    if (take_room(o, size, out)) return true;
    if (size <= arena.bytes - o.top && open_to(o.top + size)) {
        *out = {o.top, size};
        o.top += size;
        return true;
    }
    reuse(o, 0);
    return take_room(o, size, out);
}

/* ---- arrays ------------------------------------------------------------- */

/* Return the size in bytes of this process's address space, or 0 if it is
 * unknown. */
static size_t addresses() {
    char text[64] = {};
    const int file = open("/proc/self/statm", O_RDONLY | O_CLOEXEC);
    if (file < 0) return 0;
    const bool known = read(file, text, sizeof text - 1) > 0;
    close(file);
    return known ? strtoull(text, 0, 10) * (size_t)sysconf(_SC_PAGESIZE) : 0;
}

/* Return whether `ulimit -v` allows `more` bytes. The arena's addresses are
 * already reserved, so the system itself would not object. */
static bool is_allowed(const Owner &o, size_t more) {
    struct rlimit limit;
    if (getrlimit(RLIMIT_AS, &limit) || limit.rlim_cur == RLIM_INFINITY)
        return true;
    return addresses() + o.live_bytes + more <= limit.rlim_cur;
}

void *take_array(Array array, State state) {
    if (!checking() || array.size > arena.bytes) return 0;
    const bool near = array.origin == FROM_KERNEL;
    const size_t zone = near                      ? (size_t)NEAR_ZONE
                        : array.size < LEAST_ZONE ? (size_t)LEAST_ZONE
                        : array.size > MOST_ZONE  ? (size_t)MOST_ZONE
                                                  : round_up(array.size, ALIGN);
    const size_t align = near ? 16 : (size_t)ALIGN;
    Owner &o = owner();
    std::lock_guard<std::mutex> guard(o.lock);
    Extent extent;
    // Round up to multiples of ALIGN, so that the next array is aligned, too.
    const size_t size = round_up(round_up(array.size, align) + 2 * zone, ALIGN);
    if (!is_allowed(o, size) || !take(o, size, &extent)) return 0;
    array.offset = extent.start + zone;
    // An array outside the arena has only its shadows there.
    if (!array.address) array.address = arena.base + array.offset;
    array.number = ++o.births;
    array.freed = false;
    o.live[array.offset] = array;
    o.live_bytes += array.size;
    o.extents[array.offset] = extent;
    memset(arena.states + array.offset, state, array.size);
    races_forget(array.offset, array.size);
    return (void *)(arena.base + array.offset);
}

/* Zero [from, from + size), and give whole pages of it back to the system. */
static void clear(void *from, size_t size, bool pages_only) {
    const uintptr_t start = round_up((uintptr_t)from, 4096);
    const uintptr_t end = ((uintptr_t)from + size) / 4096 * 4096;
    const bool pages = size >= PAGES_FROM && end > start;
    if (pages) madvise((void *)start, end - start, MADV_DONTNEED);
    if (pages_only) return;
    if (!pages) {
        memset(from, 0, size);
        return;
    }
    memset(from, 0, start - (uintptr_t)from);
    memset((void *)end, 0, (uintptr_t)from + size - end);
}

bool free_array(const void *pointer) {
    const uintptr_t offset = (uintptr_t)pointer - arena.base;
    Owner &o = owner();
    std::lock_guard<std::mutex> guard(o.lock);
    auto found = o.live.find(offset);
    if (found == o.live.end()) return false;
    Array array = found->second;
    const Extent extent = o.extents[offset];
    o.live.erase(found);
    o.live_bytes -= array.size;
    o.extents.erase(offset);
    array.freed = true;
    clear(arena.states + offset, array.size, false);
    clear((void *)(arena.base + offset), array.size, true);
    races_forget(offset, array.size);
    o.late.push_back({array, extent});
    o.late_bytes += extent.size;
    o.late_memory += memory_of(array, extent);
    return true;
}

bool find_array(uintptr_t offset, Array *found) {
    Owner &o = owner();
    std::lock_guard<std::mutex> guard(o.lock);
    auto after = o.live.upper_bound(offset);
    if (after == o.live.begin()) return false;
    const Array &a = std::prev(after)->second;
    if (offset - a.offset >= a.size) return false;
    *found = a;
    return true;
}

/* Return the distance in bytes of `offset` from the array's nearest byte. */
static size_t distance(const Array &a, uintptr_t offset) {
    if (offset < a.offset) return a.offset - offset;
    return offset < a.offset + a.size ? 0 : offset - (a.offset + a.size - 1);
}

bool nearest_array(uintptr_t offset, Array *found) {
    Owner &o = owner();
    std::lock_guard<std::mutex> guard(o.lock);
    // If the offset is in freed memory, return that array, or the latest one if
    // the memory was reused.
    for (auto it = o.late.rbegin(); it != o.late.rend(); ++it)
        if (distance(it->first, offset) == 0) {
            *found = it->first;
            return true;
        }
    auto after = o.live.upper_bound(offset);
    const Array *best = 0;
    if (after != o.live.end()) best = &after->second;
    if (after != o.live.begin()) {
        const Array *below = &std::prev(after)->second;
        if (!best || distance(*below, offset) <= distance(*best, offset))
            best = below;
    }
    if (best) *found = *best;
    return best;
}

void name_array(uintptr_t offset, const char *name, size_t length,
                unsigned element) {
    Owner &o = owner();
    std::lock_guard<std::mutex> guard(o.lock);
    auto after = o.live.upper_bound(offset);
    if (after == o.live.begin()) return;
    Array &a = std::prev(after)->second;
    if (offset - a.offset > a.size) return; // one past the end may be meant
    if (element) a.element = element;
    if (!name) return;
    if (length >= sizeof a.name) length = sizeof a.name - 1;
    memcpy(a.name, name, length);
    a.name[length] = 0;
}

/* ---- bytes -------------------------------------------------------------- */

static bool within(const void *at, size_t size) {
    const uintptr_t offset = (uintptr_t)at - arena.base;
    return arena.bytes && offset < arena.bytes && size <= arena.bytes - offset;
}

void mark_written(const void *at, size_t size) {
    if (!within(at, size)) return;
    uint8_t *states = arena.states + ((uintptr_t)at - arena.base);
    for (size_t i = 0; i < size; i++) // the states outside an array stay 0
        states[i] = states[i] & LIVE ? (uint8_t)(LIVE | WRITTEN) : states[i];
}

void mark_copied(const void *to, const void *from, size_t size) {
    if (!within(to, size)) return;
    if (!within(from, size)) return mark_written(to, size);
    uint8_t *there = arena.states + ((uintptr_t)to - arena.base);
    const uint8_t *here = arena.states + ((uintptr_t)from - arena.base);
    for (size_t i = 0; i < size; i++)
        if (there[i] & LIVE) there[i] = here[i] & LIVE ? here[i] : there[i];
}

} // namespace simt::SIMT_FIBERS

using namespace simt;

extern "C" void *simt_check_alloc(size_t size, size_t element, const char *name,
                                  int initialised) {
    if (!start_checking()) return 0;
    Array array = {};
    array.size = size;
    array.element = (unsigned)element;
    array.origin = FROM_LAUNCHER;
    strncpy(array.name, name ? name : "", sizeof array.name - 1);
    void *at = take_array(array, initialised ? BOTH : LIVE);
    if (at) memset(at, 0xff, size);
    return at;
}

extern "C" void simt_check_release(void *memory) {
    if (memory) free_array(memory);
}
