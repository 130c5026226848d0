/* softmax.h -- softmax of each row in plain C, for softmax.c and
 * cross_entropy.c.
 *
 * A row of up to SHORT numbers is read once from memory. The pass for the
 * maximum brings it into the cache, where the pass for the exponentials finds
 * it. The exponentials stay in a buffer until their sum is known. If the arrays
 * exceed the caches, stores skip them, as in copy.c.
 *
 * A row of up to NARROW numbers would leave most lanes idle, so each lane
 * computes a different row.
 *
 * A row of more than SHORT numbers is divided into PIECES. Each has its own
 * maximum and sum, which are merged. The exponentials of up to KEPT numbers,
 * relative to their piece's maximum, stay in a buffer; otherwise the row is
 * read again. Threads share rows, or the pieces of a row if there are fewer
 * rows than threads. The additions have the same order in both cases. */
#ifndef WEFT_REFERENCE_SOFTMAX_H
#define WEFT_REFERENCE_SOFTMAX_H
#include <math.h>
#include <stdlib.h>

#include "rows.h"

enum {
    KEPT = 1 << 18,  // numbers of a row whose exponentials are kept: 1 MiB
    BLOCK = 1 << 12, // numbers of a longer row per update of the maximum
    NARROW = 32,     // numbers of the longest row that one lane computes
    SUMS = 4         // number of sums kept side by side
};

/* A maximum, and the sum of the exponentials of the distances from it. */
struct pair {
    float most, sum;
};

/* Return the first `count` numbers of x, followed by `other`. */
SIMD_INLINE vfloat vload_some(const float *x, size_t count, float other) {
    vfloat v = vsplat(other);
    for (size_t i = 0; i < count; i++) v[i] = x[i];
    return v;
}

SIMD_INLINE void vstore_some(float *y, vfloat v, size_t count) {
    for (size_t i = 0; i < count; i++) y[i] = v[i];
}

/* Return the maximum of x without its NaNs, or -infinity if nothing remains. */
static float find_most(const float *x, size_t count) {
    vfloat most[SUMS];
    for (int s = 0; s < SUMS; s++) most[s] = vsplat(-INFINITY);
    size_t i = 0;
    for (; i + SUMS * VLEN <= count; i += SUMS * VLEN)
#pragma GCC unroll 4
        for (int s = 0; s < SUMS; s++)
            most[s] = vmax(vload(x + i + s * VLEN), most[s]);
    for (; i < count; i += VLEN) {
        const size_t left = count - i < VLEN ? count - i : VLEN;
        most[0] = vmax(vload_some(x + i, left, -INFINITY), most[0]);
    }
    const vfloat all = vmax(vmax(most[0], most[1]), vmax(most[2], most[3]));
    float found = all[0];
    for (int j = 1; j < VLEN; j++) found = all[j] > found ? all[j] : found;
    return found;
}

/* Return the sum of exp(x - most), and store the exponentials in e unless it is
 * NULL. Meanwhile, fetch the numbers after x, which come next: memory would be
 * idle otherwise. */
SIMD_INLINE float add_exps(float *e, const float *x, size_t count, float most) {
    vfloat sums[SUMS] = {};
    size_t i = 0;
    for (; i + SUMS * VLEN <= count; i += SUMS * VLEN)
#pragma GCC unroll 4
        for (int s = 0; s < SUMS; s++) {
            const float *const at = x + i + s * VLEN;
            __builtin_prefetch(at + count, 0, 2);
            const vfloat power = vexp(vload(at) - most);
            if (e) vstore(e + i + s * VLEN, power);
            sums[s] += power;
        }
    for (; i < count; i += VLEN) {
        const size_t left = count - i < VLEN ? count - i : VLEN;
        const vfloat power = vexp(vload_some(x + i, left, -INFINITY) - most);
        if (e) vstore_some(e + i, power, left);
        sums[0] += power;
    }
    return vsum((sums[0] + sums[1]) + (sums[2] + sums[3]));
}

/* Merge two pairs. A maximum of -infinity has the sum 0, or NaN. */
static struct pair merge(struct pair a, struct pair b) {
    const float most = a.most > b.most ? a.most : b.most;
    if (most == -INFINITY) return (struct pair){most, a.sum + b.sum};
    return (struct pair){most, a.sum * expf(a.most - most) +
                                   b.sum * expf(b.most - most)};
}

static struct pair read_pair(const float *x, size_t count) {
    struct pair pair = {-INFINITY, 0.0f};
    for (size_t i = 0; i < count; i += BLOCK) {
        const size_t left = count - i < BLOCK ? count - i : BLOCK;
        const float most = find_most(x + i, left);
        // exp(-infinity - 0) is 0, and a NaN remains one.
        const float base = most == -INFINITY ? 0.0f : most;
        const float sum = add_exps(NULL, x + i, left, base);
        pair = merge(pair, (struct pair){most, sum});
    }
    return pair;
}

SIMD_INLINE float exp_of(float x) { return vexp(vsplat(x))[0]; }

/* A call of the forward pass. */
struct soften {
    struct rows rows;
    float *y;
    const float *x;
    float *kept; // (threads,cols): exponentials of each thread's row; or NULL
    double *losses;        // (rows): -log y at each row's target; or NULL
    const int64_t *target; // (rows)
};

/* Store the loss of a row with this pair. It differs from -log(y): even a
 * probability that is 0 in float has a finite logarithm. */
static void store_loss(const struct soften *c, size_t row, struct pair pair) {
    if (!c->losses) return;
    const float logit = c->x[row * c->rows.cols + c->target[row]];
    c->losses[row] = logf(pair.sum) - ((double)logit - pair.most);
}

