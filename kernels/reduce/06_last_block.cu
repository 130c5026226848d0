/* 06_last_block.cu -- reduce, rung 6: the last block adds the blocks' sums.
 *
 * Before:     rung 5 launches a second kernel, just to wait for all sums.
 * Idea:       every block counts itself after it has stored its sum. The block
 *             whose count completes the grid adds all sums. A fence between the
 *             sum and the count makes the sum visible first.
 * Prediction: rung 5's bits with one launch.
 * Limit:      the grid determines the order of the additions. So another GPU,
 *             or another number of blocks, yields different bits. */
#include "reduce.cuh"

static __global__ void __launch_bounds__(THREADS, RESIDENT)
    add_and_finish(float *sum, float *partials, unsigned *arrived,
                   const float *x, size_t count) {
    __shared__ bool last_s;
    __shared__ float sums_s[WARPS];
    const float total = add_threads(add_own(x, count), sums_s);
    finish(sum, partials, arrived, total, sums_s, &last_s);
}

int reduce_last_block(const struct reduction *r) {
    const unsigned blocks =
        reduce_grid(r, add_and_finish, CEIL_DIV(r->count, 4 * THREADS));
    scratch partials(r->stream);
    WEFT_TRY(partials.claim("reduce", (blocks + 1) * sizeof(float)));
    float *sums = (float *)partials.memory;
    unsigned *arrived = (unsigned *)(sums + blocks);
    WEFT_CUDA_TRY(cudaMemsetAsync(arrived, 0, sizeof *arrived, r->stream));
    add_and_finish<<<blocks, THREADS, 0, r->stream>>>(r->sum, sums, arrived,
                                                      r->x, r->count);
    WEFT_LAUNCHED(add_and_finish);
    return WEFT_OK;
}
