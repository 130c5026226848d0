/* 02_online.cu -- cross_entropy, rung 2: probabilities and loss in one kernel.
 *
 * Idea:    the pair of an online softmax gives the loss of the row, too. So the
 *          kernel that stores the probabilities also stores the row's loss, and
 *          a logit is read twice instead of five times. A thread takes four
 *          logits at a time.
 * Limit:   a thread still walks through a row alone, and its neighbours' logits
 *          are a row away. Rung 3 assigns the row to a warp.
 * Error:   each new maximum rounds the sum once more.
 * Lesson:  notebooks/09b_rows.ipynb */
#include "cross_entropy.cuh"

template <bool WIDE>
static __global__ void score_alone(float *prob, const float *logits,
                                   row_losses losses, unsigned n) {
    const size_t row = (size_t)blockIdx.x * THREADS + threadIdx.x;
    if (row >= n) return;
    const unsigned classes = losses.classes;
    const sharer<WIDE> alone = {0, 1};
    const float *const x = logits + row * classes;
    const pair found = read_online(alone, x, classes);
    soften_again(alone, prob + row * classes, x, classes, found);
    losses.store(row, x, found);
}

int cross_entropy_online(const scoring *s) {
    const auto kernel = s->is_wide() ? score_alone<true> : score_alone<false>;
    kernel<<<blocks_for(s->n), THREADS, 0, s->stream>>>(s->prob, s->logits,
                                                        s->rows(), s->n);
    WEFT_LAUNCHED(score_alone);
    return WEFT_OK;
}
