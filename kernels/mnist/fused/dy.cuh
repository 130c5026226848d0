/* dy.cuh -- the gradient of conv2's raw output, which no kernel ever stores.
 *
 * BN2's backward needs two sums over the whole batch, so the kernel that
 * computes them cannot write the gradient `dy` of its input. But dy is cheap.
 * Let x^ = (c2 - mean) rstd, and g the gradient of BN2's output: dp2, which
 * includes the ReLU, if the pixel won its window, else 0. Then
 *
 *     dy = gamma rstd (g - dbeta / N - x^ dgamma / N)
 *        = scale * g + constant + slope * c2,
 *
 * three numbers per channel. The two kernels that need dy (conv2_dx, conv2_dw)
 * build it in shared memory while they load c2. That reads 16 bytes per float4
 * of dy and writes nothing. Each block computes the numbers. In fp32, conv2_dx
 * stores them for conv2_dw, which starts when conv2_dx has ended. On tensor
 * cores conv2_dw starts earlier, so it computes them, too. */
#ifndef WEFT_DY_CUH
#define WEFT_DY_CUH
#include "fused.h"

/* The three numbers of each channel, in shared memory or stored. */
struct dy_numbers {
    float scale[C2], constant[C2], slope[C2];
};

/* The role of a kernel: it computes the numbers, also stores them, or loads
 * them. */
enum dy_role { DY_COMPUTE, DY_STORE, DY_LOAD };

/* The inputs of dy, on the target. */
struct dy_sources {
    const double *sum2; /* (2,64): sums of c2 and of its squares */
    const float *sum4;  /* (sum4_count,2,64): sums of dp2 and of dp2 * m2 */
    const float *gamma; /* BN2's weight (64) */
    struct dy_numbers *stored; /* the numbers that an earlier kernel stores */
    int sum4_count;
    int population;
    float eps;
};

static inline struct dy_sources dy_from(const struct fused *f, int batch) {
    struct dy_sources from;
    from.sum2 = f->sum2_total;
    from.sum4 = f->sum4.data;
    from.gamma = f->params + BN2_W;
    from.stored = (struct dy_numbers *)f->dy_numbers;
    from.sum4_count = f->sum4.count;
    from.population = fused_population(f, batch);
    from.eps = f->eps;
    return from;
}

/* The size in doubles of the shared memory for the sums of both arrays:
 * [4][64]. */
template <int THREADS> struct dy_scratch {
    enum {
        // Warps that add. Their number is a power of two, so that each has
        // whole quads.
        WARPS = THREADS >= 256 ? 8 : 4,
        QUADS = 32 / WARPS, /* quads of columns per warp */
        DOUBLES = 4 * C2,
    };
};

/* Sum `count` slots of (2,64) floats with warps 0 .. WARPS - 1. A lane has 4
 * neighbouring columns of every WARPS-th slot, and shuffles combine the lanes
 * with the same columns. */
template <int THREADS>
static __device__ __forceinline__ void
dy_add_slots(double *totals, const float *slots, int count, int warp) {
    enum {
        QUADS = dy_scratch<THREADS>::QUADS,
        GROUPS = dy_scratch<THREADS>::WARPS
    };
    const int quad = warp * QUADS + threadIdx.x % QUADS;
    double sum[4] = {0.0, 0.0, 0.0, 0.0};
#pragma unroll 16 // keep loads in flight, since a sum mostly waits for them
    for (int slot = threadIdx.x % 32 / QUADS; slot < count; slot += GROUPS) {
        const float4 v = ((const float4 *)slots)[slot * 2 * C2 / 4 + quad];
        sum[0] += v.x;
        sum[1] += v.y;
        sum[2] += v.z;
        sum[3] += v.w;
    }
    for (int step = QUADS; step < 32; step *= 2)
        for (int i = 0; i < 4; i++)
            sum[i] += __shfl_xor_sync(0xffffffffu, sum[i], step);
    if (threadIdx.x % 32 < QUADS)
        for (int i = 0; i < 4; i++) totals[4 * quad + i] = sum[i];
}

/* Load conv2's sums. They were written long ago, so they may be read before
 * pdl_wait(). */
