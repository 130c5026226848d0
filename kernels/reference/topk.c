/* topk.c -- the k largest numbers of each row in plain C.
 *
 * A thread compares vectors with a threshold, and copies the few numbers above
 * it to a buffer. A full buffer is pruned to its k best entries, the smallest
 * of which is the next threshold. The first threshold is a floor from a sample:
 * the k-th largest of the maxima of many groups. At least k numbers reach it,
 * so a row in ascending order costs no more than one in random order. Threads
 * take a row each or, if there are few rows, a share of a row each. Entries of
 * a row differ (topk.cuh), so the result does not depend on the shares. */
#include <float.h>
#include <math.h>
#include <omp.h>
#include <stdlib.h>
#include <string.h>

#include "common/float_rank.h"
#include "reference.h"
#include "simd.h"

enum {
    FEW = 32,         // maximum number of entries sorted by counting
    SPARE = 256,      // minimum number of entries beyond the k best
    VECTORS = 4,      // vectors compared before a branch
    MAXIMA = 256,     // maximum number of vectors in find_floor()
    PIECE = 1 << 20,  // numbers between interrupt checks
    SHORT = 1 << 12,  // length of a row that is entirely in the sample
    SHARED = 1 << 16, // minimum length of a row that threads share
    LONE = 1 << 14    // minimum total of numbers for several threads
};

/* As in topk.cuh: a larger number, or an equal one in a lower column, has a
 * larger entry. */
typedef uint64_t entry;

static entry make_entry(float x, size_t col) {
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return (entry)rank_float(bits) << 32 | (uint32_t)~(uint32_t)col;
}

static size_t find_col(entry e) { return (uint32_t)~(uint32_t)e; }

/* ---- order of entries ---------------------------------------------------- */

static void swap(entry *a, entry *b) {
    const entry saved = *a;
    *a = *b;
    *b = saved;
}

/* Return one of `count` entries that is rarely among the largest or smallest:
 * the middle one of three, whose places depend on *seed. */
static entry choose_pivot(const entry *e, size_t count, uint64_t *seed) {
    entry three[3];
    for (int i = 0; i < 3; i++) {
        *seed = *seed * 6364136223846793005u + 1442695040888963407u;
        three[i] = e[(*seed >> 33) % count];
    }
    if (three[0] < three[1]) swap(three, three + 1);
    if (three[1] < three[2]) swap(three + 1, three + 2);
    return three[0] < three[1] ? three[0] : three[1];
}

/* Choose a pivot among the entries, and move all that are at least as large to
 * the front. Return their number, at least 1. */
static size_t split(entry *e, size_t count, uint64_t *seed) {
    const entry pivot = choose_pivot(e, count, seed);
    size_t kept = 0;
    for (size_t i = 0; i < count; i++) {
        const entry own = e[i];
        e[i] = e[kept];
        e[kept] = own;
        kept += own >= pivot;
    }
    return kept;
}

/* Return how many of a few entries are larger than one of them: its place in
 * order. No branch depends on the entries. */
static size_t find_place(const entry *e, size_t count, entry own) {
    size_t place = 0;
    for (size_t i = 0; i < count; i++) place += e[i] > own;
    return place;
}

/* Sort at most FEW entries, of which no two are equal, the largest first. */
static void sort_few(entry *e, size_t count) {
    entry sorted[FEW];
    for (size_t i = 0; i < count; i++)
        sorted[find_place(e, count, e[i])] = e[i];
    memcpy(e, sorted, count * sizeof *e);
}

/* Move the k largest of `count` entries, of which no two are equal, to the
 * front. e[k - 1] becomes the smallest of these. */
static void select_best(entry *e, size_t count, size_t k) {
    uint64_t seed = count;
    while (count > FEW) {
        const size_t kept = split(e, count, &seed);
        if (kept < k) {
            e += kept, count -= kept, k -= kept;
        } else if (kept == count) { // the pivot is the least entry
            size_t least = 0;
            for (size_t i = 1; i < count; i++)
                if (e[i] < e[least]) least = i;
            swap(e + least, e + count - 1);
            if (k == count--) return;
        } else {
            count = kept;
        }
    }
    sort_few(e, count);
}

/* Sort entries of which no two are equal, the largest first. */
static void sort_entries(entry *e, size_t count) {
    while (count > FEW && !weft_interrupted()) {
        const size_t half = count / 2;
        select_best(e, count, half);
        sort_entries(e, half);
        e += half, count -= half;
    }
    if (count <= FEW) sort_few(e, count);
}

/* ---- a floor ------------------------------------------------------------- */

/* Find the maxima of `groups` vectors' lanes. The groups take turns at every
 * step-th vector of x; there are `all` such vectors. */
SIMD_INLINE void find_maxima(vfloat *most, const float *x, size_t all,
                             size_t step, size_t groups) {
    for (size_t g = 0; g < groups; g++) most[g] = vsplat(-INFINITY);
    for (size_t i = 0; i < all; i += groups)
        for (size_t g = 0; g < groups; g++) {
            const vfloat v = vload(x + (i + g) * step * VLEN);
            most[g] = vselect(v > most[g], v, most[g]);
        }
}

