/* 07_row_in_registers.cu -- softmax, rung 7: the row stays in registers.
 *
 * Before:     with rows of 64 KB in shared memory, three blocks of rung 5 fit
 *             on a multiprocessor. Often all of them wait at a barrier.
 * Idea:       the registers of a multiprocessor hold 256 KB. A thread keeps up
 *             to 32 numbers, and a block has 128 to 1024 threads, just enough
 *             for its row. All loads of a row are in flight at the same time.
 * Prediction: one read and one write of up to 32,768 numbers, at the rate of a
 *             copy. Backward, dy and y share the registers: 16,384.
 *             A multiprocessor holds only one block of 1024 threads, and no
 *             other block works while it waits. So the exponentials of such a
 *             block are relative to their warp's maximum: one barrier instead
 *             of four.
 * Measured:   rows of 32,768 numbers take 536 us, where a copy takes 503. In a
 *             program of its own, a kernel with one barrier took 518 us, and
 *             this rung, which then had four, 540 (NVIDIA H200, 2^28 numbers,
 *             2026-11-30).
 * Limit:      longer rows, which rung 5 computes, and fewer rows than
 *             multiprocessors. Rung 8 joins the registers of several blocks.
 * Error:      the sum is added in a tree over the block. With more than 16,384
 *             numbers, the factor of a warp's exponentials rounds them once
 *             more, as in rung 8. */
#include "in_registers.cuh"

template <bool WIDE, class Holder>
static __global__ void __launch_bounds__(Holder::width, Holder::blocks)
    soften_row(float *y, const float *x, unsigned cols) {
    const size_t first = (size_t)blockIdx.x * cols;
    held<WIDE, Holder::groups> row({threadIdx.x, Holder::width}, cols);
    if constexpr (Holder::width > 512) {
        __shared__ pair pairs_s[Holder::warps];
        pair warp = no_pair();
        warp.most = max_lanes(row.load(x + first));
        warp.sum = add_lanes(row.shrink_all(warp.most));
        const pair all = merge_warps(warp, pairs_s);
        row.store(y + first, shrink(warp.most, all.most) * invert(all));
    } else {
        __shared__ float values_s[Holder::warps];
        pair found = no_pair();
        found.most = max_threads(row.load(x + first), values_s);
        found.sum = add_threads(row.shrink_all(found.most), values_s);
        row.store(y + first, invert(found));
    }
}

template <bool WIDE, class Holder>
static __global__ void __launch_bounds__(Holder::width, Holder::blocks)
    differentiate_row(float *dx, const float *dy, const float *y,
                      unsigned cols) {
    __shared__ float sums_s[Holder::warps];
    const size_t first = (size_t)blockIdx.x * cols;
    held_backward<WIDE, Holder> row(cols);
    const float dot = add_threads(row.load(dy + first, y + first), sums_s);
    row.store(dx + first, dot);
}

int softmax_registers(const struct softening *s) {
    if (s->cols > count_held(1)) return softmax_shared(s);
    return launch_holder<1>(s->cols, [&](auto holder) {
        using Holder = decltype(holder);
        const auto kernel = rows_are_aligned(s->y, s->x, s->x, s->cols)
                                ? soften_row<true, Holder>
                                : soften_row<false, Holder>;
        const struct launch l = {"soften_row", s->rows, Holder::width, 0,
                                 s->stream,    0};
        return launch_kernel(l, kernel, s->y, s->x, s->cols);
    });
}

int softmax_registers_backward(const struct differentiation *d) {
    if (d->cols > count_held(2)) return softmax_shared_backward(d);
    return launch_holder<2>(d->cols, [&](auto holder) {
        using Holder = decltype(holder);
        const auto kernel = rows_are_aligned(d->dx, d->dy, d->y, d->cols)
                                ? differentiate_row<true, Holder>
                                : differentiate_row<false, Holder>;
        const struct launch l = {"differentiate_row", d->rows, Holder::width, 0,
                                 d->stream,           0};
        return launch_kernel(l, kernel, d->dx, d->dy, d->y, d->cols);
    });
}
