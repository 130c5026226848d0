/* dy.cuh -- the gradient of conv2's raw output, which no kernel ever stores.
 *
 * BN2's backward needs two sums over the whole batch, so the gradient `dy` of
 * its input cannot be written by the kernel that makes them. But it is cheap:
 * with x^ = (c2 - mean) rstd and g the gradient of BN2's output (dp2 where the
 * pixel won its window, else 0; the ReLU is in dp2 already)
 *
 *     dy = gamma rstd (g - dbeta / N - x^ dgamma / N)
 *        = scale * g + constant + slope * c2,
 *
 * three numbers a channel. The two kernels that need dy (conv2_dx, conv2_dw)
 * compute the numbers once a block and build dy in shared memory as they load
 * c2: 16 bytes read a float4 of dy, nothing written. */
#ifndef WEFT_DY_CUH
#define WEFT_DY_CUH
#include "fused.h"

/* What dy is made of, on the target. */
struct dy_sources {
    const float *sum2;  /* (sum2_count,2,64): sums of c2 and of its squares */
    const float *sum4;  /* (sum4_count,2,64): sums of dp2 and of dp2 * m2 */
    const float *gamma; /* BN2's weight (64) */
    int sum2_count, sum4_count;
    int batch;
    float eps;
};

/* The three numbers of each channel, in shared memory. */
struct dy_numbers {
    float scale[C2], constant[C2], slope[C2];
};

static inline struct dy_sources dy_from(const struct fused *f, int batch) {
    struct dy_sources from;
    from.sum2 = f->sum2.data;
    from.sum4 = f->sum4.data;
    from.gamma = f->params + BN2_W;
    from.sum2_count = f->sum2.count;
    from.sum4_count = f->sum4.count;
    from.batch = batch;
    from.eps = f->eps;
    return from;
}

/* Doubles of shared memory that dy_add_slots() of one array takes. */
template <int THREADS> struct dy_scratch {
    enum { GROUPS = THREADS / 32, DOUBLES = GROUPS * 2 * C2 };
};

/* Sums over `count` slots of (2,64) floats. Each warp takes every GROUPS-th
 * slot, a lane 4 neighbouring columns, so that a slot is read as one line of
 * 512 bytes; parts[warp][column] receives what the warp found. No barrier. */
template <int THREADS>
static __device__ __forceinline__ void
dy_add_slots(double *parts, const float *slots, int count) {
    enum { GROUPS = THREADS / 32 };
    const int quad = threadIdx.x % 32, group = threadIdx.x / 32;
    double sum[4] = {0.0, 0.0, 0.0, 0.0};
#pragma unroll 8 // eight loads in flight: the sum is one long wait otherwise
    for (int slot = group; slot < count; slot += GROUPS) {
        const float4 v = ((const float4 *)slots)[slot * 32 + quad];
        sum[0] += v.x;
        sum[1] += v.y;
        sum[2] += v.z;
        sum[3] += v.w;
    }
    for (int i = 0; i < 4; i++) parts[group * 2 * C2 + 4 * quad + i] = sum[i];
}

/* The sum over the warps, in their order. */
template <int THREADS>
static __device__ __forceinline__ double dy_total(const double *parts,
                                                  int column) {
    double sum = 0.0;
#pragma unroll
    for (int group = 0; group < THREADS / 32; group++)
        sum += parts[group * 2 * C2 + column];
    return sum;
}

/* From both arrays' parts, by threads 0..63. The caller puts a barrier before
 * (the parts are complete) and after (the numbers are). */
template <int THREADS>
static __device__ __forceinline__ void
dy_finish(struct dy_numbers *numbers, const double *parts2,
          const double *parts4, const struct dy_sources &from) {
    const int c = threadIdx.x;
    if (c >= C2) return;
    const double per_value = 1.0 / ((double)from.batch * PIXELS2);
    const double mean = dy_total<THREADS>(parts2, c) * per_value;
    double var = dy_total<THREADS>(parts2, C2 + c) * per_value - mean * mean;
    if (var < 0.0) var = 0.0; // rounding, where all values are equal
    const double rstd = 1.0 / sqrt(var + from.eps);
    const double dbeta = dy_total<THREADS>(parts4, c);
    const double dgamma =
        rstd * (dy_total<THREADS>(parts4, C2 + c) - mean * dbeta);
    const double scale = from.gamma[c] * rstd;
    const double slope = -scale * rstd * dgamma * per_value;
    numbers->scale[c] = (float)scale;
    numbers->slope[c] = (float)slope;
    numbers->constant[c] = (float)(-scale * dbeta * per_value - slope * mean);
}

/* All of it, by all THREADS threads of a block; ends with a barrier. `scratch`
 * is shared memory for 2 * dy_scratch<THREADS>::DOUBLES doubles. A kernel that
 * may read sum2 before pdl_wait() calls the three steps itself. */
template <int THREADS>
static __device__ __forceinline__ void
dy_prepare(struct dy_numbers *numbers, double *scratch,
           const struct dy_sources &from) {
    double *parts4 = scratch + dy_scratch<THREADS>::DOUBLES;
    dy_add_slots<THREADS>(scratch, from.sum2, from.sum2_count);
    dy_add_slots<THREADS>(parts4, from.sum4, from.sum4_count);
    __syncthreads();
    dy_finish<THREADS>(numbers, scratch, parts4, from);
    __syncthreads();
}

/* dy of one pixel and channel; `wins`: the pixel is its window's winner. */
static __device__ __forceinline__ float dy_value(float scale, float constant,
                                                 float slope, float dp2,
                                                 int wins, float c2) {
    return fmaf(slope, c2, wins ? fmaf(scale, dp2, constant) : constant);
}

#endif
