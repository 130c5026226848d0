/* 01_byte.cu -- copy, rung 1: a thread copies a byte.
 *
 * Idea:       one thread per byte. A warp's 32 bytes are adjacent, so each
 *             request is a single sector, and no byte is wasted.
 * Prediction: no copy moves fewer bytes, yet this one is slow. 2048 threads
 *             of a multiprocessor keep 2 KB in flight. At an H200's 4.8 TB/s,
 *             and at 700 ns per load, each of its 132 multiprocessors needs 25
 *             KB.
 * Limit:      the number of requests: 8 for the 256 bytes that two requests of
 *             rung 2 move. */
#include "copy.cuh"

static __global__ void copy_bytes(unsigned char *y, const unsigned char *x,
                                  size_t bytes) {
    const size_t i = (size_t)blockIdx.x * THREADS + threadIdx.x;
    if (i < bytes) y[i] = x[i];
}

int copy_byte(const struct duplication *d) {
    const size_t bytes = d->count * sizeof(float);
    WEFT_REQUIRE((double)bytes <= MAX_ELEMENTS,
                 "weft_copy: rung 'byte' copies at most %.0f bytes, not %zu",
                 MAX_ELEMENTS, bytes);
    copy_bytes<<<blocks_for(bytes), THREADS, 0, d->stream>>>(
        (unsigned char *)d->y, (const unsigned char *)d->x, bytes);
    WEFT_LAUNCHED(copy_bytes);
    return WEFT_OK;
}
