/* bincount.cuh -- the rungs of bincount, and their common code. */
#ifndef WEFT_BINCOUNT_CUH
#define WEFT_BINCOUNT_CUH
#include "common/counts.cuh"

/* The arguments of weft_bincount(), which the rungs receive. */
struct bincount {
    int64_t *counts;  // (bins), 0 before the call
    const int32_t *x; // (count)
    size_t count;
    unsigned bins;
    cudaStream_t stream;
};

/* Queue the work of a rung; each returns a weft_status. */
int bincount_global(const struct bincount *b);
int bincount_ranges(const struct bincount *b);
int bincount_partition(const struct bincount *b);

enum {
    WIDE = 1024,
    LOADS = 4
}; // threads per block; loads in flight per thread

#endif
