/* matmul_ikj.c -- matmul in plain C: the two inner loops are exchanged.
 *
 * Before:  rung ijk walks down columns of b and fetches a cache line for every
 *          number.
 * Idea:    multiply one element of a by a whole row of b, and add the result to
 *          a whole row of c. Both rows are read sequentially, and their
 *          elements do not wait for each other, so the compiler uses vectors.
 * Prediction: b is read once for each row of c, 4.3 GB at 1024^3 and 34 GB at
 *          2048^3. A cache that delivers 50 GB/s allows 25 GFLOP/s; if b is too
 *          large for it, memory sets the pace.
 * Measured: AMD EPYC with AVX-512, one core, GFLOP/s: 1024^3 52, 2048^3 53: b
 *          arrived at 104 GB/s, from L3 each time.
 * Limit:   for each row of c, all of b is read from a cache too small to hold
 *          it. In addition, every multiply-add loads and stores its element of
 *          c.
 * Lesson:  notebooks/05_c_and_cffi.ipynb */
#include "matmul_c.h"

/* Add factor * a row of b, whose elements are `step` apart, to c (n). */
static void add_row(float *restrict c, float factor, const float *b,
                    size_t step, int n) {
    if (step == 1) // with a constant step, the loop uses vectors
        for (int col = 0; col < n; col++) c[col] += factor * b[col];
    else
        for (int col = 0; col < n; col++) c[col] += factor * b[col * step];
}

int matmul_ikj(float *c, const float *a, const float *b, int m, int n, int k,
               const struct weft_matmul_options *options) {
    const struct strides s = strides_of(m, n, k, options);
    for (int row = 0; row < m; row++) {
        if (weft_interrupted()) return weft_fail(WEFT_EINTR, "matmul: Ctrl-C");
        begin_rows(c, n, row, row + 1, options);
        for (int i = 0; i < k; i++)
            add_row(c + (size_t)row * n,
                    options->alpha * a[row * s.a_row + i * s.a_k],
                    b + i * s.b_k, s.b_col, n);
        finish_rows(c, n, row, row + 1, options);
    }
    return WEFT_OK;
}
