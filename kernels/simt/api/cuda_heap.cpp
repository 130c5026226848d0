/* cuda_heap.cpp -- device memory: the allocations, the limit, and freed memory
 * that is not reused immediately. */
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include <deque>
#include <map>
#include <mutex>

#include "../watch/memory.h"
#include "cuda_heap.h"

namespace simt::SIMT_FIBERS {

enum : size_t {
    LATE_BYTES = 16 << 20, // bytes of freed memory kept before their reuse
    LATE_BLOCKS = 1024,    // the same limit, as a number of blocks
    LATE_MAPPINGS = 256,   // address ranges that stay unusable
    FEW = 128              // maximum number of allocations to check whenever
                           // the host waits
};

struct Heap {
    std::mutex lock;
    std::map<uintptr_t, Allocation> live;
    std::deque<Allocation> late, late_mapped;
    size_t late_bytes = 0;
    size_t used = 0, most_used = 0; /* bytes of device and managed memory */
    size_t room = 0;                /* bytes that were free when none were
                                     * allocated */
    unsigned allocations = 0;
    unsigned checked_launch = 0; /* number of the latest launch at the last
                                  * check */
    bool at_exit = false;
};

static Heap &heap() {
    static Heap *the = new Heap; // never destroyed: memory may be freed late
    return *the;
}

static bool is_device(const Allocation &a) {
    return a.memory == DEVICE || a.memory == MANAGED;
}

/* ---- checking ----------------------------------------------------------- */

static int check_live(bool (*is_hit)(const Allocation &, const char *),
                      const char *when) {
    int count = 0;
    if (sticky_error()) return 0; // damage by a fault needs no report
    for (auto &entry : heap().live) {
        Allocation &a = entry.second;
        if (a.memory == REGISTERED || a.reported || !is_hit(a, when)) continue;
        a.reported = true;
        count++;
    }
    return count;
}

void check_after_launches() {
    const unsigned latest = launches_so_far();
    std::lock_guard<std::mutex> guard(heap().lock);
    if (heap().checked_launch == latest || heap().live.size() > FEW) return;
    heap().checked_launch = latest;
    check_live(overrun, "when the host waited for the device");
}

static void check_at_exit() {
    // Do not wait for the lock, since a thread that holds it may no longer
    // exist.
    if (!heap().lock.try_lock()) return;
    check_live(damaged, "at the program's end");
    for (const Allocation &a : heap().late) written_late(a);
    heap().lock.unlock();
}

/* ---- the amount of memory ------------------------------------------------ */

static size_t physical_memory() {
    return (size_t)sysconf(_SC_PHYS_PAGES) * (size_t)sysconf(_SC_PAGESIZE);
}

/* Return the number of bytes that the container may still allocate, but at most
 * `otherwise`. If no limit is known, return `otherwise`. */
static size_t left_in_container(size_t otherwise) {
    size_t most, now;
    FILE *limit = fopen("/sys/fs/cgroup/memory.max", "r");
    FILE *current = fopen("/sys/fs/cgroup/memory.current", "r");
    const bool known = limit && current && fscanf(limit, "%zu", &most) == 1 &&
                       fscanf(current, "%zu", &now) == 1;
    if (limit) fclose(limit);
    if (current) fclose(current);
    if (!known) return otherwise;
    const size_t left = most > now ? most - now : 0;
    return left < otherwise ? left : otherwise;
}

/* Return the bytes available without swapping. */
static size_t available_memory() {
    // _SC_AVPHYS_PAGES is not used, since it omits files that the kernel has
    // cached. The kernel releases these on demand, and they fill most of a busy
    // machine.
    FILE *file = fopen("/proc/meminfo", "r");
    char line[128];
    size_t kib, bytes = physical_memory();
    while (file && fgets(line, sizeof line, file))
        if (sscanf(line, "MemAvailable: %zu", &kib) == 1) bytes = kib << 10;
    if (file) fclose(file);
    return left_in_container(bytes);
}

/* Return whether there is room for `size` bytes. Linux may allocate more memory
 * than the machine has; a GPU does not. */
static bool has_room(size_t size) {
    // Query the free memory only while no memory is allocated. Later, an
    // unknown part of the allocated memory is already in use.
    if (!heap().used || !heap().room) heap().room = available_memory();
    return size <= heap().room && heap().used <= heap().room - size;
}

void memory_left(size_t *free, size_t *total) {
    std::lock_guard<std::mutex> guard(heap().lock);
    has_room(0);
    *total = physical_memory();
    *free = heap().room > heap().used ? heap().room - heap().used : 0;
}

void memory_used(size_t *now, size_t *most) {
    std::lock_guard<std::mutex> guard(heap().lock);
    *now = heap().used;
    *most = heap().most_used;
}

/* ---- allocating and freeing --------------------------------------------- */

cudaError_t allocate(void **pointer, size_t size, Memory memory,
                     unsigned flags) {
    if (!pointer) return set_error(cudaErrorInvalidValue);
    *pointer = 0;
    if (size == 0) return cudaSuccess;
    std::lock_guard<std::mutex> guard(heap().lock);
    if (size > (size_t)1 << 46 || (size >= LARGE && !has_room(size)))
        return set_error(cudaErrorMemoryAllocation);
    Allocation a = {};
    a.size = size;
    a.memory = memory;
    a.flags = flags;
    if (!get_memory(&a)) return set_error(cudaErrorMemoryAllocation);
    a.number = ++heap().allocations;
    heap().live[a.address] = a;
    if (is_device(a)) heap().used += size;
    if (heap().used > heap().most_used) heap().most_used = heap().used;
    if (!heap().at_exit) heap().at_exit = !atexit(check_at_exit);
    *pointer = (void *)a.address;
    return cudaSuccess;
}

/* Release the oldest freed memory until the remaining freed memory is within
 * the limits. */
static void give_back() {
    Heap &h = heap();
    while (h.late_bytes > LATE_BYTES || h.late.size() > LATE_BLOCKS) {
        const Allocation a = h.late.front();
        h.late.pop_front();
        h.late_bytes -= a.span;
        written_late(a);
        free(a.base);
    }
    while (h.late_mapped.size() > LATE_MAPPINGS) {
        munmap(h.late_mapped.front().base, h.late_mapped.front().span);
        h.late_mapped.pop_front();
    }
}

static void retire(const Allocation &a, const char *when) {
    Heap &h = heap();
    if (!a.reported && !sticky_error()) damaged(a, when);
    if (is_device(a)) h.used -= a.size;
    if (a.checked) {
        free_array(a.base); // the arena does not reuse this array soon
        return;
    }
    poison_freed(a);
    if (a.mapped) {
        h.late_mapped.push_back(a);
    } else {
        h.late.push_back(a);
        h.late_bytes += a.span;
    }
    give_back();
}

cudaError_t release(void *pointer, Memory one, Memory other) {
    if (!pointer) return cudaSuccess;
    std::lock_guard<std::mutex> guard(heap().lock);
    auto found = heap().live.find((uintptr_t)pointer);
    if (found == heap().live.end() ||
        (found->second.memory != one && found->second.memory != other))
        return set_error(cudaErrorInvalidValue);
    const Allocation a = found->second;
    heap().live.erase(found);
    retire(a, a.memory == PINNED ? "by cudaFreeHost()" : "by cudaFree()");
    return cudaSuccess;
}

/* Return a graph's allocation at `pointer`, or NULL if there is none. */
static Allocation *of_graph(void *pointer) {
    auto found = heap().live.find((uintptr_t)pointer);
    const bool is = found != heap().live.end() &&
                    found->second.memory == DEVICE &&
                    found->second.flags & OF_GRAPH;
    return is ? &found->second : 0;
}

bool free_in_graph(void *pointer) {
    std::lock_guard<std::mutex> guard(heap().lock);
    Allocation *a = of_graph(pointer);
    if (a) a->flags |= GRAPH_FREES;
    return a;
}

void leave_graph(void *pointer) {
    std::lock_guard<std::mutex> guard(heap().lock);
    Allocation *a = of_graph(pointer);
    if (!a) return;
    const Allocation gone = *a;
    a->flags = 0; // the program now owns the memory
    if (!(gone.flags & GRAPH_FREES)) return;
    heap().live.erase(gone.address);
    retire(gone, "when its graph was destroyed");
}

void release_all() {
    std::lock_guard<std::mutex> guard(heap().lock);
    for (const auto &entry : heap().live)
        if (entry.second.memory != REGISTERED)
            retire(entry.second, "by cudaDeviceReset()");
    heap().live.clear();
}

/* ---- looking up --------------------------------------------------------- */

/* Return the last allocation that begins at or before `address`. */
static Allocation *before(uintptr_t address) {
    auto after = heap().live.upper_bound(address);
    if (after == heap().live.begin()) return 0;
    return &(--after)->second;
}

bool find_allocation(const void *pointer, Allocation *found) {
    const uintptr_t address = (uintptr_t)pointer;
    std::lock_guard<std::mutex> guard(heap().lock);
    const Allocation *a = before(address);
    if (!a || address - a->address >= a->size) return false;
    *found = *a;
    return true;
}

/* Return whether `address` is within the range of `a`, guards included. */
static bool surrounds(const Allocation &a, uintptr_t address) {
    return a.mapped && address - (uintptr_t)a.base < a.span;
}

static void place(const Allocation &a, bool freed, uintptr_t address,
                  char *text, size_t size) {
    char which[100];
    describe(a, which, sizeof which);
    const uintptr_t end = a.address + a.size;
    const char *side = address < a.address ? "before the start of"
                       : address < end     ? "into"
                                           : "past the end of";
    const size_t bytes = address < a.address ? a.address - address
                         : address < end     ? address - a.address
                                             : address - end;
    snprintf(text, size, ", %zu bytes %s %s%s", bytes, side, which,
             freed ? ", which is freed" : "");
}

void locate(uintptr_t address, char *text, size_t size) {
    *text = 0;
    std::unique_lock<std::mutex> guard(heap().lock, std::try_to_lock);
    if (!guard.owns_lock()) return; // the faulting thread may hold the lock
    for (const auto &entry : heap().live)
        if (surrounds(entry.second, address))
            return place(entry.second, false, address, text, size);
    for (const Allocation &a : heap().late_mapped)
        if (surrounds(a, address)) return place(a, true, address, text, size);
}

cudaError_t register_host(void *pointer, size_t size, unsigned flags) {
    if (!pointer || !size) return set_error(cudaErrorInvalidValue);
    const uintptr_t address = (uintptr_t)pointer;
    std::lock_guard<std::mutex> guard(heap().lock);
    const Allocation *a = before(address + size - 1);
    if (a && a->address + a->size > address)
        return set_error(cudaErrorHostMemoryAlreadyRegistered);
    Allocation mine = {};
    mine.address = address;
    mine.size = size;
    mine.memory = REGISTERED;
    mine.flags = flags;
    heap().live[address] = mine;
    return cudaSuccess;
}

cudaError_t unregister_host(void *pointer) {
    std::lock_guard<std::mutex> guard(heap().lock);
    auto found = heap().live.find((uintptr_t)pointer);
    if (found == heap().live.end() || found->second.memory != REGISTERED)
        return set_error(cudaErrorHostMemoryNotRegistered);
    heap().live.erase(found);
    return cudaSuccess;
}

} // namespace simt::SIMT_FIBERS

using namespace simt;

extern "C" int simt_check_memory(void) {
    std::lock_guard<std::mutex> guard(heap().lock);
    return check_live(damaged, "by simt_check_memory()");
}
