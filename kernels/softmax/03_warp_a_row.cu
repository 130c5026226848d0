/* 03_warp_a_row.cu -- softmax, rung 3: a warp per row, which stays in
 * registers.
 *
 * Before:     a warp of rung 2 reads 32 rows together, a sector per float.
 * Idea:       the lanes of a warp share a row, so they load neighbours. Up to
 *             1024 numbers stay in registers, 32 per lane. Shuffles find the
 *             maximum, then the sum. A longer row is read online, then again.
 * Prediction: up to 1024 columns, one read and one write: the floor.
 * Limit:      a warp has few loads in flight for a long row, and reads it
 *             twice. Rung 4 assigns it to a block. */
#include "in_registers.cuh"

enum { MOST = 1024, PER_WARP = 4 * WARP };

/* Compute the softmax of rows of up to GROUPS * PER_WARP numbers. */
template <bool WIDE, int GROUPS>
static __global__ void __launch_bounds__(THREADS)
    soften_in_registers(float *y, const float *x, unsigned rows,
                        unsigned cols) {
    const size_t row = (size_t)blockIdx.x * WARPS + threadIdx.x / WARP;
    if (row >= rows) return;
    const sharer<WIDE> lane = {threadIdx.x % WARP, WARP};
    x += row * cols, y += row * cols;
    held<WIDE, GROUPS> own(lane, cols);
    pair found = no_pair();
    found.most = max_lanes(own.load(x));
    found.sum = add_lanes(own.shrink_all(found.most));
    own.store(y, invert(found));
}

template <bool WIDE>
static __global__ void soften_by_warp(float *y, const float *x, unsigned rows,
                                      unsigned cols) {
    const size_t row = (size_t)blockIdx.x * WARPS + threadIdx.x / WARP;
    if (row >= rows) return;
    const sharer<WIDE> lane = {threadIdx.x % WARP, WARP};
    x += row * cols, y += row * cols;
    const pair found = merge_lanes(read_online(lane, x, cols));
    soften_again(lane, y, x, cols, found);
}

/* Differentiate rows of up to GROUPS * PER_WARP numbers. */
template <bool WIDE, int GROUPS>
static __global__ void __launch_bounds__(THREADS)
    differentiate_in_registers(float *dx, const float *dy, const float *y,
                               unsigned rows, unsigned cols) {
    const size_t row = (size_t)blockIdx.x * WARPS + threadIdx.x / WARP;
    if (row >= rows) return;
    const sharer<WIDE> lane = {threadIdx.x % WARP, WARP};
    dx += row * cols, dy += row * cols, y += row * cols;
    four own_y[GROUPS], own_dy[GROUPS];
    float dot = 0.0f;
#pragma unroll
    for (int j = 0; j < GROUPS; j++) {
        own_y[j] = lane.load(y, j, cols, 0.0f);
        own_dy[j] = lane.load(dy, j, cols, 0.0f);
    }
#pragma unroll
    for (int j = 0; j < GROUPS; j++) dot += dot_four(own_dy[j], own_y[j]);
    dot = add_lanes(dot);
#pragma unroll
    for (int j = 0; j < GROUPS; j++)
        lane.store(dx, j, cols, differentiate_four(own_y[j], own_dy[j], dot));
}

template <bool WIDE>
static __global__ void differentiate_by_warp(float *dx, const float *dy,
                                             const float *y, unsigned rows,
                                             unsigned cols) {
    const size_t row = (size_t)blockIdx.x * WARPS + threadIdx.x / WARP;
    if (row >= rows) return;
    const sharer<WIDE> lane = {threadIdx.x % WARP, WARP};
    dx += row * cols, dy += row * cols, y += row * cols;
    const unsigned groups = lane.count_groups(cols);
    float dot = 0.0f;
    for (unsigned j = 0; j < groups; j++)
        dot +=
            dot_four(lane.load(dy, j, cols, 0.0f), lane.load(y, j, cols, 0.0f));
    dot = add_lanes(dot);
    for (unsigned j = 0; j < groups; j++)
        lane.store(dx, j, cols,
                   differentiate_four(lane.load(y, j, cols, 0.0f),
                                      lane.load(dy, j, cols, 0.0f), dot));
}

/* Select the kernel for rows of `cols` numbers. */
template <bool WIDE> static auto select_soften(unsigned cols) {
    if (cols > MOST) return soften_by_warp<WIDE>;
    if (cols > 4 * PER_WARP) return soften_in_registers<WIDE, 8>;
    if (cols > 2 * PER_WARP) return soften_in_registers<WIDE, 4>;
    if (cols > PER_WARP) return soften_in_registers<WIDE, 2>;
    return soften_in_registers<WIDE, 1>;
}

template <bool WIDE> static auto select_differentiate(unsigned cols) {
    if (cols > MOST) return differentiate_by_warp<WIDE>;
    if (cols > 4 * PER_WARP) return differentiate_in_registers<WIDE, 8>;
    if (cols > 2 * PER_WARP) return differentiate_in_registers<WIDE, 4>;
    if (cols > PER_WARP) return differentiate_in_registers<WIDE, 2>;
    return differentiate_in_registers<WIDE, 1>;
}

int softmax_warp(const struct softening *s) {
    const bool wide = rows_are_aligned(s->y, s->x, s->x, s->cols);
    const auto kernel =
        wide ? select_soften<true>(s->cols) : select_soften<false>(s->cols);
    kernel<<<CEIL_DIV(s->rows, WARPS), THREADS, 0, s->stream>>>(
        s->y, s->x, s->rows, s->cols);
    WEFT_LAUNCHED(soften_by_warp);
    return WEFT_OK;
}

int softmax_warp_backward(const struct differentiation *d) {
    const bool wide = rows_are_aligned(d->dx, d->dy, d->y, d->cols);
    const auto kernel = wide ? select_differentiate<true>(d->cols)
                             : select_differentiate<false>(d->cols);
    kernel<<<CEIL_DIV(d->rows, WARPS), THREADS, 0, d->stream>>>(
        d->dx, d->dy, d->y, d->rows, d->cols);
    WEFT_LAUNCHED(differentiate_by_warp);
    return WEFT_OK;
}
