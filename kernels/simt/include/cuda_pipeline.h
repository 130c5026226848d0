/* cuda_pipeline.h -- copies into shared memory that nobody waits for, as CUDA's
 * header of that name has them in C.
 *
 * A copy is done when it is asked for, so there is nothing to commit and
 * nothing to wait for. Who forgets to wait gets right results here, and wrong
 * ones from sm_80 on, where copies take their time. */
#ifndef SIMT_CUDA_PIPELINE_H
#define SIMT_CUDA_PIPELINE_H
#include <cuda_runtime.h>

namespace simt {

/* What one copy moves, whatever type is stored there. */
typedef int Copied4 __attribute__((may_alias));
typedef int Copied8 __attribute__((vector_size(8), may_alias));
typedef int Copied16 __attribute__((vector_size(16), may_alias));

/* One load and one store, without the last `zeros` bytes of what is loaded. */
template <class Copied>
SIMT_INLINE void copy_piece(void *to, const void *from, size_t zeros) {
    Copied value = {};
    if (zeros == 0)
        value = *(const Copied *)from;
    else
        memcpy(&value, from, sizeof value - zeros);
    *(Copied *)to = value;
}

} // namespace simt

/* Copy `bytes` (4, 8 or 16) bytes to shared memory, both addresses multiples of
 * that; the last `zeros` of them are not read, but 0. */
SIMT_INLINE void __pipeline_memcpy_async(void *to, const void *from,
                                         size_t bytes, size_t zeros = 0) {
    if (zeros > bytes) simt::trap();
    if (bytes == 16)
        simt::copy_piece<simt::Copied16>(to, from, zeros);
    else if (bytes == 8)
        simt::copy_piece<simt::Copied8>(to, from, zeros);
    else if (bytes == 4)
        simt::copy_piece<simt::Copied4>(to, from, zeros);
    else
        simt::trap();
}

/* The copies asked for since the last commit are a group. */
SIMT_INLINE void __pipeline_commit() {}

/* Until at most the newest `groups` groups of this thread are under way. */
SIMT_INLINE void __pipeline_wait_prior(size_t groups) { (void)groups; }

#endif
