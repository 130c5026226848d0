/* kernels.cu -- the operations of the tape as kernels.
 *
 * Idea:    one launch per entry and direction, so the host does nothing but
 *          walk the list. Every gradient is added to the existing one, because
 *          an entry may be an operand of several others.
 * Limit:   a launch takes microseconds, and most of these kernels take less.
 *          Operations on rows have a thread per row or column, and sums have
 *          one block. That is enough for a batch of MNIST, but not for a large
 *          array.
 * Error:   a sum of n terms in one block is off by at most 1.01 (n / THREADS +
 *          log2(THREADS)) 2^-24 of the sum of magnitudes.
 * Lesson:  notebooks/10b_micrograd.ipynb */
#include "common/checks.cuh"

#include "tape.h"

static __device__ size_t own_index() {
    return (size_t)blockIdx.x * blockDim.x + threadIdx.x;
}

/* ---- one thread per element ---------------------------------------------- */

/* Compute y (count) = a + b. Element i of a meets element i % period of b:
 * `period` is `count`, or the length of a row that is added to all rows. */
static __global__ void tape_add(float *y, const float *a, const float *b,
                                size_t count, size_t period) {
    const size_t i = own_index();
    if (i < count) y[i] = a[i] + b[i % period];
}

/* Add dy to da and to db, unless they are NULL. One thread does both, since
 * a + a has only one array. */
static __global__ void tape_add_backward(float *da, float *db, const float *dy,
                                         size_t count) {
    const size_t i = own_index();
    if (i >= count) return;
    if (da) da[i] += dy[i];
    if (db) db[i] += dy[i];
}

static __global__ void tape_mul(float *y, const float *a, const float *b,
                                size_t count) {
    const size_t i = own_index();
    if (i < count) y[i] = a[i] * b[i];
}

/* The slope of a * b is b for a, and a for b. */
static __global__ void tape_mul_backward(float *da, float *db, const float *dy,
                                         const float *a, const float *b,
                                         size_t count) {
    const size_t i = own_index();
    if (i >= count) return;
    if (da) da[i] += dy[i] * b[i];
    if (db) db[i] += dy[i] * a[i];
}

static __global__ void tape_relu(float *y, const float *a, size_t count) {
    const size_t i = own_index();
    if (i < count) y[i] = a[i] < 0.0f ? 0.0f : a[i]; // a NaN stays a NaN
}

static __global__ void tape_relu_backward(float *da, const float *dy,
                                          const float *y, size_t count) {
    const size_t i = own_index();
    if (i < count && y[i] > 0.0f) da[i] += dy[i];
}

/* Every term of a sum receives the sum's gradient. */
static __global__ void tape_sum_backward(float *da, const float *dy,
                                         size_t count) {
    const size_t i = own_index();
    if (i < count) da[i] += *dy;
}

/* ---- one thread per column or row ---------------------------------------- */

/* Add the columns' sums of dy (rows,cols) to db (cols): an element of db was
 * added to every row. */
static __global__ void tape_add_row_backward(float *db, const float *dy,
                                             int rows, int cols) {
    const size_t col = own_index();
    if (col >= (size_t)cols) return;
    float sum = 0.0f;
    for (size_t row = 0; row < (size_t)rows; row++) sum += dy[row * cols + col];
    db[col] += sum;
}

/* Compute y (rows,cols) = a - log(sum(exp(a))) for each row. The row's maximum
 * is subtracted first, so that no exponential overflows. */
static __global__ void tape_log_softmax(float *y, const float *a, int rows,
                                        int cols) {
    const size_t row = own_index();
    if (row >= (size_t)rows) return;
    a += row * cols, y += row * cols;
    float most = a[0], sum = 0.0f;
    for (int j = 1; j < cols; j++) most = a[j] > most ? a[j] : most;
    for (int j = 0; j < cols; j++) sum += expf(a[j] - most);
    const float log_sum = logf(sum);
    for (int j = 0; j < cols; j++) y[j] = a[j] - most - log_sum;
}

/* Add dy - softmax(a) * sum(dy) of each row to da; softmax(a) is exp(y). */
static __global__ void tape_log_softmax_backward(float *da, const float *dy,
                                                 const float *y, int rows,
                                                 int cols) {
    const size_t row = own_index();
    if (row >= (size_t)rows) return;
    da += row * cols, dy += row * cols, y += row * cols;
    float sum = 0.0f;
    for (int j = 0; j < cols; j++) sum += dy[j];
    for (int j = 0; j < cols; j++) da[j] += dy[j] - expf(y[j]) * sum;
}