static __device__ __forceinline__ void
dy_add_early(double *totals, const struct dy_sources &from) {
    if (threadIdx.x < 2 * C2) totals[threadIdx.x] = from.sum2[threadIdx.x];
}

/* Add up the slots of fc1_back's sums. */
template <int THREADS>
static __device__ __forceinline__ void
dy_add_late(double *totals, const struct dy_sources &from) {
    const int warp = threadIdx.x / 32;
    if (warp < dy_scratch<THREADS>::WARPS)
        dy_add_slots<THREADS>(totals + 2 * C2, from.sum4, from.sum4_count,
                              warp);
}

/* Compute the numbers from both sums. They may overlay the totals. The function
 * begins and ends with a barrier. */
static __device__ __forceinline__ void
dy_compute(struct dy_numbers *numbers, const double *totals,
           const struct dy_sources &from) {
    __syncthreads(); // the totals are complete ...
    const int c = threadIdx.x;
    double sum = 0.0, squares = 0.0, dbeta = 0.0, dp2_m2 = 0.0;
    if (c < C2) {
        sum = totals[c], squares = totals[C2 + c];
        dbeta = totals[2 * C2 + c], dp2_m2 = totals[3 * C2 + c];
    }
    __syncthreads(); // ... and have been read
    if (c < C2) {
        const double per_value = 1.0 / ((double)from.population * PIXELS2);
        const double mean = sum * per_value;
        const double var = squares * per_value - mean * mean;
        // If all values are equal, rounding may make the variance negative.
        const double rstd = 1.0 / sqrt((var > 0.0 ? var : 0.0) + from.eps);
        const double dgamma = rstd * (dp2_m2 - mean * dbeta);
        const double scale = from.gamma[c] * rstd;
        const double slope = -scale * rstd * dgamma * per_value;
        numbers->scale[c] = (float)scale;
        numbers->slope[c] = (float)slope;
        numbers->constant[c] =
            (float)(-scale * dbeta * per_value - slope * mean);
    }
    __syncthreads();
}

/* Do the work of ROLE with the numbers. The function begins with a barrier,
 * unless it loads them, and ends with one. */
template <enum dy_role ROLE>
static __device__ __forceinline__ void
dy_finish(struct dy_numbers *numbers, const double *totals,
          const struct dy_sources &from) {
    enum { FLOATS = sizeof(struct dy_numbers) / sizeof(float) };
    static_assert(sizeof(struct dy_numbers) == FUSED_DY_BYTES, "see fused.h");
    float *in_shared = (float *)numbers, *stored = (float *)from.stored;
    if (ROLE != DY_LOAD) dy_compute(numbers, totals, from);
    float *to = ROLE == DY_LOAD ? in_shared : stored;
    const float *read = ROLE == DY_LOAD ? stored : in_shared;
    const bool copies =
        ROLE == DY_LOAD || (ROLE == DY_STORE && blockIdx.x == 0);
    for (int i = copies ? (int)threadIdx.x : (int)FLOATS; i < FLOATS;
         i += blockDim.x)
        to[i] = read[i];
    if (ROLE == DY_LOAD) __syncthreads();
}

/* Perform all three steps with all THREADS threads (128 or more) of a block,
 * and end with a barrier. `scratch` is shared memory for
 * dy_scratch<THREADS>::DOUBLES doubles. A kernel that has other work before
 * pdl_wait() calls the steps separately. */
template <int THREADS>
static __device__ __forceinline__ void
dy_prepare(struct dy_numbers *numbers, double *scratch,
           const struct dy_sources &from) {
    dy_add_early(scratch, from);
    dy_add_late<THREADS>(scratch, from);
    dy_finish<DY_COMPUTE>(numbers, scratch, from);
}

/* Return dy of one pixel and channel. `wins`: whether the pixel is its window's
 * winner. */
static __device__ __forceinline__ float dy_value(float scale, float constant,
                                                 float slope, float dp2,
                                                 int wins, float c2) {
    return fmaf(slope, c2, wins ? fmaf(scale, dp2, constant) : constant);
}

#endif
