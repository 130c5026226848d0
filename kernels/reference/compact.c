/* compact.c -- the numbers above a threshold in plain C.
 *
 * Threads take pieces of x in turn. A thread first writes the kept numbers of
 * its piece to a buffer in its cache. Then it waits until the earlier pieces
 * are counted, which gives its place in y, and moves its buffer there. So x is
 * read from memory once, and y has the order of x for any number of threads. */
#include <string.h>

#include "reference.h"
#include "simd.h"

enum {
    PIECE = 1 << 14,  // numbers of a piece: 64 KiB
    CHUNK = 1 << 24,  // numbers between interrupt checks: 64 MiB
    CACHED = 1 << 22, // with fewer numbers, y may stay in the caches
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
static int pack_piece(float *packed, const float *x, size_t count,
                      float threshold) {
    int kept = 0;
    size_t i = 0;
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

int compact_reference(float *y, int64_t *kept, const float *x, size_t count,
                      float threshold) {
    const int streams = count >= CACHED;
    int64_t total = 0;
    for (size_t start = 0; start < count; start += CHUNK) {
        const size_t end = count - start < CHUNK ? count : start + CHUNK;
        if (weft_interrupted())
            return weft_fail(WEFT_EINTR, "compact: Ctrl-C");
#pragma omp parallel if (count >= ALONE)
        {
            float packed[PIECE + VLEN];
#pragma omp for schedule(static, 1) ordered nowait
            for (size_t i = start; i < end; i += PIECE) {
                const size_t length = end - i < PIECE ? end - i : PIECE;
                const int own = pack_piece(packed, x + i, length, threshold);
                int64_t first;
#pragma omp ordered
                {
                    first = total;
                    total += own;
                }
                move_piece(y + first, packed, own, streams);
            }
            vstream_end();
        }
    }
    *kept = total;
    return WEFT_OK;
}
