/* in_registers.cuh -- a row, or a slice of one, that a warp or a block keeps in
 * registers. */
#ifndef WEFT_SOFTMAX_IN_REGISTERS_CUH
#define WEFT_SOFTMAX_IN_REGISTERS_CUH
#include "softmax.cuh"

#include "common/registers.cuh"

/* A thread's share of `count` numbers in the forward pass: GROUPS groups of
 * four. */
template <bool WIDE, int GROUPS> struct held {
    sharer<WIDE> thread;
    unsigned count;
    four own[GROUPS];

    __device__ __forceinline__ held(sharer<WIDE> thread_, unsigned count_)
        : thread(thread_), count(count_) {}

    /* Load the numbers, and return this thread's maximum. */
    __device__ __forceinline__ float load(const float *x) {
        float most = -INFINITY;
#pragma unroll
        for (int j = 0; j < GROUPS; j++)
            own[j] = thread.template load<READ_ONCE>(x, j, count, -INFINITY);
#pragma unroll
        for (int j = 0; j < GROUPS; j++) most = fmaxf(most, max_four(own[j]));
        return most;
    }
    /* Replace the numbers with their exponentials, and return the sum. */
    __device__ __forceinline__ float shrink_all(float most) {
        float sum = 0.0f;
#pragma unroll
        for (int j = 0; j < GROUPS; j++) {
            own[j] = shrink_four(own[j], most);
            sum += add_four(own[j]);
        }
        return sum;
    }
    __device__ __forceinline__ void store(float *y, float factor) {
#pragma unroll
        for (int j = 0; j < GROUPS; j++)
            thread.store(y, j, count, scale_four(own[j], factor));
    }
};

/* A thread's share of `count` numbers in the backward pass. */
template <bool WIDE, class Holder> struct held_backward {
    unsigned count;
    sharer<WIDE> thread = {threadIdx.x, Holder::width};
    four own_dy[Holder::groups], own_y[Holder::groups];

    __device__ __forceinline__ held_backward(unsigned count_) : count(count_) {}

    /* Load the numbers, and return this thread's sum of dy * y. */
    __device__ __forceinline__ float load(const float *dy, const float *y) {
        float dot = 0.0f;
#pragma unroll
        for (int j = 0; j < Holder::groups; j++) {
            own_dy[j] = thread.load(dy, j, count, 0.0f);
            own_y[j] = thread.load(y, j, count, 0.0f);
        }
#pragma unroll
        for (int j = 0; j < Holder::groups; j++)
            dot += dot_four(own_dy[j], own_y[j]);
        return dot;
    }
    __device__ __forceinline__ void store(float *dx, float dot) {
#pragma unroll
        for (int j = 0; j < Holder::groups; j++)
            thread.store(dx, j, count,
                         differentiate_four(own_y[j], own_dy[j], dot));
    }
};

#endif
