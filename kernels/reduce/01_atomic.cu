/* 01_atomic.cu -- reduce, rung 1: every number is added atomically.
 *
 * Idea:       one thread per number adds it to the sum. The addition is atomic,
 *             so that no thread's number is lost.
 * Prediction: atomic additions to one address are serialised. Their number, not
 *             the bandwidth of the memory, determines the time.
 * Error:      the additions form one chain of `count`. A sum of ones stays at
 *             2^24, since 2^24 + 1 is not a float.
 * Limit:      the unit of the L2 cache that adds. Rung 2 adds a block's numbers
 *             first, and then needs one atomic addition for all of them. */
#include "reduce.cuh"

static __global__ void add_each(float *sum, const float *x, size_t count) {
    const size_t i = (size_t)blockIdx.x * THREADS + threadIdx.x;
    if (i < count) atomicAdd(sum, x[i]);
}

int reduce_atomic(const struct reduction *r) {
    WEFT_CUDA_TRY(cudaMemsetAsync(r->sum, 0, sizeof(float), r->stream));
    add_each<<<blocks_for(r->count), THREADS, 0, r->stream>>>(r->sum, r->x,
                                                              r->count);
    WEFT_LAUNCHED(add_each);
    return WEFT_OK;
}
