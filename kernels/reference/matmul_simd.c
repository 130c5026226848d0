/* matmul_simd.c -- matmul in plain C: a tile of c that stays in registers.
 *
 * Before:  rung blocked loads and stores an element of c once for four
 *          multiply-adds, and all of c passes through L2.
 * Idea:    a tile of c, 14 x 32 with AVX-512 (simd.h has the sizes for others),
 *          stays in registers over BK of k: 2 vectors of b and 14 numbers of a
 *          feed 28 multiply-adds. Strips of a and b are copied beforehand
 *          (gemm.h), so that both are read sequentially. One strip of b, 32
 *          KiB, stays in L1 while all strips of a pass by.
 * Prediction: with 16 loads for 28 multiply-adds of vectors, the multiply-adds
 *          set the pace. So the speed is about that of NumPy.
 * Measured: AMD EPYC with AVX-512, one core, GFLOP/s: 1024^3 185, 2048^3 164
 *          (NumPy 246, 248; torch.mm 111, 112).
 * Limit:   it uses one core. In addition, if m is large, the strips of a, m x
 *          BK floats, come from L3 once for every 32 columns. matmul.c adds
 *          blocks for that cache, and divides the work among the cores. */
#include "gemm.h"
#include "matmul_c.h"

enum { BK = 256 };

/* Add alpha * tile to c's rows x cols elements at `c`. */
static void add_tile(float *c, int n, const float *tile, int rows, int cols,
                     float alpha) {
    for (int i = 0; i < rows; i++)
        for (int j = 0; j < cols; j++)
            c[(size_t)i * n + j] += alpha * tile[i * TILE_COLS + j];
}

/* Add alpha * a (m,depth) @ b (depth,n) to c; the arguments include room for
 * packed strips. */
static void add_slice(float *c, const float *a, const float *b, int m, int n,
                      int depth, const struct strides *s, float alpha,
                      float *a_s, float *b_s) {
    float tile[TILE_ROWS * TILE_COLS] __attribute__((aligned(64)));
    const int high = tile_rows(m);
    const size_t strip = panel_size(high, depth);
    for (int row = 0, i = 0; row < m; row += high, i++)
        pack_panel(a_s + i * strip, high, a + row * s->a_row, s->a_row, s->a_k,
                   min_int(high, m - row), depth);
    for (ptrdiff_t col = 0; col < n; col += TILE_COLS) {
        const int cols = min_int(TILE_COLS, n - (int)col);
        pack_panel(b_s, TILE_COLS, b + col * s->b_col, s->b_col, s->b_k, cols,
                   depth);
        for (int row = 0, i = 0; row < m; row += high, i++) {
            tile_product(high, tile, a_s + i * strip, 0, b_s, TILE_COLS, depth);
            add_tile(c + (size_t)row * n + col, n, tile, min_int(high, m - row),
                     cols, alpha);
        }
    }
}

int matmul_simd(float *c, const float *a, const float *b, int m, int n, int k,
                const struct weft_matmul_options *options) {
    const struct strides s = strides_of(m, n, k, options);
    const int high = tile_rows(m), deepest = min_int(BK, k);
    const size_t strips = ceil_div(m, high) * panel_size(high, deepest);
    float *const a_s = alloc_floats(strips + panel_size(TILE_COLS, deepest));
    if (!a_s)
        return weft_fail(WEFT_ENOMEM, "matmul: no %zu bytes for strips of a",
                         strips * sizeof(float));
    begin_rows(c, n, 0, m, options);
    int interrupted = 0;
    for (ptrdiff_t k0 = 0; k0 < k && !interrupted; k0 += BK) {
        add_slice(c, a + k0 * s.a_k, b + k0 * s.b_k, m, n,
                  min_int(BK, k - (int)k0), &s, options->alpha, a_s,
                  a_s + strips);
        interrupted = weft_interrupted();
    }
    finish_rows(c, n, 0, m, options);
    free(a_s);
    return interrupted ? weft_fail(WEFT_EINTR, "matmul: Ctrl-C") : WEFT_OK;
}
