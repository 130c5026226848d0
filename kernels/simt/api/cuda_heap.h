/* cuda_heap.h -- the allocations of cudaMalloc() and the like: private to the
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

/* Flags of device memory. A graph's memory has the same address in each of its
 * launches even if it is freed between them. Either the graph or the program
 * frees it. */
enum { OF_GRAPH = 1, GRAPH_FREES = 2 };

/* One allocation, within `span` bytes from `base`. The bytes from `low` to
 * `high` may be touched: the allocation, and the red zones around it. */
struct Allocation {
    uintptr_t address;
    size_t size;
    Memory memory;
    unsigned flags;  /* as requested */
    unsigned number; /* the first one of the process is 1 */
    bool mapped;     /* from mmap(), with guard pages around it */
    bool reported;   /* its damage has been reported */
    bool checked;    /* in the watch build's arena, whose hooks find damage */
    char *base, *low, *high;
    size_t span;
};

/* ---- cuda_allocation.cpp: one allocation's bytes ------------------------ */

/* From this size on, memory is poisoned only when touched. */
enum : size_t { LARGE = 1 << 20 };

/* "allocation 3 (cudaMalloc, 400 bytes at 0x...)" */
void describe(const Allocation &a, char *text, size_t size);

/* Get the memory for `a->size` bytes of kind `a->memory`, with red zones,
 * filled; return false if the system has none. */
bool get_memory(Allocation *a);

/* Whether a store went past `a`'s end; if so, print one line that reports
 * it. */
bool overrun(const Allocation &a, const char *when);

/* The same, or before its start, which requires checking more bytes. */
bool damaged(const Allocation &a, const char *when);

/* Make it unusable, or the next write to it detectable ... */
void poison_freed(const Allocation &a);

/* ... Whether `a` was written after that; if so, print one line. */
bool written_late(const Allocation &a);

/* ---- cuda_heap.cpp ------------------------------------------------------ */

/* *pointer = `size` bytes of poison; NULL for none. */
cudaError_t allocate(void **pointer, size_t size, Memory memory,
                     unsigned flags);

/* Check the red zones and free; the allocation must be of kind `a` or `b`. */
cudaError_t release(void *pointer, Memory a, Memory b);

/* Record that a graph's memory is freed; return false if `pointer` is no such
 * memory. */
bool free_in_graph(void *pointer);

/* The graph is gone, and with it its memory, unless that was never freed. */
void leave_graph(void *pointer);

cudaError_t register_host(void *pointer, size_t size, unsigned flags);
cudaError_t unregister_host(void *pointer);

/* Find the allocation that `pointer` points into; return false if there is
 * none. */
bool find_allocation(const void *pointer, Allocation *found);

/* Describe where a faulting address is: ", 4 bytes past the end of allocation 1
 * ...", or "" if it is near none. Signal handlers may call it. */
void locate(uintptr_t address, char *text, size_t size);

/* Check for overruns if a kernel ran since the last time; only if there are few
 * allocations, since the host may wait often. */
void check_after_launches();

/* Find the bytes of memory in the machine, and those not yet allocated. */
void memory_left(size_t *free, size_t *total);

/* Find the bytes of device memory allocated now, and their maximum so far. */
void memory_used(size_t *now, size_t *most);

/* cudaDeviceReset(): free everything. */
void release_all();

} // namespace
} // namespace simt
#endif
