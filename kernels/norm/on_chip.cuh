/* on_chip.cuh -- rows, or parts of rows, that a block keeps in shared memory.
 *
 * A thread only uses groups that it has stored itself, so no barrier is needed.
 * Groups that do not fit are loaded again from global memory. */
#ifndef WEFT_NORM_ON_CHIP_CUH
#define WEFT_NORM_ON_CHIP_CUH
#include "../common/split.cuh"
#include "norm.cuh"

/* The number of groups of four that a thread keeps of the row, weight and
 * bias. */
struct room {
    unsigned row, weight, bias;

    size_t count_bytes() const { return (row + weight + bias) * 16 * THREADS; }
};

/* Divide a block's shared memory among the arrays, of which it uses `cols`
 * numbers each: first the row, then weight and bias. */
static inline room divide_room(const normal &n, unsigned cols) {
    unsigned left = count_room() / LEAST;
    const unsigned groups = CEIL_DIV(cols, LEAST);
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

/* A block's numbers in the forward pass: n.cols numbers of each row, which are
 * the whole row or a part of it. */
template <bool CENTRED, class Sharer> struct chip {
    const normal &n;
    Sharer thread;
    room kept;
    float *row_s, *weight_s, *bias_s;

    __device__ __forceinline__ chip(const normal &n_, Sharer thread_,
                                    room kept_, float *shared)
        : n(n_), thread(thread_), kept(kept_), row_s(shared),
          weight_s(row_s + kept.row * LEAST),
          bias_s(weight_s + kept.weight * LEAST) {
        keep_scale(weight_s, n.weight, kept.weight, 1.0f);
        keep_scale(bias_s, n.bias, kept.bias, 0.0f);
    }
    __device__ __forceinline__ void keep_scale(float *scale_s,
                                               const float *scale,
                                               unsigned count, float other) {
        for (unsigned j = 0; j < count; j++)
            thread.store(scale_s, j, n.cols,
                         load_scale(scale, thread, j, n.cols, other));
    }
    __device__ __forceinline__ four load_again(size_t first, unsigned j) {
        const float *const x = (n.residual ? n.total : n.x) + first;
        return thread.load(j < kept.row ? row_s : x, j, n.cols, 0.0f);
    }
    /* Load the row that begins at element `first`, and return the sum of this
     * thread's numbers, 0 in rmsnorm. */
    __device__ __forceinline__ float load(size_t first) {
        float sum = 0.0f;
#pragma unroll 4
        for (unsigned j = 0; j < thread.count_groups(n.cols); j++) {
            const four v = load_row(n, thread, first, j);
            if (j < kept.row) thread.store(row_s, j, n.cols, v);
            sum += CENTRED ? add_four(v) : 0.0f;
        }
        return sum;
    }
    /* Return the sum of the squares of this thread's distances from the
     * mean. */
    __device__ __forceinline__ float add_distances(size_t first, float mean) {
        float sum = 0.0f;
        for (unsigned j = 0; j < thread.count_groups(n.cols); j++)
            sum += add_squares<CENTRED>(load_again(first, j), mean, thread, j,
                                        n.cols);
        return sum;
    }
    __device__ __forceinline__ void store(size_t first, float mean,
                                          float rstd) {
        for (unsigned j = 0; j < thread.count_groups(n.cols); j++) {
            const float *const weight = j < kept.weight ? weight_s : n.weight;
            const float *const bias = j < kept.bias ? bias_s : n.bias;
            thread.store(
                n.y + first, j, n.cols,
                normalize_four(load_again(first, j), mean, rstd,
                               load_scale(weight, thread, j, n.cols, 1.0f),
                               load_scale(bias, thread, j, n.cols, 0.0f)));
        }
    }
};

/* A block's numbers in the backward pass: g and xhat, of which a thread keeps
 * `kept` groups each. */
template <class Sharer> struct chip_backward {
    const normal_backward &n;
    Sharer thread;
    unsigned kept;
    float *g_s;

    __device__ __forceinline__ float *xhat_s() { return g_s + kept * LEAST; }

    /* Load this thread's numbers of a row, and return their sums. */
    __device__ __forceinline__ slopes load(size_t row, size_t first) {
        four g, xhat;
        slopes sums = {0.0f, 0.0f};
        for (unsigned j = 0; j < thread.count_groups(n.cols); j++) {
            load_both(n, thread, row, first, j, &g, &xhat);
            if (j < kept) thread.store(g_s, j, n.cols, g);
            if (j < kept) thread.store(xhat_s(), j, n.cols, xhat);
            sums.plain += add_four(g);
            sums.scaled += dot_four(g, xhat);
        }
        return sums;
    }
    __device__ __forceinline__ void store(size_t row, size_t first,
                                          slopes means) {
        four g, xhat;
        for (unsigned j = 0; j < thread.count_groups(n.cols); j++) {
            if (j < kept) {
                g = thread.load(g_s, j, n.cols, 0.0f);
                xhat = thread.load(xhat_s(), j, n.cols, 0.0f);
            } else {
                load_both(n, thread, row, first, j, &g, &xhat);
            }
            store_gradient(n, thread, first, j,
                           slope_four(g, xhat, means, n.rstd[row]));
        }
    }
};

#endif
