/* 06_many_bins.cu -- bincount: more bins than shared memory has room for.
 *
 * "global":    one addition per number, in the L2 cache, whose counts may even
 *              exceed the cache.
 * "ranges":    a block counts one range of bins in shared memory, and reads
 *              numbers of all ranges. For r ranges, x is read r times.
 * "partition": a first pass counts the numbers of each range, and a second one
 *              sorts the numbers by range, so that a third one reads only what
 *              it counts. The order within a range does not matter: a tile
 *              takes places in a range by an atomic addition. A number then
 *              needs only its place in its range, 2 bytes.
 * Prediction:  partition moves 12 bytes per number, for any number of ranges:
 *              twice 4 read, and 2 written and read. Ranges moves 4 r.
 * Limit:       256 ranges, 2^21 bins. Beyond, partition is "global": the
 *              additions then have that many addresses. */
#include "histogram.cuh"

#include "common/scans.cuh"

/* ---- global -------------------------------------------------------------- */

static __global__ void count_keys(tally *counts, const int32_t *x, size_t count,
                                  unsigned bins) {
    const size_t i = (size_t)blockIdx.x * THREADS + threadIdx.x;
    if (i < count && (unsigned)x[i] < bins)
        atomicAdd(counts + x[i], (tally)1);
}

int bincount_global(const struct bincount *b) {
    count_keys<<<blocks_for(b->count), THREADS, 0, b->stream>>>(
        (tally *)b->counts, b->x, b->count, b->bins);
    WEFT_LAUNCHED(count_keys);
    return WEFT_OK;
}

/* ---- ranges -------------------------------------------------------------- */

enum { WIDE = 1024, LOADS = 4 }; // threads; loads in flight per thread

/* Block k counts part k / ranges of x in range k % ranges of the bins, which
 * has `width` bins, the last one fewer. */
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
        unsigned bin[LOADS]; // in the range; at least `own` for other numbers
#pragma unroll
        for (int j = 0; j < LOADS; j++)
            bin[j] = i + j * step < count ? (unsigned)x[i + j * step] - first
                                          : own;
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
    struct launch l = {"count_ranges", 1, WIDE, width * sizeof(unsigned),
                       b->stream, 0};
    WEFT_TRY(claim_shared(l, (const void *)count_ranges));
    const unsigned all = count_resident(count_ranges, WIDE, l.shared_bytes);
    // A part is so long that its numbers cost more than the counts of a range.
    const unsigned parts =
        divide_count(b->count, max(4 * width, 1u << 14), CEIL_DIV(all, ranges));
    l.grid = parts * ranges;
    return launch_kernel(l, count_ranges, (tally *)b->counts, b->x, b->count,
                         b->bins, width, ranges);
}

/* ---- partition ----------------------------------------------------------- */

enum {
    BITS = 13, // of a place in a range, whose counts need 32 KB
    WIDTH = 1 << BITS,
    RANGES = THREADS,   // at most; a thread per range
    KEYS = 16,          // of a thread
    TILE = KEYS * THREADS
};

/* Return the range of a number, or RANGES if it is not in [0,bins). */
static __device__ __forceinline__ unsigned find_range(int number,
                                                      unsigned bins) {
    return (unsigned)number < bins ? (unsigned)number >> BITS : RANGES;
}

/* Add the number of x's elements in each range to sizes (RANGES). Like rung 5 of
 * histogram, a lane has its own copy of the counts. */
static __global__ void size_ranges(tally *sizes, const int32_t *x, size_t count,
                                   unsigned bins) {
    __shared__ unsigned sizes_s[RANGES * WARP];
    for (unsigned i = threadIdx.x; i < RANGES * WARP; i += THREADS)
        sizes_s[i] = 0;
    __syncthreads(); // all sizes are 0
    unsigned *own = sizes_s + threadIdx.x % WARP;
    const size_t step = (size_t)gridDim.x * THREADS;
    size_t i = (size_t)blockIdx.x * THREADS + threadIdx.x;
    for (; i < count; i += LOADS * step) {
        unsigned range[LOADS];
#pragma unroll
        for (int j = 0; j < LOADS; j++)
            range[j] = i + j * step < count ? find_range(x[i + j * step], bins)
                                            : RANGES;
#pragma unroll
        for (int j = 0; j < LOADS; j++)
            if (range[j] < RANGES) atomicAdd(own + range[j] * WARP, 1u);
    }
    __syncthreads(); // all numbers are counted
    add_count(sizes, threadIdx.x, add_copies(sizes_s, threadIdx.x));
}

/* Replace each size by the sum of the earlier ones, the first place of the
 * range, and store it in next (RANGES), too. firsts[RANGES] becomes the sum of
 * all. One block. */
static __global__ void place_ranges(tally *firsts, tally *next) {
    __shared__ tally sums_s[WARPS];
    const tally own = firsts[threadIdx.x], upto = scan_lanes(own);
    const tally sum = __shfl_sync(0xffffffff, upto, WARP - 1);
    tally all;
    const tally before = add_earlier_warps(sum, sums_s, &all) + upto - own;
    firsts[threadIdx.x] = next[threadIdx.x] = before;
    if (threadIdx.x == 0) firsts[RANGES] = all;
}

/* Take a place among the numbers of a tile in a range. The lanes with the same
 * range add once, and find their own places by the lanes below them. */
