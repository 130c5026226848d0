/* scan.c -- running sums in plain C, in one pass over memory.
 *
 * The array is divided into pieces that fit into a core's cache. A thread takes
 * the next piece, adds its numbers, and needs the sum of all earlier pieces.
 * Then it scans the piece, which is still in the cache. The sum of all earlier
 * pieces is usually available, since the previous piece needed only its own
 * addition. If it is not, because that piece's thread is not running, then the
 * waiting thread adds that piece itself. The sums of pieces are added in double
 * precision. The order of additions is always the same, so any number of
 * threads gives the same bits. A reverse scan counts pieces and vectors from
 * the end. */
#include <stdlib.h>

#include "reference.h"
#include "simd.h"

enum {
    PIECE = 1 << 14, // numbers of a piece: 64 KiB
    ACROSS = 4,      // vectors of sums kept side by side
    ALONE = 16,      // with fewer pieces, a second thread costs more than it
                     // saves
    APART = 1 << 21, // with this count or more, stores skip the caches
    PATIENCE = 1000  // checks of other threads' progress before helping
};

struct scan {
    float *y;
    const float *x;
    size_t count, pieces;
    int exclusive, reverse;
    int ended;      // whether Ctrl-C has ended the scan
    int apart;      // whether stores skip the caches
    double *before; // (pieces + 1), the sums of all earlier pieces
    size_t taken;   // pieces that threads have taken
    size_t added;   // before[0] to before[added] are known
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

/* Return the running sums of v, starting from *sum, whose lanes are equal. Add
 * v to *sum. */
SIMD_INLINE vfloat vscan(vfloat v, vfloat *sum, int exclusive, int reverse) {
#pragma GCC unroll 4
    for (int distance = 1; distance < VLEN; distance *= 2)
        v += vshift(v, distance, reverse);
    const vfloat upto = *sum + v;
    if (exclusive) v = *sum + vshift(v, 1, reverse);
    *sum = __builtin_shuffle(upto, (vint){} + (reverse ? 0 : VLEN - 1));
    return exclusive ? v : upto;
}

/* Scan the `count` numbers after the last whole vector. */
SIMD_INLINE void scan_rest(float *y, const float *x, size_t count,
                           vfloat earlier, vfloat *sum, int exclusive,
                           int reverse) {
    float padded[VLEN] = {0};
    for (size_t i = 0; i < count; i++) padded[i] = x[i];
    vstore(padded, earlier + vscan(vload(padded), sum, exclusive, reverse));
    for (size_t i = 0; i < count; i++) y[i] = padded[i];
}

/* Scan a piece, and meanwhile fetch the numbers at `ahead` into the cache.
 * Its sums begin at 0 and so are small: they round less than sums that begin at
 * `before`, which is added to each once. The flags are constants at each call,
 * so that the loop has no branches. */
SIMD_INLINE void scan_piece(float *y, const float *x, size_t count,
                            const float *ahead, float before, int apart,
                            int exclusive, int reverse) {
    const vfloat earlier = vsplat(before);
    vfloat sum = vsplat(0.0f); // running sum of this piece
    const size_t vectors = count / VLEN, rest = count % VLEN, at = count - rest;
    if (rest && reverse)
        scan_rest(y + at, x + at, rest, earlier, &sum, exclusive, 1);
    for (size_t i = 0; i < vectors; i++) {
        const size_t first = (reverse ? vectors - 1 - i : i) * VLEN;
        __builtin_prefetch(ahead + first, 0, 2);
        const vfloat v = vscan(vload(x + first), &sum, exclusive, reverse);
        if (apart)
            vstream(y + first, earlier + v);
        else
            vstore(y + first, earlier + v);
    }
    if (rest && !reverse)
        scan_rest(y + at, x + at, rest, earlier, &sum, exclusive, 0);
    if (apart) vstream_end();
}

static void scan_flagged(const struct scan *s, size_t first, size_t count,
                         size_t next, float sum) {
    float *const y = s->y + first;
    const float *const x = s->x + first, *const ahead = s->x + next;
    switch (s->apart << 2 | s->exclusive << 1 | s->reverse) {
    case 0: return scan_piece(y, x, count, ahead, sum, 0, 0, 0);
    case 1: return scan_piece(y, x, count, ahead, sum, 0, 0, 1);
    case 2: return scan_piece(y, x, count, ahead, sum, 0, 1, 0);
    case 3: return scan_piece(y, x, count, ahead, sum, 0, 1, 1);
    case 4: return scan_piece(y, x, count, ahead, sum, 1, 0, 0);
    case 5: return scan_piece(y, x, count, ahead, sum, 1, 0, 1);
    case 6: return scan_piece(y, x, count, ahead, sum, 1, 1, 0);
    case 7: return scan_piece(y, x, count, ahead, sum, 1, 1, 1);
    }
}

/* Return the index of a piece's first number; *count receives its length. */
static size_t find_piece(const struct scan *s, size_t piece, size_t *count) {
    const size_t place = s->reverse ? s->pieces - 1 - piece : piece;
    const size_t first = place * PIECE, left = s->count - first;
    *count = left < PIECE ? left : PIECE;
    return first;
}

/* Record the sum of a piece, unless a thread has done so. All threads would
 * record the same bits. */
static void record_sum(struct scan *s, size_t piece, float sum) {
    if (__atomic_load_n(&s->added, __ATOMIC_ACQUIRE) != piece) return;
    double before, after;
    __atomic_load(s->before + piece, &before, __ATOMIC_RELAXED);
    after = before + sum;
    __atomic_store(s->before + piece + 1, &after, __ATOMIC_RELAXED);
    __atomic_compare_exchange_n(&s->added, &piece, piece + 1, 0,
                                __ATOMIC_RELEASE, __ATOMIC_RELAXED);
}

/* Return the sum of all pieces before a piece. If it remains unknown, add the
 * pieces that are missing. */
static double find_before(struct scan *s, size_t piece) {
    int looks = 0;
    size_t added, count;
    while ((added = __atomic_load_n(&s->added, __ATOMIC_ACQUIRE)) < piece) {
        if (++looks % PATIENCE) continue;
        const size_t first = find_piece(s, added, &count);
        record_sum(s, added, add_piece(s->x + first, count));
    }
    double before;
    __atomic_load(s->before + piece, &before, __ATOMIC_RELAXED);
    return before;
}

/* Scan pieces; a thread takes its next one early, to fetch it meanwhile. */
static void scan_pieces(struct scan *s) {
    size_t piece = __atomic_fetch_add(&s->taken, 1, __ATOMIC_RELAXED);
    while (piece < s->pieces && !weft_interrupted()) {
        size_t count, most;
        const size_t first = find_piece(s, piece, &count);
        const float own = add_piece(s->x + first, count);
        const float before = (float)find_before(s, piece);
        record_sum(s, piece, own);
        piece = __atomic_fetch_add(&s->taken, 1, __ATOMIC_RELAXED);
        const size_t next =
            piece < s->pieces ? find_piece(s, piece, &most) : first;
        scan_flagged(s, first, count, next, before);
    }
    if (piece < s->pieces) __atomic_store_n(&s->ended, 1, __ATOMIC_RELAXED);
}

int scan_reference(float *y, const float *x, size_t count, int exclusive,
                   int reverse) {
    const size_t pieces = (count + PIECE - 1) / PIECE;
    const size_t bytes = (pieces + 1) * sizeof(double);
    struct scan s = {.y = y, .x = x, .count = count, .pieces = pieces};
    s.exclusive = exclusive;
    s.reverse = reverse;
    s.apart = count >= APART && (uintptr_t)y % sizeof(vfloat) == 0;
    s.before = malloc(bytes);
    if (!s.before)
        return weft_fail(WEFT_ENOMEM, "scan: out of memory: %zu bytes", bytes);
    s.before[0] = 0.0;
#pragma omp parallel if (pieces >= ALONE)
    scan_pieces(&s);
    free(s.before);
    return s.ended ? weft_fail(WEFT_EINTR, "scan: Ctrl-C") : WEFT_OK;
}
