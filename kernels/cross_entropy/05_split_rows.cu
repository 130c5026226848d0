/* 05_split_rows.cu -- cross_entropy, rung 5: several blocks share a row.
 *
 * Idea:    each block keeps a part of the row in shared memory, publishes its
 *          pair, and waits for those of the other parts. The block of the first
 *          part stores the loss.
 * Limit:   a block waits for the others in each row. Rung 6 keeps a row in the
 *          registers of one block.
 * Error:   a part's exponentials are relative to its own maximum, which rounds
 *          them once more.
 * Lesson:  notebooks/09b_rows.ipynb */
#include "cross_entropy.cuh"

#include "softmax/in_shared.cuh"

template <bool WIDE>
static __global__ void __launch_bounds__(THREADS)
    score_parts(float *prob, const float *logits, row_losses losses, unsigned n,
                division d, pair *pairs, unsigned *arrived) {
    __shared__ float values_s[WARPS];
    __shared__ pair all_s;
    extern __shared__ __align__(16) float part_s[];
    const unsigned part = blockIdx.x % d.parts, start = part * d.length;
    const unsigned left = losses.classes - start, count = min(left, d.length);
    for (unsigned row = blockIdx.x / d.parts; row < n; row += d.groups) {
        const size_t first = (size_t)row * losses.classes;
        const kept_share<WIDE> share = {{threadIdx.x, THREADS},
                                        logits + first + start,
                                        part_s,
                                        count,
                                        d.kept};
        pair own = no_pair();
        own.most = max_threads(share.load(), values_s);
        own.sum = add_threads(share.shrink_all(own.most), values_s);
        const pair all = merge_parts(own, pairs + (size_t)row * d.parts, part,
                                     d.parts, arrived + row, &all_s);
        share.store(prob + first + start, own.most,
                    shrink(own.most, all.most) * invert(all));
        if (part == 0 && threadIdx.x == 0)
            losses.store(row, logits + first, all);
    }
}

int cross_entropy_split(const scoring *s) {
    const auto kernel = s->is_wide() ? score_parts<true> : score_parts<false>;
    const division d = divide(s->n, s->classes, count_resident(kernel), 1);
    scratch memory(s->stream);
    unsigned *arrived;
    WEFT_TRY(claim_parts("cross_entropy", &memory, s->n, d.parts, sizeof(pair),
                         &arrived));
    struct launch l = {"score_parts", d.parts * d.groups,
                       THREADS,       d.kept * LEAST * sizeof(float),
                       s->stream,     0};
    l.together = TOGETHER;
    return launch_kernel(l, kernel, s->prob, s->logits, s->rows(), s->n, d,
                         (pair *)memory.memory, arrived);
}
