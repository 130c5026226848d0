/* 04_row_in_shared.cu -- layernorm and rmsnorm, rung 4: the row stays on chip.
 *
 * Before:     rung 3 reads a row from memory twice, and weight and bias for
 *             each row.
 * Idea:       a block keeps its row in shared memory, where further passes are
 *             cheap: the exact mean first, then the distances from it. A block
 *             takes several rows, and keeps weight and bias in the rest of its
 *             shared memory. A thread only uses groups that it has stored
 *             itself. The numbers that do not fit are read again.
 * Prediction: one read and one write of rows of up to 24,576 numbers, 15,360 on
 *             a device of 64 KB.
 * Limit:      longer rows, and fewer rows than multiprocessors. */
#include "norm.cuh"

/* How many groups of four a thread keeps of the row, of weight and of bias. */
struct room {
    unsigned row, weight, bias;
};

/* Copy the first `kept` groups of `scale`, if any, to shared memory. */
template <class Sharer>
static __device__ __forceinline__ void
keep_scale(float *kept_s, const float *scale, Sharer thread, unsigned kept,
           unsigned cols, float other) {
    for (unsigned j = 0; j < kept; j++)
        thread.store(kept_s, j, cols,
                     load_scale(scale, thread, j, cols, other));
}

template <bool CENTRED, bool WIDE>
static __global__ void normalize_in_shared(normal n, room kept) {
    __shared__ float sums_s[WARPS];
    extern __shared__ __align__(16) float row_s[];
    float *const weight_s = row_s + kept.row * 4 * THREADS;
    float *const bias_s = weight_s + kept.weight * 4 * THREADS;
    const sharer<WIDE> thread = {threadIdx.x, THREADS};
    const unsigned groups = thread.count_groups(n.cols);
    keep_scale(weight_s, n.weight, thread, kept.weight, n.cols, 1.0f);
    keep_scale(bias_s, n.bias, thread, kept.bias, n.cols, 0.0f);
    for (size_t row = blockIdx.x; row < n.rows; row += gridDim.x) {
        const size_t first = row * n.cols;
        const float *const again = (n.residual ? n.total : n.x) + first;
        float mean = 0.0f, squares = 0.0f;
#pragma unroll 4
        for (unsigned j = 0; j < groups; j++) {
            const four v = load_row(n, thread, first, j);
            if (j < kept.row) thread.store(row_s, j, n.cols, v);
            mean += CENTRED ? add_four(v) : 0.0f;
        }
        if (CENTRED) mean = add_threads(mean, sums_s) / (float)n.cols;
        for (unsigned j = 0; j < groups; j++) {
            const float *const from = j < kept.row ? row_s : again;
            squares += add_squares<CENTRED>(thread.load(from, j, n.cols, 0.0f),
                                            mean, thread, j, n.cols);
        }
        const float rstd = find_rstd(n, add_threads(squares, sums_s));
        for (unsigned j = 0; j < groups; j++) {
            const float *const from = j < kept.row ? row_s : again;
            const float *const weight = j < kept.weight ? weight_s : n.weight;
            const float *const bias = j < kept.bias ? bias_s : n.bias;
            thread.store(
                n.y + first, j, n.cols,
                normalize_four(thread.load(from, j, n.cols, 0.0f), mean, rstd,
                               load_scale(weight, thread, j, n.cols, 1.0f),
                               load_scale(bias, thread, j, n.cols, 0.0f)));
        }
        if (threadIdx.x == 0) keep_moments(n, row, mean, rstd);
    }
}

template <bool CENTRED, bool WIDE>
static __global__ void differentiate_in_shared(normal_backward n,
                                               unsigned kept) {
    __shared__ float sums_s[WARPS];
    extern __shared__ __align__(16) float g_s[];
    float *const xhat_s = g_s + kept * 4 * THREADS;
    const sharer<WIDE> thread = {threadIdx.x, THREADS};
    const size_t row = blockIdx.x;
    const unsigned groups = thread.count_groups(n.cols);
    four g, xhat;
    slopes sums = {0.0f, 0.0f};
    for (unsigned j = 0; j < groups; j++) {
        load_both(n, thread, row, j, &g, &xhat);
        if (j < kept) thread.store(g_s, j, n.cols, g);
        if (j < kept) thread.store(xhat_s, j, n.cols, xhat);
        sums.plain += add_four(g);
        sums.scaled += dot_four(g, xhat);
    }
    if (CENTRED) sums.plain = add_threads(sums.plain, sums_s);
    sums.scaled = add_threads(sums.scaled, sums_s);
    const slopes means = find_means<CENTRED>(sums, n.cols);
    for (unsigned j = 0; j < groups; j++) {
        if (j < kept) {
            g = thread.load(g_s, j, n.cols, 0.0f);
            xhat = thread.load(xhat_s, j, n.cols, 0.0f);
        } else {
            load_both(n, thread, row, j, &g, &xhat);
        }
        store_gradient(n, thread, row * n.cols, j,
                       slope_four(g, xhat, means, n.rstd[row]));
    }
}

/* Divide the groups of a block's shared memory among the arrays. */
static room divide_room(const normal &n) {
    unsigned left = count_room() / (4 * THREADS);
    const unsigned groups = CEIL_DIV(n.cols, 4 * THREADS);
    const auto take = [&](bool wanted) {
        const unsigned taken = !wanted ? 0 : groups < left ? groups : left;
        left -= taken;
        return taken;
    };
    room kept;
    kept.row = take(true);
    kept.weight = take(n.weight);
    kept.bias = take(n.bias);
    return kept;
}

template <bool CENTRED>
static int launch(const normal &n, cudaStream_t stream) {
    const auto kernel = rows_are_aligned(n)
                            ? normalize_in_shared<CENTRED, true>
                            : normalize_in_shared<CENTRED, false>;
    const room kept = divide_room(n);
    const size_t bytes = (kept.row + kept.weight + kept.bias) * 16 * THREADS;
    const struct launch l = {
        "normalize_in_shared", count_busy(n.rows), THREADS, bytes, stream, 0};
    return launch_kernel(l, kernel, n, kept);
}

template <bool CENTRED>
static int launch_backward(const normal_backward &n, cudaStream_t stream) {
    const auto kernel = rows_are_aligned(n)
                            ? differentiate_in_shared<CENTRED, true>
                            : differentiate_in_shared<CENTRED, false>;
    const unsigned groups = CEIL_DIV(n.cols, 4 * THREADS);
    const unsigned most = count_room() / (4 * THREADS) / 2;
    const unsigned kept = groups < most ? groups : most;
    const struct launch l = {"differentiate_in_shared", n.rows, THREADS,
                             2 * kept * 16 * THREADS,   stream, 0};
    return launch_kernel(l, kernel, n, kept);
}

int norm_row_in_shared(const normal &n, cudaStream_t stream) {
    return n.centred ? launch<true>(n, stream) : launch<false>(n, stream);
}

int norm_row_in_shared_backward(const normal_backward &n, cudaStream_t stream) {
    return n.centred ? launch_backward<true>(n, stream)
                     : launch_backward<false>(n, stream);
}
