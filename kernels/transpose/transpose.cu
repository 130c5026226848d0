/* transpose.cu -- the transpose of a matrix: its rungs and their launcher.
 *
 * A transpose moves each number once and computes nothing, so at best it is as
 * fast as a copy. Each rung has a file; each diff shows one idea. */
#include "transpose.cuh"

#include "reference/reference.h"

#define EVERYWHERE (WEFT_CPU | WEFT_CUDA)

WEFT_RUNGS(
    {"transpose", "reference", "plain C, squares in vector registers", "fp32",
     WEFT_CPU, 0},
    {"transpose", "naive", "one thread per number", "fp32", EVERYWHERE, 0},
    {"transpose", "tiled", "a tile in shared memory", "fp32", EVERYWHERE, 0},
    {"transpose", "padded", "a tile with an unused column", "fp32", EVERYWHERE,
     0},
    {"transpose", "swizzled", "a tile with permuted rows", "fp32", EVERYWHERE,
     0},
    {"transpose", "strips", "four numbers per thread", "fp32", EVERYWHERE, 0},
    {"transpose", "wide", "tiles of 64 x 64, 16 bytes at a time", "fp32",
     EVERYWHERE, 0},
    {"transpose", "tma", "the TMA moves the tiles", "fp32", EVERYWHERE, 90});

enum { REFERENCE, NAIVE, TILED, PADDED, SWIZZLED, STRIPS, WIDE, TMA };

static int run(int rung, const struct matrix *m) {
    switch (rung) {
    case REFERENCE:
        return WEFT_REFERENCE(
            transpose_reference(m->y, m->x, (int)m->rows, (int)m->cols));
    case NAIVE: return transpose_by_naive(m);
    case TILED: return transpose_by_tiled(m);
    case PADDED: return transpose_by_padded(m);
    case SWIZZLED: return transpose_by_swizzled(m);
    case STRIPS: return transpose_by_strips(m);
    case WIDE: return transpose_by_wide(m);
    case TMA: return transpose_by_tma(m);
    }
    return WEFT_OK;
}

int weft_transpose(int rung, float *y, const float *x, int rows, int cols,
                   weft_stream stream) {
    WEFT_CHECK_RUNG(rung);
    CHECK_SIZE(rows);
    CHECK_SIZE(cols);
    CHECK_COUNT(x, (double)rows * cols);
    CHECK_ARRAY(y);
    CHECK_ARRAY(x);
    const struct matrix m = {y, x, (unsigned)rows, (unsigned)cols,
                             weft_cuda_stream(stream)};
    return run(rung, &m);
}

int weft_transpose_backward(int rung, float *dx, const float *dy, int rows,
                            int cols, weft_stream stream) {
    WEFT_CHECK_RUNG(rung);
    CHECK_SIZE(rows);
    CHECK_SIZE(cols);
    CHECK_COUNT(dx, (double)rows * cols);
    CHECK_ARRAY(dx);
    CHECK_ARRAY(dy);
    const struct matrix m = {dx, dy, (unsigned)cols, (unsigned)rows,
                             weft_cuda_stream(stream)};
    return run(rung, &m);
}
