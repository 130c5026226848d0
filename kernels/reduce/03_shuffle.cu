/* 03_shuffle.cu -- reduce, rung 3: a warp adds in registers.
 *
 * Before:     rung 2 needs eight barriers and a round trip through shared
 *             memory for each.
 * Idea:       the lanes of a warp exchange their sums by shuffles, 5 rounds
 *             without a barrier. Shared memory carries only one sum per warp to
 *             the first warp, across the only barrier.
 * Prediction: fewer instructions and barriers for the same bytes, so nothing is
 *             gained once the memory is busy.
 * Limit:      still one load of 4 bytes per thread. Rung 4 widens it. */
#include "reduce.cuh"

static __global__ void add_shuffled(float *sum, const float *x, size_t count) {
    __shared__ float sums_s[WARPS];
    const size_t i = (size_t)blockIdx.x * THREADS + threadIdx.x;
    const float total = add_threads(number_at(x, i, count), sums_s);
    if (threadIdx.x == 0) atomicAdd(sum, total);
}

int reduce_shuffle(const struct reduction *r) {
    WEFT_CUDA_TRY(cudaMemsetAsync(r->sum, 0, sizeof(float), r->stream));
    add_shuffled<<<blocks_for(r->count), THREADS, 0, r->stream>>>(r->sum, r->x,
                                                                  r->count);
    WEFT_LAUNCHED(add_shuffled);
    return WEFT_OK;
}
