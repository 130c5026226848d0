/* 02_word.cu -- copy, rung 2: a thread copies a float.
 *
 * Before:     rung 1 needs a request for each 32 bytes.
 * Idea:       one thread per float: a request moves 128 bytes, four sectors.
 * Prediction: a quarter of the requests, and four times the bytes in flight: 8
 *             KB for each multiprocessor, still below the 25 KB that it needs.
 * Limit:      the bytes in flight. Rung 3 loads four floats per thread. */
#include "copy.cuh"

static __global__ void copy_words(float *y, const float *x, size_t count) {
    const size_t i = (size_t)blockIdx.x * THREADS + threadIdx.x;
    if (i < count) y[i] = x[i];
}

int copy_word(const struct duplication *d) {
    copy_words<<<blocks_for(d->count), THREADS, 0, d->stream>>>(d->y, d->x,
                                                                d->count);
    WEFT_LAUNCHED(copy_words);
    return WEFT_OK;
}