static __device__ __forceinline__ unsigned take_place(unsigned *taken_s,
                                                      unsigned range) {
    const unsigned lane = threadIdx.x % WARP;
    const unsigned equal = __match_any_sync(0xffffffff, range);
    const int leader = __ffs(equal) - 1;
    unsigned place = 0;
    if (lane == (unsigned)leader)
        place = atomicAdd(taken_s + range, (unsigned)__popc(equal));
    place = __shfl_sync(0xffffffff, place, leader);
    return place + __popc(equal & ((1u << lane) - 1));
}

/* Write the place of each number in its range to y, by ranges. A block takes a
 * tile of x. */
static __global__ void sort_by_range(uint16_t *y, tally *next, const int32_t *x,
                                     size_t count, unsigned bins) {
    __shared__ unsigned taken_s[RANGES + 1]; // the last one: other numbers
    __shared__ tally firsts_s[RANGES];
    taken_s[threadIdx.x] = taken_s[RANGES] = 0;
    __syncthreads(); // no place is taken
    const size_t first = (size_t)blockIdx.x * TILE + threadIdx.x;
    unsigned number[KEYS], place[KEYS];
#pragma unroll
    for (int j = 0; j < KEYS; j++) {
        const size_t i = first + j * THREADS;
        number[j] = i < count ? (unsigned)x[i] : bins;
    }
#pragma unroll
    for (int j = 0; j < KEYS; j++)
        place[j] = take_place(taken_s, find_range((int)number[j], bins));
    __syncthreads(); // all places are taken
    const unsigned own = taken_s[threadIdx.x];
    if (own) firsts_s[threadIdx.x] = atomicAdd(next + threadIdx.x, (tally)own);
    __syncthreads(); // the tile has its places in all ranges
#pragma unroll
    for (int j = 0; j < KEYS; j++)
        if (number[j] < bins)
            y[firsts_s[number[j] >> BITS] + place[j]] =
                (uint16_t)(number[j] % WIDTH);
}

/* Count the numbers of y from `begin` to `end`, which are in one range, in
 * counts_s, and add the counts to those of the grid. */
static __device__ __forceinline__ void
count_range(tally *counts, unsigned *counts_s, const uint16_t *y, tally begin,
            tally end) {
    for (unsigned i = threadIdx.x; i < WIDTH; i += WIDE) counts_s[i] = 0;
    __syncthreads(); // all counts are 0
    for (tally i = begin + threadIdx.x; i < end; i += WIDE)
        atomicAdd(counts_s + y[i], 1u);
    __syncthreads(); // all numbers are counted
    for (unsigned k = threadIdx.x; k < WIDTH; k += WIDE)
        add_count(counts, k, counts_s[k]);
    __syncthreads(); // counts_s has been read
}

/* Count a part of y; it may have several ranges. */
static __global__ void __launch_bounds__(WIDE)
    count_parts(tally *counts, const uint16_t *y, const tally *firsts) {
    __shared__ unsigned counts_s[WIDTH];
    const tally all = firsts[RANGES], length = CEIL_DIV(all, gridDim.x);
    const tally begin = min(blockIdx.x * length, all);
    const tally end = min(begin + length, all);
    for (unsigned range = 0; range < RANGES; range++) {
        const tally from = max(begin, firsts[range]);
        const tally to = min(end, firsts[range + 1]);
        if (from < to)
            count_range(counts + range * WIDTH, counts_s, y, from, to);
    }
}

/* Queue the kernels. `firsts` has 2 * RANGES + 1 numbers, and y has `count`. */
static int queue_partition(const struct bincount *b, tally *firsts,
                           uint16_t *y) {
    tally *const next = firsts + RANGES + 1, *const counts = (tally *)b->counts;
    const unsigned tiles = (unsigned)CEIL_DIV(b->count, TILE);
    const unsigned sizing = divide_count(
        b->count, 1 << 14, count_resident(size_ranges, THREADS));
    const unsigned parts = divide_count(b->count, 1 << 16,
                                        count_resident(count_parts, WIDE));
    WEFT_CUDA_TRY(
        cudaMemsetAsync(firsts, 0, RANGES * sizeof *firsts, b->stream));
    size_ranges<<<sizing, THREADS, 0, b->stream>>>(firsts, b->x, b->count,
                                                   b->bins);
    WEFT_LAUNCHED(size_ranges);
    place_ranges<<<1, RANGES, 0, b->stream>>>(firsts, next);
    WEFT_LAUNCHED(place_ranges);
    sort_by_range<<<tiles, THREADS, 0, b->stream>>>(y, next, b->x, b->count,
                                                    b->bins);
    WEFT_LAUNCHED(sort_by_range);
    count_parts<<<parts, WIDE, 0, b->stream>>>(counts, y, firsts);
    WEFT_LAUNCHED(count_parts);
    return WEFT_OK;
}

int bincount_partition(const struct bincount *b) {
    if (b->bins <= count_room()) return bincount_ranges(b); // one range
    if (b->bins > RANGES * WIDTH) return bincount_global(b);
    const size_t places = (2 * RANGES + 1) * sizeof(tally);
    scratch memory(b->stream);
    WEFT_TRY(memory.claim("bincount", places + b->count * sizeof(uint16_t)));
    tally *firsts = (tally *)memory.memory;
    return queue_partition(b, firsts, (uint16_t *)(firsts + 2 * RANGES + 1));
}
