/* gemm.h -- code shared by matrix products and convolutions in plain C:
 * packing, and the product of two packed panels.
 *
 *            b_s: k rows of TILE_COLS floats, one row after the other
 *            +----+
 *   a_s      | || |    A tile of the result, rows x TILE_COLS, stays in
 *  +------+  +----+    registers over the whole of k: each step loads one row
 *  | ==== |  |tile|    of b_s (two vectors) and broadcasts one column of a_s.
 *  +------+  +----+
 *
 * A panel is a strip of a matrix copied so that the inner loop reads it
 * sequentially: element (i,p), i across the strip and p along k, is panel[p *
 * width + i]. That costs one pass over the matrix and avoids strided loads, for
 * any layout of the matrix. */
#ifndef WEFT_GEMM_H
#define WEFT_GEMM_H
#include <stdlib.h>
#include <string.h>

#include "simd.h"

/* A full tile fills the registers: 2 * 14 sums, 2 vectors of b and 1 of a take
 * 31 of 32. */
enum { TILE_ROWS = VREGS == 32 ? 14 : 6, TILE_COLS = 2 * VLEN };

SIMD_INLINE int min_int(int a, int b) { return a < b ? a : b; }

SIMD_INLINE int ceil_div(int a, int b) { return a / b + (a % b != 0); }

/* Return the number of rows of the tiles that cover `count` rows. There are as
 * few tiles as possible, and all have the same height. A tile costs the same
 * whether its last rows are used or not. For example, 64 rows take 5 tiles of
 * 13, not 4 of 14 and one of 8. */
SIMD_INLINE int tile_rows(int count) {
    return ceil_div(count, ceil_div(count, TILE_ROWS));
}

/* Transpose a square of VLEN x VLEN floats. For s = 1, 2, 4, ..., swap bit s of
 * row and lane. In the end, every element's row and lane are exchanged. */
SIMD_INLINE void vtranspose(vfloat v[VLEN]) {
    const vint lane = viota();
#pragma GCC unroll 4
    for (int s = 1; s < VLEN; s *= 2) {
        const vint swapped = (lane & s) != 0;
        const vint low = vselect_int(swapped, lane + (VLEN - s), lane);
        const vint high = vselect_int(swapped, lane + VLEN, lane + s);
#pragma GCC unroll 16
        for (int i = 0; i < VLEN; i++) {
            if (i & s) continue;
            const vfloat a = v[i], b = v[i + s];
            v[i] = __builtin_shuffle(a, b, low);
            v[i + s] = __builtin_shuffle(a, b, high);
        }
    }
}

/* Return the number of floats of a panel of `k` rows that pack_panel() may
 * write. */
SIMD_INLINE size_t panel_size(int width, int k) {
    return (size_t)width * k + VLEN;
}

/* Copy element (i,p) of the strip, src[i * across + p * along], to panel[p *
 * width + i]. Only `count` of the `width` rows i exist. The other rows become
 * zeros, which add nothing. One of the two strides should be 1. */
static inline __attribute__((unused)) void
pack_panel(float *panel, int width, const float *src, size_t across,
           size_t along, int count, int k) {
    int p0 = 0;
    if (along == 1) {
        // Turn rows into columns, a square at a time, in registers. A store may
        // run past the end of its row, so the last squares go first, and later
        // squares overwrite their excess.
        for (; p0 + VLEN <= k; p0 += VLEN)
            for (int i0 = (width - 1) / VLEN * VLEN; i0 >= 0; i0 -= VLEN) {
                vfloat v[VLEN];
                for (int i = 0; i < VLEN; i++)
                    v[i] = i0 + i < count ? vload(src + (i0 + i) * across + p0)
                                          : (vfloat){0};
                vtranspose(v);
                for (int p = 0; p < VLEN; p++)
                    vstore(panel + (size_t)(p0 + p) * width + i0, v[p]);
            }
    } else if (across == 1 && count == TILE_COLS && width == TILE_COLS) {
        for (; p0 < k; p0++) {
            const float *row = src + p0 * along;
            vstore(panel + (size_t)p0 * TILE_COLS, vload(row));
            vstore(panel + (size_t)p0 * TILE_COLS + VLEN, vload(row + VLEN));
        }
    }
    for (; p0 < k; p0++)
        for (int i = 0; i < width; i++)
            panel[(size_t)p0 * width + i] =
                i < count ? src[i * across + p0 * along] : 0.0f;
}

/* Compute tile (rows,TILE_COLS) = a (rows,k) @ b (k,TILE_COLS); see
 * tile_fma(). */
SIMD_INLINE void tile_fixed(int rows, float *tile, const float *a,
                            ptrdiff_t a_row, ptrdiff_t a_k, const float *b,
                            ptrdiff_t b_k, int k) {
    vfloat acc[TILE_ROWS][2];
#pragma GCC unroll 16
    for (int r = 0; r < rows; r++) acc[r][0] = acc[r][1] = (vfloat){0};
    tile_fma(rows, acc, a, a_row, a_k, b, b_k, k);
#pragma GCC unroll 16
    for (int r = 0; r < rows; r++) {
        vstore(tile + r * TILE_COLS, acc[r][0]);
        vstore(tile + r * TILE_COLS + VLEN, acc[r][1]);
    }
}

/* Do what tile_fixed() does for a number of rows known only at run time, with
 * one copy of the loop for each number. a_row 0 means a packed panel, whose
 * strides are (1, rows). */
SIMD_INLINE void tile_product(int rows, float *tile, const float *a,
                              ptrdiff_t a_row, const float *b, ptrdiff_t b_k,
                              int k) {
#define TILE_CASE(ROWS)                                                        \
    case ROWS:                                                                 \
        tile_fixed(ROWS, tile, a, a_row ? a_row : 1, a_row ? 1 : ROWS, b, b_k, \
                   k);                                                         \
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

/* Return `count` floats that start at a cache line, or NULL if the memory does
 * not suffice. The caller must free() them. */
SIMD_INLINE float *alloc_floats(size_t count) {
    return (float *)aligned_alloc(64, (count * sizeof(float) + 63) / 64 * 64);
}

#endif
