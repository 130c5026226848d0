/* in_registers.cuh -- a row, or a slice of one, that a warp or a block keeps in
 * registers. */
#ifndef WEFT_NORM_IN_REGISTERS_CUH
#define WEFT_NORM_IN_REGISTERS_CUH
#include "../common/registers.cuh"
#include "norm.cuh"

/* A thread's share in the forward pass: GROUPS groups of four of the `count`
 * numbers that begin at column `start` of each row. Weight and bias are read
 * for every row, from a cache, after the row's moments are known. They would
 * fill twice as many registers as the row. */
template <bool CENTRED, bool WIDE, int GROUPS> struct held {
    // Long rows of layernorm would displace weight and bias from the cache:
    // with READ_ONCE, rows of 16,384 numbers took 533 us instead of 520 (NVIDIA
    // H200, 2^28 numbers, 2026-11-30).
    enum { READING = CENTRED && GROUPS > 4 ? READ : READ_ONCE };
    const normal &n;
    sharer<WIDE> thread;
    unsigned start, count;
    four own[GROUPS];

    __device__ __forceinline__ held(const normal &n_, sharer<WIDE> thread_,
                                    unsigned start_, unsigned count_)
        : n(n_), thread(thread_), start(start_), count(count_) {}

    /* Add the residual, and store the sums. All loads come first, since the
     * compiler moves no load ahead of a store. */
    __device__ __forceinline__ void add_residual(size_t first) {
        four other[GROUPS];
#pragma unroll
        for (int j = 0; j < GROUPS; j++)
            other[j] = thread.load(n.residual + first, j, count, 0.0f);
#pragma unroll
        for (int j = 0; j < GROUPS; j++) {
#pragma unroll
            for (int k = 0; k < 4; k++) own[j].at[k] += other[j].at[k];
            thread.store(n.total + first, j, count, own[j]);
        }
    }
    /* Load numbers of a row. Return the moments of this warp's numbers, with
     * distances from the mean of these numbers. */
    __device__ __forceinline__ moments load(size_t row) {
        const size_t first = row * n.cols + start;
        moments warp = {};
#pragma unroll
        for (int j = 0; j < GROUPS; j++)
            own[j] = thread.template load<READING>(n.x + first, j, count, 0.0f);
        if (n.residual) add_residual(first);
        if (CENTRED) {
#pragma unroll
            for (int j = 0; j < GROUPS; j++) warp.mean += add_four(own[j]);
            warp.count = (float)thread.count_warp(GROUPS, count);
            warp.mean = add_lanes(warp.mean) / fmaxf(warp.count, 1.0f);
        }
#pragma unroll
        for (int j = 0; j < GROUPS; j++)
            warp.squares +=
                add_squares<CENTRED>(own[j], warp.mean, thread, j, count);
        warp.squares = add_lanes(warp.squares);
        return warp;
    }
    /* Load group j of weight or bias; if it is NULL, return `other` four
     * times. */
    __device__ __forceinline__ four load_constant(const float *scale,
                                                  unsigned j, float other) {
        return scale ? thread.template load<READ_CONSTANT>(scale + start, j,
                                                           count, other)
                     : four{other, other, other, other};
    }
    __device__ __forceinline__ void store(size_t row, float mean, float rstd) {
        const size_t first = row * n.cols + start;
#pragma unroll
        for (int j = 0; j < GROUPS; j++)
            thread.store(n.y + first, j, count,
                         normalize_four(own[j], mean, rstd,
                                        load_constant(n.weight, j, 1.0f),
                                        load_constant(n.bias, j, 0.0f)));
    }
};

/* A thread's share in the backward pass: g and xhat. */
template <bool WIDE, int GROUPS> struct held_backward {
    const normal_backward &n;
    sharer<WIDE> thread;
    four g[GROUPS], xhat[GROUPS];

    __device__ __forceinline__ held_backward(const normal_backward &n_,
                                             sharer<WIDE> thread_)
        : n(n_), thread(thread_) {}

    /* Load this thread's numbers of a row, and return their sums. */
    __device__ __forceinline__ slopes load(size_t row, size_t first) {
        slopes sums = {0.0f, 0.0f};
#pragma unroll
        for (int j = 0; j < GROUPS; j++)
            load_both(n, thread, row, first, j, &g[j], &xhat[j]);
#pragma unroll
        for (int j = 0; j < GROUPS; j++) {
            sums.plain += add_four(g[j]);
            sums.scaled += dot_four(g[j], xhat[j]);
        }
        return sums;
    }
    __device__ __forceinline__ void store(size_t row, size_t first,
                                          slopes means) {
#pragma unroll
        for (int j = 0; j < GROUPS; j++)
            store_gradient(n, thread, first, j,
                           slope_four(g[j], xhat[j], means, n.rstd[row]));
    }
};

#endif
