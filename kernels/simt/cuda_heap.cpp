/* cuda_heap.cpp -- device memory: poison, red zones, and freed memory that is
 * not reused at once. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <deque>
#include <map>
#include <mutex>

#include "cuda_heap.h"

namespace simt {
#ifdef SIMT_UCONTEXT
inline namespace ucontext_fibers {
#else
inline namespace asm_fibers {
#endif

enum : size_t {
    ALIGNMENT = 256,       // cudaMalloc()'s promise
    LEAST_ZONE = 256,      // red zones are as large as the allocation, but at
    MOST_ZONE = 4096,      // least and at most this: a missing i < n writes
                           // up to a block of elements past the end
    MAP_FROM = 1 << 20,    // larger ones get pages of their own, which are
    LAZY_CHUNK = 4 << 20,  // poisoned, so many at once, when touched
    LATE_BYTES = 16 << 20, // freed memory that is kept before its reuse
    LATE_BLOCKS = 1024,    //
    LATE_MAPPINGS = 256    // address ranges that stay unusable
};
enum { POISON = 0xff, CANARY = 0xca };

struct Heap {
    std::mutex lock;
    std::map<uintptr_t, Allocation> live;
    std::deque<Allocation> late, late_mapped;
    size_t late_bytes = 0;
    size_t used = 0, most_used = 0; /* device and managed memory */
    size_t room = 0;                /* what was free when none was used */
    unsigned allocations = 0;
    bool at_exit = false;
};

static Heap &heap() {
    static Heap *the = new Heap; // never destroyed: freed memory may come late
    return *the;
}

static size_t page() {
    static const size_t size = (size_t)sysconf(_SC_PAGESIZE);
    return size;
}

static size_t round_up(size_t n, size_t to) { return (n + to - 1) / to * to; }

static bool is_device(const Allocation &a) {
    return a.memory == DEVICE || a.memory == MANAGED;
}

/* ---- red zones ---------------------------------------------------------- */

static char *start_of(const Allocation &a) { return (char *)a.address; }
static char *end_of(const Allocation &a) { return start_of(a) + a.size; }
/* Where the red zone after it ends. */
static char *limit_of(const Allocation &a) {
    return start_of(a) + round_up(a.size, ALIGNMENT) + a.zone;
}

static void fill_zones(const Allocation &a) {
    memset(start_of(a) - a.zone, CANARY, a.zone);
    memset(end_of(a), CANARY, limit_of(a) - end_of(a));
}

static bool is_filled(const char *from, const char *to, unsigned char byte) {
    // Each byte is like the one before it: memcmp() reads many at once.
    return from == to || ((unsigned char)*from == byte &&
                          !memcmp(from, from + 1, to - from - 1));
}

/* The last byte in [from, to) that is not `byte`, NULL if there is none. */
static char *last_change(char *from, char *to, unsigned char byte) {
    if (is_filled(from, to, byte)) return 0;
    while (to > from)
        if ((unsigned char)*--to != byte) return to;
    return 0;
}
static char *first_change(char *from, char *to, unsigned char byte) {
    if (is_filled(from, to, byte)) return 0;
    for (; from < to; from++)
        if ((unsigned char)*from != byte) return from;
    return 0;
}

static const char *name_of(Memory memory) {
    return memory == DEVICE    ? "cudaMalloc"
           : memory == MANAGED ? "cudaMallocManaged"
                               : "cudaMallocHost";
}

static void report(const Allocation &a, long near, long far, const char *side,
                   const char *when) {
    fprintf(stderr,
            "simt: out of bounds: %ld to %ld bytes %s allocation %u (%s, %zu "
            "bytes at %p) were overwritten; found %s\n",
            near, far, side, a.number, name_of(a.memory), a.size,
            (void *)a.address, when);
}

/* Whether something wrote past `a`, after one line that says so. */
static bool damaged(const Allocation &a, const char *when) {
    char *start = start_of(a), *end = end_of(a), *limit = limit_of(a);
    char *far = last_change(end, limit, CANARY);
    if (far) {
        const char *near = first_change(end, limit, CANARY);
        report(a, near - end + 1, far - end + 1, "after the end of", when);
        return true;
    }
    far = first_change(start - a.zone, start, CANARY);
    if (!far) return false;
    const char *near = last_change(start - a.zone, start, CANARY);
    report(a, start - near, start - far, "before the start of", when);
    return true;
}

static int check_live(const char *when) {
    int count = 0;
    for (auto &entry : heap().live) {
        Allocation &a = entry.second;
        if (a.memory == REGISTERED || a.reported || !damaged(a, when)) continue;
        a.reported = true;
        count++;
    }
    return count;
}

/* Whether something wrote to `a` after cudaFree(), after one line. */
static bool written_late(const Allocation &a) {
    const char *at = first_change(start_of(a), end_of(a), POISON);
    if (at)
        fprintf(stderr,
                "simt: use after free: byte %ld of allocation %u (%s, %zu "
                "bytes at %p) was written after it was freed\n",
                (long)(at - start_of(a)), a.number, name_of(a.memory), a.size,
                (void *)a.address);
    return at;
}

static void check_at_exit() {
    // No lock: a thread that has it may be gone.
    if (!heap().lock.try_lock()) return;
    check_live("at the program's end");
    for (const Allocation &a : heap().late) written_late(a);
    heap().lock.unlock();
}