/* A long row of a call: its pieces' pairs, then the row's. */
struct soften_row {
    const struct soften *call;
    size_t first; // number of the row's first element
    float *kept;  // (cols): the exponentials; NULL: not kept
    struct pair pairs[PIECES], row;
};

static void read_piece(void *row, int piece, size_t at, size_t count) {
    struct soften_row *r = row;
    r->pairs[piece] = read_pair(r->call->x + r->first + at, count);
}

static void soften_piece(void *row, int piece, size_t at, size_t count) {
    const struct soften_row *r = row;
    float *const y = r->call->y + r->first + at;
    const float *const x = r->call->x + r->first + at;
    const float factor = 1.0f / r->row.sum, most = r->row.most;
    (void)piece;
    STORE_EACH(y, count, r->call->rows.streams,
               vexp(vload(x + i) - most) * factor,
               exp_of(x[i] - most) * factor);
}

/* Do what read_piece() does, but keep the exponentials. */
static void keep_piece(void *row, int piece, size_t at, size_t count) {
    struct soften_row *r = row;
    const float *const x = r->call->x + r->first + at;
    const float most = find_most(x, count);
    const float base = most == -INFINITY ? 0.0f : most;
    const float sum = add_exps(r->kept + at, x, count, base);
    r->pairs[piece] = (struct pair){most, sum};
}

static void scale_piece(void *row, int piece, size_t at, size_t count) {
    const struct soften_row *r = row;
    float *const y = r->call->y + r->first + at;
    const float *const kept = r->kept + at, most = r->pairs[piece].most;
    // An empty piece's factor is 0, or NaN if the row is empty, too.
    const float factor = expf(most - r->row.most) / r->row.sum;
    STORE_EACH(y, count, r->call->rows.streams, vload(kept + i) * factor,
               kept[i] * factor);
}

static void soften_pieces(const void *call, size_t row, float *kept) {
    const struct soften *c = call;
    const struct pair none = {-INFINITY, 0.0f};
    struct soften_row r = {c, row * c->rows.cols, kept, {}, none};
    for (int p = 0; p < PIECES; p++) r.pairs[p] = none;
    for_pieces(&c->rows, kept ? keep_piece : read_piece, &r);
    for (int p = 0; p < PIECES; p++) r.row = merge(r.row, r.pairs[p]);
    for_pieces(&c->rows, kept ? scale_piece : soften_piece, &r);
    store_loss(c, row, r.row);
}

static void soften_long(const void *call, size_t row) {
    soften_pieces(call, row, NULL);
}

static void soften_kept(const void *call, size_t row) {
    const struct soften *c = call;
    soften_pieces(call, row, c->kept + omp_get_thread_num() * c->rows.cols);
}

static void soften_short(const void *call, size_t row) {
    const struct soften *c = call;
    const size_t count = c->rows.cols;
    float *const y = c->y + row * count, buffer[SHORT];
    const float *const x = c->x + row * count;
    float *const e = c->rows.streams ? buffer : y;
    const float most = find_most(x, count);
    const struct pair pair = {most, add_exps(e, x, count, most)};
    const float factor = 1.0f / pair.sum;
    STORE_EACH(y, count, c->rows.streams, vload(e + i) * factor, e[i] * factor);
    store_loss(c, row, pair);
}

/* Compute the softmax of VLEN narrow rows, or of the rows that are left. Each
 * lane has a row; absent rows repeat the first one. */
static void soften_narrow(const void *call, size_t group) {
    const struct soften *c = call;
    const size_t cols = c->rows.cols, first = group * VLEN;
    const size_t left = c->rows.rows - first, count = left < VLEN ? left : VLEN;
    const float *const x = c->x + first * cols;
    float *const y = c->y + first * cols, columns[NARROW][VLEN];
    for (size_t r = 0; r < VLEN; r++)
        for (size_t i = 0; i < cols; i++)
            columns[i][r] = x[(r < count ? r : 0) * cols + i];
    vfloat most = vsplat(-INFINITY), sum = {};
    for (size_t i = 0; i < cols; i++) most = vmax(vload(columns[i]), most);
    for (size_t i = 0; i < cols; i++) {
        const vfloat power = vexp(vload(columns[i]) - most);
        vstore(columns[i], power);
        sum += power;
    }
    const vfloat factor = 1.0f / sum;
    for (size_t i = 0; i < cols; i++)
        vstore(columns[i], vload(columns[i]) * factor);
    for (size_t r = 0; r < count; r++) {
        for (size_t i = 0; i < cols; i++) y[r * cols + i] = columns[i][r];
        store_loss(c, first + r, (struct pair){most[r], sum[r]});
    }
}

/* Compute the softmax of all rows, and their losses. `kept` is NULL. Returns a
 * weft_status. */
static int soften_rows(struct soften *call) {
    const struct rows *const rows = &call->rows;
    if (rows->cols <= NARROW) {
        struct rows groups = *rows;
        groups.rows = (rows->rows + VLEN - 1) / VLEN, groups.cols *= VLEN;
        return for_rows(&groups, soften_narrow, call);
    }
    if (rows->cols <= SHORT) return for_rows(rows, soften_short, call);
    if (rows->cols > KEPT) return for_rows(rows, soften_long, call);
    const size_t bytes =
        rows->cols * omp_get_max_threads() * sizeof *call->kept;
    call->kept = malloc(bytes);
    if (!call->kept)
        return weft_fail(WEFT_ENOMEM, "%s: out of memory: %zu bytes", rows->op,
                         bytes);
    const int status = for_rows(rows, soften_kept, call);
    free(call->kept);
    return status;
}

#endif
