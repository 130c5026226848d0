/* matmul.c -- c = alpha * a @ b + beta * c + bias in plain C, blocked for every
 * level of memory: rung reference.
 *
 * Before:  matmul_simd.c has one core, and with many rows its strips of a come
 *          from L3 once for every 32 columns.
 * Idea:    blocks for each cache, and groups of tiles for each core. The scheme
 *          is Goto's ("Anatomy of high-performance matrix multiplication",
 *          2008):
 *
 *   registers  a tile of c, 14 x 32 with AVX-512 (gemm.h)
 *   L1         one panel of b, BK x TILE_COLS (32 KiB): every tile of a group
 *              that lies in its columns reads it again
 *   L2         the panels of a of one group, GROUP x TILE_ROWS x BK (112 KiB)
 *   L3         the packed blocks of a and b, BM x BK and BK x BN
 *
 * Each thread takes groups of GROUP x GROUP tiles. Every sum is built in the
 * same order however many threads there are, so the result is the same too.
 *
 * Prediction: on one core a little more than simd, since strips come from L2;
 *          on two twice that, since packing is shared, too: what NumPy's
 *          OpenBLAS has, which does the same.
 * Measured: AMD EPYC with AVX-512, GFLOP/s: 1024^3 on one core 80, on two 170
 *          (NumPy 89, 186); 2048^3 84, 158 (NumPy 96, 194; torch.mm 78, 130).
 * Limit:   the multiply-adds of a core, and packing, which reads and writes a
 *          and b once more.
 */
#include "gemm.h"
#include "reference.h"

#include <omp.h>

enum {
    BK = 256,  // deep enough that a tile of c costs little to load and store
    BM = 2048, // rows and ...
    BN = 2048, // ... columns packed at a time: 2 MiB each
    GROUP = 8  // tiles a side that one thread takes at once
};

struct product {
    float *c;
    const float *a, *b;
    int m, n, k;
    size_t a_m, a_k, b_k, b_n; // strides: a[i][p] is a[i * a_m + p * a_k]
    float alpha, beta;
    const float *bias; // (n), or NULL
    int relu;
    int depth; // of a block of k: at most BK, all of one depth
};

/* Which part of the product is under way, and its packed blocks. */
struct block {
    int i0, m, j0, n, k0, k;
    int rows; // of a tile
    float *a_s, *b_s;
};

/* c's tile at (row,col) from the finished product `tile`, of the first block of
 * k, of the last, of both or of neither. */
static void store_tile(const struct product *q, const float *tile, int row,
                       int col, int rows, int cols, int first, int last) {
    for (int i = 0; i < rows; i++) {
        float *restrict c = q->c + (size_t)(row + i) * q->n + col;
        const float *restrict t = tile + i * TILE_COLS;
        if (!first)
            for (int j = 0; j < cols; j++) c[j] += q->alpha * t[j];
        else if (q->beta == 0.0f) // the old c may be NaN: it is not read
            for (int j = 0; j < cols; j++) c[j] = q->alpha * t[j];
        else
            for (int j = 0; j < cols; j++)
                c[j] = q->alpha * t[j] + q->beta * c[j];
        if (last && q->bias)
            for (int j = 0; j < cols; j++) c[j] += q->bias[col + j];
        if (last && q->relu)
            for (int j = 0; j < cols; j++) c[j] = c[j] < 0.0f ? 0.0f : c[j];
    }
}

/* Panel `i` of the block of a, and of b. */
static void pack_a(const struct product *q, const struct block *s, int i) {
    const int row = i * s->rows;
    pack_panel(s->a_s + i * panel_size(s->rows, q->depth), s->rows,
               q->a + (s->i0 + row) * q->a_m + s->k0 * q->a_k, q->a_m, q->a_k,
               min_int(s->rows, s->m - row), s->k);
}

static void pack_b(const struct product *q, const struct block *s, int j) {
    const int col = j * TILE_COLS;
    pack_panel(s->b_s + j * panel_size(TILE_COLS, q->depth), TILE_COLS,
               q->b + (s->j0 + col) * q->b_n + s->k0 * q->b_k, q->b_n, q->b_k,
               min_int(TILE_COLS, s->n - col), s->k);
}

