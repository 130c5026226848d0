/* 02_ranges.cu -- bincount, rung 2: a block counts one range of the bins.
 *
 * Before:     rung 1 performs one addition per number in the L2 cache.
 * Idea:       a range has as many bins as fit in shared memory. A block counts
 *             the numbers of its range in a part of x, and finally adds the
 *             counts to those of the grid.
 * Prediction: for one range, x is read once. For r ranges it is read r times.
 * Limit:      the reads. Rung 3 reads x twice, for any number of ranges. */
#include "bincount.cuh"

/* Let block k count part k / ranges of x in range k % ranges of the bins. Each
 * range has `width` bins, but the last may have fewer. */
static __global__ void __launch_bounds__(WIDE)
    count_ranges(tally *counts, const int32_t *x, size_t count, unsigned bins,
                 unsigned width, unsigned ranges) {
    extern __shared__ unsigned counts_s[];
    const unsigned first = blockIdx.x % ranges * width;
    const unsigned own = min(width, bins - first);
    for (unsigned i = threadIdx.x; i < own; i += WIDE) counts_s[i] = 0;
    __syncthreads(); // all counts are 0
    const size_t step = (size_t)(gridDim.x / ranges) * WIDE;
    size_t i = (size_t)(blockIdx.x / ranges) * WIDE + threadIdx.x;
    for (; i < count; i += LOADS * step) {
        unsigned bin[LOADS]; // bin within the range, or at least `own` outside
#pragma unroll
        for (int j = 0; j < LOADS; j++)
            bin[j] =
                i + j * step < count ? (unsigned)x[i + j * step] - first : own;
#pragma unroll
        for (int j = 0; j < LOADS; j++)
            if (bin[j] < own) atomicAdd(counts_s + bin[j], 1u);
    }
    __syncthreads(); // all numbers are counted
    for (unsigned k = threadIdx.x; k < own; k += WIDE)
        add_count(counts, first + k, counts_s[k]);
}

int bincount_ranges(const struct bincount *b) {
    const unsigned width = min(count_room(), b->bins);
    const unsigned ranges = CEIL_DIV(b->bins, width);
    struct launch l = {"count_ranges",           1,         WIDE,
                       width * sizeof(unsigned), b->stream, 0};
    WEFT_TRY(claim_shared(l, (const void *)count_ranges));
    const unsigned all =
        count_resident(count_ranges, WIDE, l.shared_bytes, BLOCKS_ON_CPU);
    // Counting a part should take longer than adding a range's counts.
    const unsigned parts =
        divide_count(b->count, max(4 * width, 1u << 14), CEIL_DIV(all, ranges));
    l.grid = parts * ranges;
    return launch_kernel(l, count_ranges, (tally *)b->counts, b->x, b->count,
                         b->bins, width, ranges);
}
