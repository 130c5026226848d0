/* 01_atomic.cu -- compact, rung 1: every kept number takes a place atomically.
 *
 * Idea:       one thread per number. A thread that keeps its number adds 1 to
 *             the count; the old count is the number's place in y.
 * Prediction: the atomic additions to one address are serialised, unless the
 *             compiler combines those of a warp.
 * Limit:      the order. Threads arrive as they please, so y has the right
 *             numbers in an order that varies. Rung 2 needs one atomic addition
 *             for up to 32 kept numbers. */
#include "compact.cuh"

static __global__ void keep_each(float *y, place *kept, const float *x,
                                 size_t count, float threshold) {
    const size_t i = (size_t)blockIdx.x * THREADS + threadIdx.x;
    if (i < count && x[i] > threshold) y[atomicAdd(kept, 1ull)] = x[i];
}

int compact_atomic(const struct compaction *c) {
    WEFT_CUDA_TRY(cudaMemsetAsync(c->kept, 0, sizeof *c->kept, c->stream));
    keep_each<<<blocks_for(c->count), THREADS, 0, c->stream>>>(
        c->y, (place *)c->kept, c->x, c->count, c->threshold);
    WEFT_LAUNCHED(keep_each);
    return WEFT_OK;
}
