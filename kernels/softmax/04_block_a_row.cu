/* 04_block_a_row.cu -- softmax, rung 4: a block per row, read online.
 *
 * Before:     a warp of rung 3 has few loads in flight for a long row.
 * Idea:       256 threads share a row. Each keeps a maximum and a sum of its
 *             own numbers. Two such pairs merge into one, in any order: the
 *             larger maximum wins, and the other's sum shrinks. So a tree over
 *             the block merges all pairs.
 * Prediction: two reads and one write for any length: 1.5 times the floor.
 *             The second read of a short row comes from a cache.
 * Limit:      that second read. Rung 5 avoids it. */
#include "softmax.cuh"

template <bool WIDE>
static __global__ void soften_by_block(float *y, const float *x,
                                       unsigned cols) {
    __shared__ pair pairs_s[WARPS];
    const sharer<WIDE> thread = {threadIdx.x, THREADS};
    const size_t first = (size_t)blockIdx.x * cols;
    const pair found =
        merge_warps(merge_lanes(read_online(thread, x + first, cols)), pairs_s);
    soften_again(thread, y + first, x + first, cols, found);
}

template <bool WIDE>
static __global__ void differentiate_by_block(float *dx, const float *dy,
                                              const float *y, unsigned cols) {
    __shared__ float sums_s[WARPS];
    const sharer<WIDE> thread = {threadIdx.x, THREADS};
    const size_t first = (size_t)blockIdx.x * cols;
    const unsigned groups = thread.count_groups(cols);
    float dot = 0.0f;
    for (unsigned j = 0; j < groups; j++)
        dot += dot_four(thread.load(dy + first, j, cols, 0.0f),
                        thread.load(y + first, j, cols, 0.0f));
    dot = add_threads(dot, sums_s);
    for (unsigned j = 0; j < groups; j++)
        thread.store(dx + first, j, cols,
                     differentiate_four(thread.load(y + first, j, cols, 0.0f),
                                        thread.load(dy + first, j, cols, 0.0f),
                                        dot));
}

int softmax_block(const struct softening *s) {
    const auto kernel = rows_are_aligned(s->y, s->x, s->x, s->cols)
                            ? soften_by_block<true>
                            : soften_by_block<false>;
    kernel<<<s->rows, THREADS, 0, s->stream>>>(s->y, s->x, s->cols);
    WEFT_LAUNCHED(soften_by_block);
    return WEFT_OK;
}

int softmax_block_backward(const struct differentiation *d) {
    const auto kernel = rows_are_aligned(d->dx, d->dy, d->y, d->cols)
                            ? differentiate_by_block<true>
                            : differentiate_by_block<false>;
    kernel<<<d->rows, THREADS, 0, d->stream>>>(d->dx, d->dy, d->y, d->cols);
    WEFT_LAUNCHED(differentiate_by_block);
    return WEFT_OK;
}
