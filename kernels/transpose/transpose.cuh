/* transpose.cuh -- declares the rungs of transpose, and their common code.
 *
 * In all rungs, x (rows,cols) is read along its rows, and y (cols,rows) is
 * written along its rows, except by the naive one. A block moves one tile. */
#ifndef WEFT_TRANSPOSE_CUH
#define WEFT_TRANSPOSE_CUH
#include "common/internal.cuh"

#include "common/checks.cuh"
#include "common/launch.cuh"

/* The arguments of weft_transpose(), which the rungs receive. */
struct matrix {
    float *y;       // (cols,rows)
    const float *x; // (rows,cols)
    unsigned rows, cols;
    cudaStream_t stream;
};

/* Queue the work of a rung; each returns a weft_status. */
int transpose_by_naive(const struct matrix *m);
int transpose_by_tiled(const struct matrix *m);
int transpose_by_padded(const struct matrix *m);
int transpose_by_swizzled(const struct matrix *m);
int transpose_by_strips(const struct matrix *m);
int transpose_by_wide(const struct matrix *m);
int transpose_by_tma(const struct matrix *m);

/* Return whether the rows of x and y begin at multiples of 16 bytes, as loads
 * and stores of four floats require. */
static inline bool rows_are_aligned(const struct matrix *m) {
    const uintptr_t both = (uintptr_t)m->y | (uintptr_t)m->x;
    return both % 16 == 0 && m->rows % 4 == 0 && m->cols % 4 == 0;
}

typedef void (*transpose_kernel)(float *y, const float *x, unsigned rows,
                                 unsigned cols);

/* Launch a kernel with a block for each tile of `side` x `side`, in blocks of
 * `threads`. A grid has at most 65535 blocks in y. A taller matrix is cut into
 * slabs of that many tiles; the last slab overlaps the one before it. So each
 * slab consists of whole tiles, and the kernel's check of `rows`, which is that
 * of the whole matrix, need not change. */
static inline int launch_tiles(const struct matrix *m, transpose_kernel kernel,
                               const char *name, unsigned side, dim3 threads) {
    const unsigned down = CEIL_DIV(m->rows, side), most = 65535;
    const dim3 grid(CEIL_DIV(m->cols, side), down < most ? down : most);
    const struct launch l = {name, grid, threads, 0, m->stream, 0};
    const size_t slab = (size_t)most * side;
    size_t first = 0;
    for (;;) {
        WEFT_TRY(launch_kernel(l, kernel, m->y + first, m->x + first * m->cols,
                               m->rows, m->cols));
        if (first + slab >= m->rows) return WEFT_OK;
        first = first + 2 * slab < m->rows ? first + slab : m->rows - slab;
    }
}

#endif
