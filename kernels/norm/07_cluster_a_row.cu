/* 07_cluster_a_row.cu -- layernorm and rmsnorm, rung 7: a cluster of blocks
 * shares a row.
 *
 * Before:     the blocks of rung 5 exchange moments through global memory. That
 *             takes microseconds per row. If a row is long, one block of rung 6
 *             fills a multiprocessor.
 * Idea:       up to 16 blocks form a cluster. Each keeps a slice of the row, of
 *             weight and of bias in registers, as in rung 6. A block stores its
 *             moments in the shared memory of all blocks of the cluster. After
 *             a barrier of the cluster, every block merges all moments in the
 *             same order. Then the cluster takes the next row.
 * Prediction: one read and one write of rows of up to 262,144 numbers.
 *             Backward, dy and x share the registers: 131,072.
 * Limit:      longer rows, which rung 5 computes. The rung needs compute
 *             capability 9.0. On the CPU target, a cluster is one block. */
#include "../common/cluster.cuh"
#include "in_registers.cuh"

template <bool CENTRED, bool WIDE, class Holder>
static __global__ void __launch_bounds__(Holder::width, count_roomy<Holder>())
    normalize_slices(normal n, slices s) {
    __shared__ float sums_s[Holder::warps];
    __shared__ moments all_s[MOST_IN_CLUSTER];
    const unsigned rank = cluster_rank(), lane = threadIdx.x % WARP;
    const unsigned count = count_slice(s, rank, n.cols);
    const normal share = take_part(n, rank * s.length, count);
    held<CENTRED, WIDE, Holder> own(share);
    const unsigned clusters = gridDim.x / s.blocks;
    for (size_t row = blockIdx.x / s.blocks; row < n.rows; row += clusters) {
        const size_t first = row * n.cols;
        cluster_arrive();
        moments found = {(float)count, own.load(first), 0.0f};
        if (CENTRED) found.mean = add_threads(found.mean, sums_s) / found.count;
        found.squares = add_threads(own.add_distances(found.mean), sums_s);
        exchange_in_cluster(found, all_s, rank, s.blocks);
        const moments whole =
            merge_lanes<CENTRED>(lane < s.blocks ? all_s[lane] : moments{});
        const float rstd = find_rstd(n, whole.squares);
        own.store(first, whole.mean, rstd);
        if (rank == 0 && threadIdx.x == 0)
            keep_moments(n, row, whole.mean, rstd);
    }
}

template <bool CENTRED, bool WIDE, class Holder>
static __global__ void __launch_bounds__(Holder::width, Holder::blocks)
    differentiate_slices(normal_backward n, slices s) {
    __shared__ float sums_s[Holder::warps];
    __shared__ slopes all_s[MOST_IN_CLUSTER];
    const unsigned rank = cluster_rank(), lane = threadIdx.x % WARP;
    const unsigned count = count_slice(s, rank, n.cols);
    const normal_backward share = take_part(n, rank * s.length, count);
    held_backward<WIDE, Holder> own(share);
    const size_t row = blockIdx.x / s.blocks, first = row * n.cols;
    cluster_arrive();
    const slopes found = add_threads<CENTRED>(own.load(row, first), sums_s);
    exchange_in_cluster(found, all_s, rank, s.blocks);
    slopes whole = lane < s.blocks ? all_s[lane] : slopes{};
    whole = {add_lanes(whole.plain), add_lanes(whole.scaled)};
    own.store(row, first, find_means<CENTRED>(whole, n.cols));
}

template <bool CENTRED>
static int launch(const normal &n, const slices &s, cudaStream_t stream) {
    return launch_holder<GROUPS>(s.length, [&](auto holder) {
        using Holder = decltype(holder);
        const auto kernel = rows_are_aligned(n)
                                ? normalize_slices<CENTRED, true, Holder>
                                : normalize_slices<CENTRED, false, Holder>;
        struct launch l = {"normalize_slices", 0, Holder::width, 0, stream, 0,
                           (int)s.blocks};
        l.grid = count_clusters(l, kernel, n.rows) * s.blocks;
        return launch_kernel(l, kernel, n, s);
    });
}

template <bool CENTRED>
static int launch_backward(const normal_backward &n, const slices &s,
                           cudaStream_t stream) {
    return launch_holder<GROUPS_OF_BOTH>(s.length, [&](auto holder) {
        using Holder = decltype(holder);
        const auto kernel = rows_are_aligned(n)
                                ? differentiate_slices<CENTRED, true, Holder>
                                : differentiate_slices<CENTRED, false, Holder>;
        const struct launch l = {"differentiate_slices",
                                 n.rows * s.blocks,
                                 Holder::width,
                                 0,
                                 stream,
                                 0,
                                 (int)s.blocks};
        return launch_kernel(l, kernel, n, s);
    });
}

int norm_cluster_a_row(const char *op, const normal &n, cudaStream_t stream) {
    const slices s = divide_row(n.cols, count_held(GROUPS) / 2);
    if (s.length > count_held(GROUPS)) return norm_split_rows(op, n, stream);
    return n.centred ? launch<true>(n, s, stream) : launch<false>(n, s, stream);
}

int norm_cluster_a_row_backward(const char *op, const normal_backward &n,
                                cudaStream_t stream) {
    const slices s = divide_row(n.cols, count_held(GROUPS_OF_BOTH) / 2);
    if (s.length > count_held(GROUPS_OF_BOTH))
        return norm_split_rows_backward(op, n, stream);
    return n.centred ? launch_backward<true>(n, s, stream)
                     : launch_backward<false>(n, s, stream);
}
