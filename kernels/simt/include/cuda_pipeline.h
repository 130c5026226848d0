/* cuda_pipeline.h -- copies into shared memory that nobody waits for, as CUDA's
 * header of that name has them in C.
 *
 * They come when they are waited for, and not before: asynchronous.h. */
#ifndef SIMT_CUDA_PIPELINE_H
#define SIMT_CUDA_PIPELINE_H
#include <cuda_runtime.h>

#include "../runtime/asynchronous.h"

/* Copy `bytes` (4, 8 or 16) bytes to shared memory, both addresses multiples of
 * that; the last `zeros` of them are not read, but 0. */
SIMT_INLINE void __pipeline_memcpy_async(void *to, const void *from,
                                         size_t bytes, size_t zeros = 0) {
    simt::copy_later(to, from, bytes, zeros);
}

/* The copies asked for since the last commit are a group. */
SIMT_INLINE void __pipeline_commit() { simt::later_commit(simt::COPIES); }

/* Until at most the newest `groups` groups of this thread are under way. */
SIMT_INLINE void __pipeline_wait_prior(size_t groups) {
    simt::later_wait(simt::COPIES, (unsigned)groups);
}

#endif
