/* matmul_c.h -- code shared by the plain C rungs of matmul: the layout of a and
 * b, and the final value of an element of c. */
#ifndef WEFT_MATMUL_C_H
#define WEFT_MATMUL_C_H
#include "reference.h"

/* The strides of a and b, one or both of which may be stored transposed. a
 * (row,i) is a[row * a_row + i * a_k], and b (i,col) is b[i * b_k + col *
 * b_col]. */
struct strides {
    size_t a_row, a_k, b_k, b_col;
};

static inline struct strides
strides_of(int m, int n, int k, const struct weft_matmul_options *options) {
    const struct strides s = {
        options->trans_a ? 1 : (size_t)k, options->trans_a ? (size_t)m : 1,
        options->trans_b ? 1 : (size_t)n, options->trans_b ? (size_t)k : 1};
    return s;
}

/* Return the contribution of c's old value to a sum. With beta 0 the old value,
   which may be NaN, is not read. */
static inline float begin(const float *c,
                          const struct weft_matmul_options *options) {
    return options->beta == 0.0f ? 0.0f : options->beta * *c;
}

/* Return an element of c in column `col`: `sum`, which already includes alpha
 * and beta, plus the bias, after ReLU. */
static inline float finish(float sum, int col,
                           const struct weft_matmul_options *options) {
    if (options->bias) sum += options->bias[col];
    return options->relu && sum < 0.0f ? 0.0f : sum; // a NaN stays a NaN
}

/* Set the rows [first,end) of c to their initial values, or compute their final
 * values. */
static inline void begin_rows(float *c, int n, int first, int end,
                              const struct weft_matmul_options *options) {
    for (size_t i = (size_t)first * n; i < (size_t)end * n; i++)
        c[i] = begin(c + i, options);
}

static inline void finish_rows(float *c, int n, int first, int end,
                               const struct weft_matmul_options *options) {
    for (int row = first; row < end; row++)
        for (int col = 0; col < n; col++)
            c[(size_t)row * n + col] =
                finish(c[(size_t)row * n + col], col, options);
}

#endif
