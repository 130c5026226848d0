/* 02_shared.cu -- histogram, rung 2: each block has its own counts.
 *
 * Before:     rung 1 performs an addition per byte in the L2 cache.
 * Idea:       a block counts its part of x in shared memory, and adds its 256
 *             counts to those of the grid once, at its end.
 * Prediction: 256 global additions per block instead of one per byte. In shared
 *             memory, lanes that share a bin or a bank still queue.
 * Limit:      the loads. A warp fetches 32 bytes per request, and a request
 *             could fetch 512. */
#include "histogram.cuh"

static __global__ void count_shared(tally *counts, const uint8_t *x,
                                    size_t count) {
    __shared__ unsigned counts_s[BINS];
    counts_s[threadIdx.x] = 0;
    __syncthreads(); // all counts are 0
    const size_t step = (size_t)gridDim.x * THREADS;
    const size_t first = (size_t)blockIdx.x * THREADS + threadIdx.x;
    for (size_t i = first; i < count; i += step) atomicAdd(&counts_s[x[i]], 1u);
    __syncthreads(); // all bytes are counted
    const unsigned own = counts_s[threadIdx.x];
    if (own > 0) atomicAdd(&counts[threadIdx.x], (tally)own);
}

int histogram_shared(const struct histogram *h) {
    const unsigned most =
        count_resident(count_shared, THREADS, 0, BLOCKS_ON_CPU);
    const unsigned blocks = divide_count(h->count, PART, most);
    count_shared<<<blocks, THREADS, 0, h->stream>>>((tally *)h->counts, h->x,
                                                    h->count);
    WEFT_LAUNCHED(count_shared);
    return WEFT_OK;
}