/* The tiles [i,i_end) x [j,j_end) of the block. */
static void multiply_group(const struct product *q, const struct block *s,
                           int i_begin, int i_end, int j_begin, int j_end) {
    float tile[TILE_ROWS * TILE_COLS] __attribute__((aligned(64)));
    for (int j = j_begin; j < j_end; j++)
        for (int i = i_begin; i < i_end; i++) {
            const int row = i * s->rows, col = j * TILE_COLS;
            tile_product(
                s->rows, tile, s->a_s + i * panel_size(s->rows, q->depth), 0,
                s->b_s + j * panel_size(TILE_COLS, q->depth), TILE_COLS, s->k);
            store_tile(q, tile, s->i0 + row, s->j0 + col,
                       min_int(s->rows, s->m - row),
                       min_int(TILE_COLS, s->n - col), s->k0 == 0,
                       s->k0 + s->k == q->k);
        }
}

/* Pack one block and multiply it; every thread of the team calls this. Returns
 * whether Ctrl-C was pressed, the same to all. */
static int multiply_block(const struct product *q, const struct block *s,
                          int *interrupted) {
    const int panels_a = ceil_div(s->m, s->rows);
    const int panels_b = ceil_div(s->n, TILE_COLS);
#pragma omp for schedule(static) nowait
    for (int i = 0; i < panels_a; i++) pack_a(q, s, i);
    // b's panels stay for all blocks of a below each other.
#pragma omp for schedule(static)
    for (int j = 0; j < panels_b; j++) {
        if (j == 0) *interrupted = weft_interrupted();
        if (s->i0 == 0) pack_b(q, s, j);
    }
    if (*interrupted) return 1;
    // Smaller groups where there would not be enough for all threads.
    const int few = 4 * omp_get_num_threads();
    int high = GROUP, wide = GROUP;
    while (high * wide > 1 &&
           ceil_div(panels_a, high) * ceil_div(panels_b, wide) < few)
        *(high > wide ? &high : &wide) /= 2;
    const int groups_b = ceil_div(panels_b, wide);
    const int groups = ceil_div(panels_a, high) * groups_b;
#pragma omp for schedule(dynamic)
    for (int g = 0; g < groups; g++) {
        const int i = g / groups_b * high, j = g % groups_b * wide;
        multiply_group(q, s, i, min_int(i + high, panels_a), j,
                       min_int(j + wide, panels_b));
    }
    return 0;
}

/* All blocks, one after another; every thread of the team calls this. */
static int multiply(const struct product *q, float *a_s, float *b_s,
                    int *interrupted) {
    for (ptrdiff_t j0 = 0; j0 < q->n; j0 += BN)
        for (ptrdiff_t k0 = 0; k0 < q->k; k0 += q->depth)
            for (ptrdiff_t i0 = 0; i0 < q->m; i0 += BM) {
                const int m = min_int(BM, q->m - i0);
                const int n = min_int(BN, q->n - j0);
                const int k = min_int(q->depth, q->k - k0);
                const struct block s = {i0,           m,   j0, n, k0, k,
                                        tile_rows(m), a_s, b_s};
                if (multiply_block(q, &s, interrupted)) return 1;
            }
    return 0;
}

int matmul_reference(float *c, const float *a, const float *b, int m, int n,
                     int k, const struct weft_matmul_options *options) {
    const int trans_a = options ? options->trans_a : 0;
    const int trans_b = options ? options->trans_b : 0;
    const struct product q = {.c = c,
                              .a = a,
                              .b = b,
                              .m = m,
                              .n = n,
                              .k = k,
                              .a_m = trans_a ? 1 : (size_t)k,
                              .a_k = trans_a ? (size_t)m : 1,
                              .b_k = trans_b ? 1 : (size_t)n,
                              .b_n = trans_b ? (size_t)k : 1,
                              .alpha = options ? options->alpha : 1.0f,
                              .beta = options ? options->beta : 0.0f,
                              .bias = options ? options->bias : NULL,
                              .relu = options ? options->relu : 0,
                              .depth = ceil_div(k, ceil_div(k, BK))};
    const int rows = min_int(m, BM), cols = min_int(n, BN);
    const size_t size_a =
        ceil_div(rows, tile_rows(rows)) * panel_size(tile_rows(rows), q.depth);
    const size_t size_b =
        ceil_div(cols, TILE_COLS) * panel_size(TILE_COLS, q.depth);
    float *scratch = alloc_floats(size_a + size_b);
    if (!scratch)
        return weft_fail(WEFT_ENOMEM, "matmul: no %zu bytes for packed blocks",
                         (size_a + size_b) * sizeof(float));
    int interrupted = 0;
#pragma omp parallel if ((double)m * n * k > 1e5)
    multiply(&q, scratch, scratch + size_a, &interrupted);
    free(scratch);
    return interrupted ? weft_fail(WEFT_EINTR, "matmul: Ctrl-C") : WEFT_OK;
}
