/* 08_cluster_a_row.cu -- softmax, rung 8: a cluster of blocks shares a row.
 *
 * Before:     the blocks of rung 6 exchange their pairs through global memory,
 *             which takes microseconds for each row.
 * Idea:       up to 16 blocks form a cluster, and each keeps a slice of the row
 *             in registers, as in rung 7. A block sends its pair to the shared
 *             memory of all blocks of the cluster, where a barrier counts the
 *             bytes. Every block merges all pairs in the same order. The
 *             exponentials of a warp are relative to its own maximum, so a
 *             block needs one barrier for a row. Then the cluster takes another
 *             row: a new cluster would start only when all of its blocks have
 *             room at the same time.
 * Prediction: one read and one write of up to 262,144 numbers, at the rate of a
 *             copy. Backward, dy and y share the registers: 131,072.
 * Limit:      a block waits for the slowest of its cluster in each row. Rung 6
 *             computes longer rows. The rung needs compute capability 9.0. On
 *             the CPU target, a cluster is one block.
 * Measured:   rows of 65,536, 131,072 and 262,144 numbers take 603, 575 and 646
 *             us, where a copy takes 502 to 503 (NVIDIA H200, 2^28 numbers,
 *             2026-11-30). In a program of its own, this kernel took 546 to 550
 *             us (2026-11-29); the difference is not explained.
 * No help:    in that program, a ring of bulk loads (TMA) that run ahead into
 *             shared memory took 556 to 592 us at best.
 * Error:      the factor of a warp's exponentials rounds them once more. So the
 *             results of equal numbers in different warps may differ in their
 *             last bits. */
#include "in_registers.cuh"

#include "common/cluster.cuh"

template <bool WIDE, class Holder>
static __global__ void __launch_bounds__(Holder::width, Holder::blocks)
    soften_slices(float *y, const float *x, unsigned rows, unsigned cols,
                  slices s) {
    __shared__ pair pairs_s[2][Holder::warps];
    __shared__ exchanged<pair> slices_s;
    const unsigned rank = cluster_rank(), clusters = gridDim.x / s.blocks;
    held<WIDE, Holder::groups> slice({threadIdx.x, Holder::width},
                                     count_slice(s, rank, cols));
    begin_exchange(&slices_s);
    size_t row = blockIdx.x / s.blocks;
    for (unsigned turn = 0; row < rows; row += clusters, turn++) {
        const size_t first = row * cols + rank * s.length;
        pair warp = no_pair();
        warp.most = max_lanes(slice.load(x + first));
        warp.sum = add_lanes(slice.shrink_all(warp.most));
        const pair own = merge_warps(warp, pairs_s[turn % 2]);
        const pair all = merge_lanes(exchange_in_cluster(
            &slices_s, own, no_pair(), turn, rank, s.blocks));
        slice.store(y + first, shrink(warp.most, all.most) * invert(all));
    }
}

template <bool WIDE, class Holder>
static __global__ void __launch_bounds__(Holder::width, Holder::blocks)
    differentiate_slices(float *dx, const float *dy, const float *y,
                         unsigned rows, unsigned cols, slices s) {
    __shared__ float sums_s[Holder::warps];
    __shared__ exchanged<float> dots_s;
    const unsigned rank = cluster_rank(), clusters = gridDim.x / s.blocks;
    held_backward<WIDE, Holder> slice(count_slice(s, rank, cols));
    begin_exchange(&dots_s);
    size_t row = blockIdx.x / s.blocks;
    for (unsigned turn = 0; row < rows; row += clusters, turn++) {
        const size_t first = row * cols + rank * s.length;
        const float own =
            add_threads(slice.load(dy + first, y + first), sums_s);
        slice.store(dx + first, add_lanes(exchange_in_cluster(
                                    &dots_s, own, 0.0f, turn, rank, s.blocks)));
    }
}

int softmax_cluster(const struct softening *s) {
    const slices cut = divide_row(s->cols, 1);
    if (cut.length > count_held(1)) return softmax_split(s);
    return launch_holder<1>(cut.length, [&](auto holder) {
        using Holder = decltype(holder);
        const auto kernel = rows_are_aligned(s->y, s->x, s->x, s->cols)
                                ? soften_slices<true, Holder>
                                : soften_slices<false, Holder>;
        return launch_clusters("soften_slices", kernel, cut, Holder::width,
                               s->rows, s->stream, s->y, s->x, s->rows, s->cols,
                               cut);
    });
}

int softmax_cluster_backward(const struct differentiation *d) {
    const slices cut = divide_row(d->cols, 2);
    if (cut.length > count_held(2)) return softmax_split_backward(d);
    return launch_holder<2>(cut.length, [&](auto holder) {
        using Holder = decltype(holder);
        const auto kernel = rows_are_aligned(d->dx, d->dy, d->y, d->cols)
                                ? differentiate_slices<true, Holder>
                                : differentiate_slices<false, Holder>;
        return launch_clusters("differentiate_slices", kernel, cut,
                               Holder::width, d->rows, d->stream, d->dx, d->dy,
                               d->y, d->rows, d->cols, cut);
    });
}
