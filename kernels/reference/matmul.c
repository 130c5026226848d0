/* matmul.c -- c = alpha * a @ b + beta * c + bias in plain C, blocked for every
 * level of memory: rung reference.
 *
 * Before:  matmul_simd.c uses one core, and with many rows it reads its strips
 *          of a from L3 once for every 32 columns.
 * Idea:    block for each cache, and give each core blocks of c. The scheme is
 *          that of Goto and van de Geijn ("Anatomy of high-performance matrix
 *          multiplication", 2008), with a and b exchanged:
 *
 *   registers  a tile of c, 14 x 32 with AVX-512; it is added to c from there
 *   L1         one panel of a, 14 x BK (29 KiB), packed just before its use:
 *              all panels of b pass by
 *   L2         a block of b, BK x BN (1 MiB at most): all panels of a pass by
 *   L3         c, which is read and written once for each BK of k
 *
 * Each thread takes blocks of c and packs the operands for them, so it waits
 * for no other thread. Every sum is added in the same order regardless of the
 * number of threads, so the result is the same too.
 *
 * Prediction: a tile does 28 multiply-adds in 14 cycles, and packing and c cost
 *          little in comparison. So the speed is about that of OpenBLAS and
 *          MKL.
 * Measured: AMD EPYC with AVX-512, GFLOP/s: 1024^3 on one core 246, on two 458
 *          (NumPy 246, 457; torch.mm, which is MKL, 111, 219); 2048^3 250, 481
 *          (NumPy 248, 473; torch.mm 112, 220): NumPy's speed or up to 1.6 %
 *          more, and twice MKL's.
 * Limit:   memory. The loop over tiles alone reaches one core's peak on this
 *          processor, 269 GFLOP/s, if all of c stays in L1. Fetching c's rows
 *          while the sums are added brought 3.5 %, doubling the depth of the
 *          blocks of k 2 %, and aligning loops to cache lines up to 5 %.
 *          Packing a's next panel early or using huge pages gains nothing. */
// Without this flag, a tile's speed varies by 5 % with the address of its loop.
/* g++: -falign-loops=64 */
#include "gemm.h"
#include "reference.h"

#include <math.h>
#include <omp.h>

enum {
    BK = 512,        // deep enough that the loads and stores of c cost little
    BN = 512,        // columns packed at a time
    A_ROW = BK + 16, // floats between rows of a's panel, which puts them into
                     // different L1 sets
    STEPS = 16,      // steps of k between two prefetches of a
    AHEAD = 8,       // rows of b that are fetched into L1 before they are used
    LINE = 16,       // floats in a cache line
    PACKING = 32     // cost of packing a row or column, in elements of c
};

struct product {
    float *c;
    const float *a, *b;
    int m, n, k;
    size_t a_m, a_k, b_k, b_n; // strides: a[i][p] is a[i * a_m + p * a_k]
    float alpha, beta;
    const float *bias; // (n), or NULL
    int relu;
    int depth;      // steps of k in a block: at most BK, equal for all but the
                    // last
    int rows, cols; // size of a block of c
};

/* The part of the product being computed: rows [i0, i0 + m) of c, columns
 * [j0, j0 + n) of c, and steps [k0, k0 + k) of the sums. */
struct block {
    int i0, m, j0, n, k0, k;
};

/* Rows of a that a tile fetches into L2 for the next panel. */
struct upcoming {
    const float *a;
    size_t row; // floats from one row to the next
    int rows;
};

/* Each thread's room for packed panels. It persists from call to call, since
 * fresh memory would cost a page fault for every 4 KiB. */
static _Thread_local float a_packed[TILE_ROWS * A_ROW]
    __attribute__((aligned(64)));
static _Thread_local float b_packed[BN * BK + VLEN]
    __attribute__((aligned(64)));

/* Return a vector that begins with the `count` floats at `src`. If a whole
 * vector would extend past `end`, the other lanes are 0. */
