/* 05_copies.cu -- histogram, rung 5: a copy of the counts for each lane.
 *
 * Before:     in rung 3, lanes with equal bytes queue, and so do lanes whose
 *             bins share a bank. Rung 4 avoids only the former, by a match.
 * Idea:       a block has 32 copies of the counts, one per lane. Word 32 b + l
 *             is lane l's count of bin b: it is in bank l, which no other lane
 *             of the warp uses. The warps of the block share the copies.
 * Prediction: one addition per byte without a queue, for all bytes: random and
 *             equal bytes take the same time.
 * Limit:      32 KB per block, which 512 threads share, and an addition per
 *             byte. The lanes of a multiprocessor add at most 32 bytes per
 *             cycle. */
#include "histogram.cuh"

enum { LOADS = 4, WIDE = 512 }; // loads in flight per thread; threads

static __global__ void __launch_bounds__(WIDE)
    count_copies(tally *counts, const uint8_t *x, size_t count) {
    __shared__ unsigned counts_s[BINS * WARP];
    for (unsigned i = threadIdx.x; i < BINS * WARP; i += WIDE) counts_s[i] = 0;
    __syncthreads(); // all counts are 0
    unsigned *own = counts_s + threadIdx.x % WARP;
    count_bytes<LOADS>(byte_span(x, count),
                       [=](unsigned bin) { atomicAdd(own + bin * WARP, 1u); });
    __syncthreads(); // all bytes are counted
    if (threadIdx.x < BINS)
        add_count(counts, threadIdx.x, add_copies(counts_s, threadIdx.x));
}

int histogram_copies(const struct histogram *h) {
    const unsigned most = count_resident(count_copies, WIDE, 0, BLOCKS_ON_CPU);
    const unsigned blocks = divide_count(h->count, PART, most);
    count_copies<<<blocks, WIDE, 0, h->stream>>>((tally *)h->counts, h->x,
                                                 h->count);
    WEFT_LAUNCHED(count_copies);
    return WEFT_OK;
}
