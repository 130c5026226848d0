/* device_heap.h -- the memory of malloc() and new in kernels. As on a GPU,
 * there is a fixed number of bytes for all threads (cudaLimitMallocHeapSize, 8
 * MB). When they are used up, allocations return NULL. Memory that a kernel
 * does not free stays allocated for later launches. */
#ifndef SIMT_DEVICE_HEAP_H
#define SIMT_DEVICE_HEAP_H
#include "../runtime/runtime.h"

namespace simt::SIMT_FIBERS {

/* Count an allocation of `size` bytes. Return false if the heap has no room
 * for it. */
bool take_from_heap(size_t size);
void give_to_heap(size_t size);

/* Allocate for a kernel that is not watched. Return NULL if there is no
 * room. */
void *heap_malloc(size_t size);

/* Free memory from heap_malloc(). Return false if `memory` is not from the
 * heap. */
bool heap_free(void *memory);

/* Return whether the caller is a kernel's thread rather than the host. */
SIMT_INLINE bool in_kernel() {
    return (uintptr_t)__builtin_frame_address(0) - fibers.base < fibers.bytes;
}

} // namespace simt::SIMT_FIBERS
#endif