static vfloat load_before(const float *src, int count, const float *end) {
    if (end - src >= VLEN) return vload(src);
    vfloat v = {0};
    memcpy(&v, src, count * sizeof(float));
    return v;
}

/* Copy a strip of a, row by row, to panel[r * A_ROW + p]. If a is transposed,
 * its columns become rows, a square at a time, in registers. */
static void pack_a(float *panel, const struct product *q, const float *a,
                   int rows, int k) {
    if (q->a_k == 1) {
        for (int r = 0; r < rows; r++)
            memcpy(panel + r * A_ROW, a + r * q->a_m, k * sizeof(float));
        return;
    }
    const float *end = q->a + (size_t)q->m * q->k;
    for (int r0 = 0; r0 < rows; r0 += VLEN)
        for (int p0 = 0; p0 < k; p0 += VLEN) {
            const int count = min_int(VLEN, rows - r0);
            vfloat v[VLEN] = {{0}};
            for (int p = 0; p < min_int(VLEN, k - p0); p++)
                v[p] = load_before(a + (p0 + p) * q->a_k + r0, count, end);
            vtranspose(v);
            for (int r = 0; r < count; r++)
                vstore(panel + (r0 + r) * A_ROW + p0, v[r]);
        }
}

/* Pack the block of b, panel by panel. If the rows of b are contiguous in
 * memory, pack four rows at a time instead, so that each page is visited once.
 * At the same time, fetch the next four rows. */
static void pack_b(float *packed, const struct product *q,
                   const struct block *s) {
    enum { ROWS = 4 };
    const float *b = q->b + s->k0 * q->b_k + s->j0 * q->b_n;
    const int whole = q->b_n == 1 ? s->n / TILE_COLS * TILE_COLS : 0;
    for (int p0 = 0; p0 < s->k; p0 += ROWS)
        for (int col = 0; col < whole; col += TILE_COLS)
            for (int p = p0; p < min_int(p0 + ROWS, s->k); p++) {
                const float *from = b + p * q->b_k + col;
                float *to = packed + (size_t)col * s->k + p * TILE_COLS;
                for (int i = 0; i < TILE_COLS; i += VLEN)
                    vstore(to + i, vload(from + i));
                for (int i = 0; i < TILE_COLS; i += LINE)
                    __builtin_prefetch(from + ROWS * q->b_k + i);
            }
    for (int col = whole; col < s->n; col += TILE_COLS)
        pack_panel(packed + (size_t)col * s->k, TILE_COLS, b + col * q->b_n,
                   q->b_n, q->b_k, min_int(TILE_COLS, s->n - col), s->k);
}

/* Compute c's tile from the finished product `tile`. The first block of k
 * applies beta, the last block bias and ReLU; a block may be both or
 * neither. */
static void store_tile(const struct product *q, const struct block *s, float *c,
                       const float *tile, const float *bias, int rows,
                       int cols) {
    const int first = s->k0 == 0, last = s->k0 + s->k == q->k;
    for (int i = 0; i < rows; i++, c += q->n, tile += TILE_COLS)
        for (int j = 0; j < cols; j++) {
            float x = q->alpha * tile[j];
            if (!first)
                x += c[j];
            else if (q->beta != 0.0f) // otherwise the old c, which may be NaN,
                                      // is not read
                x += q->beta * c[j];
            if (last && bias) x += bias[j];
            if (last && q->relu) x = x < 0.0f ? 0.0f : x;
            c[j] = x;
        }
}

/* Do STEPS steps of k, and fetch the rows of b that are needed AHEAD steps
 * later from L2. The processor's own prefetching begins too late. */
