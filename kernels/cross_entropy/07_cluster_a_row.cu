/* 07_cluster_a_row.cu -- cross_entropy, rung 7: a cluster of blocks shares a
 * row.
 *
 * Idea:    up to 16 blocks keep a row in their registers, and store their pairs
 *          in each other's shared memory. A vocabulary of 262,144 tokens is
 *          read once.
 * Limit:   longer rows, which rung 5 computes. A row of 50,257 logits begins at
 *          an odd address, so 32 of its floats are in five sectors instead of
 *          four. A multiple of eight classes avoids this. The rung needs
 *          compute capability 9.0. On the CPU target, a cluster is one block.
 * Error:   that of rung 5: a slice's exponentials are relative to its own
 *          maximum.
 * Lesson:  notebooks/09b_rows.ipynb */
#include "cross_entropy.cuh"

#include "common/cluster.cuh"
#include "softmax/in_registers.cuh"

template <bool WIDE, class Holder>
static __global__ void __launch_bounds__(Holder::width, Holder::blocks)
    score_slices(float *prob, const float *logits, row_losses losses,
                 slices s) {
    __shared__ float values_s[Holder::warps];
    __shared__ pair pairs_s[MOST_IN_CLUSTER];
    const unsigned rank = cluster_rank(), lane = threadIdx.x % WARP;
    const size_t row = blockIdx.x / s.blocks, first = row * losses.classes;
    const unsigned start = rank * s.length;
    held<WIDE, Holder::groups> slice({threadIdx.x, Holder::width},
                                     count_slice(s, rank, losses.classes));
    cluster_arrive();
    pair own = no_pair();
    own.most = max_threads(slice.load(logits + first + start), values_s);
    own.sum = add_threads(slice.shrink_all(own.most), values_s);
    exchange_in_cluster(own, pairs_s, rank, s.blocks);
    const pair all = merge_lanes(lane < s.blocks ? pairs_s[lane] : no_pair());
    slice.store(prob + first + start, shrink(own.most, all.most) * invert(all));
    if (rank == 0 && threadIdx.x == 0) losses.store(row, logits + first, all);
}

int cross_entropy_cluster(const scoring *s) {
    const slices cut = divide_row(s->classes, count_held(GROUPS) / 2);
    if (cut.length > count_held(GROUPS)) return cross_entropy_split(s);
    return launch_holder<GROUPS>(cut.length, [&](auto holder) {
        using Holder = decltype(holder);
        const auto kernel = s->is_wide() ? score_slices<true, Holder>
                                         : score_slices<false, Holder>;
        const struct launch l = {
            "score_slices", s->n * cut.blocks, Holder::width, 0, s->stream, 0,
            (int)cut.blocks};
        return launch_kernel(l, kernel, s->prob, s->logits, s->rows(), cut);
    });
}