/* Return a floor that at least k numbers of the row reach, or -infinity. */
static float find_floor(const float *x, size_t cols, size_t k) {
    vfloat most[MAXIMA];
    size_t groups = 1; // vectors of maxima; a lane is a group
    while (groups * VLEN < 2 * k) groups *= 4;
    if (groups > MAXIMA || cols < 2 * groups * VLEN) return -INFINITY;
    // Balance the costs of the sample and of numbers that reach the floor:
    // about k * cols / (length of the sample).
    size_t step = 1;
    if (cols > SHORT)
        while (step * step * k * VLEN < cols) step *= 2;
    const size_t all = cols / VLEN / step / groups * groups;
    if (all == 0) return -INFINITY;
    if (groups == 1) // the compiler keeps few maxima in registers
        find_maxima(most, x, all, step, 1);
    else if (groups == 4)
        find_maxima(most, x, all, step, 4);
    else
        find_maxima(most, x, all, step, groups);
    entry maxima[MAXIMA * VLEN];
    for (size_t i = 0; i < groups * VLEN; i++)
        maxima[i] = make_entry(most[i / VLEN][i % VLEN], i);
    select_best(maxima, groups * VLEN, k);
    const size_t at = find_col(maxima[k - 1]);
    return most[at / VLEN][at % VLEN];
}

/* ---- the best of a share ------------------------------------------------- */

/* The best entries of a share of a row so far. */
struct best {
    entry *entries;
    size_t count, room, k;
    /* A number is a candidate unless it is at most this threshold. NaN is
     * always a candidate; if the threshold is NaN, so are all numbers. */
    float threshold;
    int full; // the k best are NaN: no later number is better
};

/* Return a threshold that `floor` and all larger numbers exceed. */
static float step_below(float floor) {
    if (floor == -INFINITY) return NAN;
    // Even a processor that treats small numbers as 0 finds these larger.
    if (fabsf(floor) < 2 * FLT_MIN) return -3 * FLT_MIN;
    return nextafterf(floor, -INFINITY);
}

static void prune(struct best *b, const float *x) {
    if (b->count < b->k) return;
    select_best(b->entries, b->count, b->k);
    b->count = b->k;
    b->threshold = x[find_col(b->entries[b->k - 1])];
    b->full = b->threshold != b->threshold;
}

/* Append a candidate. The buffer then has room for another one. */
static void append(struct best *b, const float *x, size_t col) {
    b->entries[b->count++] = make_entry(x[col], col);
    if (b->count == b->room) prune(b, x);
}

/* Return a bit for each lane that exceeds the threshold or is NaN. */
SIMD_INLINE unsigned find_candidates(vfloat v, vfloat threshold) {
#if defined(__AVX512F__)
    return _mm512_cmp_ps_mask((__m512)v, (__m512)threshold, _CMP_NLE_UQ);
#elif defined(__AVX2__)
    return (unsigned)_mm256_movemask_ps((__m256) ~(vint)(v <= threshold));
#else
    unsigned lanes = 0;
    for (int i = 0; i < VLEN; i++)
        lanes |= (unsigned)!(v[i] <= threshold[i]) << i;
    return lanes;
#endif
}

/* Append the candidates among the lanes of the vector at `first` whose bits are
 * set. A candidate may raise the threshold for the next one. */
static void append_lanes(struct best *b, const float *x, size_t first,
                         unsigned lanes) {
    for (; lanes; lanes &= lanes - 1) {
        const size_t col = first + (size_t)__builtin_ctz(lanes);
        if (!(x[col] <= b->threshold)) append(b, x, col);
    }
}

/* Append the candidates among columns `first` to `end`. */
static void append_all(struct best *b, const float *x, size_t first,
                       size_t end) {
    size_t i = first;
    for (; i + VECTORS * VLEN <= end && !b->full; i += VECTORS * VLEN) {
        const vfloat threshold = vsplat(b->threshold);
        unsigned lanes[VECTORS], any = 0;
        for (int j = 0; j < VECTORS; j++)
            any |= lanes[j] =
                find_candidates(vload(x + i + j * VLEN), threshold);
        if (any)
            for (int j = 0; j < VECTORS; j++)
                append_lanes(b, x, i + (size_t)j * VLEN, lanes[j]);
    }
    for (; i < end && !b->full; i++)
        if (!(x[i] <= b->threshold)) append(b, x, i);
}

/* Write an entry as result `place` of its row. */
static void write_result(float *values, int64_t *indices, size_t place, entry e,
                         const float *x) {
    values[place] = x[find_col(e)];
    indices[place] = (int64_t)find_col(e);
}

/* Write the k best entries in order. */
static void write_best(float *values, int64_t *indices, struct best *b,
                       const float *x) {
    if (b->count < b->k) return; // Ctrl-C has ended the search
    if (b->count <= FEW) {
        for (size_t i = 0; i < b->count; i++) {
            const entry e = b->entries[i];
            const size_t place = find_place(b->entries, b->count, e);
            if (place < b->k) write_result(values, indices, place, e, x);
        }
        return;
    }
    select_best(b->entries, b->count, b->k);
    sort_entries(b->entries, b->k);
    for (size_t i = 0; i < b->k; i++)
        write_result(values, indices, i, b->entries[i], x);
}

