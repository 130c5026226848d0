/* tape.c -- the operations of the tape in plain C, for one CPU.
 *
 * A loop over many elements is shared by all threads. Each sum is added in
 * double, by one thread and in order, so the number of threads does not affect
 * the bits. */
#include "../tape.h"

#include <math.h>

enum { FEW = 1 << 15 }; // elements for which more threads are not worthwhile

/* Run a loop over i in all threads if the caller's variable `many` is set. */
#define FOR_EACH(i, count)                                                    \
    _Pragma("omp parallel for schedule(static) if (many)") for (size_t i = 0; \
                                                                i < (count);  \
                                                                i++)

static void log_softmax_row(float *y, const float *a, int cols) {
    float most = a[0];
    double sum = 0.0;
    for (int j = 1; j < cols; j++) most = a[j] > most ? a[j] : most;
    for (int j = 0; j < cols; j++) sum += expf(a[j] - most);
    const float log_sum = (float)log(sum);
    for (int j = 0; j < cols; j++) y[j] = a[j] - most - log_sum;
}

static void log_softmax_row_backward(float *da, const float *dy, const float *y,
                                     int cols) {
    double sum = 0.0;
    for (int j = 0; j < cols; j++) sum += dy[j];
    for (int j = 0; j < cols; j++) da[j] += dy[j] - expf(y[j]) * (float)sum;
}

/* Add the sums of dy's columns to db. */
static void add_row_backward(float *db, const float *dy, int rows, int cols) {
    const int many = (double)rows * cols > FEW;
    FOR_EACH(col, (size_t)cols) {
        double sum = 0.0;
        for (int row = 0; row < rows; row++)
            sum += dy[(size_t)row * cols + col];
        db[col] += (float)sum;
    }
}

static int forward(const struct tape_entry *y, const struct tape_entry *a,
                   const struct tape_entry *b, weft_stream stream) {
    const size_t rows = a->rows, cols = a->cols, count = rows * cols;
    const int many = count > FEW;
    const float *const av = a->value, *const bv = b ? b->value : NULL;
    float *const yv = y->value;
    double sum = 0.0;
    (void)stream;
    switch (y->op) {
    case WEFT_TAPE_ADD: FOR_EACH(i, count) yv[i] = av[i] + bv[i]; break;
    case WEFT_TAPE_ADD_ROW:
        FOR_EACH(row, rows)
        for (size_t j = 0; j < cols; j++)
            yv[row * cols + j] = av[row * cols + j] + bv[j];
        break;
    case WEFT_TAPE_MUL: FOR_EACH(i, count) yv[i] = av[i] * bv[i]; break;
    case WEFT_TAPE_RELU:
        FOR_EACH(i, count) yv[i] = av[i] < 0.0f ? 0.0f : av[i];
        break;
    case WEFT_TAPE_LOG_SOFTMAX:
        FOR_EACH(row, rows)
        log_softmax_row(yv + row * cols, av + row * cols, a->cols);
        break;
    case WEFT_TAPE_SUM:
        for (size_t i = 0; i < count; i++) sum += av[i];
        *yv = (float)sum;
        break;
    case WEFT_TAPE_NLL:
        for (size_t row = 0; row < rows; row++)
            sum -= av[row * cols + y->target[row]];
        *yv = (float)(sum / (double)rows);
        break;
    }
    return WEFT_OK;
}

static int backward(const struct tape_entry *y, const struct tape_entry *a,
                    const struct tape_entry *b, weft_stream stream) {
    const size_t rows = a->rows, cols = a->cols, count = rows * cols;
    const int many = count > FEW;
    float *const da = a->grad, *const db = b ? b->grad : NULL;
    const float *const dy = y->grad;
    (void)stream;
    switch (y->op) {
    case WEFT_TAPE_ADD:
        if (da) FOR_EACH(i, count) da[i] += dy[i];
        if (db) FOR_EACH(i, count) db[i] += dy[i];
        break;
    case WEFT_TAPE_ADD_ROW:
        if (da) FOR_EACH(i, count) da[i] += dy[i];
        if (db) add_row_backward(db, dy, a->rows, a->cols);
        break;
    case WEFT_TAPE_MUL:
        if (da) FOR_EACH(i, count) da[i] += dy[i] * b->value[i];
        if (db) FOR_EACH(i, count) db[i] += dy[i] * a->value[i];
        break;
    case WEFT_TAPE_RELU:
        FOR_EACH(i, count) da[i] += y->value[i] > 0.0f ? dy[i] : 0.0f;
        break;
    case WEFT_TAPE_LOG_SOFTMAX:
        FOR_EACH(row, rows)
        log_softmax_row_backward(da + row * cols, dy + row * cols,
                                 y->value + row * cols, a->cols);
        break;
    case WEFT_TAPE_SUM: FOR_EACH(i, count) da[i] += *dy; break;
    case WEFT_TAPE_NLL:
        for (size_t row = 0; row < rows; row++)
            da[row * cols + y->target[row]] -= *dy / (float)rows;
        break;
    }
    return WEFT_OK;
}

const struct tape_impl tape_reference = {forward, backward};
