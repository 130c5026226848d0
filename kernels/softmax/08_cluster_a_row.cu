/* 08_cluster_a_row.cu -- softmax, rung 8: a cluster of blocks shares a row.
 *
 * Before:     the blocks of rung 6 exchange their pairs through global memory,
 *             which takes microseconds for each row.
 * Idea:       up to 16 blocks form a cluster, and each keeps a slice of the row
 *             in registers, as in rung 7. A block stores its pair in the shared
 *             memory of all blocks of the cluster. After a barrier of the
 *             cluster, every block merges all pairs in the same order.
 * Prediction: one read and one write of up to 262,144 numbers, at the rate of a
 *             copy. Backward, dy and y share the registers: 131,072.
 * Limit:      longer rows, which rung 6 computes. The rung needs compute
 *             capability 9.0. On the CPU target, a cluster is one block. */
#include "in_registers.cuh"

#include "common/cluster.cuh"

template <bool WIDE, class Holder>
static __global__ void __launch_bounds__(Holder::width, Holder::blocks)
    soften_slices(float *y, const float *x, unsigned cols, slices s) {
    __shared__ float values_s[Holder::warps];
    __shared__ pair pairs_s[MOST_IN_CLUSTER];
    const unsigned rank = cluster_rank(), lane = threadIdx.x % WARP;
    const size_t row = blockIdx.x / s.blocks;
    const size_t first = row * cols + rank * s.length;
    held<WIDE, Holder::groups> slice({threadIdx.x, Holder::width},
                                     count_slice(s, rank, cols));
    cluster_arrive();
    pair own = no_pair();
    own.most = max_threads(slice.load(x + first), values_s);
    own.sum = add_threads(slice.shrink_all(own.most), values_s);
    exchange_in_cluster(own, pairs_s, rank, s.blocks);
    const pair all = merge_lanes(lane < s.blocks ? pairs_s[lane] : no_pair());
    slice.store(y + first, shrink(own.most, all.most) * invert(all));
}

template <bool WIDE, class Holder>
static __global__ void __launch_bounds__(Holder::width, Holder::blocks)
    differentiate_slices(float *dx, const float *dy, const float *y,
                         unsigned cols, slices s) {
    __shared__ float sums_s[Holder::warps], dots_s[MOST_IN_CLUSTER];
    const unsigned rank = cluster_rank(), lane = threadIdx.x % WARP;
    const size_t row = blockIdx.x / s.blocks;
    const size_t first = row * cols + rank * s.length;
    held_backward<WIDE, Holder> slice(count_slice(s, rank, cols));
    cluster_arrive();
    const float own = add_threads(slice.load(dy + first, y + first), sums_s);
    exchange_in_cluster(own, dots_s, rank, s.blocks);
    slice.store(dx + first, add_lanes(lane < s.blocks ? dots_s[lane] : 0.0f));
}

int softmax_cluster(const struct softening *s) {
    const slices cut = divide_row(s->cols, count_held(GROUPS) / 2);
    if (cut.length > count_held(GROUPS)) return softmax_split(s);
    return launch_holder<GROUPS>(cut.length, [&](auto holder) {
        using Holder = decltype(holder);
        const auto kernel = rows_are_aligned(s->y, s->x, s->x, s->cols)
                                ? soften_slices<true, Holder>
                                : soften_slices<false, Holder>;
        const struct launch l = {"soften_slices", s->rows * cut.blocks,
                                 Holder::width,   0,
                                 s->stream,       0,
                                 (int)cut.blocks};
        return launch_kernel(l, kernel, s->y, s->x, s->cols, cut);
    });
}

int softmax_cluster_backward(const struct differentiation *d) {
    const slices cut = divide_row(d->cols, count_held(GROUPS_OF_BOTH) / 2);
    if (cut.length > count_held(GROUPS_OF_BOTH))
        return softmax_split_backward(d);
    return launch_holder<GROUPS_OF_BOTH>(cut.length, [&](auto holder) {
        using Holder = decltype(holder);
        const auto kernel = rows_are_aligned(d->dx, d->dy, d->y, d->cols)
                                ? differentiate_slices<true, Holder>
                                : differentiate_slices<false, Holder>;
        const struct launch l = {"differentiate_slices",
                                 d->rows * cut.blocks,
                                 Holder::width,
                                 0,
                                 d->stream,
                                 0,
                                 (int)cut.blocks};
        return launch_kernel(l, kernel, d->dx, d->dy, d->y, d->cols, cut);
    });
}
