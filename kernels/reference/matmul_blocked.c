/* matmul_blocked.c -- matmul in plain C: a block of b that stays in the cache.
 *
 * Before:  ikj reads all of b once more for each row of c.
 * Idea:    take a block of b, BK x BN, that fits into the L2 cache (256 KiB),
 *          and multiply every row of a with it before the next block. So b is
 *          read from memory once, not m times. Four rows of the block are used
 *          together, so that an element of c is loaded and stored once for four
 *          multiply-adds.
 * Prediction: since b is read from memory once, 2048^3 is as fast as 1024^3.
 *          The loads limit it to 4 / 5 of a core's peak.
 * Measured: AMD EPYC with AVX-512, one core, GFLOP/s: 1024^3 63, 2048^3 60
 *          (NumPy 246, 248): equally fast, but 23 % of a core's peak.
 * Limit:   still 5 loads and a store for 4 multiply-adds. A core can do 2
 *          loads and 2 multiply-adds at the same time, so it waits for
 *          loads. */
#include "matmul_c.h"

enum { BK = 128, BN = 512 };

static inline int least(int a, int b) { return a < b ? a : b; }

/* Add four rows of b, each times a factor, to c (n); their elements are `step`
 * apart. If step is a constant at the call, this compiles to a loop over
 * vectors. */
static inline __attribute__((always_inline)) void
add_rows(float *restrict c, const float factors[4], const float *b0, size_t row,
         size_t step, int n) {
    const float *b1 = b0 + row, *b2 = b1 + row, *b3 = b2 + row;
    const float f0 = factors[0], f1 = factors[1];
    const float f2 = factors[2], f3 = factors[3];
    for (int col = 0; col < n; col++)
        c[col] += f0 * b0[col * step] + f1 * b1[col * step] +
                  f2 * b2[col * step] + f3 * b3[col * step];
}

/* Add a (depth) @ a block of b (depth,n) to c (n). */
static void add_block(float *restrict c, const float *a, const float *b,
                      const struct strides *s, float alpha, int depth, int n) {
    int i = 0;
    for (; i + 4 <= depth; i += 4) {
        float factors[4];
        for (int j = 0; j < 4; j++) factors[j] = alpha * a[(i + j) * s->a_k];
        if (s->b_col == 1)
            add_rows(c, factors, b + i * s->b_k, s->b_k, 1, n);
        else
            add_rows(c, factors, b + i * s->b_k, s->b_k, s->b_col, n);
    }
    for (; i < depth; i++)
        for (int col = 0; col < n; col++)
            c[col] += alpha * a[i * s->a_k] * b[i * s->b_k + col * s->b_col];
}

int matmul_blocked(float *c, const float *a, const float *b, int m, int n,
                   int k, const struct weft_matmul_options *options) {
    const struct strides s = strides_of(m, n, k, options);
    begin_rows(c, n, 0, m, options);
    for (ptrdiff_t j0 = 0; j0 < n; j0 += BN)
        for (ptrdiff_t k0 = 0; k0 < k; k0 += BK) {
            if (weft_interrupted())
                return weft_fail(WEFT_EINTR, "matmul: Ctrl-C");
            const int depth = least(BK, k - (int)k0);
            const int width = least(BN, n - (int)j0);
            for (int row = 0; row < m; row++)
                add_block(c + (size_t)row * n + j0,
                          a + row * s.a_row + k0 * s.a_k,
                          b + k0 * s.b_k + j0 * s.b_col, &s, options->alpha,
                          depth, width);
        }
    finish_rows(c, n, 0, m, options);
    return WEFT_OK;
}
