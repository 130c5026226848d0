/* 06_row_in_registers.cu -- layernorm and rmsnorm, rung 6: the row stays in the
 * registers of a block.
 *
 * Before:     with rows, weight and bias in shared memory, few blocks of rung 4
 *             fit on a multiprocessor. Often all of them wait at a barrier.
 * Idea:       the registers of a multiprocessor hold 256 KB. A thread keeps up
 *             to 32 numbers of the row, and a block has 128 to 1024 threads,
 *             just enough for its row. All loads of a row are in flight at the
 *             same time. Each warp adds the squares of the distances from its
 *             own mean, so the block needs one barrier: it merges the moments
 *             of its warps. Weight and bias come from a cache after that.
 * Prediction: one read and one write of rows of up to 32,768 numbers, at the
 *             rate of a copy. Backward, dy and x share the registers: 16,384.
 * Limit:      longer rows, which rung 4 computes. Rung 7 joins the registers of
 *             several blocks.
 * Measured:   layernorm of rows of 4096 numbers takes 512 us, and a copy 504
 *             (NVIDIA H200, 2^28 numbers, 2026-11-30).
 * No help:    in a program of its own on that day, layernorm with a ring of
 *             bulk loads (TMA) that run ahead took 571 us at best.
 * Error:      each warp adds squared distances from its own mean. The sums are
 *             merged like those of the threads in rung 3. */
#include "in_registers.cuh"

template <bool CENTRED, bool WIDE, class Holder>
static __global__ void __launch_bounds__(Holder::width, Holder::blocks)
    normalize_row(normal n) {
    __shared__ moments all_s[Holder::warps];
    const size_t row = blockIdx.x;
    held<CENTRED, WIDE, Holder::groups> own(n, {threadIdx.x, Holder::width}, 0,
                                            n.cols);
    const moments all = merge_warps<CENTRED>(own.load(row), all_s);
    const float rstd = find_rstd(n, all.squares);
    own.store(row, all.mean, rstd);
    if (threadIdx.x == 0) keep_moments(n, row, all.mean, rstd);
}

template <bool CENTRED, bool WIDE, class Holder>
static __global__ void __launch_bounds__(Holder::width, Holder::blocks)
    differentiate_row(normal_backward n) {
    __shared__ float sums_s[Holder::warps];
    held_backward<WIDE, Holder::groups> own(n, {threadIdx.x, Holder::width});
    const size_t row = blockIdx.x, first = row * n.cols;
    const slopes sums = add_threads<CENTRED>(own.load(row, first), sums_s);
    own.store(row, first, find_means<CENTRED>(sums, n.cols));
}

template <bool CENTRED>
static int launch(const normal &n, cudaStream_t stream) {
    return launch_holder<1>(n.cols, [&](auto holder) {
        using Holder = decltype(holder);
        const auto kernel = rows_are_aligned(n)
                                ? normalize_row<CENTRED, true, Holder>
                                : normalize_row<CENTRED, false, Holder>;
        const struct launch l = {"normalize_row", n.rows, Holder::width, 0,
                                 stream,          0};
        return launch_kernel(l, kernel, n);
    });
}

template <bool CENTRED>
static int launch_backward(const normal_backward &n, cudaStream_t stream) {
    return launch_holder<2>(n.cols, [&](auto holder) {
        using Holder = decltype(holder);
        const auto kernel = rows_are_aligned(n)
                                ? differentiate_row<CENTRED, true, Holder>
                                : differentiate_row<CENTRED, false, Holder>;
        const struct launch l = {
            "differentiate_row", n.rows, Holder::width, 0, stream, 0};
        return launch_kernel(l, kernel, n);
    });
}

int norm_row_in_registers(const normal &n, cudaStream_t stream) {
    if (n.cols > count_held(1)) return norm_row_in_shared(n, stream);
    return n.centred ? launch<true>(n, stream) : launch<false>(n, stream);
}

int norm_row_in_registers_backward(const normal_backward &n,
                                   cudaStream_t stream) {
    if (n.cols > count_held(2)) return norm_row_in_shared_backward(n, stream);
    return n.centred ? launch_backward<true>(n, stream)
                     : launch_backward<false>(n, stream);
}
