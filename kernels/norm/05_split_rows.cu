/* 05_split_rows.cu -- layernorm and rmsnorm, rung 5: several blocks share a
 * row.
 *
 * Before:     rung 4 assigns each row to one block, whose shared memory is too
 *             small for long rows, or for weight and bias as well. A few rows
 *             leave multiprocessors idle.
 * Idea:       each block keeps a part of the columns: of a row, of weight and
 *             of bias. It publishes the moments of its part, and waits for
 *             those of the other parts. Every block merges all moments in the
 *             same order. Then the blocks take the next row.
 * Prediction: one read and one write of rows of up to 8192 numbers per resident
 *             block. The moments are 12 bytes per part.
 * Limit:      a block waits for the others in each row. Meanwhile, other
 *             blocks of its multiprocessor must keep the memory busy. */
#include "on_chip.cuh"

template <bool CENTRED, bool WIDE>
static __global__ void __launch_bounds__(THREADS)
    normalize_parts(normal n, division d, room kept, moments *all,
                    unsigned *arrived) {
    __shared__ float sums_s[WARPS];
    __shared__ moments whole_s;
    extern __shared__ __align__(16) float part_s[];
    const sharer<WIDE> thread = {threadIdx.x, THREADS};
    const unsigned part = blockIdx.x % d.parts, start = part * d.length;
    const normal share = take_part(n, start, min(n.cols - start, d.length));
    chip<CENTRED, sharer<WIDE>> own(share, thread, kept, part_s);
    for (size_t row = blockIdx.x / d.parts; row < n.rows; row += d.groups) {
        const size_t first = row * n.cols;
        moments found = {(float)share.cols, own.load(first), 0.0f};
        if (CENTRED) found.mean = add_threads(found.mean, sums_s) / found.count;
        found.squares = own.add_distances(first, found.mean);
        found.squares = add_threads(found.squares, sums_s);
        if (threadIdx.x < WARP) {
            moments *const parts = all + row * d.parts, whole = {};
            exchange(parts + part, found, arrived + row, d.parts);
            for (unsigned p = threadIdx.x; p < d.parts; p += WARP)
                whole = merge<CENTRED>(whole, parts[p]);
            whole = merge_lanes<CENTRED>(whole);
            if (threadIdx.x == 0) whole_s = whole;
        }
        __syncthreads(); // the row's moments are stored
        const float mean = whole_s.mean, rstd = find_rstd(n, whole_s.squares);
        own.store(first, mean, rstd);
        if (part == 0 && threadIdx.x == 0) keep_moments(n, row, mean, rstd);
    }
}

template <bool CENTRED, bool WIDE>
static __global__ void __launch_bounds__(THREADS)
    differentiate_parts(normal_backward n, division d, slopes *all,
                        unsigned *arrived) {
    __shared__ float sums_s[WARPS];
    __shared__ slopes whole_s;
    extern __shared__ __align__(16) float g_s[];
    const sharer<WIDE> thread = {threadIdx.x, THREADS};
    const unsigned part = blockIdx.x % d.parts, start = part * d.length;
    const normal_backward share =
        take_part(n, start, min(n.cols - start, d.length));
    chip_backward<sharer<WIDE>> own = {share, thread, d.kept, g_s};
    for (size_t row = blockIdx.x / d.parts; row < n.rows; row += d.groups) {
        const size_t first = row * n.cols;
        const slopes found = add_threads<CENTRED>(own.load(row, first), sums_s);
        if (threadIdx.x < WARP) {
            slopes *const parts = all + row * d.parts, whole = {};
            exchange(parts + part, found, arrived + row, d.parts);
            for (unsigned p = threadIdx.x; p < d.parts; p += WARP) {
                whole.plain += parts[p].plain;
                whole.scaled += parts[p].scaled;
            }
            whole = {add_lanes(whole.plain), add_lanes(whole.scaled)};
            if (threadIdx.x == 0) whole_s = whole;
        }
        __syncthreads(); // the row's sums are stored
        own.store(row, first, find_means<CENTRED>(whole_s, n.cols));
    }
}

template <bool CENTRED>
static int launch(const char *op, const normal &n, cudaStream_t stream) {
    const auto kernel = rows_are_aligned(n) ? normalize_parts<CENTRED, true>
                                            : normalize_parts<CENTRED, false>;
    const unsigned arrays = 1 + !!n.weight + !!n.bias;
    const division d = divide(n.rows, n.cols, count_resident(kernel), arrays);
    const room kept = divide_room(n, d.length);
    scratch memory(stream);
    unsigned *arrived;
    WEFT_TRY(
        claim_parts(op, &memory, n.rows, d.parts, sizeof(moments), &arrived));
    struct launch l = {"normalize_parts",
                       d.parts * d.groups,
                       THREADS,
                       kept.count_bytes(),
                       stream,
                       0};
    l.together = TOGETHER;
    return launch_kernel(l, kernel, n, d, kept, (moments *)memory.memory,
                         arrived);
}

template <bool CENTRED>
static int launch_backward(const char *op, const normal_backward &n,
                           cudaStream_t stream) {
    const auto kernel = rows_are_aligned(n)
                            ? differentiate_parts<CENTRED, true>
                            : differentiate_parts<CENTRED, false>;
    const division d = divide(n.rows, n.cols, count_resident(kernel), 2);
    scratch memory(stream);
    unsigned *arrived;
    WEFT_TRY(
        claim_parts(op, &memory, n.rows, d.parts, sizeof(slopes), &arrived));
    struct launch l = {"differentiate_parts",
                       d.parts * d.groups,
                       THREADS,
                       2 * d.kept * 16 * THREADS,
                       stream,
                       0};
    l.together = TOGETHER;
    return launch_kernel(l, kernel, n, d, (slopes *)memory.memory, arrived);
}

int norm_split_rows(const char *op, const normal &n, cudaStream_t stream) {
    return n.centred ? launch<true>(op, n, stream)
                     : launch<false>(op, n, stream);
}

int norm_split_rows_backward(const char *op, const normal_backward &n,
                             cudaStream_t stream) {
    return n.centred ? launch_backward<true>(op, n, stream)
                     : launch_backward<false>(op, n, stream);
}
