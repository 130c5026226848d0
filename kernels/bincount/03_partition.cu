/* 03_partition.cu -- bincount, rung 3: numbers are sorted by range first.
 *
 * Before:     in rung 2, a block reads the numbers of all ranges but counts
 *             those of one.
 * Idea:       a kernel counts the numbers of each range, a second one finds
 *             where each range begins, and a third one sorts the numbers by
 *             range. A fourth reads only numbers that it counts. The order
 *             within a range does not matter, so a tile takes places by atomic
 *             addition. A number needs only its place in its range, 2 bytes.
 * Prediction: 12 bytes per number for up to 256 ranges: 4 read twice, and 2
 *             written and read back.
 * Limit:      256 ranges, 2^21 bins. For more bins, rung 1 runs, whose
 *             additions then go to many addresses. If one range holds all bins,
 *             rung 2 runs. */
#include "bincount.cuh"

#include "common/scans.cuh"
#include "common/scratch.cuh"

enum {
    BITS = 13, // bits of a bin's index in its range; counts need 32 KB
    WIDTH = 1 << BITS,
    RANGES = THREADS, // maximum; one thread per range
    ITEMS = 32,       // keys per thread
    TILE = ITEMS * THREADS
};

/* Return the range of a number, or RANGES if it is not in [0,bins). */
static __device__ __forceinline__ unsigned find_range(int number,
                                                      unsigned bins) {
    return (unsigned)number < bins ? (unsigned)number >> BITS
                                   : (unsigned)RANGES;
}

/* Add the number of x's elements in each range to sizes (RANGES). As in rung 5
 * of histogram, each lane has its own copy of the counts. */
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
                                            : (unsigned)RANGES;
#pragma unroll
        for (int j = 0; j < LOADS; j++)
            if (range[j] < RANGES) atomicAdd(own + range[j] * WARP, 1u);
    }
    __syncthreads(); // all numbers are counted
    add_count(sizes, threadIdx.x, add_copies(sizes_s, threadIdx.x));
}

/* Replace each size with the sum of the earlier ones, which is the first place
 * of its range. Store this sum in next (RANGES), too. firsts[RANGES] becomes
 * the sum of all sizes. The grid has one block. */
static __global__ void place_ranges(tally *firsts, tally *next) {
    __shared__ tally sums_s[WARPS];
    const tally own = firsts[threadIdx.x], upto = scan_lanes(own);
    const tally sum = __shfl_sync(0xffffffff, upto, WARP - 1);
    tally all;
    const tally before = add_earlier_warps(sum, sums_s, &all) + upto - own;
    firsts[threadIdx.x] = next[threadIdx.x] = before;
    if (threadIdx.x == 0) firsts[RANGES] = all;
}

/* Take a place among a tile's numbers in a range. Lanes with the same range add
 * once, and count the lanes below them to find their own places. */
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

/* Write the place of each number in its range to y, ordered by range. A block
 * takes a tile of x. It first sorts the tile in shared memory, so that the
 * lanes of a warp write neighbours. */
static __global__ void __launch_bounds__(THREADS)
    sort_by_range(uint16_t *y, tally *next, const int32_t *x, size_t count,
                  unsigned bins) {
    __shared__ unsigned numbers_s[TILE], taken_s[RANGES + 1], firsts_s[RANGES],
        sums_s[WARPS];
    __shared__ tally shifts_s[RANGES]; // place in y minus place in tile
    taken_s[threadIdx.x] = taken_s[RANGES] = 0;
    __syncthreads(); // no place is taken
    const size_t first = (size_t)blockIdx.x * TILE + threadIdx.x;
    unsigned number[ITEMS], place[ITEMS];
#pragma unroll
    for (int j = 0; j < ITEMS; j++) {
        const size_t i = first + j * THREADS;
        number[j] = i < count ? (unsigned)x[i] : bins;
    }
#pragma unroll
    for (int j = 0; j < ITEMS; j++)
        place[j] = take_place(taken_s, find_range((int)number[j], bins));
    __syncthreads(); // all places are taken
    const unsigned own = taken_s[threadIdx.x], upto = scan_lanes(own);
    const unsigned sum = __shfl_sync(0xffffffff, upto, WARP - 1);
    unsigned all;
    const unsigned before = add_earlier_warps(sum, sums_s, &all) + upto - own;
    firsts_s[threadIdx.x] = before;
    if (own)
        shifts_s[threadIdx.x] =
            atomicAdd(next + threadIdx.x, (tally)own) - before;
    __syncthreads(); // the tile has its places in all ranges
#pragma unroll
    for (int j = 0; j < ITEMS; j++)
        if (number[j] < bins)
            numbers_s[firsts_s[number[j] >> BITS] + place[j]] = number[j];
    __syncthreads(); // the tile is sorted
    for (unsigned i = threadIdx.x; i < all; i += THREADS)
        y[shifts_s[numbers_s[i] >> BITS] + i] =
            (uint16_t)(numbers_s[i] % WIDTH);
}

/* Count in counts_s the numbers of y from `begin` to `end`, all in one range,
 * and add the counts to those of the grid. */
static __device__ __forceinline__ void count_range(tally *counts,
                                                   unsigned *counts_s,
                                                   const uint16_t *y,
                                                   tally begin, tally end) {
    for (unsigned i = threadIdx.x; i < WIDTH; i += WIDE) counts_s[i] = 0;
    __syncthreads(); // all counts are 0
#pragma unroll 4
    for (tally i = begin + threadIdx.x; i < end; i += WIDE)
        atomicAdd(counts_s + y[i], 1u);
    __syncthreads(); // all numbers are counted
    for (unsigned k = threadIdx.x; k < WIDTH; k += WIDE)
        add_count(counts, k, counts_s[k]);
    __syncthreads(); // counts_s has been read
}

/* Count a part of y; it may span several ranges. */
static __global__ void __launch_bounds__(WIDE)
    count_parts(tally *counts, const uint16_t *y, const tally *firsts,
                unsigned ranges) {
    __shared__ unsigned counts_s[WIDTH];
    const tally all = firsts[ranges], length = CEIL_DIV(all, gridDim.x);
    const tally begin = min(blockIdx.x * length, all);
    const tally end = min(begin + length, all);
    for (unsigned range = 0; range < ranges; range++) {
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
    const unsigned sizing =
        divide_count(b->count, 1 << 14,
                     count_resident(size_ranges, THREADS, 0, BLOCKS_ON_CPU));
    const unsigned parts = divide_count(
        b->count, 1 << 16, count_resident(count_parts, WIDE, 0, BLOCKS_ON_CPU));
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
    count_parts<<<parts, WIDE, 0, b->stream>>>(counts, y, firsts,
                                               CEIL_DIV(b->bins, WIDTH));
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
