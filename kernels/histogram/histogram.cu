/* histogram.cu -- counts of each byte's occurrences: rungs and their launcher.
 *
 * A histogram reads each byte once and writes 256 counts, so at best it is as
 * fast as a read. The rungs differ in the place of the additions, and in the
 * number of lanes that queue. */
#include "histogram.cuh"

#include "reference/reference.h"

#define EVERYWHERE (WEFT_CPU | WEFT_CUDA)

WEFT_RUNGS({"histogram", "reference", "plain C, 16 tables of counts per thread",
            "fp32", WEFT_CPU, 0},
           {"histogram", "global", "an atomic addition to global memory",
            "fp32", EVERYWHERE, 0},
           {"histogram", "shared", "counts per block, in shared memory", "fp32",
            EVERYWHERE, 0},
           {"histogram", "vector", "16 bytes per load", "fp32", EVERYWHERE, 0},
           {"histogram", "aggregated", "one addition for all equal lanes",
            "fp32", EVERYWHERE, 0},
           {"histogram", "copies", "a copy of the counts per lane", "fp32",
            EVERYWHERE, 0});

enum { REFERENCE, GLOBAL, SHARED, VECTOR, AGGREGATED, COPIES };

int weft_histogram(int rung, int64_t *counts, const uint8_t *x, size_t count,
                   weft_stream stream) {
    WEFT_CHECK_RUNG(rung);
    WEFT_REQUIRE(count >= 1, "%s: count = 0, want at least 1", __func__);
    CHECK_COUNT(x, count);
    CHECK_ARRAY(counts);
    CHECK_ARRAY(x);
    const struct histogram h = {counts, x, count, weft_cuda_stream(stream)};
    if (rung == REFERENCE)
        return WEFT_REFERENCE(histogram_reference(counts, x, count));
    WEFT_CUDA_TRY(cudaMemsetAsync(counts, 0, BINS * sizeof *counts, h.stream));
    switch (rung) {
    case GLOBAL: return histogram_global(&h);
    case SHARED: return histogram_shared(&h);
    case VECTOR: return histogram_vector(&h);
    case AGGREGATED: return histogram_aggregated(&h);
    case COPIES: return histogram_copies(&h);
    }
    return WEFT_OK;
}
