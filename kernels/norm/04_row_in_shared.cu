/* 04_row_in_shared.cu -- layernorm and rmsnorm, rung 4: the row stays on chip.
 *
 * Before:     rung 3 reads a row from memory twice, and weight and bias once
 *             per row.
 * Idea:       a block keeps its row in shared memory, where further passes are
 *             cheap: the exact mean first, then the distances from it. A block
 *             takes several rows, and keeps weight and bias in the rest of its
 *             shared memory. The numbers that do not fit are read again.
 * Prediction: one read and one write of rows of up to 24,576 numbers, 15,360 on
 *             a device of 64 KB.
 * Limit:      longer rows, rows that leave no room for weight and bias, and
 *             fewer rows than multiprocessors. Rung 5 divides a row among
 *             blocks. */
#include "on_chip.cuh"

template <bool CENTRED, bool WIDE>
static __global__ void normalize_in_shared(normal n, room kept) {
    __shared__ float sums_s[WARPS];
    extern __shared__ __align__(16) float row_s[];
    const sharer<WIDE> thread = {threadIdx.x, THREADS};
    chip<CENTRED, sharer<WIDE>> own(n, thread, kept, row_s);
    for (size_t row = blockIdx.x; row < n.rows; row += gridDim.x) {
        const size_t first = row * n.cols;
        float mean = own.load(first);
        if (CENTRED) mean = add_threads(mean, sums_s) / (float)n.cols;
        const float squares = own.add_distances(first, mean);
        const float rstd = find_rstd(n, add_threads(squares, sums_s));
        own.store(first, mean, rstd);
        if (threadIdx.x == 0) keep_moments(n, row, mean, rstd);
    }
}

template <bool CENTRED, bool WIDE>
static __global__ void differentiate_in_shared(normal_backward n,
                                               unsigned kept) {
    __shared__ float sums_s[WARPS];
    extern __shared__ __align__(16) float g_s[];
    const sharer<WIDE> thread = {threadIdx.x, THREADS};
    chip_backward<sharer<WIDE>> own = {n, thread, kept, g_s};
    const size_t row = blockIdx.x, first = row * n.cols;
    const slopes sums = add_threads<CENTRED>(own.load(row, first), sums_s);
    own.store(row, first, find_means<CENTRED>(sums, n.cols));
}

template <bool CENTRED>
static int launch(const normal &n, cudaStream_t stream) {
    const auto kernel = rows_are_aligned(n)
                            ? normalize_in_shared<CENTRED, true>
                            : normalize_in_shared<CENTRED, false>;
    const room kept = divide_room(n, n.cols);
    const struct launch l = {"normalize_in_shared",
                             count_busy(n.rows),
                             THREADS,
                             kept.count_bytes(),
                             stream,
                             0};
    return launch_kernel(l, kernel, n, kept);
}

template <bool CENTRED>
static int launch_backward(const normal_backward &n, cudaStream_t stream) {
    const auto kernel = rows_are_aligned(n)
                            ? differentiate_in_shared<CENTRED, true>
                            : differentiate_in_shared<CENTRED, false>;
    const unsigned groups = CEIL_DIV(n.cols, LEAST);
    const unsigned most = count_room() / LEAST / 2;
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
