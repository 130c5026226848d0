/* 06_row_in_registers.cu -- layernorm and rmsnorm, rung 6: the row stays in the
 * registers of a block.
 *
 * Before:     with rows, weight and bias in shared memory, few blocks of rung 4
 *             fit on a multiprocessor. Often all of them wait at a barrier.
 * Idea:       the registers of a multiprocessor have 256 KB. A thread keeps up
 *             to 16 numbers of the row, of weight and of bias. A block has 128
 *             to 1024 threads, just enough for its row, and takes several rows.
 *             All loads of a row are in flight at the same time. Backward, a
 *             block takes one row.
 * Prediction: one read and one write of rows of up to 16,384 numbers. Backward,
 *             dy and x share the registers: 8192.
 * Limit:      longer rows, which rung 4 computes. With more than 8192 numbers,
 *             one block fills a multiprocessor, and nothing hides its barriers.
 *             Rung 7 joins the registers of several blocks. */
#include "in_registers.cuh"

template <bool CENTRED, bool WIDE, class Holder>
static __global__ void __launch_bounds__(Holder::width, count_roomy<Holder>())
    normalize_rows(normal n) {
    __shared__ float sums_s[Holder::warps];
    held<CENTRED, WIDE, Holder> own(n);
    for (size_t row = blockIdx.x; row < n.rows; row += gridDim.x) {
        const size_t first = row * n.cols;
        float mean = own.load(first);
        if (CENTRED) mean = add_threads(mean, sums_s) / (float)n.cols;
        const float squares = own.add_distances(mean);
        const float rstd = find_rstd(n, add_threads(squares, sums_s));
        own.store(first, mean, rstd);
        if (threadIdx.x == 0) keep_moments(n, row, mean, rstd);
    }
}

template <bool CENTRED, bool WIDE, class Holder>
static __global__ void __launch_bounds__(Holder::width, Holder::blocks)
    differentiate_row(normal_backward n) {
    __shared__ float sums_s[Holder::warps];
    held_backward<WIDE, Holder> own(n);
    const size_t row = blockIdx.x, first = row * n.cols;
    const slopes sums = add_threads<CENTRED>(own.load(row, first), sums_s);
    own.store(row, first, find_means<CENTRED>(sums, n.cols));
}

template <bool CENTRED>
static int launch(const normal &n, cudaStream_t stream) {
    return launch_holder<GROUPS>(n.cols, [&](auto holder) {
        using Holder = decltype(holder);
        const auto kernel = rows_are_aligned(n)
                                ? normalize_rows<CENTRED, true, Holder>
                                : normalize_rows<CENTRED, false, Holder>;
        const unsigned blocks = count_blocks(kernel, Holder::width, n.rows);
        const struct launch l = {"normalize_rows", blocks, Holder::width, 0,
                                 stream,           0};
        return launch_kernel(l, kernel, n);
    });
}

template <bool CENTRED>
static int launch_backward(const normal_backward &n, cudaStream_t stream) {
    return launch_holder<GROUPS_OF_BOTH>(n.cols, [&](auto holder) {
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
    if (n.cols > count_held(GROUPS)) return norm_row_in_shared(n, stream);
    return n.centred ? launch<true>(n, stream) : launch<false>(n, stream);
}

int norm_row_in_registers_backward(const normal_backward &n,
                                   cudaStream_t stream) {
    if (n.cols > count_held(GROUPS_OF_BOTH))
        return norm_row_in_shared_backward(n, stream);
    return n.centred ? launch_backward<true>(n, stream)
                     : launch_backward<false>(n, stream);
}
