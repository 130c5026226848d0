/* matmul_ijk.c -- matmul in plain C, first rung: the definition, translated
 * literally.
 *
 * Idea:    an element of c is the sum of a row of a times a column of b.
 * Prediction: an addition takes 4 cycles and waits for the previous one. That
 *          gives at most 1.7 GFLOP/s at 3.4 GHz, and less because b does not
 *          arrive in time.
 * Measured: AMD EPYC with AVX-512, one core, GFLOP/s: 1024^3 0.68.
 * Limit:   down a column of b, each step moves a whole row further. Of the 64
 *          bytes that the cache fetches, only 4 are used before they are
 *          evicted, and the next column fetches them again. In addition, the
 *          sum is a chain in which an addition waits for the previous one, so
 *          the compiler cannot use vectors.
 * Lesson:  notebooks/05_c_and_cffi.ipynb */
#include "matmul_c.h"

int matmul_ijk(float *c, const float *a, const float *b, int m, int n, int k,
               const struct weft_matmul_options *options) {
    const struct strides s = strides_of(m, n, k, options);
    for (int row = 0; row < m; row++) {
        if (weft_interrupted()) return weft_fail(WEFT_EINTR, "matmul: Ctrl-C");
        for (int col = 0; col < n; col++) {
            float sum = 0.0f;
            for (int i = 0; i < k; i++)
                sum +=
                    a[row * s.a_row + i * s.a_k] * b[i * s.b_k + col * s.b_col];
            float *const out = c + (size_t)row * n + col;
            *out = finish(options->alpha * sum + begin(out, options), col,
                          options);
        }
    }
    return WEFT_OK;
}
