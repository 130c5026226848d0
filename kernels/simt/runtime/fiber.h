/* fiber.h -- a CUDA thread as a fiber, and the functions that find and switch
 * fibers.
 *
 * Each fiber has a slot of SIMT_STACK bytes, aligned to its own size:
 *
 *     low                                                             high
 *     | guard page | ... stack grows down ... | Fiber | unused: < 4 KB |
 *
 * So a thread finds its Fiber by rounding the stack pointer. This takes neither
 * a thread-local variable nor a register, and the compiler may treat the
 * address as a constant. The guard page turns a stack overflow into a fault
 * instead of a wrong result in a neighbour. A Fiber fills one cache line. The
 * number of unused bytes varies, so that the lines of neighbouring slots map to
 * different cache sets. Otherwise, 256 suspended threads would compete for the
 * same eight ways of the L1 cache. */
#ifndef SIMT_FIBER_H
#define SIMT_FIBER_H
#include "vector_types.h"

enum { SIMT_STACK = 64 << 10, SIMT_PAGE = 4 << 10 };

#define SIMT_INLINE static inline __attribute__((always_inline))
#define SIMT_UNLIKELY(condition) __builtin_expect(!!(condition), 0)

#if !defined(__x86_64__) && !defined(SIMT_UCONTEXT)
#define SIMT_UCONTEXT
#endif

// Kernels and runtime must use the same switch. If they were built differently,
// the names would not match and the library would not link.
#ifdef SIMT_UCONTEXT
#define SIMT_FIBERS ucontext_fibers
#else
#define SIMT_FIBERS asm_fibers
#endif

// Once declared inline, the namespace is inline wherever it is reopened.
namespace simt {
inline namespace SIMT_FIBERS {}
} // namespace simt

namespace simt::SIMT_FIBERS {

struct Block;
struct Warp;

/* The identity of a thread: threadIdx, and its linear index. */
struct Thread {
    uint3 index;
    unsigned linear;
};

struct alignas(64) Fiber {
    Thread thread;
    Block *block;
    Warp *warp;
    Fiber *next, *prev; /* the ring of the block's unfinished threads */
    void *resume; /* where to continue (for the switch); NULL: at the start */
    uintptr_t pending; /* its Pending (asynchronous.h), or 0 if there is none;
                        * bit 0 is AT_ONCE */
};

/* Return the Fiber in the slot that contains `address`. */
SIMT_INLINE Fiber *fiber_at(uintptr_t address) {
    uintptr_t slot = address & ~(uintptr_t)(SIMT_STACK - 1);
    uintptr_t line = slot / SIMT_STACK % (SIMT_PAGE / 64);
    return (Fiber *)(slot + SIMT_STACK - SIMT_PAGE + line * 64);
}

} // namespace simt::SIMT_FIBERS

#include "fiber_sanitize.h"
#ifdef SIMT_UCONTEXT
#include "fiber_ucontext.h"
#else
#include "fiber_x86.h"
#endif
#endif
