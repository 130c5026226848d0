/* bn2.cuh -- BN2 as an affine map, y = scale * m2 + shift, for the kernels that
 * apply it while they load m2. Its two numbers per channel come from the sums
 * that conv2 stored in slots. The sums have thousands of terms, and the
 * variance is a difference of two of them. So they are computed in double,
 * which costs nothing for so few numbers. */
#ifndef WEFT_BN2_CUH
#define WEFT_BN2_CUH
#include "fused.h"

/* The inputs of scale and shift, on the target. */
struct bn2_sources {
    const float *sums; /* (count,2,64): sums of c2 and of its squares */
    int count;
    double *totals;            /* (2,64): the totals over the slots */
    const float *gamma, *beta; /* BN2's weight and bias (64) */
    double per_value;          /* 1 / (values of a channel) */
    float eps;
};

static inline struct bn2_sources bn2_from(const struct fused *f, int batch) {
    struct bn2_sources from;
    from.sums = f->sum2.data;
    from.count = f->sum2.count;
    from.totals = f->sum2_total;
    from.gamma = f->params + BN2_W;
    from.beta = f->params + BN2_B;
    from.per_value = 1.0 / ((double)fused_population(f, batch) * PIXELS2);
    from.eps = f->eps;
    return from;
}

/* The shared memory of a block of THREADS threads for CHANNELS channels. */
template <int THREADS, int CHANNELS> struct bn2_affine {
    double parts[THREADS / 32][2 * CHANNELS];
    float scale[CHANNELS], shift[CHANNELS];
};

/* Add up the slots of `CHANNELS` channels, beginning with `first`. A thread
 * adds four neighbouring sums of every GROUPS-th slot. Shuffles combine the
 * lanes that have the same four sums, and each warp stores its part. The
 * function ends without a barrier. */
template <int THREADS, int CHANNELS>
static __device__ __forceinline__ void
bn2_add_slots(struct bn2_affine<THREADS, CHANNELS> *affine,
              const struct bn2_sources &from, int first) {
    enum { QUADS = CHANNELS / 4, ITEMS = 2 * QUADS, GROUPS = THREADS / ITEMS };
    const int item = threadIdx.x % ITEMS, group = threadIdx.x / ITEMS;
    const float *quad =
        from.sums + item / QUADS * C2 + first + item % QUADS * 4;
    double sum[4] = {0.0, 0.0, 0.0, 0.0};
#pragma unroll 8 // keep loads in flight, since a sum mostly waits for them
    for (int slot = group; slot < from.count; slot += GROUPS) {
        const float4 v = *(const float4 *)(quad + slot * 2 * C2);
        sum[0] += v.x, sum[1] += v.y, sum[2] += v.z, sum[3] += v.w;
    }
    for (int step = ITEMS; step < 32; step *= 2)
        for (int i = 0; i < 4; i++)
            sum[i] += __shfl_xor_sync(0xffffffffu, sum[i], step);
    if (threadIdx.x % 32 < ITEMS)
        for (int i = 0; i < 4; i++)
            affine->parts[threadIdx.x / 32][4 * item + i] = sum[i];
}

/* Compute scale and shift of the thread's channel from its two sums. */
template <int THREADS, int CHANNELS>
static __device__ __forceinline__ void
bn2_finish(struct bn2_affine<THREADS, CHANNELS> *affine,
           const struct bn2_sources &from, int first, double sum,
           double squares) {
    const int c = threadIdx.x;
    const double mean = sum * from.per_value;
    const double var = squares * from.per_value - mean * mean;
    // If all values are equal, rounding may make the variance negative.
    const double rstd = rsqrt((var > 0.0 ? var : 0.0) + from.eps);
    const double scale = from.gamma[first + c] * rstd;
    affine->scale[c] = (float)scale;
    affine->shift[c] = (float)(from.beta[first + c] - mean * scale);
}

/* Add up the slots, compute scale and shift, and end with a barrier. With
 * `keep`, also store the sums in from.totals for the following kernels. */
template <int THREADS, int CHANNELS>
static __device__ __forceinline__ void
bn2_prepare(struct bn2_affine<THREADS, CHANNELS> *affine,
            const struct bn2_sources &from, int first, bool keep) {
    bn2_add_slots(affine, from, first);
    __syncthreads();
    const int c = threadIdx.x;
    if (c < CHANNELS) {
        double sum = 0.0, squares = 0.0;
        for (int warp = 0; warp < THREADS / 32; warp++) {
            sum += affine->parts[warp][c];
            squares += affine->parts[warp][CHANNELS + c];
        }
        bn2_finish(affine, from, first, sum, squares);
        if (keep) {
            from.totals[first + c] = sum;
            from.totals[C2 + first + c] = squares;
        }
    }
    __syncthreads();
}

/* Compute scale and shift from the totals that an earlier kernel stored. */
template <int THREADS, int CHANNELS>
static __device__ __forceinline__ void
bn2_recall(struct bn2_affine<THREADS, CHANNELS> *affine,
           const struct bn2_sources &from, int first) {
    const int c = threadIdx.x;
    if (c < CHANNELS)
        bn2_finish(affine, from, first, from.totals[first + c],
                   from.totals[C2 + first + c]);
    __syncthreads();
}

/* Return BN2's output. The ReLU passes it if it is above zero. fc1 and its
 * gradient must agree on that, so both call this function. */
static __device__ __forceinline__ float bn2_value(float m2, float scale,
                                                  float shift) {
    return fmaf(m2, scale, shift);
}

#endif
