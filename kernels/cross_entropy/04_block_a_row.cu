/* 04_block_a_row.cu -- cross_entropy, rung 4: a block per row, read online.
 *
 * Idea:    256 threads share a row. Each has the pair of its own logits, and a
 *          tree merges the pairs of the block.
 * Limit:   the row is read twice: 1.5 times the floor. The next rungs keep it
 *          on the chip.
 * Error:   each new maximum of a thread, and each merge, rounds the sum once
 *          more.
 * Lesson:  notebooks/09b_rows.ipynb */
#include "cross_entropy.cuh"

template <bool WIDE>
static __global__ void score_by_block(float *prob, const float *logits,
                                      row_losses losses) {
    __shared__ pair pairs_s[WARPS];
    const unsigned classes = losses.classes;
    const sharer<WIDE> thread = {threadIdx.x, THREADS};
    const size_t row = blockIdx.x;
    const float *const x = logits + row * classes;
    const pair found =
        merge_warps(merge_lanes(read_online(thread, x, classes)), pairs_s);
    soften_again(thread, prob + row * classes, x, classes, found);
    if (threadIdx.x == 0) losses.store(row, x, found);
}

int cross_entropy_block(const scoring *s) {
    const auto kernel =
        s->is_wide() ? score_by_block<true> : score_by_block<false>;
    kernel<<<s->n, THREADS, 0, s->stream>>>(s->prob, s->logits, s->rows());
    WEFT_LAUNCHED(score_by_block);
    return WEFT_OK;
}
