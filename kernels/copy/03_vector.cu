/* 03_vector.cu -- copy, rung 3: a thread copies 16 bytes.
 *
 * Before:     rung 2 keeps 4 bytes per thread in flight.
 * Idea:       each thread does one load and one store of four floats. A request
 *             moves 512 bytes, 16 sectors.
 * Prediction: 32 KB in flight for each multiprocessor, which suffices for the
 *             memory's bandwidth.
 * Limit:      the memory. Every byte still passes through a register, and every
 *             16 bytes need a thread and its instructions. */
#include "copy.cuh"

static __global__ void copy_vectors(float *y, const float *x, struct parts p) {
    const size_t i = (size_t)blockIdx.x * THREADS + threadIdx.x;
    copy_ends(y, x, p);
    if (i < p.fours)
        ((float4 *)(y + p.head))[i] = ((const float4 *)(x + p.head))[i];
}

int copy_vector(const struct duplication *d) {
    const struct parts p = divide(d);
    if (!p.fours) return copy_word(d);
    copy_vectors<<<blocks_for(p.fours), THREADS, 0, d->stream>>>(d->y, d->x, p);
    WEFT_LAUNCHED(copy_vectors);
    return WEFT_OK;
}
