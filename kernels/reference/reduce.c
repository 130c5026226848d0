/* reduce.c -- the sum of an array in plain C, in a fixed order.
 *
 * The additions have the order of reduce/07_fixed_order.cu, so all targets and
 * any number of threads give the same bits. x is divided into pieces of 2048
 * numbers, which threads share. A piece is added in 128 columns, which fit into
 * registers. Then one half of the columns is added to the other, until
 * one is left. The pieces' sums are added in the same way. */
#include <stdlib.h>

#include "reference.h"
#include "simd.h"

enum {
    PIECE = 2048,    // numbers in a piece
    COLUMNS = 128,   // number of sums kept side by side: 4 per lane of a warp
    ACROSS = 8,      // vectors of columns in registers at a time
    CHUNK = 1 << 13, // pieces between interrupt checks: 64 MiB
    ALONE = 16       // with fewer pieces, a second thread costs more than it
                     // saves
};

static float add_piece(const float *x) {
    float sums[COLUMNS];
    for (int column = 0; column < COLUMNS; column += ACROSS * VLEN) {
        vfloat acc[ACROSS];
        for (int v = 0; v < ACROSS; v++) acc[v] = vload(x + column + v * VLEN);
        for (int row = COLUMNS; row < PIECE; row += COLUMNS)
#pragma GCC unroll 8
            for (int v = 0; v < ACROSS; v++)
                acc[v] += vload(x + row + column + v * VLEN);
        for (int v = 0; v < ACROSS; v++)
            vstore(sums + column + v * VLEN, acc[v]);
    }
#pragma GCC unroll 7
    for (int half = COLUMNS / 2; half > 0; half /= 2)
#pragma omp simd
        for (int i = 0; i < half; i++) sums[i] += sums[i + half];
    return sums[0];
}

/* Return the sum of fewer than PIECE numbers, padded with -0: x + -0 is x for
 * every x, even for -0. */
static float add_rest(const float *x, size_t count) {
    float padded[PIECE];
    for (size_t i = 0; i < PIECE; i++) padded[i] = i < count ? x[i] : -0.0f;
    return add_piece(padded);
}

/* Store the sums of x's pieces. Returns whether Ctrl-C has been pressed. */
static int add_pieces(float *sums, const float *x, size_t count) {
    const size_t whole = count / PIECE;
    for (size_t start = 0; start < whole; start += CHUNK) {
        const size_t end = whole - start < CHUNK ? whole : start + CHUNK;
        if (weft_interrupted()) return 1;
#pragma omp parallel for schedule(static) if (whole >= ALONE)
        for (size_t i = start; i < end; i++) sums[i] = add_piece(x + i * PIECE);
    }
    const size_t rest = count - whole * PIECE;
    if (rest) sums[whole] = add_rest(x + whole * PIECE, rest);
    return 0;
}

int reduce_reference(float *sum, const float *x, size_t count) {
    if (count <= PIECE) return add_pieces(sum, x, count), WEFT_OK;
    const size_t pieces = (count + PIECE - 1) / PIECE;
    // Room for the first level and all others: at most a 2047th of it, and 3
    // incomplete pieces.
    const size_t bytes = (pieces + pieces / (PIECE - 1) + 4) * sizeof(float);
    float *const levels = malloc(bytes), *level = levels;
    if (!levels)
        return weft_fail(WEFT_ENOMEM, "reduce: out of memory: %zu bytes",
                         bytes);
    int interrupted = add_pieces(level, x, count);
    size_t left = pieces;
    while (left > 1 && !interrupted) {
        interrupted = add_pieces(level + left, level, left);
        level += left;
        left = (left + PIECE - 1) / PIECE;
    }
    if (!interrupted) *sum = *level;
    free(levels);
    return interrupted ? weft_fail(WEFT_EINTR, "reduce: Ctrl-C") : WEFT_OK;
}

int reduce_reference_backward(float *dx, const float *dsum, size_t count) {
    const float value = *dsum;
    const size_t chunk = (size_t)CHUNK * PIECE;
    for (size_t start = 0; start < count; start += chunk) {
        const size_t end = count - start < chunk ? count : start + chunk;
        if (weft_interrupted()) return weft_fail(WEFT_EINTR, "reduce: Ctrl-C");
#pragma omp parallel for simd schedule(static) if (count >= ALONE * PIECE)
        for (size_t i = start; i < end; i++) dx[i] = value;
    }
    return WEFT_OK;
}
