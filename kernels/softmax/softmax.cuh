/* softmax.cuh -- the rungs of softmax, and the code that they share.
 *
 * Numbers past the end of a row count as -infinity, whose exponential is
 * 0. */
#ifndef WEFT_SOFTMAX_CUH
#define WEFT_SOFTMAX_CUH
#include "common/internal.cuh"

#include <math.h>

#include "common/checks.cuh"
#include "common/launch.cuh"
#include "common/rows.cuh"

/* The arguments of weft_softmax(), which the rungs receive. */
struct softening {
    float *y;       // (rows,cols)
    const float *x; // (rows,cols)
    unsigned rows, cols;
    cudaStream_t stream;
};

/* The arguments of weft_softmax_backward(). */
struct differentiation {
    float *dx;           // (rows,cols)
    const float *dy, *y; // (rows,cols)
    unsigned rows, cols;
    cudaStream_t stream;
};

/* Queue the work of a rung; each returns a weft_status. The backward pass of
 * `online` is that of `three_passes`. */
int softmax_three_passes(const struct softening *s);
int softmax_three_passes_backward(const struct differentiation *d);
int softmax_online(const struct softening *s);
int softmax_warp(const struct softening *s);
int softmax_warp_backward(const struct differentiation *d);
int softmax_block(const struct softening *s);
int softmax_block_backward(const struct differentiation *d);
int softmax_shared(const struct softening *s);
int softmax_shared_backward(const struct differentiation *d);
int softmax_split(const struct softening *s);
int softmax_split_backward(const struct differentiation *d);
int softmax_registers(const struct softening *s);
int softmax_registers_backward(const struct differentiation *d);
int softmax_cluster(const struct softening *s);
int softmax_cluster_backward(const struct differentiation *d);

/* ---- maxima and sums ----------------------------------------------------- */

/* A maximum, and the sum of the exponentials of the distances from it. */
struct pair {
    float most, sum;
};

static __device__ __forceinline__ pair no_pair() { return {-INFINITY, 0.0f}; }

/* Return exp(x - most) for x <= most, and 1 if both are the same infinity. */
static __device__ __forceinline__ float shrink(float x, float most) {
    return x == most ? 1.0f : expf(x - most);
}

/* Merge two pairs. */
static __device__ __forceinline__ pair merge(pair a, pair b) {
    const pair large = a.most > b.most ? a : b;
    const pair small = a.most > b.most ? b : a;
    return {large.most, large.sum + small.sum * shrink(small.most, large.most)};
}

/* Return 1 / sum. It is NaN if the maximum is infinite: such a row has no
 * softmax. */
static __device__ __forceinline__ float invert(pair row) {
    return 1.0f / (row.sum + (row.most - row.most));
}

static __device__ __forceinline__ float max_lanes(float value) {
    for (int distance = WARP / 2; distance > 0; distance /= 2)
        value = fmaxf(value, __shfl_xor_sync(0xffffffff, value, distance));
    return value;
}

/* Return to every lane the merged pair of the warp's lanes. */
static __device__ __forceinline__ pair merge_lanes(pair value) {
    const float most = max_lanes(value.most);
    return {most, add_lanes(value.sum * shrink(value.most, most))};
}

/* Return to each thread the merged pair of the COUNT warps of its block. The
 * order is always the same. The next call needs different memory. */
template <int COUNT>
static __device__ __forceinline__ pair merge_warps(pair warp,
                                                   pair (&pairs_s)[COUNT]) {
    const int lane = threadIdx.x % WARP;
    if (lane == 0) pairs_s[threadIdx.x / WARP] = warp;
    __syncthreads(); // the pairs of all warps are stored
    return merge_lanes(lane < COUNT ? pairs_s[lane] : no_pair());
}

template <int COUNT>
static __device__ __forceinline__ float max_threads(float value,
                                                    float (&values_s)[COUNT]) {
    const int lane = threadIdx.x % WARP;
    value = max_lanes(value);
    __syncthreads(); // no thread uses the values of an earlier call
    if (lane == 0) values_s[threadIdx.x / WARP] = value;
    __syncthreads(); // the maxima of all warps are stored
    return max_lanes(lane < COUNT ? values_s[lane] : -INFINITY);
}

static __device__ __forceinline__ float max_four(four v) {
    return fmaxf(fmaxf(v.at[0], v.at[1]), fmaxf(v.at[2], v.at[3]));
}

/* Return shrink(x, most) for each of four numbers. */
static __device__ __forceinline__ four shrink_four(four x, float most) {
    return {shrink(x.at[0], most), shrink(x.at[1], most), shrink(x.at[2], most),
            shrink(x.at[3], most)};
}

/* Return the gradient y * (dy - dot) of four numbers. */
static __device__ __forceinline__ four differentiate_four(four y, four dy,
                                                          float dot) {
    return {y.at[0] * (dy.at[0] - dot), y.at[1] * (dy.at[1] - dot),
            y.at[2] * (dy.at[2] - dot), y.at[3] * (dy.at[3] - dot)};
}

/* Add four numbers to a pair: the maximum may grow, which shrinks the sum. */
static __device__ __forceinline__ void take_four(pair *p, four x) {
    const float most = fmaxf(p->most, max_four(x));
    p->sum = p->sum * shrink(p->most, most) + add_four(shrink_four(x, most));
    p->most = most;
}

/* Return the pair of a thread's share of a row, from one pass. */
template <bool WIDE>
static __device__ __forceinline__ pair read_online(sharer<WIDE> thread,
                                                   const float *x,
                                                   unsigned cols) {
    const unsigned groups = thread.count_groups(cols);
    pair found = no_pair();
    for (unsigned j = 0; j < groups; j++)
        take_four(&found, thread.load(x, j, cols, -INFINITY));
    return found;
}

/* Read a thread's share of a row again, and store its softmax. `row` is the
 * pair of the whole row. */
template <bool WIDE>
static __device__ __forceinline__ void soften_again(sharer<WIDE> thread,
                                                    float *y, const float *x,
                                                    unsigned cols, pair row) {
    const unsigned groups = thread.count_groups(cols);
    const float factor = invert(row);
    for (unsigned j = 0; j < groups; j++) {
        const four v = thread.load(x, j, cols, -INFINITY);
        thread.store(y, j, cols, scale_four(shrink_four(v, row.most), factor));
    }
}

#endif
