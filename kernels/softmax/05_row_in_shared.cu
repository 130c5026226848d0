/* 05_row_in_shared.cu -- softmax, rung 5: the row waits in shared memory.
 *
 * Before:     rung 4 reads a row from memory twice.
 * Idea:       a block keeps its row in shared memory: the numbers, then their
 *             exponentials. A thread only uses groups that it has stored
 *             itself, so the two barriers of the block's sums suffice. The
 *             maximum is known before the first exponential, so nothing is
 *             rescaled. The numbers that do not fit are read again in each
 *             pass.
 * Prediction: one read and one write up to the size of the shared memory:
 *             15,360 numbers in 64 KB, or 24,576 in 100 KB. That is the floor.
 * Limit:      longer rows, and fewer rows than multiprocessors. Rung 6 divides
 *             a row among blocks. */
#include "in_shared.cuh"

template <bool WIDE>
static __global__ void soften_in_shared(float *y, const float *x, unsigned cols,
                                        unsigned kept) {
    __shared__ float values_s[WARPS];
    extern __shared__ __align__(16) float row_s[];
    const size_t first = (size_t)blockIdx.x * cols;
    const kept_share<WIDE> own = {
        {threadIdx.x, THREADS}, x + first, row_s, cols, kept};
    pair found = no_pair();
    found.most = max_threads(own.load(), values_s);
    found.sum = add_threads(own.shrink_all(found.most), values_s);
    own.store(y + first, found.most, invert(found));
}

template <bool WIDE>
static __global__ void differentiate_in_shared(float *dx, const float *dy,
                                               const float *y, unsigned cols,
                                               unsigned kept) {
    __shared__ float sums_s[WARPS];
    extern __shared__ __align__(16) float dy_s[];
    float *const y_s = dy_s + kept * 4 * THREADS;
    const sharer<WIDE> thread = {threadIdx.x, THREADS};
    const size_t first = (size_t)blockIdx.x * cols;
    const unsigned groups = thread.count_groups(cols);
    dx += first, dy += first, y += first;
    float dot = 0.0f;
#pragma unroll 4
    for (unsigned j = 0; j < groups; j++) {
        const four a = thread.load(dy, j, cols, 0.0f);
        const four b = thread.load(y, j, cols, 0.0f);
        if (j < kept) thread.store(dy_s, j, cols, a);
        if (j < kept) thread.store(y_s, j, cols, b);
        dot += dot_four(a, b);
    }
    dot = add_threads(dot, sums_s);
    for (unsigned j = 0; j < groups; j++) {
        const four a = thread.load(j < kept ? dy_s : dy, j, cols, 0.0f);
        const four b = thread.load(j < kept ? y_s : y, j, cols, 0.0f);
        thread.store(dx, j, cols, differentiate_four(b, a, dot));
    }
}

/* Return how many groups of four per thread the block keeps of each array. */
static unsigned count_kept(unsigned cols, unsigned arrays) {
    const unsigned room = count_room() / (4 * THREADS) / arrays;
    const unsigned groups = CEIL_DIV(cols, 4 * THREADS);
    return groups < room ? groups : room;
}

int softmax_shared(const struct softening *s) {
    const auto kernel = rows_are_aligned(s->y, s->x, s->x, s->cols)
                            ? soften_in_shared<true>
                            : soften_in_shared<false>;
    const unsigned kept = count_kept(s->cols, 1);
    const struct launch l = {"soften_in_shared",  s->rows,   THREADS,
                             kept * 16 * THREADS, s->stream, 0};
    return launch_kernel(l, kernel, s->y, s->x, s->cols, kept);
}

int softmax_shared_backward(const struct differentiation *d) {
    const auto kernel = rows_are_aligned(d->dx, d->dy, d->y, d->cols)
                            ? differentiate_in_shared<true>
                            : differentiate_in_shared<false>;
    const unsigned kept = count_kept(d->cols, 2);
    const struct launch l = {"differentiate_in_shared", d->rows,   THREADS,
                             2 * kept * 16 * THREADS,   d->stream, 0};
    return launch_kernel(l, kernel, d->dx, d->dy, d->y, d->cols, kept);
}
