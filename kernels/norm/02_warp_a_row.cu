/* 02_warp_a_row.cu -- layernorm and rmsnorm, rung 2: a row in registers.
 *
 * Before:     a warp of rung 1 reads 32 rows together, a sector per float.
 * Idea:       the lanes of a warp share a row. Up to 1024 numbers stay in
 *             registers, where passes cost nothing. A warp takes several rows,
 *             and also keeps weight and bias. If there are enough rows, it
 *             takes eight neighbours, whose moments fill a sector. A longer row
 *             is read once for its moments, then again.
 * Prediction: up to 1024 columns, one read and one write: the floor.
 * Limit:      a warp has few loads in flight for a long row, and reads it
 *             twice. Rung 3 assigns it to a block. */
#include "in_registers.cuh"

enum { MOST = 1024, PER_WARP = 4 * WARP, SECTOR = 8 }; // floats

template <bool CENTRED, bool WIDE, int GROUPS>
static __global__ void __launch_bounds__(THREADS)
    normalize_in_registers(normal n, unsigned batch) {
    const sharer<WIDE> lane = {threadIdx.x % WARP, WARP};
    const size_t warps = (size_t)gridDim.x * WARPS;
    four weight[GROUPS], bias[GROUPS], own[GROUPS];
#pragma unroll
    for (int j = 0; j < GROUPS; j++) {
        weight[j] = load_scale(n.weight, lane, j, n.cols, 1.0f);
        bias[j] = load_scale(n.bias, lane, j, n.cols, 0.0f);
    }
    const size_t warp = (size_t)blockIdx.x * WARPS + threadIdx.x / WARP;
    for (size_t first = warp * batch; first < n.rows; first += warps * batch) {
        float own_mean = 0.0f, own_rstd = 0.0f;
        const size_t left = n.rows - first, count = left < batch ? left : batch;
        for (unsigned r = 0; r < count; r++) {
            const size_t row = first + r;
            float mean = 0.0f, squares = 0.0f;
#pragma unroll
            for (int j = 0; j < GROUPS; j++)
                own[j] = load_row(n, lane, row * n.cols, j);
#pragma unroll
            for (int j = 0; CENTRED && j < GROUPS; j++)
                mean += add_four(own[j]);
            if (CENTRED) mean = add_lanes(mean) / (float)n.cols;
#pragma unroll
            for (int j = 0; j < GROUPS; j++)
                squares += add_squares<CENTRED>(own[j], mean, lane, j, n.cols);
            const float rstd = find_rstd(n, add_lanes(squares));
#pragma unroll
            for (int j = 0; j < GROUPS; j++)
                lane.store(
                    n.y + row * n.cols, j, n.cols,
                    normalize_four(own[j], mean, rstd, weight[j], bias[j]));
            if (lane.own == r) own_mean = mean, own_rstd = rstd;
        }
        if (lane.own < count)
            keep_moments(n, first + lane.own, own_mean, own_rstd);
    }
}

template <bool CENTRED, bool WIDE>
static __global__ void normalize_by_warp(normal n, unsigned) {
    const size_t row = (size_t)blockIdx.x * WARPS + threadIdx.x / WARP;
    if (row >= n.rows) return;
    const sharer<WIDE> lane = {threadIdx.x % WARP, WARP};
    const size_t first = row * n.cols;
    const unsigned groups = lane.count_groups(n.cols);
    moments all = {};
    for (unsigned j = 0; j < groups; j++)
        all = merge<CENTRED>(all,
                             find_moments<CENTRED>(load_row(n, lane, first, j),
                                                   lane, j, n.cols));
    all = merge_lanes<CENTRED>(all);
    const float rstd = find_rstd(n, all.squares);
    for (unsigned j = 0; j < groups; j++)
        lane.store(n.y + first, j, n.cols,
                   normalize_four(load_again(n, lane, first, j), all.mean, rstd,
                                  load_scale(n.weight, lane, j, n.cols, 1.0f),
                                  load_scale(n.bias, lane, j, n.cols, 0.0f)));
    if (lane.own == 0) keep_moments(n, row, all.mean, rstd);
}

