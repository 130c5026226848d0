/* 06_row_in_registers.cu -- cross_entropy, rung 6: the row stays in registers.
 *
 * Idea:    a thread keeps up to 32 logits, and a block has just enough threads
 *          for its row. All loads of a row are in flight at the same time.
 * Limit:   rows of more than 32,768 logits, which rung 5 computes. Rung 7 joins
 *          the registers of several blocks.
 * Error:   the sum is added in a tree over the block.
 * Lesson:  notebooks/09b_rows.ipynb */
#include "cross_entropy.cuh"

#include "softmax/in_registers.cuh"

template <bool WIDE, class Holder>
static __global__ void __launch_bounds__(Holder::width, Holder::blocks)
    score_row(float *prob, const float *logits, row_losses losses) {
    __shared__ float values_s[Holder::warps];
    const size_t row = blockIdx.x, first = row * losses.classes;
    held<WIDE, Holder::groups> own({threadIdx.x, Holder::width},
                                   losses.classes);
    pair found = no_pair();
    found.most = max_threads(own.load(logits + first), values_s);
    found.sum = add_threads(own.shrink_all(found.most), values_s);
    own.store(prob + first, invert(found));
    if (threadIdx.x == 0) losses.store(row, logits + first, found);
}

int cross_entropy_registers(const scoring *s) {
    if (s->classes > count_held(1)) return cross_entropy_split(s);
    return launch_holder<1>(s->classes, [&](auto holder) {
        using Holder = decltype(holder);
        const auto kernel =
            s->is_wide() ? score_row<true, Holder> : score_row<false, Holder>;
        const struct launch l = {"score_row", s->n,      Holder::width,
                                 0,           s->stream, 0};
        return launch_kernel(l, kernel, s->prob, s->logits, s->rows());
    });
}
