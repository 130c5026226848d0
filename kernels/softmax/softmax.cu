/* softmax.cu -- softmax of each row: its rungs, their launchers and the choice
 * of a rung.
 *
 * A softmax reads and writes every number once, so at best it is as fast as
 * a copy. Each rung has a file; each diff shows one idea. A row whose
 * maximum is an infinity or NaN, and a row with a NaN, becomes NaN, as in
 * PyTorch. */
#include "softmax.cuh"

#include "common/cluster.cuh"
#include "common/split.cuh"
#include "reference/reference.h"

#define EVERYWHERE (WEFT_CPU | WEFT_CUDA)

WEFT_RUNGS({"softmax", "reference", "plain C, a row stays in the cache", "fp32",
            WEFT_CPU, 0},
           {"softmax", "three_passes", "the definition, a thread per row",
            "fp32", EVERYWHERE, 0},
           {"softmax", "online", "maximum and sum in one pass", "fp32",
            EVERYWHERE, 0},
           {"softmax", "warp_a_row", "a warp per row, in registers", "fp32",
            EVERYWHERE, 0},
           {"softmax", "block_a_row", "a block per row, read twice", "fp32",
            EVERYWHERE, 0},
           {"softmax", "row_in_shared", "the row stays in shared memory",
            "fp32", EVERYWHERE, 0},
           {"softmax", "split_rows", "several blocks share a row", "fp32",
            EVERYWHERE, 0},
           {"softmax", "row_in_registers", "the row stays in registers", "fp32",
            EVERYWHERE, 0},
           {"softmax", "cluster_a_row", "a cluster of blocks shares a row",
            "fp32", EVERYWHERE, 90},
           {"softmax", "tuned", "the rung that suits the shape", "fp32",
            EVERYWHERE, 0});

enum {
    REFERENCE,
    THREE_PASSES,
    ONLINE,
    WARP_A_ROW,
    BLOCK_A_ROW,
    ROW_IN_SHARED,
    SPLIT_ROWS,
    ROW_IN_REGISTERS,
    CLUSTER_A_ROW,
    TUNED
};

/* The longest rows, in numbers, of the fastest rung on an H200: in the
 * registers of a warp, a block or a cluster. With two arrays, the rows of a
 * block and of a cluster are half as long. */
enum { IN_WARP = 512, IN_BLOCK = 32768, IN_CLUSTER = 8 * IN_BLOCK };

/* Return the rung for a shape if a block keeps `arrays` arrays: in registers of
 * a warp, a block or a cluster. If rows are longer, or if there are few,
 * several blocks without a cluster share a row. */
static int choose(unsigned rows, unsigned cols, unsigned arrays) {
    if (cols <= IN_WARP) return WARP_A_ROW;
    if (are_few(rows, cols)) return SPLIT_ROWS;
    if (cols <= IN_BLOCK / arrays) return ROW_IN_REGISTERS;
    if (cols <= IN_CLUSTER / arrays && count_cluster() > 1)
        return CLUSTER_A_ROW;
    return must_split(rows, cols, arrays) ? SPLIT_ROWS : ROW_IN_SHARED;
}

int weft_softmax(int rung, float *y, const float *x, int rows, int cols,
                 weft_stream stream) {
    WEFT_CHECK_RUNG(rung);
    CHECK_SIZE(rows);
    CHECK_SIZE(cols);
    CHECK_COUNT(x, (double)rows * cols);
    CHECK_ARRAY(y);
    CHECK_ARRAY(x);
    const struct softening s = {y, x, (unsigned)rows, (unsigned)cols,
                                weft_cuda_stream(stream)};
    if (rung == TUNED) rung = choose(s.rows, s.cols, 1);
    switch (rung) {
    case REFERENCE: return WEFT_REFERENCE(softmax_reference(y, x, rows, cols));
    case THREE_PASSES: return softmax_three_passes(&s);
    case ONLINE: return softmax_online(&s);
    case WARP_A_ROW: return softmax_warp(&s);
    case BLOCK_A_ROW: return softmax_block(&s);
    case ROW_IN_SHARED: return softmax_shared(&s);
    case SPLIT_ROWS: return softmax_split(&s);
    case ROW_IN_REGISTERS: return softmax_registers(&s);
    case CLUSTER_A_ROW: return softmax_cluster(&s);
    }
    return WEFT_OK;
}

int weft_softmax_backward(int rung, float *dx, const float *dy, const float *y,
                          int rows, int cols, weft_stream stream) {
    WEFT_CHECK_RUNG(rung);
    CHECK_SIZE(rows);
    CHECK_SIZE(cols);
    CHECK_COUNT(dx, (double)rows * cols);
    CHECK_ARRAY(dx);
    CHECK_ARRAY(dy);
    CHECK_ARRAY(y);
    const struct differentiation d = {
        dx, dy, y, (unsigned)rows, (unsigned)cols, weft_cuda_stream(stream)};
    if (rung == TUNED) rung = choose(d.rows, d.cols, 2);
    switch (rung) {
    case REFERENCE:
        return WEFT_REFERENCE(
            softmax_reference_backward(dx, dy, y, rows, cols));
    case THREE_PASSES:
    case ONLINE: return softmax_three_passes_backward(&d);
    case WARP_A_ROW: return softmax_warp_backward(&d);
    case BLOCK_A_ROW: return softmax_block_backward(&d);
    case ROW_IN_SHARED: return softmax_shared_backward(&d);
    case SPLIT_ROWS: return softmax_split_backward(&d);
    case ROW_IN_REGISTERS: return softmax_registers_backward(&d);
    case CLUSTER_A_ROW: return softmax_cluster_backward(&d);
    }
    return WEFT_OK;
}
