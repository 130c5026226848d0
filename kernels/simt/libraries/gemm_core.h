/* gemm_core.h -- the product for one type of sum; gemm.c includes it for float
 * and for double. The method is that of Goto and van de Geijn, "Anatomy of
 * High-Performance Matrix Multiplication" (2008): copies of A and B in the
 * order of use, and a tile of D in registers.
 *
 * SUM: the type of the sums; NAME(f): the name of a function for this type */

typedef SUM NAME(vector) __attribute__((vector_size(GEMM_VECTOR)));
enum {
    NAME(LANES) = GEMM_VECTOR / sizeof(SUM),
    NAME(ROWS) = 2 * NAME(LANES), /* of a tile */
};

/* Copy `count` (at most `tile`) rows of an operand, `k` elements each, so that
 * element p of row i is at to[p * tile + i]. Missing rows become 0. */
#define GEMM_COPY(load)                                          \
    for (int p = 0; p < k; p++)                                  \
        for (int i = 0; i < count; i++) {                        \
            const ptrdiff_t at = (first + i) * row + p * column; \
            to[(ptrdiff_t)p * tile + i] = (SUM)(load);           \
        }                                                        \
    break
static void NAME(pack)(SUM *to, int tile, const struct gemm_matrix *from,
                       ptrdiff_t row, ptrdiff_t column, ptrdiff_t first,
                       int count, int k) {
    for (int p = 0; p < k && count < tile; p++)
        for (int i = count; i < tile; i++) to[(ptrdiff_t)p * tile + i] = 0;
    switch (from->type) {
    case GEMM_F32: GEMM_COPY(((const float *)from->at)[at]);
    case GEMM_F64: GEMM_COPY(((const double *)from->at)[at]);
    case GEMM_F16: GEMM_COPY(((const _Float16 *)from->at)[at]);
    case GEMM_BF16: GEMM_COPY(of_bfloat(((const uint16_t *)from->at)[at]));
    case GEMM_I8: GEMM_COPY(((const int8_t *)from->at)[at]);
    case GEMM_I32: GEMM_COPY(((const int32_t *)from->at)[at]);
    }
}
#undef GEMM_COPY

/* Compute a tile of sums: out[j][i] is the product of A's row i and B's column
 * j. */
static void NAME(multiply)(const SUM *a, const SUM *b, int k,
                           SUM out[GEMM_COLUMNS][NAME(ROWS)]) {
    NAME(vector) sums[GEMM_COLUMNS][2] = {0};
    for (int p = 0; p < k; p++) {
        NAME(vector) low, high;
        memcpy(&low, a, sizeof low);
        memcpy(&high, a + NAME(LANES), sizeof high);
        for (int j = 0; j < GEMM_COLUMNS; j++) {
            sums[j][0] += low * b[j];
            sums[j][1] += high * b[j];
        }
        a += NAME(ROWS);
        b += GEMM_COLUMNS;
    }
    memcpy(out, sums, sizeof sums);
}

/* Write the tile whose first element is (i0, j0). */
static void NAME(finish)(const struct gemm *g,
                         SUM sums[GEMM_COLUMNS][NAME(ROWS)], int i0, int j0) {
    const int rows = g->m - i0 < NAME(ROWS) ? g->m - i0 : NAME(ROWS);
    const int columns = g->n - j0 < GEMM_COLUMNS ? g->n - j0 : GEMM_COLUMNS;
    for (int j = 0; j < columns; j++)
        for (int i = 0; i < rows; i++) {
            const ptrdiff_t y = i0 + i, x = j0 + j;
            SUM value = (SUM)g->alpha * sums[j][i];
            if (g->beta != 0)
                value += (SUM)g->beta *
                         (SUM)weft_load(g->c.at, g->c.type,
                                        y * g->c.row + x * g->c.column);
            const double result =
                g->f ? g->f(value, (int)y, (int)x, g->data) : value;
            weft_store(g->d.at, g->d.type, y * g->d.row + x * g->d.column,
                       result);
        }
}

static int NAME(gemm)(const struct gemm *g, int k) {
    const int tile = NAME(ROWS), columns = GEMM_COLUMNS;
    const int tiles = (g->m + tile - 1) / tile;
    const int strips = (g->n + columns - 1) / columns;
    const size_t size_a = (size_t)tiles * tile * (size_t)k * sizeof(SUM);
    const size_t size_b = (size_t)strips * columns * (size_t)k * sizeof(SUM);
    SUM *a = aligned_alloc(64, (size_a + 127) / 64 * 64);
    SUM *b = aligned_alloc(64, (size_b + 127) / 64 * 64);
    /* Some strips of B, which stay in the cache while all of A passes. */
    int block = (int)(GEMM_CACHE / (sizeof(SUM) * GEMM_COLUMNS) / (k + 1)) + 1;
    if (block > 64) block = 64;
    const int blocks = (strips + block - 1) / block;
    const double work = (double)g->m * g->n * k;
    const int threads = work > 4e6 ? g->threads : 1;
#pragma omp parallel num_threads(threads) if (a && b && threads > 1)
    if (a && b) {
#pragma omp for nowait
        for (int t = 0; t < tiles; t++) {
            const int left = g->m - t * tile;
            NAME(pack)(a + (ptrdiff_t)t * tile * k, tile, &g->a, g->a.row,
                       g->a.column, (ptrdiff_t)t * tile,
                       left < tile ? left : tile, k);
        }
#pragma omp for
        for (int s = 0; s < strips; s++) {
            const int left = g->n - s * columns;
            NAME(pack)(b + (ptrdiff_t)s * columns * k, columns, &g->b,
                       g->b.column, g->b.row, (ptrdiff_t)s * columns,
                       left < columns ? left : columns, k);
        }
#pragma omp for collapse(2) schedule(dynamic)
        for (int z = 0; z < blocks; z++)
            for (int t = 0; t < tiles; t++)
                for (int s = z * block; s < strips && s < (z + 1) * block;
                     s++) {
                    SUM sums[GEMM_COLUMNS][NAME(ROWS)];
                    NAME(multiply)(a + (ptrdiff_t)t * tile * k,
                                   b + (ptrdiff_t)s * columns * k, k, sums);
                    NAME(finish)(g, sums, t * tile, s * columns);
                }
    }
    const int failed = !a || !b;
    free(a);
    free(b);
    return failed ? -1 : 0;
}
