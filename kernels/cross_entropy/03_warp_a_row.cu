/* 03_warp_a_row.cu -- cross_entropy, rung 3: a warp per row, in registers.
 *
 * Idea:    the lanes of a warp share a row, so they load neighbours. Up to 1024
 *          logits stay in registers, and lane 0 stores the loss. A longer row
 *          is read online, then again.
 * Limit:   a warp has few loads in flight for a long row, and reads it twice.
 *          Rung 4 assigns it to a block.
 * Error:   the sum is added in a tree over the lanes.
 * Lesson:  notebooks/09b_rows.ipynb */
#include "cross_entropy.cuh"

#include "softmax/in_registers.cuh"

enum { MOST = 1024, PER_WARP = 4 * WARP };

/* Score rows of up to GROUPS * PER_WARP logits. */
template <bool WIDE, int GROUPS>
static __global__ void __launch_bounds__(THREADS)
    score_in_registers(float *prob, const float *logits, row_losses losses,
                       unsigned n) {
    const size_t row = (size_t)blockIdx.x * WARPS + threadIdx.x / WARP;
    if (row >= n) return;
    const unsigned classes = losses.classes, lane = threadIdx.x % WARP;
    const float *const x = logits + row * classes;
    held<WIDE, GROUPS> own({lane, WARP}, classes);
    pair found = no_pair();
    found.most = max_lanes(own.load(x));
    found.sum = add_lanes(own.shrink_all(found.most));
    own.store(prob + row * classes, invert(found));
    if (lane == 0) losses.store(row, x, found);
}

template <bool WIDE>
static __global__ void score_by_warp(float *prob, const float *logits,
                                     row_losses losses, unsigned n) {
    const size_t row = (size_t)blockIdx.x * WARPS + threadIdx.x / WARP;
    if (row >= n) return;
    const unsigned classes = losses.classes;
    const sharer<WIDE> lane = {threadIdx.x % WARP, WARP};
    const float *const x = logits + row * classes;
    const pair found = merge_lanes(read_online(lane, x, classes));
    soften_again(lane, prob + row * classes, x, classes, found);
    if (lane.own == 0) losses.store(row, x, found);
}

template <bool WIDE> static auto select_kernel(unsigned classes) {
    if (classes > MOST) return score_by_warp<WIDE>;
    if (classes > 4 * PER_WARP) return score_in_registers<WIDE, 8>;
    if (classes > 2 * PER_WARP) return score_in_registers<WIDE, 4>;
    if (classes > PER_WARP) return score_in_registers<WIDE, 2>;
    return score_in_registers<WIDE, 1>;
}

int cross_entropy_warp(const scoring *s) {
    const auto kernel = s->is_wide() ? select_kernel<true>(s->classes)
                                     : select_kernel<false>(s->classes);
    kernel<<<CEIL_DIV(s->n, WARPS), THREADS, 0, s->stream>>>(s->prob, s->logits,
                                                             s->rows(), s->n);
    WEFT_LAUNCHED(score_by_warp);
    return WEFT_OK;
}