SIMD_INLINE void multiply_steps(int rows, vfloat (*acc)[2], const float *a_s,
                                const float *b_s) {
#pragma GCC unroll 4
    for (int p = 0; p < STEPS; p++, b_s += TILE_COLS) {
        for (int i = 0; i < TILE_COLS; i += LINE)
            __builtin_prefetch(b_s + AHEAD * TILE_COLS + i);
        tile_fma(rows, acc, a_s + p, A_ROW, 1, b_s, TILE_COLS, 1);
    }
}

/* Multiply two panels, and add the product to the rows of c or, with `add` 0,
 * store it there. c_row: floats from one row of c to the next. Each row of c is
 * fetched into L1 while its sums are added. All of c is loaded before any of it
 * is stored, the last row first. There are two reasons: rows that are a power
 * of two apart compete for the same sets of L1, and a load waits for a store 4
 * KiB away. */
SIMD_INLINE void multiply_fixed(int rows, float *c, size_t c_row, float alpha,
                                int add, const float *a_s, const float *b_s,
                                int k, const struct upcoming *next) {
    vfloat acc[TILE_ROWS][2];
#pragma GCC unroll 16
    for (int r = 0; r < rows; r++) acc[r][0] = acc[r][1] = (vfloat){0};
    int p = 0;
    for (; p + STEPS <= k; p += STEPS) {
        for (int r = 0; r < next->rows; r++)
            __builtin_prefetch(next->a + r * next->row + p, 0, 2);
        if (p / STEPS < rows)
            for (int i = 0; i < TILE_COLS; i += LINE)
                __builtin_prefetch(c + p / STEPS * c_row + i);
        multiply_steps(rows, acc, a_s + p, b_s + p * TILE_COLS);
    }
    tile_fma(rows, acc, a_s + p, A_ROW, 1, b_s + p * TILE_COLS, TILE_COLS,
             k - p);
    if (add) {
#pragma GCC unroll 16
        for (int r = 0; r < rows; r++)
            for (int v = 0; v < 2; v++)
                acc[r][v] = acc[r][v] * alpha + vload(c + r * c_row + v * VLEN);
    } else {
#pragma GCC unroll 16
        for (int r = 0; r < rows; r++)
            for (int v = 0; v < 2; v++) acc[r][v] *= alpha;
    }
#pragma GCC unroll 16
    for (int r = rows - 1; r >= 0; r--)
        for (int v = 0; v < 2; v++) vstore(c + r * c_row + v * VLEN, acc[r][v]);
}

/* Do what multiply_fixed() does for a number of rows known only at run time. */
static void multiply_tile(int rows, float *c, size_t c_row, float alpha,
                          int add, const float *a_s, const float *b_s, int k,
                          const struct upcoming *next) {
#define TILE_CASE(ROWS)                                                \
    case ROWS:                                                         \
        multiply_fixed(ROWS, c, c_row, alpha, add, a_s, b_s, k, next); \
        break
    switch (rows) {
        TILE_CASE(1);
        TILE_CASE(2);
        TILE_CASE(3);
        TILE_CASE(4);
        TILE_CASE(5);
        TILE_CASE(6);
#if defined(__AVX512F__) || defined(__aarch64__) // VREGS == 32
        TILE_CASE(7);
        TILE_CASE(8);
        TILE_CASE(9);
        TILE_CASE(10);
        TILE_CASE(11);
        TILE_CASE(12);
        TILE_CASE(13);
        TILE_CASE(14);
#endif
    }
#undef TILE_CASE
}

/* Compute a row of tiles from the panel of a that begins at `row` and all
 * panels of b. */