/* Differentiate rows of up to GROUPS * PER_WARP numbers. */
template <bool CENTRED, bool WIDE, int GROUPS>
static __global__ void __launch_bounds__(THREADS)
    differentiate_in_registers(normal_backward n) {
    const size_t row = (size_t)blockIdx.x * WARPS + threadIdx.x / WARP;
    if (row >= n.rows) return;
    held_backward<WIDE, GROUPS> own(n, {threadIdx.x % WARP, WARP});
    slopes sums = own.load(row, row * n.cols);
    sums = {add_lanes(sums.plain), add_lanes(sums.scaled)};
    own.store(row, row * n.cols, find_means<CENTRED>(sums, n.cols));
}

template <bool CENTRED, bool WIDE>
static __global__ void differentiate_by_warp(normal_backward n) {
    const size_t row = (size_t)blockIdx.x * WARPS + threadIdx.x / WARP;
    if (row >= n.rows) return;
    const sharer<WIDE> lane = {threadIdx.x % WARP, WARP};
    const unsigned groups = lane.count_groups(n.cols);
    four g, xhat;
    slopes sums = {0.0f, 0.0f};
    for (unsigned j = 0; j < groups; j++) {
        load_both(n, lane, row, row * n.cols, j, &g, &xhat);
        sums.plain += add_four(g);
        sums.scaled += dot_four(g, xhat);
    }
    sums = {add_lanes(sums.plain), add_lanes(sums.scaled)};
    const slopes means = find_means<CENTRED>(sums, n.cols);
    for (unsigned j = 0; j < groups; j++) {
        load_both(n, lane, row, row * n.cols, j, &g, &xhat);
        store_gradient(n, lane, row * n.cols, j,
                       slope_four(g, xhat, means, n.rstd[row]));
    }
}

/* Select the kernel for rows of `cols` numbers. */
template <bool CENTRED, bool WIDE> static auto select_normalize(unsigned cols) {
    if (cols > MOST) return normalize_by_warp<CENTRED, WIDE>;
    if (cols > 4 * PER_WARP) return normalize_in_registers<CENTRED, WIDE, 8>;
    if (cols > 2 * PER_WARP) return normalize_in_registers<CENTRED, WIDE, 4>;
    if (cols > PER_WARP) return normalize_in_registers<CENTRED, WIDE, 2>;
    return normalize_in_registers<CENTRED, WIDE, 1>;
}

template <bool CENTRED, bool WIDE>
static auto select_differentiate(unsigned cols) {
    if (cols > MOST) return differentiate_by_warp<CENTRED, WIDE>;
    if (cols > 4 * PER_WARP)
        return differentiate_in_registers<CENTRED, WIDE, 8>;
    if (cols > 2 * PER_WARP)
        return differentiate_in_registers<CENTRED, WIDE, 4>;
    if (cols > PER_WARP) return differentiate_in_registers<CENTRED, WIDE, 2>;
    return differentiate_in_registers<CENTRED, WIDE, 1>;
}

template <bool CENTRED>
static int launch(const normal &n, cudaStream_t stream) {
    const auto kernel = rows_are_aligned(n)
                            ? select_normalize<CENTRED, true>(n.cols)
                            : select_normalize<CENTRED, false>(n.cols);
    const unsigned all = CEIL_DIV(n.rows, WARPS);
    const unsigned blocks = n.cols > MOST ? all : count_busy(all);
    const unsigned batch = n.rows / blocks >= SECTOR * WARPS ? SECTOR : 1;
    kernel<<<blocks, THREADS, 0, stream>>>(n, batch);
    WEFT_LAUNCHED(normalize_by_warp);
    return WEFT_OK;
}

template <bool CENTRED>
static int launch_backward(const normal_backward &n, cudaStream_t stream) {
    const auto kernel = rows_are_aligned(n)
                            ? select_differentiate<CENTRED, true>(n.cols)
                            : select_differentiate<CENTRED, false>(n.cols);
    kernel<<<CEIL_DIV(n.rows, WARPS), THREADS, 0, stream>>>(n);
    WEFT_LAUNCHED(differentiate_by_warp);
    return WEFT_OK;
}

int norm_warp_a_row(const normal &n, cudaStream_t stream) {
    return n.centred ? launch<true>(n, stream) : launch<false>(n, stream);
}

int norm_warp_a_row_backward(const normal_backward &n, cudaStream_t stream) {
    return n.centred ? launch_backward<true>(n, stream)
                     : launch_backward<false>(n, stream);
}
