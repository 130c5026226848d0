/* 02_tree.cu -- reduce, rung 2: a block adds in a tree in shared memory.
 *
 * Before:     rung 1 needs one atomic addition for each number.
 * Idea:       half of a block's threads add the other half's numbers, then half
 *             of these, until one is left: log2(256) = 8 rounds. One atomic
 *             addition per block follows.
 * Prediction: 256 times fewer atomics; the bytes read stay the same.
 * Limit:      8 rounds, with a barrier each, for one load per thread, so few
 *             loads are in flight. In the last rounds most threads idle.
 *             Rung 3 removes most barriers. */
#include "reduce.cuh"

static __global__ void add_tree(float *sum, const float *x, size_t count) {
    __shared__ float numbers_s[THREADS];
    const int own = threadIdx.x;
    numbers_s[own] = number_at(x, (size_t)blockIdx.x * THREADS + own, count);
    __syncthreads(); // all numbers are stored
    for (int half = THREADS / 2; half > 0; half /= 2) {
        if (own < half) numbers_s[own] += numbers_s[own + half];
        __syncthreads(); // the sums of this round are complete
    }
    if (own == 0) atomicAdd(sum, numbers_s[0]);
}

int reduce_tree(const struct reduction *r) {
    WEFT_CUDA_TRY(cudaMemsetAsync(r->sum, 0, sizeof(float), r->stream));
    add_tree<<<blocks_for(r->count), THREADS, 0, r->stream>>>(r->sum, r->x,
                                                              r->count);
    WEFT_LAUNCHED(add_tree);
    return WEFT_OK;
}
