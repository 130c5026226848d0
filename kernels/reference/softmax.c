/* softmax.c -- softmax of each row in plain C; softmax.h has the forward
 * pass. */
#include "softmax.h"

int softmax_reference(float *y, const float *x, int rows, int cols) {
    struct soften call = {
        .rows = make_rows("softmax", rows, cols), .y = y, .x = x};
    return soften_rows(&call);
}

/* Return the sum of dy * y. */
static float add_products(const float *dy, const float *y, size_t count) {
    vfloat sums[SUMS] = {};
    size_t i = 0;
    for (; i + SUMS * VLEN <= count; i += SUMS * VLEN)
#pragma GCC unroll 4
        for (int s = 0; s < SUMS; s++)
            sums[s] += vload(dy + i + s * VLEN) * vload(y + i + s * VLEN);
    float rest = 0.0f;
    for (; i < count; i++) rest += dy[i] * y[i];
    return vsum((sums[0] + sums[1]) + (sums[2] + sums[3])) + rest;
}

/* A call of the backward pass. */
struct differentiate {
    struct rows rows;
    float *dx;
    const float *dy, *y;
};

/* A row of a call: its pieces' sums of dy * y, then the row's. */
struct differentiate_row {
    const struct differentiate *call;
    size_t first; // number of the row's first element
    float sums[PIECES], dot;
};

static void add_piece(void *row, int piece, size_t at, size_t count) {
    struct differentiate_row *r = row;
    const size_t first = r->first + at;
    r->sums[piece] =
        add_products(r->call->dy + first, r->call->y + first, count);
}

static void differentiate_piece(void *row, int piece, size_t at, size_t count) {
    const struct differentiate_row *r = row;
    const size_t first = r->first + at;
    float *const dx = r->call->dx + first;
    const float *const dy = r->call->dy + first, *const y = r->call->y + first;
    const float dot = r->dot;
    (void)piece;
    STORE_EACH(dx, count, r->call->rows.streams,
               vload(y + i) * (vload(dy + i) - dot), y[i] * (dy[i] - dot));
}

static void differentiate_long(const void *call, size_t row) {
    const struct differentiate *c = call;
    struct differentiate_row r = {c, row * c->rows.cols, {0}, 0.0f};
    for_pieces(&c->rows, add_piece, &r);
    for (int p = 0; p < PIECES; p++) r.dot += r.sums[p];
    for_pieces(&c->rows, differentiate_piece, &r);
}

static void differentiate_short(const void *call, size_t row) {
    const struct differentiate *c = call;
    struct differentiate_row r = {c, row * c->rows.cols, {0}, 0.0f};
    r.dot = add_products(c->dy + r.first, c->y + r.first, c->rows.cols);
    differentiate_piece(&r, 0, 0, c->rows.cols);
}

int softmax_reference_backward(float *dx, const float *dy, const float *y,
                               int rows, int cols) {
    const struct differentiate c = {make_rows("softmax", rows, cols), dx, dy,
                                    y};
    return for_rows(
        &c.rows, cols > SHORT ? differentiate_long : differentiate_short, &c);
}
