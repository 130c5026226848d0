/* 06_split_rows.cu -- softmax, rung 6: several blocks share a row.
 *
 * Before:     rung 5 assigns each row to a block, whose shared memory is too
 *             small for long rows. A single row uses one multiprocessor.
 * Idea:       each block keeps a part of the row in shared memory. It publishes
 *             the part's maximum and sum, and waits for those of the other
 *             parts. Every block merges all pairs in the same order. All blocks
 *             of the grid run at the same time, so each of them arrives.
 * Prediction: one read and one write of rows of several million numbers, and
 *             all multiprocessors for a single row. The pairs are 8 bytes per
 *             part.
 * Limit:      a block waits for the others in each row. Meanwhile, other
 *             blocks of its multiprocessor must keep the memory busy. */
#include "in_shared.cuh"

template <bool WIDE>
static __global__ void __launch_bounds__(THREADS)
    soften_parts(float *y, const float *x, unsigned rows, unsigned cols,
                 division d, pair *pairs, unsigned *arrived) {
    __shared__ float values_s[WARPS];
    __shared__ pair all_s;
    extern __shared__ __align__(16) float part_s[];
    const unsigned part = blockIdx.x % d.parts, start = part * d.length;
    const unsigned left = cols - start, count = min(left, d.length);
    for (unsigned row = blockIdx.x / d.parts; row < rows; row += d.groups) {
        const size_t first = (size_t)row * cols + start;
        const kept_share<WIDE> share = {
            {threadIdx.x, THREADS}, x + first, part_s, count, d.kept};
        pair own = no_pair();
        own.most = max_threads(share.load(), values_s);
        own.sum = add_threads(share.shrink_all(own.most), values_s);
        const pair all = merge_parts(own, pairs + (size_t)row * d.parts, part,
                                     d.parts, arrived + row, &all_s);
        share.store(y + first, own.most,
                    shrink(own.most, all.most) * invert(all));
    }
}

template <bool WIDE>
static __global__ void __launch_bounds__(THREADS)
    differentiate_parts(float *dx, const float *dy, const float *y,
                        unsigned rows, unsigned cols, division d, float *sums,
                        unsigned *arrived) {
    __shared__ float sums_s[WARPS], dot_s;
    extern __shared__ __align__(16) float dy_s[];
    float *const y_s = dy_s + d.kept * LEAST;
    const sharer<WIDE> thread = {threadIdx.x, THREADS};
    const unsigned part = blockIdx.x % d.parts, start = part * d.length;
    const unsigned left = cols - start, count = min(left, d.length);
    const unsigned groups = thread.count_groups(count);
    for (unsigned row = blockIdx.x / d.parts; row < rows; row += d.groups) {
        const size_t first = (size_t)row * cols + start;
        float own = 0.0f, dot = 0.0f;
#pragma unroll 4
        for (unsigned j = 0; j < groups; j++) {
            const four a = thread.load(dy + first, j, count, 0.0f);
            const four b = thread.load(y + first, j, count, 0.0f);
            if (j < d.kept) thread.store(dy_s, j, count, a);
            if (j < d.kept) thread.store(y_s, j, count, b);
            own += dot_four(a, b);
        }
        own = add_threads(own, sums_s);
        if (threadIdx.x < WARP) {
            float *const published = sums + (size_t)row * d.parts;
            exchange(published + part, own, arrived + row, d.parts);
            for (unsigned p = threadIdx.x; p < d.parts; p += WARP)
                dot += published[p];
            dot = add_lanes(dot);
            if (threadIdx.x == 0) dot_s = dot;
        }
        __syncthreads(); // the row's sum is stored
        dot = dot_s;
        for (unsigned j = 0; j < groups; j++) {
            const bool kept = j < d.kept;
            const four a =
                thread.load(kept ? dy_s : dy + first, j, count, 0.0f);
            const four b = thread.load(kept ? y_s : y + first, j, count, 0.0f);
            thread.store(dx + first, j, count, differentiate_four(b, a, dot));
        }
    }
}

int softmax_split(const struct softening *s) {
    const auto kernel = rows_are_aligned(s->y, s->x, s->x, s->cols)
                            ? soften_parts<true>
                            : soften_parts<false>;
    const division d = divide(s->rows, s->cols, count_resident(kernel), 1);
    scratch memory(s->stream);
    unsigned *arrived;
    WEFT_TRY(claim_parts("softmax", &memory, s->rows, d.parts, sizeof(pair),
                         &arrived));
    struct launch l = {"soften_parts", d.parts * d.groups,
                       THREADS,        d.kept * LEAST * sizeof(float),
                       s->stream,      0};
    l.together = TOGETHER;
    return launch_kernel(l, kernel, s->y, s->x, s->rows, s->cols, d,
                         (pair *)memory.memory, arrived);
}

int softmax_split_backward(const struct differentiation *c) {
    const auto kernel = rows_are_aligned(c->dx, c->dy, c->y, c->cols)
                            ? differentiate_parts<true>
                            : differentiate_parts<false>;
    const division d = divide(c->rows, c->cols, count_resident(kernel), 2);
    scratch memory(c->stream);
    unsigned *arrived;
    WEFT_TRY(claim_parts("softmax", &memory, c->rows, d.parts, sizeof(float),
                         &arrived));
    struct launch l = {"differentiate_parts",
                       d.parts * d.groups,
                       THREADS,
                       2 * d.kept * LEAST * sizeof(float),
                       c->stream,
                       0};
    l.together = TOGETHER;
    return launch_kernel(l, kernel, c->dx, c->dy, c->y, c->rows, c->cols, d,
                         (float *)memory.memory, arrived);
}
