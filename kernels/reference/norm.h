/* norm.h -- layernorm and rmsnorm in plain C.
 *
 * A row is read from memory once: the pass for the squares and the pass that
 * writes find it in the cache. The latter fetches the next row, so that memory
 * reads and writes overlap. If the arrays exceed the caches, stores skip them,
 * as in copy.c.
 *
 * Backward, rows are divided into at most PIECES pieces, each of which adds its
 * part of the weights' gradients to a separate array. The pieces depend on
 * the number of rows only, so the number of threads does not affect the bits.
 */
#ifndef WEFT_NORM_H
#define WEFT_NORM_H
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "rows.h"

enum { SUMS = 4 }; // number of sums kept side by side

/* The arguments of the forward pass. In rmsnorm, mean and bias are NULL. */
struct norm {
    struct rows rows;
    float *y, *total, *mean, *rstd;
    const float *x, *residual, *weight, *bias;
    float eps;
    int centred; // whether the mean is subtracted
};

/* The arguments of the backward pass. x is total if there is a residual. */
struct norm_backward {
    struct rows rows; // the pieces, each of which has `length` rows
    float *dx, *dresidual;
    float *sums; // (pieces,2,cols): the pieces' dweight and dbias; NULL: none
    const float *dy, *x, *weight, *mean, *rstd;
    size_t count, cols, length; // numbers of rows, columns, rows in a piece
    int centred;
};

SIMD_INLINE float add_sums(const vfloat sums[SUMS]) {
    return vsum((sums[0] + sums[1]) + (sums[2] + sums[3]));
}

/* Store x + residual in total. */
static void add_residual(float *total, const float *x, const float *residual,
                         size_t count) {
#pragma omp simd
    for (size_t i = 0; i < count; i++) total[i] = x[i] + residual[i];
}

static float add_numbers(const float *x, size_t count) {
    vfloat sums[SUMS] = {};
    size_t i = 0;
    for (; i + SUMS * VLEN <= count; i += SUMS * VLEN)
#pragma GCC unroll 4
        for (int s = 0; s < SUMS; s++) sums[s] += vload(x + i + s * VLEN);
    float rest = 0.0f;
    for (; i < count; i++) rest += x[i];
    return add_sums(sums) + rest;
}

/* Return the sum of the squares of x - mean. */
static float add_squares(const float *x, float mean, size_t count) {
    vfloat sums[SUMS] = {};
    size_t i = 0;
    for (; i + SUMS * VLEN <= count; i += SUMS * VLEN)
#pragma GCC unroll 4
        for (int s = 0; s < SUMS; s++) {
            const vfloat distance = vload(x + i + s * VLEN) - mean;
            sums[s] += distance * distance;
        }
    float rest = 0.0f;
    for (; i < count; i++) rest += (x[i] - mean) * (x[i] - mean);
    return add_sums(sums) + rest;
}

/* Return the scaled distances of the VLEN numbers from i, and fetch those of
 * the next row. */
SIMD_INLINE vfloat vdistance(const float *x, size_t i, size_t count, float mean,
                             float rstd) {
    __builtin_prefetch(x + count + i, 0, 2);
    return (vload(x + i) - mean) * rstd;
}

/* Store (x - mean) * rstd * weight + bias. weight and bias may be NULL. */
static void scale_row(float *y, const float *x, const float *weight,
                      const float *bias, size_t count, float mean, float rstd,
                      int streams) {
#define VECTOR vdistance(x, i, count, mean, rstd)
#define NUMBER (x[i] - mean) * rstd
    if (weight && bias)
        STORE_EACH(y, count, streams,
                   VECTOR * vload(weight + i) + vload(bias + i),
                   NUMBER * weight[i] + bias[i]);
    else if (weight)
        STORE_EACH(y, count, streams, VECTOR * vload(weight + i),
                   NUMBER * weight[i]);
    else if (bias)
        STORE_EACH(y, count, streams, VECTOR + vload(bias + i),
                   NUMBER + bias[i]);
    else
        STORE_EACH(y, count, streams, VECTOR, NUMBER);
#undef VECTOR
#undef NUMBER
}

static void normalize_row(const void *call, size_t row) {
    const struct norm *n = call;
    const size_t count = n->rows.cols, first = row * count;
    const float *const x = n->residual ? n->total + first : n->x + first;
    if (n->residual)
        add_residual(n->total + first, n->x + first, n->residual + first,
                     count);
    const float mean = n->centred ? add_numbers(x, count) / count : 0.0f;
    const float squares = add_squares(x, mean, count);
    const float rstd = 1.0f / sqrtf(squares / count + n->eps);
    scale_row(n->y + first, x, n->weight, n->bias, count, mean, rstd,
              n->rows.streams);
    if (n->centred) n->mean[row] = mean;
    n->rstd[row] = rstd;
}

static inline int normalize_rows(struct norm *n) {
    n->rows.together = 0; // a row is never divided
    return for_rows(&n->rows, normalize_row, n);
}

