/* update.cuh -- code shared by the roles of update.cu: the update of a
 * parameter, and sums of a few columns over slots. */
#ifndef WEFT_UPDATE_H
#define WEFT_UPDATE_H
#include "fused.h"

enum {
    THREADS = 256,
    UNDER_WAY = 8, /* loads that a thread issues before it adds their values */
};

struct step {
    float *params, *grads;
    float lr, batch, eps;
};

/* Update a parameter and return it. `sum` is the gradient of the batch's summed
 * loss. `old` is the parameter, which was read before `sum` was known. */
static __device__ __forceinline__ float sgd(const struct step *s, int index,
                                            float old, float sum) {
    const float grad = sum / s->batch;
    s->grads[index] = grad;
    return s->params[index] = old - s->lr * grad;
}

/* Columns of a slot: `runs` runs of `width` neighbours. The first run begins at
 * `first`, and the runs are `pitch` apart. */
struct columns {
    int first, width, runs, pitch;
};

/* Set parts_s[i] to the sum, in double, of the slots that thread i of `threads`
 * adds up for its column, in order. */
static __device__ __forceinline__ void
column_parts(double *parts_s, const struct slots from, int slot_size,
             const struct columns c, int i, int threads) {
    const int columns = c.width * c.runs, groups = threads / columns;
    const int k = i % columns, group = i / columns;
    const float *column =
        from.data + c.first + k / c.width * c.pitch + k % c.width;
    double sum = 0;
    for (int s = group; group < groups && s < from.count;
         s += UNDER_WAY * groups) {
        float part[UNDER_WAY];
#pragma unroll
        for (int j = 0; j < UNDER_WAY; j++) {
            const int slot = s + j * groups;
            part[j] = slot < from.count ? column[(size_t)slot * slot_size] : 0;
        }
#pragma unroll
        for (int j = 0; j < UNDER_WAY; j++) sum += part[j];
    }
    parts_s[i] = sum;
}

/* Set sums_s[i] to the sum of column i, adding the parts in order. */
static __device__ __forceinline__ void column_total(double *sums_s,
                                                    const double *parts_s,
                                                    const struct columns c,
                                                    int i, int threads) {
    const int columns = c.width * c.runs, groups = threads / columns;
    if (i >= columns) return;
    double sum = 0;
#pragma unroll 4
    for (int g = 0; g < groups; g++) sum += parts_s[g * columns + i];
    sums_s[i] = sum;
}

/* Compute all columns' sums with all threads of the block. */
static __device__ __forceinline__ void
column_sums(double *sums_s, double *parts_s, const struct slots from,
            int slot_size, const struct columns c) {
    column_parts(parts_s, from, slot_size, c, threadIdx.x, THREADS);
    __syncthreads();
    column_total(sums_s, parts_s, c, threadIdx.x, THREADS);
    __syncthreads();
}

#endif
