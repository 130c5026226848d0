/* copy.cu -- the copy of an array: its rungs and their launcher.
 *
 * A copy reads every number once and writes it once. No kernel that moves as
 * many numbers is faster, so a copy is the yardstick for all such kernels. Each
 * rung moves the same sectors; they differ in the bytes per thread. */
#include "copy.cuh"

#include "reference/reference.h"

/* The table orders rungs from slow to fast, and the last one is the default. On
 * an H200, bulk moves 4080 GB/s and vector 4270 (2^28 floats). */
#define EVERYWHERE (WEFT_CPU | WEFT_CUDA)

WEFT_RUNGS({"copy", "reference", "plain C, with stores that skip the caches",
            "fp32", WEFT_CPU, 0},
           {"copy", "byte", "a byte per thread", "fp32", EVERYWHERE, 0},
           {"copy", "word", "a float per thread", "fp32", EVERYWHERE, 0},
           {"copy", "bulk", "16 KB per thread, by cp.async.bulk", "fp32",
            EVERYWHERE, 90},
           {"copy", "vector", "four floats per thread, loaded at once", "fp32",
            EVERYWHERE, 0});

enum { REFERENCE, BYTE, WORD, BULK, VECTOR };

static int run(int rung, const struct duplication *d) {
    switch (rung) {
    case REFERENCE: return WEFT_REFERENCE(copy_reference(d->y, d->x, d->count));
    case BYTE: return copy_byte(d);
    case WORD: return copy_word(d);
    case VECTOR: return copy_vector(d);
    case BULK: return copy_bulk(d);
    }
    return WEFT_OK;
}

int weft_copy(int rung, float *y, const float *x, size_t count,
              weft_stream stream) {
    WEFT_CHECK_RUNG(rung);
    WEFT_REQUIRE(count >= 1, "%s: count = 0, want at least 1", __func__);
    CHECK_COUNT(x, count);
    CHECK_ARRAY(y);
    CHECK_ARRAY(x);
    const struct duplication d = {y, x, count, weft_cuda_stream(stream)};
    return run(rung, &d);
}

int weft_copy_backward(int rung, float *dx, const float *dy, size_t count,
                       weft_stream stream) {
    WEFT_CHECK_RUNG(rung);
    WEFT_REQUIRE(count >= 1, "%s: count = 0, want at least 1", __func__);
    CHECK_COUNT(dx, count);
    CHECK_ARRAY(dx);
    CHECK_ARRAY(dy);
    const struct duplication d = {dx, dy, count, weft_cuda_stream(stream)};
    return run(rung, &d);
}