/* ---- backward ------------------------------------------------------------ */

/* The numbers of a row that the loops below use. */
struct slope {
    const float *dy, *x, *weight;
    float mean, rstd;
    float plain, scaled; // means of g = dy * weight and of g * xhat
};

SIMD_INLINE vfloat vslope(const struct slope *s, size_t i) {
    vfloat g = vload(s->dy + i);
    if (s->weight) g *= vload(s->weight + i);
    return g;
}

SIMD_INLINE float slope_at(const struct slope *s, size_t i) {
    return s->weight ? s->dy[i] * s->weight[i] : s->dy[i];
}

SIMD_INLINE vfloat vhat(const struct slope *s, size_t i) {
    return (vload(s->x + i) - s->mean) * s->rstd;
}

SIMD_INLINE float hat_at(const struct slope *s, size_t i) {
    return (s->x[i] - s->mean) * s->rstd;
}

/* Compute a row's means of g and g * xhat. */
static void find_means(struct slope *s, size_t count, int centred) {
    vfloat plain = {}, scaled = {};
    size_t i = 0;
    for (; i + VLEN <= count; i += VLEN) {
        const vfloat g = vslope(s, i);
        plain += g;
        scaled += g * vhat(s, i);
    }
    float rest = 0.0f, scaled_rest = 0.0f;
    for (; i < count; i++) {
        rest += slope_at(s, i);
        scaled_rest += slope_at(s, i) * hat_at(s, i);
    }
    s->plain = centred ? (vsum(plain) + rest) / count : 0.0f;
    s->scaled = (vsum(scaled) + scaled_rest) / count;
}

/* Store rstd * (g - mean(g) - xhat * mean(g * xhat)). */
static void store_slope(float *dx, struct slope s, size_t count, int streams) {
    STORE_EACH(dx, count, streams,
               (vslope(&s, i) - s.plain - vhat(&s, i) * s.scaled) * s.rstd,
               (slope_at(&s, i) - s.plain - hat_at(&s, i) * s.scaled) * s.rstd);
}

/* Add a row's dy * xhat and dy to its piece's sums. */
static void add_weights(float *dweight, float *dbias, struct slope s,
                        size_t count) {
#pragma omp simd
    for (size_t i = 0; i < count; i++) {
        dweight[i] += s.dy[i] * ((s.x[i] - s.mean) * s.rstd);
        dbias[i] += s.dy[i];
    }
}

static void differentiate_row(const struct norm_backward *n, size_t row,
                              float *sums) {
    const size_t first = row * n->cols;
    struct slope s = {n->dy + first, n->x + first, n->weight, 0.0f,
                      n->rstd[row],  0.0f,         0.0f};
    if (n->centred) s.mean = n->mean[row];
    if (n->dx || n->dresidual) find_means(&s, n->cols, n->centred);
    if (sums) add_weights(sums, sums + n->cols, s, n->cols);
    if (n->dx) store_slope(n->dx + first, s, n->cols, n->rows.streams);
    if (n->dresidual)
        store_slope(n->dresidual + first, s, n->cols, n->rows.streams);
}

static void differentiate_piece(const void *call, size_t piece) {
    const struct norm_backward *n = call;
    const size_t end = (piece + 1) * n->length;
    float *const sums = n->sums ? n->sums + piece * 2 * n->cols : NULL;
    for (size_t row = piece * n->length; row < end && row < n->count; row++)
        differentiate_row(n, row, sums);
}

/* Store the sum of the pieces' sums in each requested array. */
static void add_pieces(const struct norm_backward *n, float *dweight,
                       float *dbias) {
    float *const all = n->sums;
    for (size_t piece = 1; piece < n->rows.rows; piece++)
#pragma omp simd
        for (size_t i = 0; i < 2 * n->cols; i++)
            all[i] += all[piece * 2 * n->cols + i];
    if (dweight) memcpy(dweight, all, n->cols * sizeof *all);
    if (dbias) memcpy(dbias, all + n->cols, n->cols * sizeof *all);
}

/* Run the backward pass; n->rows describes all rows. dweight, dbias: NULL if
 * not needed. */
static inline int differentiate_rows(struct norm_backward *n, float *dweight,
                                     float *dbias) {
    n->count = n->rows.rows, n->cols = n->rows.cols;
    n->length = (n->count + PIECES - 1) / PIECES;
    n->rows.rows = (n->count + n->length - 1) / n->length;
    n->rows.cols *= n->length, n->rows.together = 0;
    if (dweight || dbias) {
        const size_t sums = n->rows.rows * 2 * n->cols;
        n->sums = calloc(sums, sizeof *n->sums);
        if (!n->sums)
            return weft_fail(WEFT_ENOMEM, "%s: out of memory: %zu bytes",
                             n->rows.op, sums * sizeof *n->sums);
    }
    const int status = for_rows(&n->rows, differentiate_piece, n);
    if (n->sums && !status) add_pieces(n, dweight, dbias);
    free(n->sums);
    return status;
}

#endif
