/* 01_global.cu -- histogram, rung 1: an atomic addition to global memory.
 *
 * Idea:       a thread per byte adds 1 to the count of its bin.
 * Prediction: additions to one address are serialised. Random bytes have
 *             256 addresses; equal bytes have one, and the device waits for
 *             them all.
 * Limit:      the L2 cache, which performs all additions. Rung 2 moves them
 *             into the multiprocessors. */
#include "histogram.cuh"

static __global__ void count_global(tally *counts, const uint8_t *x,
                                    size_t count) {
    const size_t i = (size_t)blockIdx.x * THREADS + threadIdx.x;
    if (i < count) atomicAdd(&counts[x[i]], (tally)1);
}

int histogram_global(const struct histogram *h) {
    count_global<<<blocks_for(h->count), THREADS, 0, h->stream>>>(
        (tally *)h->counts, h->x, h->count);
    WEFT_LAUNCHED(count_global);
    return WEFT_OK;
}
