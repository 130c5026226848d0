/* cuda_allocation.cpp -- the bytes of one allocation: poison, and red zones
 * around it. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "check/memory.h"
#include "cuda_heap.h"

namespace simt {
#ifdef SIMT_UCONTEXT
inline namespace ucontext_fibers {
#else
inline namespace asm_fibers {
#endif

enum : size_t {
    ALIGNMENT = 256,      // cudaMalloc()'s promise
    LEAST_ZONE = 256,     // red zones are as large as the allocation, but at
    MOST_ZONE = 4096,     // least and at most this: a missing i < n writes
                          // up to a block of elements past the end
    LAZY_CHUNK = 4 << 20, // poisoned at once, when touched
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

bool damaged(const Allocation &a, const char *when) {
    if (a.checked) return false;
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

bool written_late(const Allocation &a) {
    const char *at = first_change(start_of(a), end_of(a), POISON);
    if (at)
        fprintf(stderr,
                "simt: use after free: byte %ld of allocation %u (%s, %zu "
                "bytes at %p) was written after it was freed\n",
                (long)(at - start_of(a)), a.number, name_of(a.memory), a.size,
                (void *)a.address);
    return at;
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

/* In the arena, where each byte's state is known. */
static bool get_checked(Allocation *a) {
    Array array = {};
    array.size = a->size;
    array.origin = a->memory == DEVICE    ? FROM_MALLOC
                   : a->memory == MANAGED ? FROM_MANAGED
                                          : FROM_HOST;
    // The host's own stores are not seen: what it may write to counts as
    // written.
    a->base = (char *)take_array(array, a->memory == DEVICE ? LIVE : BOTH);
    if (!a->base) return false;
    a->checked = true;
    a->address = (uintptr_t)a->base;
    a->span = a->size;
    // Large ones are the system's zeros: poison would take their memory.
    if (a->size < LARGE) memset(a->base, fresh(*a), a->size);
    return true;
}

bool get_memory(Allocation *a) {
    if (checking()) return get_checked(a);
    const size_t zone = round_up(a->size, ALIGNMENT);
    a->zone = zone < LEAST_ZONE  ? (size_t)LEAST_ZONE
              : zone > MOST_ZONE ? (size_t)MOST_ZONE
                                 : zone;
    if (a->size >= LARGE ? !get_mapped(a) : !get_small(a)) return false;
    fill_zones(*a);
    return true;
}

void poison_freed(const Allocation &a) {
    if (!a.mapped)
        memset(start_of(a), POISON, a.size);
    else // no memory, but an address that faults
        mmap(a.base, a.span, PROT_NONE,
             MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
}

} // namespace
} // namespace simt
