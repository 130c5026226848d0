/* cuda_pipeline.h -- asynchronous copies into shared memory, with the C
 * interface of CUDA's header of the same name.
 *
 * The copies are performed only when a thread waits for them; see
 * asynchronous.h. */
#ifndef SIMT_CUDA_PIPELINE_H
#define SIMT_CUDA_PIPELINE_H
#include <cuda_runtime.h>

#include "../runtime/asynchronous.h"

/* Start copying `bytes` (4, 8 or 16) bytes to shared memory. Both addresses
 * must be multiples of that number. The last `zeros` bytes are not read but set
 * to 0. */
SIMT_INLINE void __pipeline_memcpy_async(void *to, const void *from,
                                         size_t bytes, size_t zeros = 0) {
    simt::copy_later(to, from, bytes, zeros);
}

/* Close a group: all copies issued since the last commit. */
SIMT_INLINE void __pipeline_commit() { simt::later_commit(simt::COPIES); }

/* Wait until at most the `groups` newest groups of this thread are in
 * flight. */
SIMT_INLINE void __pipeline_wait_prior(size_t groups) {
    simt::later_wait(simt::COPIES, (unsigned)groups);
}

#endif
