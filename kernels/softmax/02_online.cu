/* 02_online.cu -- softmax, rung 2: maximum and sum in one pass.
 *
 * Before:     rung 1 reads a row for its maximum, then again for the sum.
 * Idea:       the sum is relative to the maximum so far. When a larger number
 *             arrives, the sum is multiplied by exp(old maximum - new maximum)
 *             (Milakov and Gimelshein, Online normalizer calculation for
 *             softmax, 2018).
 * Prediction: two reads instead of three: 3 / 4 of the bytes.
 * Error:      each new maximum rounds the sum once more.
 * Limit:      a thread still walks through a row alone. Rung 3 assigns the row
 *             to a warp. */
#include "softmax.cuh"

static __global__ void soften_online(float *y, const float *x, unsigned rows,
                                     unsigned cols) {
    const size_t row = (size_t)blockIdx.x * THREADS + threadIdx.x;
    if (row >= rows) return;
    x += row * cols, y += row * cols;
    pair found = no_pair();
    for (unsigned i = 0; i < cols; i++) {
        const float number = x[i];
        if (number > found.most)
            found = {number, found.sum * expf(found.most - number) + 1.0f};
        else
            found.sum += shrink(number, found.most);
    }
    const float factor = invert(found);
    for (unsigned i = 0; i < cols; i++)
        y[i] = shrink(x[i], found.most) * factor;
}

int softmax_online(const struct softening *s) {
    soften_online<<<blocks_for(s->rows), THREADS, 0, s->stream>>>(
        s->y, s->x, s->rows, s->cols);
    WEFT_LAUNCHED(soften_online);
    return WEFT_OK;
}
