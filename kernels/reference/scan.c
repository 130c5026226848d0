/* scan.c -- running sums in plain C, in one pass over memory.
 *
 * The array is divided into pieces that fit into a core's cache. A thread takes
 * the next piece, adds its numbers, waits for the sum of all earlier pieces,
 * and publishes the sum that includes its own. Then it scans the piece, which
 * is still in the cache. The wait is short, since the previous piece needed
 * only its own addition. The order of additions is always the same, so any
 * number of threads gives the same bits. A reverse scan counts pieces and
 * vectors from the end. */
#include <sched.h>

#include "reference.h"
#include "simd.h"

enum {
    PIECE = 1 << 14, // numbers of a piece: 64 KiB
    ACROSS = 4,      // vectors of sums that are added side by side
    ALONE = 4,       // with fewer pieces, a second thread costs more than it
                     // saves
    APART = 1 << 21, // from this count on, stores skip the caches
    PATIENCE = 300   // looks at the other threads' progress before a yield
};

struct scan {
    float *y;
    const float *x;
    size_t count, pieces;
    int exclusive, reverse;
    int apart;    // whether stores skip the caches
    size_t taken; // pieces that threads have begun
    size_t added; // pieces whose sums are in `sum`
    float sum;
};

static float add_piece(const float *x, size_t count) {
    const size_t step = ACROSS * VLEN;
    vfloat acc[ACROSS] = {};
    size_t i = 0;
    for (; i + step <= count; i += step)
        for (int v = 0; v < ACROSS; v++) acc[v] += vload(x + i + v * VLEN);
    float sum = vsum((acc[0] + acc[1]) + (acc[2] + acc[3]));
    for (; i < count; i++) sum += x[i];
    return sum;
}

/* Return v moved by `distance` lanes in the direction of the scan, with zeros
 * in the lanes that become free. */
SIMD_INLINE vfloat vshift(vfloat v, int distance, int reverse) {
    const vint from = viota() + (reverse ? distance : VLEN - distance);
    return reverse ? __builtin_shuffle(v, (vfloat){}, from)
                   : __builtin_shuffle((vfloat){}, v, from);
}

/* Replace v by its running sums after *sum, and add v to *sum. */
SIMD_INLINE vfloat vscan(vfloat v, float *sum, int exclusive, int reverse) {
#pragma GCC unroll 4
    for (int distance = 1; distance < VLEN; distance *= 2)
        v += vshift(v, distance, reverse);
    const vfloat before = vsplat(*sum);
    *sum += v[reverse ? 0 : VLEN - 1];
    return before + (exclusive ? vshift(v, 1, reverse) : v);
}

/* The same for the `count` numbers behind the last whole vector. */
SIMD_INLINE void scan_rest(float *y, const float *x, size_t count, float *sum,
                           int exclusive, int reverse) {
    float padded[VLEN] = {0};
    for (size_t i = 0; i < count; i++) padded[i] = x[i];
    vstore(padded, vscan(vload(padded), sum, exclusive, reverse));
    for (size_t i = 0; i < count; i++) y[i] = padded[i];
}

/* The flags are constants at each call, so that the loop has no branches. */
SIMD_INLINE void scan_piece(float *y, const float *x, size_t count, float sum,
                            int apart, int exclusive, int reverse) {
    const size_t vectors = count / VLEN, rest = count % VLEN, at = count - rest;
    if (rest && reverse) scan_rest(y + at, x + at, rest, &sum, exclusive, 1);
    for (size_t i = 0; i < vectors; i++) {
        const size_t first = (reverse ? vectors - 1 - i : i) * VLEN;
        const vfloat v = vscan(vload(x + first), &sum, exclusive, reverse);
        if (apart)
            vstream(y + first, v);
        else
            vstore(y + first, v);
    }
    if (rest && !reverse) scan_rest(y + at, x + at, rest, &sum, exclusive, 0);
    if (apart) vstream_end();
}

static void scan_flagged(const struct scan *s, size_t first, size_t count,
                         float sum) {
    float *const y = s->y + first;
    const float *const x = s->x + first;
    switch (s->apart << 2 | s->exclusive << 1 | s->reverse) {
    case 0: return scan_piece(y, x, count, sum, 0, 0, 0);
    case 1: return scan_piece(y, x, count, sum, 0, 0, 1);
    case 2: return scan_piece(y, x, count, sum, 0, 1, 0);
    case 3: return scan_piece(y, x, count, sum, 0, 1, 1);
    case 4: return scan_piece(y, x, count, sum, 1, 0, 0);
    case 5: return scan_piece(y, x, count, sum, 1, 0, 1);
    case 6: return scan_piece(y, x, count, sum, 1, 1, 0);
    case 7: return scan_piece(y, x, count, sum, 1, 1, 1);
    }
}

/* Add the sum of piece number `piece` to that of all earlier ones, as soon as
 * this is known, and return the latter. */
static float exchange_sums(struct scan *s, size_t piece, float own) {
    int looks = 0;
    while (__atomic_load_n(&s->added, __ATOMIC_ACQUIRE) != piece)
        if (++looks > PATIENCE) sched_yield();
    const float before = s->sum;
    s->sum = before + own;
    __atomic_store_n(&s->added, piece + 1, __ATOMIC_RELEASE);
    return before;
}

/* Scan pieces until all are taken. A thread finishes the piece that it has
 * taken, so no other waits in vain after Ctrl-C. */
static void scan_pieces(struct scan *s) {
    while (!weft_interrupted()) {
        const size_t piece = __atomic_fetch_add(&s->taken, 1, __ATOMIC_RELAXED);
        if (piece >= s->pieces) return;
        const size_t place = s->reverse ? s->pieces - 1 - piece : piece;
        const size_t first = place * PIECE, left = s->count - first;
        const size_t count = left < PIECE ? left : PIECE;
        const float own = add_piece(s->x + first, count);
        scan_flagged(s, first, count, exchange_sums(s, piece, own));
    }
}

int scan_reference(float *y, const float *x, size_t count, int exclusive,
                   int reverse) {
    struct scan s = {y,         x,      count, (count + PIECE - 1) / PIECE,
                     exclusive, reverse};
    s.apart = count >= APART && (uintptr_t)y % sizeof(vfloat) == 0;
#pragma omp parallel if (s.pieces >= ALONE)
    scan_pieces(&s);
    return s.added < s.pieces ? weft_fail(WEFT_EINTR, "scan: Ctrl-C") : WEFT_OK;
}
