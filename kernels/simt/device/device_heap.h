/* device_heap.h -- what malloc() and new give to kernels: as on a GPU, so many
 * bytes for all threads (cudaLimitMallocHeapSize, 8 MB), and NULL when they are
 * gone. What a kernel does not free stays taken for the launches after it. */
#ifndef SIMT_DEVICE_HEAP_H
#define SIMT_DEVICE_HEAP_H
#include "../runtime/runtime.h"

namespace simt {
#ifdef SIMT_UCONTEXT
inline namespace ucontext_fibers {
#else
inline namespace asm_fibers {
#endif

/* Count an allocation of `size` bytes; false: the heap has no room for it. */
bool take_from_heap(size_t size);
void give_to_heap(size_t size);

/* Memory for a kernel that is not watched. NULL: there is no room. */
void *heap_malloc(size_t size);

/* Free what heap_malloc() gave; false: `memory` is not of the heap. */
bool heap_free(void *memory);

/* Whether a kernel's thread calls, not the host. */
SIMT_INLINE bool in_kernel() {
    return (uintptr_t)__builtin_frame_address(0) - fibers.base < fibers.bytes;
}

} // namespace
} // namespace simt
#endif
