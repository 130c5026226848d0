/* 01_global.cu -- bincount, rung 1: an atomic addition to global memory.
 *
 * Idea:       a thread per number adds 1 to the count of its bin.
 * Prediction: the L2 cache performs all additions. Each moves a sector of 32
 *             bytes, and additions to one address are serialised.
 * Limit:      the L2 cache. Rung 2 adds in shared memory. */
#include "bincount.cuh"

static __global__ void count_keys(tally *counts, const int32_t *x, size_t count,
                                  unsigned bins) {
    const size_t i = (size_t)blockIdx.x * THREADS + threadIdx.x;
    if (i < count && (unsigned)x[i] < bins) atomicAdd(counts + x[i], (tally)1);
}

int bincount_global(const struct bincount *b) {
    count_keys<<<blocks_for(b->count), THREADS, 0, b->stream>>>(
        (tally *)b->counts, b->x, b->count, b->bins);
    WEFT_LAUNCHED(count_keys);
    return WEFT_OK;
}
