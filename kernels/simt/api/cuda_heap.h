/* cuda_heap.h -- the allocations of cudaMalloc() and similar functions; private
 * to the runtime. All functions may be called from any thread. */
#ifndef SIMT_CUDA_HEAP_H
#define SIMT_CUDA_HEAP_H
#include "../runtime/runtime.h"

namespace simt::SIMT_FIBERS {

enum Memory : unsigned char { DEVICE, MANAGED, PINNED, REGISTERED };

/* Flags of device memory. A graph's memory has the same address in each launch
 * of the graph, even if the memory is freed between launches. Either the graph
 * or the program frees it. */
enum { OF_GRAPH = 1, GRAPH_FREES = 2 };

/* One allocation, inside the `span` bytes that begin at `base`. The bytes from
 * `low` to `high` may be accessed: the allocation and its red zones. */
struct Allocation {
    uintptr_t address;
    size_t size;
    Memory memory;
    unsigned flags;  /* as requested */
    unsigned number; /* 1 for the first allocation of the process */
    bool mapped;     /* whether it is from mmap(), with guard pages around it */
    bool reported;   /* whether its damage has been reported */
    bool checked;    /* whether it is in the watch build's arena, whose hooks
                      * find damage */
    char *base, *low, *high;
    size_t span;
};

/* ---- cuda_allocation.cpp: the bytes of one allocation -------------------- */

/* The size in bytes from which memory is poisoned only when touched. */
enum : size_t { LARGE = 1 << 20 };

/* Write a text such as "allocation 3 (cudaMalloc, 400 bytes at 0x...)". */
void describe(const Allocation &a, char *text, size_t size);

/* Get the memory for `a->size` bytes of kind `a->memory`, with red zones, and
 * fill it. Return false if the system has none. */
bool get_memory(Allocation *a);

/* Return whether a store went past the end of `a`; if so, print one line that
 * reports it. */
bool overrun(const Allocation &a, const char *when);

/* Perform overrun()'s check, and also check for stores before the start of `a`,
 * which takes more time. */
bool damaged(const Allocation &a, const char *when);

/* Make freed memory unusable, or make the next write to it detectable. */
void poison_freed(const Allocation &a);

/* Return whether `a` was written after it was freed; if so, print one line. */
bool written_late(const Allocation &a);

/* ---- cuda_heap.cpp ------------------------------------------------------ */

/* Allocate `size` bytes of poison and store their address in *pointer, or NULL
 * if size is 0. */
cudaError_t allocate(void **pointer, size_t size, Memory memory,
                     unsigned flags);

/* Check the red zones and free the allocation, which must be of kind `a` or
 * `b`. */
cudaError_t release(void *pointer, Memory a, Memory b);

/* Record that a graph's memory is freed. Return false if `pointer` is not a
 * graph's memory. */
bool free_in_graph(void *pointer);

/* Free a graph's memory when the graph no longer exists, unless the program
 * still owns the memory. */
void leave_graph(void *pointer);

cudaError_t register_host(void *pointer, size_t size, unsigned flags);
cudaError_t unregister_host(void *pointer);

/* Find the allocation that `pointer` points into. Return false if there is
 * none. */
bool find_allocation(const void *pointer, Allocation *found);

/* Describe the location of a faulting address: ", 4 bytes past the end of
 * allocation 1 ...", or "" if it is near no allocation. Signal handlers may
 * call this function. */
void locate(uintptr_t address, char *text, size_t size);

/* Check for overruns if a kernel has run since the last check. The check covers
 * only a few allocations, since the host may wait often. */
void check_after_launches();

/* Find the machine's total memory and its unallocated memory, in bytes. */
void memory_left(size_t *free, size_t *total);

/* Find the bytes of device memory that are allocated now, and their maximum so
 * far. */
void memory_used(size_t *now, size_t *most);

/* Free everything, for cudaDeviceReset(). */
void release_all();

} // namespace simt::SIMT_FIBERS
#endif