static void begin_row(struct best *b, float floor) {
    b->count = 0;
    b->full = 0;
    b->threshold = step_below(floor);
}

/* ---- rows ---------------------------------------------------------------- */

/* The arguments of topk_reference(). */
struct call {
    float *values;
    int64_t *indices;
    const float *x;
    size_t rows, cols, k;
};

static struct best make_best(entry *entries, size_t room, size_t k) {
    const struct best b = {entries, 0, room, k, NAN, 0};
    return b;
}

/* Select the best of all rows, a thread per row. entries: `room` per thread. */
static void select_rows(const struct call *c, entry *entries, size_t room) {
#pragma omp parallel if (c->rows > 1 && c->cols >= LONE / c->rows)
    {
        const size_t thread = (size_t)omp_get_thread_num();
        struct best b = make_best(entries + thread * room, room, c->k);
#pragma omp for schedule(static)
        for (size_t row = 0; row < c->rows; row++) {
            if (weft_interrupted()) continue;
            const float *x = c->x + row * c->cols;
            begin_row(&b, find_floor(x, c->cols, c->k));
            append_all(&b, x, 0, c->cols);
            write_best(c->values + row * c->k, c->indices + row * c->k, &b, x);
        }
    }
}

/* Select the best of the calling thread's share of a row. */
static void select_share(struct best *b, const float *x, size_t cols) {
    const size_t thread = (size_t)omp_get_thread_num();
    const size_t threads = (size_t)omp_get_num_threads();
    const size_t share = cols / threads, first = share * thread;
    const size_t end = thread + 1 < threads ? first + share : cols;
    for (size_t i = first; i < end && !weft_interrupted(); i += PIECE)
        append_all(b, x, i, end - i < PIECE ? end : i + PIECE);
    prune(b, x);
}

/* Select the best of all rows; all threads share each row. entries: `room` for
 * each thread, then k for each, where their best entries are joined. */
static void select_shares(const struct call *c, entry *entries, size_t room) {
    entry *joined = entries + (size_t)omp_get_max_threads() * room;
    for (size_t row = 0; row < c->rows && !weft_interrupted(); row++) {
        const float *x = c->x + row * c->cols;
        const float floor = find_floor(x, c->cols, c->k);
        struct best all = make_best(joined, 0, c->k);
#pragma omp parallel
        {
            const size_t thread = (size_t)omp_get_thread_num();
            struct best b = make_best(entries + thread * room, room, c->k);
            begin_row(&b, floor);
            select_share(&b, x, c->cols);
#pragma omp critical(topk) // any order, since all entries differ
            {
                memcpy(joined + all.count, b.entries, b.count * sizeof(entry));
                all.count += b.count;
            }
        }
        write_best(c->values + row * c->k, c->indices + row * c->k, &all, x);
    }
}

int topk_reference(float *values, int64_t *indices, const float *x, size_t rows,
                   size_t cols, size_t k) {
    const struct call c = {values, indices, x, rows, cols, k};
    const size_t threads = (size_t)omp_get_max_threads();
    const size_t room = k + (k > SPARE ? k : SPARE);
    const size_t bytes = threads * (room + k) * sizeof(entry);
    entry *entries = malloc(bytes);
    if (!entries)
        return weft_fail(WEFT_ENOMEM, "topk: out of memory: %zu bytes", bytes);
    if (rows < threads && cols >= SHARED)
        select_shares(&c, entries, room);
    else
        select_rows(&c, entries, room);
    free(entries);
    if (weft_interrupted()) return weft_fail(WEFT_EINTR, "topk: Ctrl-C");
    return WEFT_OK;
}

/* ---- gradients ----------------------------------------------------------- */

/* Set an array to 0; threads share the pieces. */
static void clear(float *dx, size_t count) {
#pragma omp parallel for schedule(static)
    for (size_t i = 0; i < count; i += PIECE)
        if (!weft_interrupted())
            memset(dx + i, 0,
                   (count - i < PIECE ? count - i : PIECE) * sizeof *dx);
}

int topk_reference_backward(float *dx, const float *dvalues,
                            const int64_t *indices, size_t rows, size_t cols,
                            size_t k) {
    const int few = rows < (size_t)omp_get_max_threads();
    if (few) clear(dx, rows * cols);
#pragma omp parallel for schedule(static) if (rows > 1 && cols >= LONE / rows)
    for (size_t row = 0; row < rows; row++) {
        if (weft_interrupted()) continue;
        if (!few) memset(dx + row * cols, 0, cols * sizeof *dx);
        for (size_t i = row * k; i < (row + 1) * k; i++)
            dx[row * cols + (size_t)indices[i]] = dvalues[i];
    }
    if (weft_interrupted()) return weft_fail(WEFT_EINTR, "topk: Ctrl-C");
    return WEFT_OK;
}
