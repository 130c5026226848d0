/* 03_block_a_row.cu -- layernorm and rmsnorm, rung 3: a block per row.
 *
 * Before:     a warp of rung 2 has few loads in flight for a long row.
 * Idea:       256 threads share a row. Each has the moments of its own numbers:
 *             their count, their mean, and the sum of their squared distances
 *             from it. Two triples merge into one, so a tree over the block
 *             merges all triples.
 * Prediction: two reads and one write for any length: 1.5 times the floor.
 * Limit:      the second read. Rung 4 avoids it. */
#include "norm.cuh"

template <bool CENTRED, bool WIDE>
static __global__ void normalize_by_block(normal n) {
    __shared__ moments all_s[WARPS];
    const sharer<WIDE> thread = {threadIdx.x, THREADS};
    const size_t row = blockIdx.x, first = row * n.cols;
    const unsigned groups = thread.count_groups(n.cols);
    moments all = {};
    for (unsigned j = 0; j < groups; j++)
        all = merge<CENTRED>(
            all, find_moments<CENTRED>(load_row(n, thread, first, j), thread, j,
                                       n.cols));
    all = merge_warps<CENTRED>(merge_lanes<CENTRED>(all), all_s);
    const float rstd = find_rstd(n, all.squares);
    for (unsigned j = 0; j < groups; j++)
        thread.store(
            n.y + first, j, n.cols,
            normalize_four(load_again(n, thread, first, j), all.mean, rstd,
                           load_scale(n.weight, thread, j, n.cols, 1.0f),
                           load_scale(n.bias, thread, j, n.cols, 0.0f)));
    if (threadIdx.x == 0) keep_moments(n, row, all.mean, rstd);
}

template <bool CENTRED, bool WIDE>
static __global__ void differentiate_by_block(normal_backward n) {
    __shared__ float sums_s[WARPS];
    const sharer<WIDE> thread = {threadIdx.x, THREADS};
    const size_t row = blockIdx.x;
    const unsigned groups = thread.count_groups(n.cols);
    four g, xhat;
    slopes sums = {0.0f, 0.0f};
    for (unsigned j = 0; j < groups; j++) {
        load_both(n, thread, row, row * n.cols, j, &g, &xhat);
        sums.plain += add_four(g);
        sums.scaled += dot_four(g, xhat);
    }
    if (CENTRED) sums.plain = add_threads(sums.plain, sums_s);
    sums.scaled = add_threads(sums.scaled, sums_s);
    const slopes means = find_means<CENTRED>(sums, n.cols);
    for (unsigned j = 0; j < groups; j++) {
        load_both(n, thread, row, row * n.cols, j, &g, &xhat);
        store_gradient(n, thread, row * n.cols, j,
                       slope_four(g, xhat, means, n.rstd[row]));
    }
}

template <bool CENTRED>
static int launch(const normal &n, cudaStream_t stream) {
    const auto kernel = rows_are_aligned(n)
                            ? normalize_by_block<CENTRED, true>
                            : normalize_by_block<CENTRED, false>;
    kernel<<<n.rows, THREADS, 0, stream>>>(n);
    WEFT_LAUNCHED(normalize_by_block);
    return WEFT_OK;
}

template <bool CENTRED>
static int launch_backward(const normal_backward &n, cudaStream_t stream) {
    const auto kernel = rows_are_aligned(n)
                            ? differentiate_by_block<CENTRED, true>
                            : differentiate_by_block<CENTRED, false>;
    kernel<<<n.rows, THREADS, 0, stream>>>(n);
    WEFT_LAUNCHED(differentiate_by_block);
    return WEFT_OK;
}

int norm_block_a_row(const normal &n, cudaStream_t stream) {
    return n.centred ? launch<true>(n, stream) : launch<false>(n, stream);
}

int norm_block_a_row_backward(const normal_backward &n, cudaStream_t stream) {
    return n.centred ? launch_backward<true>(n, stream)
                     : launch_backward<false>(n, stream);
}
