/* transpose.c -- the transpose of a matrix in plain C.
 *
 * A square of VLEN x VLEN floats is transposed in registers. Squares are taken
 * in blocks of 64 x 64, so that all of a cache line is used while it is cached.
 * If the rows of y begin at cache lines and the arrays exceed the caches,
 * stores skip the caches, as in copy.c. */
#include "reference.h"
#include "simd.h"

enum {
    SIDE = 64,        // rows and columns of a block
    LINE = 16,        // floats in a cache line
    ALONE = 1 << 17,  // with fewer floats, a second thread costs more than it
                      // saves
    CACHED = 1 << 20, // fewer floats may stay in the caches: 4 MiB per array
    CHUNK = 1 << 12   // blocks between interrupt checks: 64 MiB
};

struct matrix {
    float *y;       // (cols,rows)
    const float *x; // (rows,cols)
    size_t rows, cols;
    int streams; // whether stores skip the caches
};

/* The lanes of vectors a and b, as numbered by __builtin_shuffle(), that form
 * the rows of a transposed 2 x 2 matrix of groups of `half` lanes. */
#define UPPER(j, half) ((j) & (half) ? VLEN + (j) - (half) : (j))
#define LOWER(j, half) ((j) & (half) ? VLEN + (j) : (j) + (half))
#define LANES4(f, j, half) \
    f(j, half), f(j + 1, half), f(j + 2, half), f(j + 3, half)
#if defined(__AVX512F__)
#define LANES(f, half)                                              \
    (vlanes) {                                                      \
        LANES4(f, 0, half), LANES4(f, 4, half), LANES4(f, 8, half), \
            LANES4(f, 12, half)                                     \
    }
#elif defined(__AVX__)
#define LANES(f, half) \
    (vlanes) { LANES4(f, 0, half), LANES4(f, 4, half) }
#else
#define LANES(f, half) \
    (vlanes) { LANES4(f, 0, half) }
#endif
typedef int32_t vlanes __attribute__((vector_size(4 * VLEN)));

/* In each square of v with a side of 2 * `half`, exchange the two quarters off
 * the diagonal. Uses with half = 1, 2, 4, ... VLEN / 2 transpose v. */
#define EXCHANGE(v, half)                                            \
    _Pragma("GCC unroll 16") for (int i = 0; i < VLEN; i++) {        \
        if (i & (half)) continue;                                    \
        const vfloat a = v[i], b = v[i + (half)];                    \
        v[i] = __builtin_shuffle(a, b, LANES(UPPER, half));          \
        v[i + (half)] = __builtin_shuffle(a, b, LANES(LOWER, half)); \
    }

SIMD_INLINE void transpose_square(float *y, const float *x, size_t rows,
                                  size_t cols, int streams) {
    vfloat v[VLEN];
#pragma GCC unroll 16
    for (int i = 0; i < VLEN; i++) v[i] = vload(x + i * cols);
    EXCHANGE(v, 1)
    EXCHANGE(v, 2)
#if defined(__AVX__)
    EXCHANGE(v, 4)
#endif
#if defined(__AVX512F__)
    EXCHANGE(v, 8)
#endif
#pragma GCC unroll 16
    for (int i = 0; i < VLEN; i++)
        if (streams)
            vstream(y + i * rows, v[i]);
        else
            vstore(y + i * rows, v[i]);
}

/* Transpose whole squares of the block from (row,col) to (below,right). */
SIMD_INLINE void transpose_squares(const struct matrix *m, size_t row,
                                   size_t col, size_t below, size_t right,
                                   int streams) {
    for (size_t i = row; i < below; i += LINE)
        for (size_t j = col; j < right; j += VLEN)
            for (size_t h = i; h < i + LINE && h < below; h += VLEN)
                transpose_square(m->y + j * m->rows + h, m->x + h * m->cols + j,
                                 m->rows, m->cols, streams);
}

static void transpose_numbers(const struct matrix *m, size_t row, size_t col,
                              size_t below, size_t right) {
    for (size_t j = col; j < right; j++)
        for (size_t i = row; i < below; i++)
            m->y[j * m->rows + i] = m->x[i * m->cols + j];
}

/* Transpose the block whose first number is (row,col). */
static void transpose_block(const struct matrix *m, size_t row, size_t col) {
    const size_t high = m->rows - row < SIDE ? m->rows - row : SIDE;
    const size_t wide = m->cols - col < SIDE ? m->cols - col : SIDE;
    const size_t below = row + high / VLEN * VLEN;
    const size_t right = col + wide / VLEN * VLEN;
    if (m->streams)
        transpose_squares(m, row, col, below, right, 1);
    else
        transpose_squares(m, row, col, below, right, 0);
    transpose_numbers(m, row, right, below, col + wide);
    transpose_numbers(m, below, col, row + high, col + wide);
}

int transpose_reference(float *y, const float *x, int rows, int cols) {
    const size_t count = (size_t)rows * cols;
    const int whole =
        (uintptr_t)y % (LINE * sizeof *y) == 0 && rows % LINE == 0;
    const struct matrix m = {y, x, rows, cols, whole && count >= CACHED};
    const size_t across = (m.cols + SIDE - 1) / SIDE;
    const size_t blocks = (m.rows + SIDE - 1) / SIDE * across;
    for (size_t start = 0; start < blocks; start += CHUNK) {
        const size_t end = blocks - start < CHUNK ? blocks : start + CHUNK;
        if (weft_interrupted())
            return weft_fail(WEFT_EINTR, "transpose: Ctrl-C");
#pragma omp parallel if (count >= ALONE)
        {
#pragma omp for schedule(static) nowait
            for (size_t i = start; i < end; i++)
                transpose_block(&m, i / across * SIDE, i % across * SIDE);
            vstream_end();
        }
    }
    return WEFT_OK;
}
