/* compact.c -- the numbers above a threshold in plain C.
 *
 * A place in y depends on all earlier numbers. So threads first write the kept
 * numbers of each piece of x to a buffer. Then they add the counts of earlier
 * pieces, which gives a piece's place in y, and move it there. The pieces of a
 * round stay in the caches, so x is read from memory once. y has the order of x
 * for any number of threads. */
#include <stdlib.h>
#include <string.h>

#include "reference.h"
#include "simd.h"

enum {
    PIECE = 1 << 14,        // numbers of a piece: 64 KiB
    PIECES = 256,           // pieces of a round
    ROUND = PIECES * PIECE, // 16 MiB
    CHUNK = 4 * ROUND,      // numbers between interrupt checks
    CACHED = 1 << 22,       // with fewer numbers, y may stay in the caches
    ALONE = 2 * PIECE // with fewer, a second thread costs more than it saves
};

/* Write the kept lanes of v to out, which has room for all lanes, and return
 * their number. */
#if defined(__AVX512F__)
SIMD_INLINE int pack(float *out, vfloat v, vfloat threshold) {
    const __mmask16 keeps =
        _mm512_cmp_ps_mask((__m512)v, (__m512)threshold, _CMP_GT_OQ);
    vstore(out, (vfloat)_mm512_maskz_compress_ps(keeps, (__m512)v));
    return __builtin_popcount(keeps);
}
#elif defined(__AVX2__)
/* For each set of kept lanes, the lanes that move to the front, a byte each. */
static uint64_t lanes_of[256];

__attribute__((constructor)) static void fill_lanes(void) {
    for (int keeps = 0; keeps < 256; keeps++)
        for (int lane = 7; lane >= 0; lane--)
            if (keeps >> lane & 1)
                lanes_of[keeps] = lanes_of[keeps] << 8 | (unsigned)lane;
}

SIMD_INLINE int pack(float *out, vfloat v, vfloat threshold) {
    const int keeps = _mm256_movemask_ps((__m256)(v > threshold));
    const __m128i bytes = _mm_cvtsi64_si128((long long)lanes_of[keeps]);
    const __m256i lanes = _mm256_cvtepu8_epi32(bytes);
    vstore(out, (vfloat)_mm256_permutevar8x32_ps((__m256)v, lanes));
    return __builtin_popcount((unsigned)keeps);
}
#else
SIMD_INLINE int pack(float *out, vfloat v, vfloat threshold) {
    int kept = 0;
    for (int i = 0; i < VLEN; i++) {
        out[kept] = v[i]; // the next kept number overwrites it if it is not
        kept += v[i] > threshold[i];
    }
    return kept;
}
#endif

/* Write the kept numbers of x to `packed`, which has room for count + VLEN
 * numbers, and return their number. */
static int pack_piece(float *packed, const float *x, int count,
                      float threshold) {
    int i = 0, kept = 0;
    for (; i + VLEN <= count; i += VLEN)
        kept += pack(packed + kept, vload(x + i), vsplat(threshold));
    for (; i < count; i++) {
        packed[kept] = x[i];
        kept += x[i] > threshold;
    }
    return kept;
}

/* Copy a buffer to y, whole vectors past the caches if `streams`. */
static void move_piece(float *y, const float *packed, int kept, int streams) {
    int i = 0;
    if (streams) {
        for (; i < kept && (uintptr_t)(y + i) % sizeof(vfloat); i++)
            y[i] = packed[i];
        for (; i + VLEN <= kept; i += VLEN) vstream(y + i, vload(packed + i));
    }
    memcpy(y + i, packed + i, (size_t)(kept - i) * sizeof *y);
}

static size_t add_counts(const int *counts, int pieces) {
    size_t sum = 0;
    for (int i = 0; i < pieces; i++) sum += (size_t)counts[i];
    return sum;
}

/* The kept numbers of a piece; pack() may write VLEN numbers more. */
typedef float buffer[PIECE + VLEN];

/* Write the kept numbers of a chunk to y, and return their number. buffers: of
 * `pieces` pieces. A thread has the same pieces in every round. It may pack
 * them while others still add the last round's counts: two arrays of counts. */
static size_t compact_chunk(float *y, const float *x, size_t count,
                            float threshold, int streams, buffer *buffers,
                            int pieces) {
    int counts[2][PIECES];
    size_t kept = 0;
#pragma omp parallel if (count >= ALONE)
    {
        size_t at = 0; // place of the round's first number; the same everywhere
        for (size_t start = 0; start < count; start += ROUND) {
            int *const own = counts[start / ROUND % 2];
#pragma omp for schedule(static)
            for (int p = 0; p < pieces; p++) {
                const size_t i = start + (size_t)p * PIECE;
                const size_t left = i < count ? count - i : 0;
                own[p] =
                    pack_piece(buffers[p], x + i,
                               left < PIECE ? (int)left : PIECE, threshold);
            }
#pragma omp for schedule(static) nowait
            for (int p = 0; p < pieces; p++)
                move_piece(y + at + add_counts(own, p), buffers[p], own[p],
                           streams);
            at += add_counts(own, pieces);
        }
        vstream_end();
#pragma omp master
        kept = at;
    }
    return kept;
}

int compact_reference(float *y, int64_t *kept, const float *x, size_t count,
                      float threshold) {
    const int pieces =
        count < ROUND ? (int)(count + PIECE - 1) / PIECE : PIECES;
    buffer *const buffers = malloc((size_t)pieces * sizeof *buffers);
    if (!buffers)
        return weft_fail(WEFT_ENOMEM, "compact: out of memory: %zu bytes",
                         (size_t)pieces * sizeof *buffers);
    size_t total = 0, start = 0;
    for (; start < count && !weft_interrupted(); start += CHUNK)
        total += compact_chunk(y + total, x + start,
                               count - start < CHUNK ? count - start : CHUNK,
                               threshold, count >= CACHED, buffers, pieces);
    free(buffers);
    if (start < count) return weft_fail(WEFT_EINTR, "compact: Ctrl-C");
    *kept = (int64_t)total;
    return WEFT_OK;
}
