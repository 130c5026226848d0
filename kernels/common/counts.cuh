/* counts.cuh -- counting numbers in bins.
 *
 * A count has 64 bits in global memory, since a GPU holds more than 2^32
 * numbers. A block counts in shared memory, where 32 bits are enough for its
 * share of the numbers. */
#ifndef WEFT_COUNTS_CUH
#define WEFT_COUNTS_CUH
#include "internal.cuh"

#include <stdint.h>

#include "rows.cuh"

/* A count, in the type of CUDA's atomic additions of 64 bits. */
typedef unsigned long long tally;

enum { BLOCKS_ON_CPU = 8 }; // blocks that the CPU target runs at once

/* Return the number of parts into which to divide `count` numbers: at most
 * `most` parts of at least `least` numbers, each small enough for 32-bit
 * counts. */
static inline unsigned divide_count(size_t count, size_t least, unsigned most) {
    const size_t enough = CEIL_DIV(count, least);
    const size_t parts = most < enough ? most : enough;
    const size_t fewest = (count >> 31) + 1;
    return (unsigned)(parts > fewest ? parts : fewest);
}

/* Return the sum of a bin's copies. Lane l starts at copy l, so that the
 * lanes of a warp read different banks. */
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
