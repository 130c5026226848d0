/* compact.cu -- the numbers above a threshold: rungs and their launcher.
 *
 * A compaction reads every number once and writes the kept ones, so at best it
 * moves 4 bytes per number and 4 per kept one. Each thread determines alone
 * whether it writes its number. The rungs differ in how a thread finds the
 * number's place in y. */
#include "compact.cuh"

#include "reference/reference.h"

#define EVERYWHERE (WEFT_CPU | WEFT_CUDA)

WEFT_RUNGS({"compact", "reference", "plain C, compressed in the cache", "fp32",
            WEFT_CPU, 0},
           {"compact", "atomic", "an atomic addition per kept number", "fp32",
            EVERYWHERE, 0},
           {"compact", "ballot", "an atomic addition per warp", "fp32",
            EVERYWHERE, 0},
           {"compact", "three_kernels", "count, scan the counts, scatter",
            "fp32", EVERYWHERE, 0},
           {"compact", "look_back", "one pass: tiles look back for their place",
            "fp32", EVERYWHERE, 0},
           {"compact", "bulk", "the same, and tiles arrive while others wait",
            "fp32", EVERYWHERE, 90});

enum { REFERENCE, ATOMIC, BALLOT, THREE_KERNELS, LOOK_BACK, BULK };

int weft_compact(int rung, float *y, int64_t *kept, const float *x,
                 size_t count, float threshold, weft_stream stream) {
    WEFT_CHECK_RUNG(rung);
    WEFT_REQUIRE(count >= 1, "%s: count = 0, want at least 1", __func__);
    CHECK_COUNT(x, count);
    CHECK_ARRAY(y);
    CHECK_ARRAY(kept);
    CHECK_ARRAY(x);
    const struct compaction c = {y,     kept,      x,
                                 count, threshold, weft_cuda_stream(stream)};
    switch (rung) {
    case REFERENCE:
        return WEFT_REFERENCE(compact_reference(y, kept, x, count, threshold));
    case ATOMIC: return compact_atomic(&c);
    case BALLOT: return compact_ballot(&c);
    case THREE_KERNELS: return compact_three_kernels(&c);
    case LOOK_BACK: return compact_look_back(&c);
    case BULK: return compact_bulk(&c);
    }
    return WEFT_OK;
}
