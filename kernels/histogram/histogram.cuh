/* histogram.cuh -- the rungs of histogram, and the code that they share. */
#ifndef WEFT_HISTOGRAM_CUH
#define WEFT_HISTOGRAM_CUH
#include "common/counts.cuh"

/* The arguments of weft_histogram(), which the rungs receive. */
struct histogram {
    int64_t *counts;  // (256), 0 before the call
    const uint8_t *x; // (count)
    size_t count;
    cudaStream_t stream;
};

/* Queue the work of a rung; each returns a weft_status. */
int histogram_global(const struct histogram *h);
int histogram_shared(const struct histogram *h);
int histogram_vector(const struct histogram *h);
int histogram_aggregated(const struct histogram *h);
int histogram_copies(const struct histogram *h);

enum {
    BINS = 256,    // values of a byte
    PART = 1 << 16 // minimum bytes per block, to outweigh adding its counts
};
static_assert((int)BINS == (int)THREADS, "a thread of a block has one bin");

/* Bytes that the grid counts: groups of 16 neighbours, which start at a
 * multiple of 16, and fewer than 16 single bytes at each end. */
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
    /* Call add(byte) for the single bytes, in threads of the first block. */
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

#endif