/* ---- getting memory ----------------------------------------------------- */

/* A file of poison, -1 if there is none: a page of it is copied when it is
 * first written. */
static int poison_file() {
    static const int file = [] {
        const int fd = memfd_create("simt poison", MFD_CLOEXEC);
        if (fd < 0 || ftruncate(fd, LAZY_CHUNK)) return -1;
        void *bytes =
            mmap(0, LAZY_CHUNK, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
        if (bytes == MAP_FAILED) return -1;
        memset(bytes, POISON, LAZY_CHUNK);
        munmap(bytes, LAZY_CHUNK);
        return fd;
    }();
    return file;
}

/* Poison whole pages without touching them; false if that cannot be done. */
static bool poison_lazily(char *from, char *to) {
    const int file = poison_file();
    if (file < 0) return false;
    for (; from < to; from += LAZY_CHUNK) {
        const size_t left = to - from;
        const size_t size = left < LAZY_CHUNK ? left : (size_t)LAZY_CHUNK;
        if (mmap(from, size, PROT_READ | PROT_WRITE,
                 MAP_PRIVATE | MAP_FIXED | MAP_NORESERVE, file,
                 0) == MAP_FAILED)
            return false;
    }
    return true;
}

/* What fresh memory holds: managed memory is the system's, which zeroes it. */
static int fresh(const Allocation &a) {
    return a.memory == MANAGED ? 0 : (int)POISON;
}

static bool get_small(Allocation *a) {
    void *memory = 0;
    a->span = 2 * a->zone + round_up(a->size, ALIGNMENT);
    if (posix_memalign(&memory, ALIGNMENT, a->span)) return false;
    a->base = (char *)memory;
    a->address = (uintptr_t)a->base + a->zone;
    memset(a->base, fresh(*a), a->span);
    return true;
}

/* Between two pages that nobody may touch, the end near the second. */
static bool get_mapped(Allocation *a) {
    const size_t user = round_up(a->size, ALIGNMENT);
    a->mapped = true;
    a->span = round_up(2 * a->zone + user, page()) + 2 * page();
    void *memory = mmap(0, a->span, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED) return false;
    a->base = (char *)memory;
    char *low = a->base + page(), *high = a->base + a->span - page();
    mprotect(a->base, page(), PROT_NONE);
    mprotect(high, page(), PROT_NONE);
    a->address = (uintptr_t)high - a->zone - user;
    if (fresh(*a) == 0) return true; // as the system gives it
    if (!poison_lazily(low, high)) memset(low, POISON, high - low);
    return true;
}

/* ---- how much there is -------------------------------------------------- */

static size_t physical_memory() {
    return (size_t)sysconf(_SC_PHYS_PAGES) * page();
}

/* What a container may still take, or `otherwise`. */
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

/* What can be had without swapping. */
static size_t available_memory() {
    // Not _SC_AVPHYS_PAGES: that leaves out the files the kernel has cached,
    // which it gives up when asked, and which fill most of a busy machine.
    FILE *file = fopen("/proc/meminfo", "r");
    char line[128];
    size_t kib, bytes = physical_memory();
    while (file && fgets(line, sizeof line, file))
        if (sscanf(line, "MemAvailable: %zu", &kib) == 1) bytes = kib << 10;
    if (file) fclose(file);
    return left_in_container(bytes);
}

/* Linux promises more memory than there is; a GPU does not. */
static bool has_room(size_t size) {
    // Small ones are not asked about: there may be some already.
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
    if (size > (size_t)1 << 46 || (size >= MAP_FROM && !has_room(size)))
        return set_error(cudaErrorMemoryAllocation);
    Allocation a = {};
    a.size = size;
    a.memory = memory;
    a.flags = flags;
    a.zone = round_up(size, ALIGNMENT);
    a.zone = a.zone < LEAST_ZONE  ? (size_t)LEAST_ZONE
             : a.zone > MOST_ZONE ? (size_t)MOST_ZONE
                                  : a.zone;
    if (size >= MAP_FROM ? !get_mapped(&a) : !get_small(&a))
        return set_error(cudaErrorMemoryAllocation);
    fill_zones(a);
    a.number = ++heap().allocations;
    heap().live[a.address] = a;
    if (is_device(a)) heap().used += size;
    if (heap().used > heap().most_used) heap().most_used = heap().used;
    if (!heap().at_exit) heap().at_exit = !atexit(check_at_exit);
    *pointer = (void *)a.address;
    return cudaSuccess;
}

/* Give back what has waited longest, as far as the rest fits. */
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
    if (!a.reported) damaged(a, when);
    if (is_device(a)) h.used -= a.size;
    if (a.mapped) {
        // No memory, but an address that faults.
        mmap(a.base, a.span, PROT_NONE,
             MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
        h.late_mapped.push_back(a);
    } else {
        memset(start_of(a), POISON, a.size);
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

/* The allocation of a graph at `pointer`, NULL if there is none. */
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
    a->flags = 0; // the program's own from now on
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

/* The last one that begins at or before `address`. */
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

} // namespace
} // namespace simt

using namespace simt;

extern "C" int simt_check_memory(void) {
    std::lock_guard<std::mutex> guard(heap().lock);
    return check_live("by simt_check_memory()");
}
