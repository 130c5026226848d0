/* cuda_heap.h -- what cudaMalloc() and its like have given out: private to the
 * runtime. All functions may be called from any thread. */
#ifndef SIMT_CUDA_HEAP_H
#define SIMT_CUDA_HEAP_H
#include "../runtime/runtime.h"

namespace simt {
#ifdef SIMT_UCONTEXT
inline namespace ucontext_fibers {
#else
inline namespace asm_fibers {
#endif

enum Memory : unsigned char { DEVICE, MANAGED, PINNED, REGISTERED };

/* Flags of device memory: a graph's, at the same address in each of its
 * launches even if it is freed between them; and the graph or the program frees
 * it. */
enum { OF_GRAPH = 1, GRAPH_FREES = 2 };

/* One allocation, within `span` bytes from `base`. Those from `low` to `high`
 * may be touched: it, and the red zones around it. */
struct Allocation {
    uintptr_t address;
    size_t size;
    Memory memory;
    unsigned flags;  /* as they were asked for */
    unsigned number; /* the first one of the process is 1 */
    bool mapped;     /* mmap() gave it, with guard pages around */
    bool reported;   /* its damage has been told */
    bool checked;    /* in the watch build's arena, whose hooks find damage */
    char *base, *low, *high;
    size_t span;
};

/* ---- cuda_allocation.cpp: one allocation's bytes ------------------------ */

/* From here on they are poisoned when touched. */
enum : size_t { LARGE = 1 << 20 };

/* "allocation 3 (cudaMalloc, 400 bytes at 0x...)" */
void describe(const Allocation &a, char *text, size_t size);

/* Get what `a->size` bytes of kind `a->memory` need, with red zones, filled;
 * false if the system has none. */
bool get_memory(Allocation *a);

/* Whether something wrote past `a`'s end, after one line that says so. */
bool overrun(const Allocation &a, const char *when);

/* The same, or before its start, where more bytes have to be looked at. */
bool damaged(const Allocation &a, const char *when);

/* Make it unusable, or the next write to it visible ... */
void poison_freed(const Allocation &a);

/* ... Whether something wrote to `a` after that, after one line. */
bool written_late(const Allocation &a);

/* ---- cuda_heap.cpp ------------------------------------------------------ */

/* *pointer = `size` bytes of poison; NULL for none. */
cudaError_t allocate(void **pointer, size_t size, Memory memory,
                     unsigned flags);

/* Check the red zones and free; the allocation must be of kind `a` or `b`. */
cudaError_t release(void *pointer, Memory a, Memory b);

/* Note that a graph's memory is freed; false if `pointer` is no such memory. */
bool free_in_graph(void *pointer);

/* The graph is gone, and its memory too, unless nobody has freed it. */
void leave_graph(void *pointer);

cudaError_t register_host(void *pointer, size_t size, unsigned flags);
cudaError_t unregister_host(void *pointer);

/* The allocation that `pointer` points into, false if there is none. */
bool find_allocation(const void *pointer, Allocation *found);

/* Where an address that faults lies: ", 4 bytes past the end of allocation 1
 * ...", or "" if it is near none. For handlers of signals, too. */
void locate(uintptr_t address, char *text, size_t size);

/* Look for overruns if a kernel ran since the last time: only where there are
 * not many allocations, since the host may wait often. */
void check_after_launches();

/* Bytes in the machine, and those not yet given out. */
void memory_left(size_t *free, size_t *total);

/* Bytes of device memory given out now, and at most ever. */
void memory_used(size_t *now, size_t *most);

/* cudaDeviceReset(): free everything. */
void release_all();

} // namespace
} // namespace simt
#endif
