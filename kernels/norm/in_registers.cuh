/* in_registers.cuh -- rows, or slices of rows, that a block keeps in
 * registers. */
#ifndef WEFT_NORM_IN_REGISTERS_CUH
#define WEFT_NORM_IN_REGISTERS_CUH
#include "../common/registers.cuh"
#include "norm.cuh"

/* Return how many blocks a multiprocessor runs in the forward pass. A thread
 * has up to 64 registers, since it also keeps weight and bias. */
template <class Holder> constexpr int count_roomy() {
    return Holder::width > THREADS_PER_SM / 2
               ? 1
               : THREADS_PER_SM / 2 / Holder::width;
}

/* A thread's share in the forward pass: those numbers of n, whose rows are
 * n.cols numbers long or slices of that length. */
template <bool CENTRED, bool WIDE, class Holder> struct held {
    const normal &n;
    sharer<WIDE> thread = {threadIdx.x, Holder::width};
    four own[Holder::groups], weight[Holder::groups], bias[Holder::groups];

    __device__ __forceinline__ held(const normal &n_) : n(n_) {
#pragma unroll
        for (int j = 0; j < Holder::groups; j++) {
            weight[j] = load_scale(n.weight, thread, j, n.cols, 1.0f);
            bias[j] =
                load_scale(CENTRED ? n.bias : NULL, thread, j, n.cols, 0.0f);
        }
    }
    /* Add the residual, and store the sums. All loads come first, since the
     * compiler moves no load ahead of a store. */
    __device__ __forceinline__ void add_residual(size_t first) {
        four other[Holder::groups];
#pragma unroll
        for (int j = 0; j < Holder::groups; j++)
            other[j] = thread.load(n.residual + first, j, n.cols, 0.0f);
#pragma unroll
        for (int j = 0; j < Holder::groups; j++) {
#pragma unroll
            for (int k = 0; k < 4; k++) own[j].at[k] += other[j].at[k];
            thread.store(n.total + first, j, n.cols, own[j]);
        }
    }
    /* Load the row that begins at element `first`, and return the sum of this
     * thread's numbers, 0 in rmsnorm. */
    __device__ __forceinline__ float load(size_t first) {
        float sum = 0.0f;
#pragma unroll
        for (int j = 0; j < Holder::groups; j++)
            own[j] = thread.load(n.x + first, j, n.cols, 0.0f);
        if (n.residual) add_residual(first);
#pragma unroll
        for (int j = 0; CENTRED && j < Holder::groups; j++)
            sum += add_four(own[j]);
        return sum;
    }
    /* Return the sum of the squares of this thread's distances from the
     * mean. */
    __device__ __forceinline__ float add_distances(float mean) {
        float sum = 0.0f;
#pragma unroll
        for (int j = 0; j < Holder::groups; j++)
            sum += add_squares<CENTRED>(own[j], mean, thread, j, n.cols);
        return sum;
    }
    __device__ __forceinline__ void store(size_t first, float mean,
                                          float rstd) {
#pragma unroll
        for (int j = 0; j < Holder::groups; j++)
            thread.store(
                n.y + first, j, n.cols,
                normalize_four(own[j], mean, rstd, weight[j], bias[j]));
    }
};

/* A thread's share in the backward pass: g and xhat. */
template <bool WIDE, class Holder> struct held_backward {
    const normal_backward &n;
    sharer<WIDE> thread = {threadIdx.x, Holder::width};
    four g[Holder::groups], xhat[Holder::groups];

    __device__ __forceinline__ held_backward(const normal_backward &n_)
        : n(n_) {}

    /* Load a row's numbers, and return the sums of those of this thread. */
    __device__ __forceinline__ slopes load(size_t row, size_t first) {
        slopes sums = {0.0f, 0.0f};
#pragma unroll
        for (int j = 0; j < Holder::groups; j++)
            load_both(n, thread, row, first, j, &g[j], &xhat[j]);
#pragma unroll
        for (int j = 0; j < Holder::groups; j++) {
            sums.plain += add_four(g[j]);
            sums.scaled += dot_four(g[j], xhat[j]);
        }
        return sums;
    }
    __device__ __forceinline__ void store(size_t row, size_t first,
                                          slopes means) {
#pragma unroll
        for (int j = 0; j < Holder::groups; j++)
            store_gradient(n, thread, first, j,
                           slope_four(g[j], xhat[j], means, n.rstd[row]));
    }
};

#endif
