/* compact.c -- the numbers above a threshold in plain C.
 *
 * A place in y depends on all earlier numbers. So the threads count the kept
 * numbers of every share but the last, and each adds the counts before its own.
 * Then a thread packs its share, a piece at a time in its cache, and moves each
 * piece to its place. One thread reads x once, two threads 1.5 times. Packing x
 * in rounds that stay in the caches would read it once, but threads would wait
 * for each other in each round. On a busy machine, that takes twice as long. y
 * has the order of x for any number of threads. */
#include <omp.h>
#include <string.h>

#include "reference.h"
#include "simd.h"

enum {
    PIECE = 1 << 14,  // numbers of a piece: 64 KiB
    PIECES = 1 << 12, // pieces between interrupt checks: 256 MiB
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
/* For each set of kept lanes: the lanes that move to the front, a byte each. */
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
        out[kept] = v[i]; // if v[i] is not kept, the next number overwrites it
        kept += v[i] > threshold[i];
    }
    return kept;
}
#endif

/* Write the kept numbers of x to `packed`, which has room for count + VLEN
 * numbers. Returns their number. */
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

/* Copy a buffer to y; if `streams`, whole vectors bypass the caches. */
static void move_piece(float *y, const float *packed, int kept, int streams) {
    int i = 0;
    if (streams) {
        for (; i < kept && (uintptr_t)(y + i) % sizeof(vfloat); i++)
            y[i] = packed[i];
        for (; i + VLEN <= kept; i += VLEN) vstream(y + i, vload(packed + i));
    }
    memcpy(y + i, packed + i, (size_t)(kept - i) * sizeof *y);
}

static int count_piece(const float *x, int count, float threshold) {
    vint sums = {0};
    int i = 0, kept = 0;
    for (; i + VLEN <= count; i += VLEN)
        sums -= (vint)(vload(x + i) > vsplat(threshold)); // true is -1
    for (; i < count; i++) kept += x[i] > threshold;
    for (int lane = 0; lane < VLEN; lane++) kept += sums[lane];
    return kept;
}

/* Return the length of piece p of `count` numbers. */
static int measure_piece(int p, size_t count) {
    const size_t left = count - (size_t)p * PIECE;
    return left < PIECE ? (int)left : PIECE;
}

/* Write the kept numbers of at most PIECES pieces to y; return their number. */
static size_t compact_pieces(float *y, const float *x, size_t count,
                             float threshold, int streams) {
    const int pieces = (int)((count + PIECE - 1) / PIECE);
    int counts[PIECES];
    size_t kept = 0;
#pragma omp parallel if (count >= ALONE)
    {
        float packed[PIECE + VLEN];
        const int thread = omp_get_thread_num(), all = omp_get_num_threads();
        const int first = pieces * thread / all; // the thread's share
        const int end = pieces * (thread + 1) / all;
#pragma omp for schedule(static)
        for (int p = 0; p < pieces * (all - 1) / all; p++)
            counts[p] = count_piece(x + (size_t)p * PIECE, PIECE, threshold);
        size_t at = 0;
        for (int p = 0; p < first; p++) at += (size_t)counts[p];
        for (int p = first; p < end; p++) {
            const int own = pack_piece(packed, x + (size_t)p * PIECE,
                                       measure_piece(p, count), threshold);
            move_piece(y + at, packed, own, streams);
            at += (size_t)own;
        }
        vstream_end();
        if (thread == all - 1) kept = at;
    }
    return kept;
}

int compact_reference(float *y, int64_t *kept, const float *x, size_t count,
                      float threshold) {
    const size_t chunk = (size_t)PIECES * PIECE;
    size_t total = 0;
    for (size_t start = 0; start < count; start += chunk) {
        const size_t length = count - start < chunk ? count - start : chunk;
        if (weft_interrupted()) return weft_fail(WEFT_EINTR, "compact: Ctrl-C");
        total += compact_pieces(y + total, x + start, length, threshold,
                                count >= CACHED);
    }
    *kept = (int64_t)total;
    return WEFT_OK;
}