static void multiply_rows(const struct product *q, const struct block *s,
                          int row, float *a_s, const float *b_s) {
    const int rows = min_int(TILE_ROWS, s->m - row);
    const int next_rows =
        q->a_k == 1 ? min_int(TILE_ROWS, s->m - row - rows) : 0;
    const float *a = q->a + (s->i0 + row) * q->a_m + s->k0 * q->a_k;
    pack_a(a_s, q, a, rows, s->k);
    // Store the product to a separate tile at an edge, or if c needs more than
    // an addition.
    float tile[TILE_ROWS * TILE_COLS] __attribute__((aligned(64)));
    const int first = s->k0 == 0, last = s->k0 + s->k == q->k;
    const int plain =
        !(first && q->beta != 0.0f) && !(last && (q->bias || q->relu));
    const int tiles = ceil_div(s->n, TILE_COLS);
    for (int t = 0; t < tiles; t++) {
        const int col = t * TILE_COLS, cols = min_int(TILE_COLS, s->n - col);
        const int fetched = t * next_rows / tiles;
        const struct upcoming next = {.a = a + (rows + fetched) * q->a_m,
                                      .row = q->a_m,
                                      .rows = (t + 1) * next_rows / tiles -
                                              fetched};
        const float *panel = b_s + (size_t)col * s->k;
        float *c = q->c + (size_t)(s->i0 + row) * q->n + s->j0 + col;
        if (plain && cols == TILE_COLS) {
            multiply_tile(rows, c, q->n, q->alpha, !first, a_s, panel, s->k,
                          &next);
        } else {
            multiply_tile(rows, tile, TILE_COLS, 1.0f, 0, a_s, panel, s->k,
                          &next);
            store_tile(q, s, c, tile, q->bias ? q->bias + s->j0 + col : NULL,
                       rows, cols);
        }
    }
}

/* Compute one block of c over all of k, and return whether Ctrl-C was
 * pressed. */
static int multiply_block(const struct product *q, int i0, int j0) {
    struct block s = {.i0 = i0,
                      .m = min_int(q->rows, q->m - i0),
                      .j0 = j0,
                      .n = min_int(q->cols, q->n - j0)};
    for (; s.k0 < q->k; s.k0 += q->depth) {
        if (weft_interrupted()) return 1;
        s.k = min_int(q->depth, q->k - s.k0);
        pack_b(b_packed, q, &s);
        for (int row = 0; row < s.m; row += TILE_ROWS)
            multiply_rows(q, &s, row, a_packed, b_packed);
    }
    return 0;
}

/* Choose the blocks of c. There must be enough blocks for all threads. But
 * blocks should be large and nearly square, since each block packs its rows of
 * a and its columns of b. */
static void choose_blocks(struct product *q, int threads) {
    const int fewest = ceil_div(q->n, BN);
    double least = INFINITY;
    for (int wide = fewest; wide <= fewest + threads; wide++) {
        const int rounds = ceil_div(wide, threads); // blocks per thread
        const int high = rounds * threads / wide;
        const int rows = ceil_div(q->m, high);
        const int cols = TILE_COLS * ceil_div(ceil_div(q->n, TILE_COLS), wide);
        const double cost =
            (double)rounds * (rows + PACKING) * (cols + PACKING);
        if (cost >= least) continue;
        least = cost;
        q->rows = rows;
        q->cols = cols;
    }
}

int matmul_reference(float *c, const float *a, const float *b, int m, int n,
                     int k, const struct weft_matmul_options *options) {
    const int trans_a = options ? options->trans_a : 0;
    const int trans_b = options ? options->trans_b : 0;
    struct product q = {.c = c,
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
                        .depth = VLEN *
                                 ceil_div(ceil_div(k, ceil_div(k, BK)), VLEN)};
    const int threads = (double)m * n * k > 1e5 ? omp_get_max_threads() : 1;
    choose_blocks(&q, threads);
    const int wide = ceil_div(n, q.cols);
    const int blocks = ceil_div(m, q.rows) * wide;
    int interrupted = 0;
#pragma omp parallel for schedule(dynamic) num_threads(threads) \
    reduction(| : interrupted)
    for (int i = 0; i < blocks; i++)
        interrupted |= multiply_block(&q, i / wide * q.rows, i % wide * q.cols);
    return interrupted ? weft_fail(WEFT_EINTR, "matmul: Ctrl-C") : WEFT_OK;
}
