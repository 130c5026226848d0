/* 07_cluster_a_row.cu -- layernorm and rmsnorm, rung 7: a cluster of blocks
 * shares a row.
 *
 * Before:     the blocks of rung 5 exchange moments through global memory. That
 *             takes microseconds per row. If a row is long, one block of rung 6
 *             fills a multiprocessor.
 * Idea:       up to 16 blocks form a cluster, and each keeps a slice of the row
 *             in registers, as in rung 6. A block sends its moments to the
 *             shared memory of all blocks of the cluster, where a barrier
 *             counts the bytes. Every block merges all moments in the same
 *             order. Then the cluster takes another row.
 * Prediction: one read and one write of rows of up to 262,144 numbers.
 *             Backward, dy and x share the registers: 131,072.
 * Limit:      longer rows, which rung 5 computes. The rung needs compute
 *             capability 9.0. On the CPU target, a cluster is one block.
 * Error:      that of rung 6: the moments of blocks are merged like those of
 *             warps. */
#include "../common/cluster.cuh"
#include "in_registers.cuh"

template <bool CENTRED, bool WIDE, class Holder>
static __global__ void __launch_bounds__(Holder::width, Holder::blocks)
    normalize_slices(normal n, slices s) {
    __shared__ moments all_s[2][Holder::warps];
    __shared__ exchanged<moments> slices_s;
    const unsigned rank = cluster_rank(), clusters = gridDim.x / s.blocks;
    held<CENTRED, WIDE, Holder::groups> own(n, {threadIdx.x, Holder::width},
                                            rank * s.length,
                                            count_slice(s, rank, n.cols));
    begin_exchange(&slices_s);
    size_t row = blockIdx.x / s.blocks;
    for (unsigned turn = 0; row < n.rows; row += clusters, turn++) {
        const moments found =
            merge_warps<CENTRED>(own.load(row), all_s[turn % 2]);
        const moments all = merge_lanes<CENTRED>(exchange_in_cluster(
            &slices_s, found, moments{}, turn, rank, s.blocks));
        const float rstd = find_rstd(n, all.squares);
        own.store(row, all.mean, rstd);
        if (rank == 0 && threadIdx.x == 0) keep_moments(n, row, all.mean, rstd);
    }
}

template <bool CENTRED, bool WIDE, class Holder>
static __global__ void __launch_bounds__(Holder::width, Holder::blocks)
    differentiate_slices(normal_backward n, slices s) {
    __shared__ float sums_s[Holder::warps];
    __shared__ exchanged<slopes> slices_s;
    const unsigned rank = cluster_rank(), clusters = gridDim.x / s.blocks;
    const unsigned count = count_slice(s, rank, n.cols);
    const normal_backward share = take_part(n, rank * s.length, count);
    held_backward<WIDE, Holder::groups> own(share,
                                            {threadIdx.x, Holder::width});
    begin_exchange(&slices_s);
    size_t row = blockIdx.x / s.blocks;
    for (unsigned turn = 0; row < n.rows; row += clusters, turn++) {
        const size_t first = row * n.cols;
        const slopes found = add_threads<CENTRED>(own.load(row, first), sums_s);
        slopes all = exchange_in_cluster(&slices_s, found, slopes{}, turn, rank,
                                         s.blocks);
        all = {add_lanes(all.plain), add_lanes(all.scaled)};
        own.store(row, first, find_means<CENTRED>(all, n.cols));
    }
}

template <bool CENTRED>
static int launch(const normal &n, const slices &s, cudaStream_t stream) {
    return launch_holder<1>(s.length, [&](auto holder) {
        using Holder = decltype(holder);
        const auto kernel = rows_are_aligned(n)
                                ? normalize_slices<CENTRED, true, Holder>
                                : normalize_slices<CENTRED, false, Holder>;
        return launch_clusters("normalize_slices", kernel, s, Holder::width,
                               n.rows, stream, n, s);
    });
}

template <bool CENTRED>
static int launch_backward(const normal_backward &n, const slices &s,
                           cudaStream_t stream) {
    return launch_holder<2>(s.length, [&](auto holder) {
        using Holder = decltype(holder);
        const auto kernel = rows_are_aligned(n)
                                ? differentiate_slices<CENTRED, true, Holder>
                                : differentiate_slices<CENTRED, false, Holder>;
        return launch_clusters("differentiate_slices", kernel, s, Holder::width,
                               n.rows, stream, n, s);
    });
}

int norm_cluster_a_row(const char *op, const normal &n, cudaStream_t stream) {
    const slices s = divide_row(n.cols, 1);
    if (s.length > count_held(1)) return norm_split_rows(op, n, stream);
    return n.centred ? launch<true>(n, s, stream) : launch<false>(n, s, stream);
}

int norm_cluster_a_row_backward(const char *op, const normal_backward &n,
                                cudaStream_t stream) {
    const slices s = divide_row(n.cols, 2);
    if (s.length > count_held(2))
        return norm_split_rows_backward(op, n, stream);
    return n.centred ? launch_backward<true>(n, s, stream)
                     : launch_backward<false>(n, s, stream);
}
