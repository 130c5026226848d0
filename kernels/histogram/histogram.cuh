/* histogram.cuh -- the rungs of histogram and bincount, and the code that they
 * share.
 *
 * Both ops count equal numbers. A count has 64 bits in global memory, since a
 * GPU holds more than 2^32 bytes. A block counts in shared memory, where 32
 * bits are enough for its part of x. */
#ifndef WEFT_HISTOGRAM_CUH
#define WEFT_HISTOGRAM_CUH
#include "common/internal.cuh"

#include <stdint.h>

#include "common/rows.cuh"
#include "common/scratch.cuh"

/* The arguments of weft_histogram(), which the rungs receive. */
struct histogram {
    int64_t *counts;  // (256)
    const uint8_t *x; // (count)
    size_t count;
    cudaStream_t stream;
};

/* The arguments of weft_bincount(). */
struct bincount {
    int64_t *counts;  // (bins)
    const int32_t *x; // (count)
    size_t count;
    unsigned bins;
    cudaStream_t stream;
};

/* Queue the work of a rung; each returns a weft_status. The counts are 0 before
 * the call. */
int histogram_global(const struct histogram *h);
int histogram_shared(const struct histogram *h);
int histogram_vector(const struct histogram *h);
int histogram_aggregated(const struct histogram *h);
int histogram_copies(const struct histogram *h);
int bincount_global(const struct bincount *b);
int bincount_ranges(const struct bincount *b);
int bincount_partition(const struct bincount *b);

/* A count, in the type of CUDA's atomic additions of 64 bits. */
typedef unsigned long long tally;

enum {
    BINS = 256,    // values of a byte
    PART = 1 << 16 // the least bytes of a block: more than its counts cost
};
static_assert(BINS == THREADS, "a thread of a block clears and adds one bin");

/* Return how many blocks of a kernel the device runs at the same time. On the
 * CPU target it is the same on every machine. `bytes`: of dynamic shared
 * memory. */
template <class Kernel>
static unsigned count_resident(Kernel kernel, int threads, size_t bytes = 0) {
#ifdef __CUDACC__
    int blocks = 0;
    cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, kernel, threads,
                                                  bytes);
    return max(blocks, 1) * device_has(cudaDevAttrMultiProcessorCount);
#else
    (void)kernel, (void)threads, (void)bytes;
    return 8;
#endif
}

/* Return into how many parts to divide `count` numbers: at most `most`, of at
 * least `least` numbers each, but so many that a part's counts fit in 32
 * bits. */
static inline unsigned divide_count(size_t count, size_t least, unsigned most) {
    const size_t enough = CEIL_DIV(count, least);
    const size_t parts = most < enough ? most : enough;
    const size_t fewest = (count >> 31) + 1;
    return (unsigned)(parts > fewest ? parts : fewest);
}

/* Bytes that the grid counts: groups of 16 neighbours from an address that is a
 * multiple of 16 on, and fewer than 16 single bytes at each end. */
struct byte_span {
    const uint8_t *x;
    size_t count, head, groups;

    __device__ __forceinline__ byte_span(const uint8_t *x_, size_t count_)
        : x(x_), count(count_) {
        head = (16 - (uintptr_t)x % 16) % 16;
        if (head > count) head = count;
        groups = (count - head) / 16;
    }
    __device__ __forceinline__ uint4 load(size_t group) const {
        return ((const uint4 *)(x + head))[group];
    }
    /* Call add(byte) for the single bytes; threads of the first block do. */
    template <class Add>
    __device__ __forceinline__ void count_ends(Add add) const {
        const size_t tail = head + 16 * groups;
        if (blockIdx.x > 0) return;
        if (threadIdx.x < head) add(x[threadIdx.x]);
        if (threadIdx.x < count - tail) add(x[tail + threadIdx.x]);
    }
};

/* Call add(byte) for the 16 bytes of a group. */
template <class Add>
static __device__ __forceinline__ void count_group(uint4 group, Add add) {
    const unsigned words[4] = {group.x, group.y, group.z, group.w};
#pragma unroll
    for (int i = 0; i < 4; i++)
#pragma unroll
        for (int k = 0; k < 4; k++) add(words[i] >> (8 * k) & 255);
}

/* Call add(byte) for the thread's share of the grid's bytes. Each thread has
 * LOADS loads in flight. */
template <int LOADS, class Add>
static __device__ __forceinline__ void count_bytes(const byte_span &span,
                                                   Add add) {
    const size_t step = (size_t)gridDim.x * blockDim.x;
    size_t i = (size_t)blockIdx.x * blockDim.x + threadIdx.x;
    for (; i < span.groups; i += LOADS * step) {
        uint4 groups[LOADS];
#pragma unroll
        for (int j = 0; j < LOADS; j++)
            if (i + j * step < span.groups) groups[j] = span.load(i + j * step);
#pragma unroll
        for (int j = 0; j < LOADS; j++)
            if (i + j * step < span.groups) count_group(groups[j], add);
    }
    span.count_ends(add);
}

/* Return the sum of a bin's copies. Lane l begins with copy l, so that the lanes
 * of a warp read different banks. */
static __device__ __forceinline__ unsigned add_copies(const unsigned *counts_s,
                                                      unsigned bin) {
    unsigned sum = 0;
#pragma unroll 8
    for (unsigned j = 0; j < WARP; j++)
        sum += counts_s[bin * WARP + (bin + j) % WARP];
    return sum;
}

/* Add a block's count of a bin to that of the grid. */
static __device__ __forceinline__ void add_count(tally *counts, unsigned bin,
                                                 unsigned own) {
    if (own) atomicAdd(counts + bin, (tally)own);
}

#endif
