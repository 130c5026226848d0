/* cuda_allocation.cpp -- the bytes of one allocation: their poison, and the red
 * zones around them.
 *
 *     | guard: no access | canary ... | the bytes | canary | guard: no access |
 *
 * An allocation ends as close to its upper guard as its alignment allows, so a
 * store past its end makes the storing thread fault. A store into the canary is
 * found later. Beyond MOST_MAPPED allocations, small ones come from malloc()
 * and have only a canary. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include "../watch/memory.h"
#include "cuda_heap.h"

namespace simt::SIMT_FIBERS {

enum : size_t {
    ALIGNMENT = 256,        // alignment in bytes, as cudaMalloc() guarantees
    GUARD = 256 << 20,      // bytes of address space (not memory) on each side
    LEAST_GUARD = 64 << 10, // the same if ulimit -v limits address space
    MOST_MAPPED = 16384,    // each takes one or two mappings, and Linux allows
                            // 65530
    ZONE = 4096,            // bytes of canary around a malloc() block: without
                            // a test i < n, a kernel may write up to a block
                            // of elements past the end
    LAZY_CHUNK = 4 << 20,   // bytes that are poisoned together when touched
};
enum { POISON = 0xff, CANARY = 0xca };

static size_t page() {
    static const size_t size = (size_t)sysconf(_SC_PAGESIZE);
    return size;
}

static size_t round_up(size_t n, size_t to) { return (n + to - 1) / to * to; }

/* ---- red zones ---------------------------------------------------------- */

static char *start_of(const Allocation &a) { return (char *)a.address; }
static char *end_of(const Allocation &a) { return start_of(a) + a.size; }

static void fill_zones(const Allocation &a) {
    memset(a.low, CANARY, start_of(a) - a.low);
    memset(end_of(a), CANARY, a.high - end_of(a));
}

static bool is_filled(const char *from, const char *to, unsigned char byte) {
    // memcmp() is not used, since its masked loads are slow next to a guard.
    uint64_t word, wanted = byte * 0x0101010101010101u;
    for (; to - from >= (long)sizeof word; from += sizeof word) {
        memcpy(&word, from, sizeof word);
        if (word != wanted) return false;
    }
    while (from < to && (unsigned char)*from == byte) from++;
    return from == to;
}

/* Return the last byte in [from, to) that is not `byte`, or NULL if there is
 * none. */
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

void describe(const Allocation &a, char *text, size_t size) {
    snprintf(text, size, "allocation %u (%s, %zu bytes at %p)", a.number,
             name_of(a.memory), a.size, (void *)a.address);
}

static void report(const Allocation &a, long near, long far, const char *side,
                   const char *when) {
    char which[100], after[120] = "";
    describe(a, which, sizeof which);
    if (const char *kernel = latest_kernel())
        snprintf(after, sizeof after, ", after the kernel %.99s", kernel);
    warn("out of bounds: %ld to %ld bytes %s %s were overwritten; found %s%s",
         near, far, side, which, when, after);
}

bool overrun(const Allocation &a, const char *when) {
    if (a.checked) return false;
    char *end = end_of(a), *far = last_change(end, a.high, CANARY);
    if (!far) return false;
    const char *near = first_change(end, a.high, CANARY);
    report(a, near - end + 1, far - end + 1, "after the end of", when);
    return true;
}

bool damaged(const Allocation &a, const char *when) {
    if (a.checked) return false;
    if (overrun(a, when)) return true;
    char *start = start_of(a), *far = first_change(a.low, start, CANARY);
    if (!far) return false;
    const char *near = last_change(a.low, start, CANARY);
    report(a, start - near, start - far, "before the start of", when);
    return true;
}

bool written_late(const Allocation &a) {
    const char *at = first_change(start_of(a), end_of(a), POISON);
    if (!at) return false;
    char which[100];
    describe(a, which, sizeof which);
    warn("use after free: byte %ld of %s was written after it was freed",
         (long)(at - start_of(a)), which);
    return true;
}

