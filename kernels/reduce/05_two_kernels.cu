/* 05_two_kernels.cu -- reduce, rung 5: a second kernel adds the blocks' sums.
 *
 * Before:     rung 4's blocks add to the sum in an order that varies.
 * Idea:       every block stores its sum in a separate array, and a second
 *             kernel of one block adds the sums in that array. The second
 *             kernel starts when the first has ended, so no atomic is needed.
 * Prediction: the same bits in every run with the same grid. The second launch
 *             adds about 2 us, which matters for small arrays.
 * Limit:      the second launch. Rung 6 avoids it. */
#include "reduce.cuh"

static __global__ void __launch_bounds__(THREADS, RESIDENT)
    add_blocks(float *partials, const float *x, size_t count) {
    __shared__ float sums_s[WARPS];
    const float total = add_threads(add_own(x, count), sums_s);
    if (threadIdx.x == 0) partials[blockIdx.x] = total;
}

/* Store the sum of x in *sum, with one block. */
static __global__ void add_partials(float *sum, const float *x, size_t count) {
    __shared__ float sums_s[WARPS];
    const float total = add_threads(add_own(x, count), sums_s);
    if (threadIdx.x == 0) *sum = total;
}

int reduce_two_kernels(const struct reduction *r) {
    const unsigned blocks =
        reduce_grid(r, add_blocks, CEIL_DIV(r->count, 4 * THREADS));
    scratch partials(r->stream);
    WEFT_TRY(partials.claim("reduce", blocks * sizeof(float)));
    float *sums = (float *)partials.memory;
    add_blocks<<<blocks, THREADS, 0, r->stream>>>(sums, r->x, r->count);
    WEFT_LAUNCHED(add_blocks);
    add_partials<<<1, THREADS, 0, r->stream>>>(r->sum, sums, blocks);
    WEFT_LAUNCHED(add_partials);
    return WEFT_OK;
}
