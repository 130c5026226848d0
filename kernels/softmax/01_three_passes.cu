/* 01_three_passes.cu -- softmax, rung 1: the definition, one thread per row.
 *
 * Idea:       find a row's maximum, then the sum of exp(x - maximum), then the
 *             quotients. Without this subtraction, exp(89) would overflow.
 *             The backward pass needs two passes: sum(dy * y), then dx.
 * Prediction: three reads and one write of each number. A warp's threads read
 *             numbers that are a row apart, so a load of 32 floats takes 32
 *             sectors of 32 bytes: eight times the bytes.
 * Limit:      the memory's bandwidth, of which an eighth is used. Rung 2 needs
 *             one pass fewer. */
#include "softmax.cuh"

static __global__ void soften(float *y, const float *x, unsigned rows,
                              unsigned cols) {
    const size_t row = (size_t)blockIdx.x * THREADS + threadIdx.x;
    if (row >= rows) return;
    x += row * cols, y += row * cols;
    pair found = no_pair();
    for (unsigned i = 0; i < cols; i++)
        if (x[i] > found.most) found.most = x[i];
    for (unsigned i = 0; i < cols; i++) found.sum += shrink(x[i], found.most);
    const float factor = invert(found);
    for (unsigned i = 0; i < cols; i++)
        y[i] = shrink(x[i], found.most) * factor;
}

static __global__ void differentiate(float *dx, const float *dy, const float *y,
                                     unsigned rows, unsigned cols) {
    const size_t row = (size_t)blockIdx.x * THREADS + threadIdx.x;
    if (row >= rows) return;
    dx += row * cols, dy += row * cols, y += row * cols;
    float dot = 0.0f;
    for (unsigned i = 0; i < cols; i++) dot += dy[i] * y[i];
    for (unsigned i = 0; i < cols; i++) dx[i] = y[i] * (dy[i] - dot);
}

int softmax_three_passes(const struct softening *s) {
    soften<<<blocks_for(s->rows), THREADS, 0, s->stream>>>(s->y, s->x, s->rows,
                                                           s->cols);
    WEFT_LAUNCHED(soften);
    return WEFT_OK;
}

int softmax_three_passes_backward(const struct differentiation *d) {
    differentiate<<<blocks_for(d->rows), THREADS, 0, d->stream>>>(
        d->dx, d->dy, d->y, d->rows, d->cols);
    WEFT_LAUNCHED(differentiate);
    return WEFT_OK;
}