/* ---- getting memory ----------------------------------------------------- */

/* Return a file filled with poison, or -1 if it cannot be created. A mapped
 * page of the file is copied when it is first written. */
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

/* Poison whole pages without touching them. Return false if that is
 * impossible. */
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

/* Return the byte that fills fresh memory: 0 for managed memory, else
 * POISON. */
static int fresh(const Allocation &a) {
    return a.memory == MANAGED ? 0 : (int)POISON;
}

static bool get_small(Allocation *a) {
    void *memory = 0;
    a->span = 2 * ZONE + round_up(a->size, ALIGNMENT);
    if (posix_memalign(&memory, ALIGNMENT, a->span)) return false;
    a->base = a->low = (char *)memory;
    a->high = a->low + a->span;
    a->address = (uintptr_t)a->base + ZONE;
    memset(a->base, fresh(*a), a->span);
    return true;
}

static size_t guard() {
    static const size_t bytes = [] {
        struct rlimit limit;
        const bool free =
            !getrlimit(RLIMIT_AS, &limit) && limit.rlim_cur == RLIM_INFINITY;
        return round_up(free ? GUARD : LEAST_GUARD, page());
    }();
    return bytes;
}

/* Make the pages from `low` to `high` accessible, and fill them. Return false
 * if the system refuses. */
static bool open_pages(const Allocation &a) {
    if (mprotect(a.low, a.high - a.low, PROT_READ | PROT_WRITE)) return false;
    if (fresh(a) == 0) return true; // the system provides zeros
    if (a.size < LARGE || !poison_lazily(a.low, a.high))
        memset(a.low, POISON, a.high - a.low);
    return true;
}

static size_t mapped; // number of mappings; guarded by the heap's lock

/* Allocate between two guards, so that the allocation ends at the second
 * one. */
static bool get_mapped(Allocation *a) {
    const size_t user = round_up(a->size, ALIGNMENT);
    const size_t room = round_up(user, page());
    a->span = room + 2 * guard();
    void *memory = mmap(0, a->span, PROT_NONE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED) return false;
    a->base = (char *)memory;
    a->low = a->base + guard();
    a->high = a->low + room;
    a->address = (uintptr_t)a->high - user;
    a->mapped = open_pages(*a);
    if (!a->mapped) munmap(memory, a->span);
    mapped += a->mapped;
    return a->mapped;
}

/* Allocate in the arena, where the state of each byte is known. */
static bool get_checked(Allocation *a) {
    Array array = {};
    array.size = a->size;
    array.origin = a->memory == DEVICE    ? FROM_MALLOC
                   : a->memory == MANAGED ? FROM_MANAGED
                                          : FROM_HOST;
    // The host's stores are not recorded, so memory that it may write counts as
    // written.
    a->base = (char *)take_array(array, a->memory == DEVICE ? LIVE : BOTH);
    if (!a->base) return false;
    a->checked = true;
    a->address = (uintptr_t)a->base;
    a->span = a->size;
    a->low = a->base, a->high = a->base + a->size;
    // Large arrays keep the system's zeros, since writing poison would make all
    // of their pages take up memory.
    if (a->size < LARGE) memset(a->base, fresh(*a), a->size);
    return true;
}

bool get_memory(Allocation *a) {
    if (checking()) return get_checked(a);
    const bool large = a->size >= LARGE;
    if (!((large || mapped < MOST_MAPPED) && get_mapped(a)) &&
        (large || !get_small(a)))
        return false;
    fill_zones(*a);
    return true;
}

void poison_freed(const Allocation &a) {
    if (!a.mapped) {
        memset(start_of(a), POISON, a.size);
        return;
    }
    // Replace the memory with addresses that fault, in one mapping with its
    // guards.
    mmap(a.base, a.span, PROT_NONE,
         MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
    mapped--;
}

} // namespace simt::SIMT_FIBERS
