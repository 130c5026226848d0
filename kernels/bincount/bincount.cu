/* bincount.cu -- counts of the occurrences of numbers: rungs and launcher.
 *
 * At best, a bincount reads each number once and writes each count once. Unlike
 * a histogram of bytes, it may have more bins than fit in shared
 * memory. */
#include "bincount.cuh"

#include "reference/reference.h"

#define EVERYWHERE (WEFT_CPU | WEFT_CUDA)

WEFT_RUNGS({"bincount", "reference", "plain C, tables per thread", "fp32",
            WEFT_CPU, 0},
           {"bincount", "global", "an atomic addition to global memory", "fp32",
            EVERYWHERE, 0},
           {"bincount", "ranges", "a range of bins per block", "fp32",
            EVERYWHERE, 0},
           {"bincount", "partition", "numbers sorted by range first", "fp32",
            EVERYWHERE, 0});

enum { REFERENCE, GLOBAL, RANGES, PARTITION };

int weft_bincount(int rung, int64_t *counts, const int32_t *x, size_t count,
                  int bins, weft_stream stream) {
    WEFT_CHECK_RUNG(rung);
    WEFT_REQUIRE(count >= 1, "%s: count = 0, want at least 1", __func__);
    CHECK_SIZE(bins);
    CHECK_COUNT(x, count);
    CHECK_ARRAY(counts);
    CHECK_ARRAY(x);
    const struct bincount b = {counts, x, count, (unsigned)bins,
                               weft_cuda_stream(stream)};
    if (rung == REFERENCE)
        return WEFT_REFERENCE(bincount_reference(counts, x, count, bins));
    WEFT_CUDA_TRY(cudaMemsetAsync(counts, 0, bins * sizeof *counts, b.stream));
    switch (rung) {
    case GLOBAL: return bincount_global(&b);
    case RANGES: return bincount_ranges(&b);
    case PARTITION: return bincount_partition(&b);
    }
    return WEFT_OK;
}
