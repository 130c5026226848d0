/* 04_aggregated.cu -- histogram, rung 4: one addition for all equal lanes.
 *
 * Before:     in rung 3, the lanes of a warp with equal bytes queue.
 * Idea:       __match_any_sync() returns to each lane a mask of the lanes with
 *             its byte. The lowest of these adds their number once.
 * Prediction: one addition per warp for 32 equal bytes. 32 random bytes are 30
 *             different ones, so nearly all additions remain, and the match is
 *             extra work.
 * Limit:      the match, which every byte needs, whatever its value. Rung 5
 *             lets lanes with equal bytes add at the same time. */
#include "histogram.cuh"

/* Count the bytes of the lanes in `there`. All of these lanes call this.
 */
static __device__ __forceinline__ void add_equal(unsigned *counts_s,
                                                 unsigned there, unsigned bin) {
    const unsigned equal = __match_any_sync(there, bin);
    const bool leads = (unsigned)__ffs(equal) - 1 == threadIdx.x % WARP;
    if (leads) atomicAdd(counts_s + bin, (unsigned)__popc(equal));
}

static __global__ void count_aggregated(tally *counts, const uint8_t *x,
                                        size_t count) {
    __shared__ unsigned counts_s[BINS];
    counts_s[threadIdx.x] = 0;
    __syncthreads(); // all counts are 0
    const byte_span span(x, count);
    const size_t step = (size_t)gridDim.x * THREADS;
    const unsigned lane = threadIdx.x % WARP;
    size_t first = (size_t)blockIdx.x * THREADS + threadIdx.x - lane;
    for (; first < span.groups; first += step) {
        const bool has = first + lane < span.groups;
        const unsigned there = __ballot_sync(0xffffffff, has);
        if (has)
            count_group(span.load(first + lane),
                        [&](unsigned bin) { add_equal(counts_s, there, bin); });
    }
    span.count_ends([&](unsigned bin) { atomicAdd(counts_s + bin, 1u); });
    __syncthreads(); // all bytes are counted
    add_count(counts, threadIdx.x, counts_s[threadIdx.x]);
}

int histogram_aggregated(const struct histogram *h) {
    const unsigned most =
        count_resident(count_aggregated, THREADS, 0, BLOCKS_ON_CPU);
    const unsigned blocks = divide_count(h->count, PART, most);
    count_aggregated<<<blocks, THREADS, 0, h->stream>>>((tally *)h->counts,
                                                        h->x, h->count);
    WEFT_LAUNCHED(count_aggregated);
    return WEFT_OK;
}
