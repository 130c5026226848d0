/* 07_cluster_a_row.cu -- cross_entropy, rung 7: a cluster of blocks shares a
 * row.
 *
 * Idea:    up to 16 blocks keep a row in their registers, and send their pairs
 *          to each other's shared memory. Then they take another row. A
 *          vocabulary of 262,144 tokens is read once.
 * Limit:   longer rows, which rung 5 computes. A row of 50,257 logits begins at
 *          an odd address, so 32 of its floats are in five sectors instead of
 *          four. A multiple of eight classes avoids this. The rung needs
 *          compute capability 9.0. On the CPU target, a cluster is one block.
 * Error:   a warp's exponentials are relative to its own maximum, which rounds
 *          them once more.
 * Lesson:  notebooks/09b_rows.ipynb */
#include "cross_entropy.cuh"

#include "common/cluster.cuh"
#include "softmax/in_registers.cuh"

template <bool WIDE, class Holder>
static __global__ void __launch_bounds__(Holder::width, Holder::blocks)
    score_slices(float *prob, const float *logits, row_losses losses,
                 unsigned n, slices s) {
    __shared__ pair pairs_s[2][Holder::warps];
    __shared__ exchanged<pair> slices_s;
    const unsigned rank = cluster_rank(), clusters = gridDim.x / s.blocks;
    const unsigned start = rank * s.length;
    held<WIDE, Holder::groups> slice({threadIdx.x, Holder::width},
                                     count_slice(s, rank, losses.classes));
    begin_exchange(&slices_s);
    size_t row = blockIdx.x / s.blocks;
    for (unsigned turn = 0; row < n; row += clusters, turn++) {
        const size_t first = row * losses.classes;
        pair warp = no_pair();
        warp.most = max_lanes(slice.load(logits + first + start));
        warp.sum = add_lanes(slice.shrink_all(warp.most));
        const pair own = merge_warps(warp, pairs_s[turn % 2]);
        const pair all = merge_lanes(exchange_in_cluster(
            &slices_s, own, no_pair(), turn, rank, s.blocks));
        slice.store(prob + first + start,
                    shrink(warp.most, all.most) * invert(all));
        if (rank == 0 && threadIdx.x == 0)
            losses.store(row, logits + first, all);
    }
}

int cross_entropy_cluster(const scoring *s) {
    const slices cut = divide_row(s->classes, 1);
    if (cut.length > count_held(1)) return cross_entropy_split(s);
    return launch_holder<1>(cut.length, [&](auto holder) {
        using Holder = decltype(holder);
        const auto kernel = s->is_wide() ? score_slices<true, Holder>
                                         : score_slices<false, Holder>;
        return launch_clusters("score_slices", kernel, cut, Holder::width, s->n,
                               s->stream, s->prob, s->logits, s->rows(), s->n,
                               cut);
    });
}
