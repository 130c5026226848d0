/* 03_vector.cu -- histogram, rung 3: loads of 16 bytes.
 *
 * Before:     rung 2 loads a byte per lane.
 * Idea:       a lane loads 16 neighbours per load and has two such loads in
 *             flight. If x does not begin at a multiple of 16 bytes, the first
 *             block counts the bytes at its ends singly.
 * Prediction: a sixteenth of the requests. The additions remain: one per byte.
 * Limit:      lanes that queue. For 32 random bytes, the fullest of 32 banks
 *             has 3.5 lanes on average; for equal bytes, one bank has all
 *             32. */
#include "histogram.cuh"

static __global__ void count_vector(tally *counts, const uint8_t *x,
                                    size_t count) {
    __shared__ unsigned counts_s[BINS];
    counts_s[threadIdx.x] = 0;
    __syncthreads(); // all counts are 0
    count_bytes<2>(byte_span(x, count),
                   [&](unsigned bin) { atomicAdd(counts_s + bin, 1u); });
    __syncthreads(); // all bytes are counted
    add_count(counts, threadIdx.x, counts_s[threadIdx.x]);
}

int histogram_vector(const struct histogram *h) {
    const unsigned most =
        count_resident(count_vector, THREADS, 0, BLOCKS_ON_CPU);
    const unsigned blocks = divide_count(h->count, PART, most);
    count_vector<<<blocks, THREADS, 0, h->stream>>>((tally *)h->counts, h->x,
                                                    h->count);
    WEFT_LAUNCHED(count_vector);
    return WEFT_OK;
}