/* Only the target's number of each row contributed to the loss. */
static __global__ void tape_nll_backward(float *da, const float *dy,
                                         const int32_t *target, int rows,
                                         int cols) {
    const size_t row = own_index();
    if (row < (size_t)rows) da[row * cols + target[row]] -= *dy / rows;
}

/* ---- one block ----------------------------------------------------------- */

/* Return to thread 0 the sum of `mine` over the block's threads. */
static __device__ float sum_block(float mine) {
    __shared__ float sums_s[THREADS];
    const int tid = threadIdx.x;
    sums_s[tid] = mine;
    __syncthreads(); // all threads have stored their sums
    for (int half = THREADS / 2; half > 0; half /= 2) {
        if (tid < half) sums_s[tid] += sums_s[tid + half];
        __syncthreads(); // the sums of this round are complete
    }
    return sums_s[0];
}

static __global__ void tape_sum(float *y, const float *a, size_t count) {
    float mine = 0.0f;
    for (size_t i = threadIdx.x; i < count; i += THREADS) mine += a[i];
    const float sum = sum_block(mine);
    if (threadIdx.x == 0) *y = sum;
}

/* Compute y (1) = the mean over the rows of -a[row][target[row]]. */
static __global__ void tape_nll(float *y, const float *a, const int32_t *target,
                                int rows, int cols) {
    float mine = 0.0f;
    for (size_t row = threadIdx.x; row < (size_t)rows; row += THREADS)
        mine -= a[row * cols + target[row]];
    const float sum = sum_block(mine);
    if (threadIdx.x == 0) *y = sum / rows;
}

/* ---- launches ------------------------------------------------------------ */

/* Launch `kernel` with at least `threads` threads. */
#define LAUNCH(kernel, threads, ...)                                           \
    do {                                                                       \
        kernel<<<blocks_for(threads), THREADS, 0, weft_cuda_stream(stream)>>>( \
            __VA_ARGS__);                                                      \
        WEFT_LAUNCHED(kernel);                                                 \
    } while (0)

static int forward(const struct tape_entry *y, const struct tape_entry *a,
                   const struct tape_entry *b, weft_stream stream) {
    const size_t count = (size_t)a->rows * a->cols;
    switch (y->op) {
    case WEFT_TAPE_ADD:
        LAUNCH(tape_add, count, y->value, a->value, b->value, count, count);
        break;
    case WEFT_TAPE_ADD_ROW:
        LAUNCH(tape_add, count, y->value, a->value, b->value, count, a->cols);
        break;
    case WEFT_TAPE_MUL:
        LAUNCH(tape_mul, count, y->value, a->value, b->value, count);
        break;
    case WEFT_TAPE_RELU:
        LAUNCH(tape_relu, count, y->value, a->value, count);
        break;
    case WEFT_TAPE_LOG_SOFTMAX:
        LAUNCH(tape_log_softmax, a->rows, y->value, a->value, a->rows, a->cols);
        break;
    case WEFT_TAPE_SUM: LAUNCH(tape_sum, 1, y->value, a->value, count); break;
    case WEFT_TAPE_NLL:
        LAUNCH(tape_nll, 1, y->value, a->value, y->target, a->rows, a->cols);
        break;
    }
    return WEFT_OK;
}

static int backward(const struct tape_entry *y, const struct tape_entry *a,
                    const struct tape_entry *b, weft_stream stream) {
    const size_t count = (size_t)a->rows * a->cols;
    switch (y->op) {
    case WEFT_TAPE_ADD:
        LAUNCH(tape_add_backward, count, a->grad, b->grad, y->grad, count);
        break;
    case WEFT_TAPE_ADD_ROW:
        if (a->grad)
            LAUNCH(tape_add_backward, count, a->grad, (float *)NULL, y->grad,
                   count);
        if (b->grad)
            LAUNCH(tape_add_row_backward, a->cols, b->grad, y->grad, a->rows,
                   a->cols);
        break;
    case WEFT_TAPE_MUL:
        LAUNCH(tape_mul_backward, count, a->grad, b->grad, y->grad, a->value,
               b->value, count);
        break;
    case WEFT_TAPE_RELU:
        LAUNCH(tape_relu_backward, count, a->grad, y->grad, y->value, count);
        break;
    case WEFT_TAPE_LOG_SOFTMAX:
        LAUNCH(tape_log_softmax_backward, a->rows, a->grad, y->grad, y->value,
               a->rows, a->cols);
        break;
    case WEFT_TAPE_SUM:
        LAUNCH(tape_sum_backward, count, a->grad, y->grad, count);
        break;
    case WEFT_TAPE_NLL:
        LAUNCH(tape_nll_backward, a->rows, a->grad, y->grad, y->target, a->rows,
               a->cols);
        break;
    }
    return WEFT_OK;
}

const struct tape_impl tape_kernels = {forward, backward};
