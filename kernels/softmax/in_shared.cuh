/* in_shared.cuh -- a row, or a part of one, that a block keeps in shared
 * memory. */
#ifndef WEFT_SOFTMAX_IN_SHARED_CUH
#define WEFT_SOFTMAX_IN_SHARED_CUH
#include "softmax.cuh"

#include "common/split.cuh"

/* A thread's share of `count` numbers x in the forward pass. Its first `kept`
 * groups of four are in row_s; it reads the others again in each pass. No
 * other thread uses its groups. */
template <bool WIDE> struct kept_share {
    sharer<WIDE> thread;
    const float *x;
    float *row_s;
    unsigned count, kept;

    /* Keep the numbers, and return this thread's maximum. */
    __device__ __forceinline__ float load() const {
        const unsigned groups = thread.count_groups(count);
        float most = -INFINITY;
#pragma unroll 4
        for (unsigned j = 0; j < groups; j++) {
            const four v = thread.load(x, j, count, -INFINITY);
            if (j < kept) thread.store(row_s, j, count, v);
            most = fmaxf(most, max_four(v));
        }
        return most;
    }
    /* Replace the numbers with their exponentials, and return the sum. */
    __device__ __forceinline__ float shrink_all(float most) const {
        const unsigned groups = thread.count_groups(count);
        float sum = 0.0f;
        for (unsigned j = 0; j < groups; j++) {
            const bool is_kept = j < kept;
            const four v =
                thread.load(is_kept ? row_s : x, j, count, -INFINITY);
            const four power = shrink_four(v, most);
            if (is_kept) thread.store(row_s, j, count, power);
            sum += add_four(power);
        }
        return sum;
    }
    /* Store the exponentials relative to `most`, times `factor`. */
    __device__ __forceinline__ void store(float *y, float most,
                                          float factor) const {
        const unsigned groups = thread.count_groups(count);
        for (unsigned j = 0; j < groups; j++) {
            const bool is_kept = j < kept;
            const four v =
                thread.load(is_kept ? row_s : x, j, count, -INFINITY);
            const four power = is_kept ? v : shrink_four(v, most);
            thread.store(y, j, count, scale_four(power, factor));
        }
    }
};

/* Return to each thread the merged pair of a row's parts. `published` and
 * `arrived` are those of the row; every block merges in the same order. */
static __device__ __forceinline__ pair merge_parts(pair own, pair *published,
                                                   unsigned part,
                                                   unsigned parts,
                                                   unsigned *arrived,
                                                   pair *all_s) {
    if (threadIdx.x < WARP) {
        exchange(published + part, own, arrived, parts);
        pair all = no_pair();
        for (unsigned p = threadIdx.x; p < parts; p += WARP)
            all = merge(all, published[p]);
        all = merge_lanes(all);
        if (threadIdx.x == 0) *all_s = all;
    }
    __syncthreads(); // the row's pair is stored
    return *all_s;
}

#endif
