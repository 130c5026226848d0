/* heap.cuh -- the best entries that a warp has seen, in its registers. */
#ifndef WEFT_TOPK_HEAP_CUH
#define WEFT_TOPK_HEAP_CUH
#include "topk.cuh"

/* The best entries of a warp, in order: entry 32 j + i is best[j] of lane i. */
template <int KEPT> struct heap {
    entry best[KEPT];

    __device__ __forceinline__ heap() {
#pragma unroll
        for (int j = 0; j < KEPT; j++) best[j] = NOTHING;
    }
    /* Return the entry at `place`, which is the same in all lanes. */
    __device__ __forceinline__ entry find(unsigned place) const {
        entry e = NOTHING; // no index: all of best[] stays in registers
#pragma unroll
        for (unsigned j = 0; j < KEPT; j++)
            e |= place / WARP == j ? best[j] : NOTHING;
        return __shfl_sync(0xffffffff, e, (int)(place % WARP));
    }
    /* Insert an entry, which is the same in all lanes, and drop the last
     * one. */
    __device__ __forceinline__ void insert(entry e) {
        const unsigned lane = threadIdx.x % WARP;
        unsigned better = 0;
#pragma unroll
        for (int j = 0; j < KEPT; j++)
            better += __popc(__ballot_sync(0xffffffff, best[j] > e));
        entry before = NOTHING; // the last entry of the previous row of lanes
#pragma unroll
        for (unsigned j = 0; j < KEPT; j++) {
            const entry last = __shfl_sync(0xffffffff, best[j], WARP - 1);
            entry left = __shfl_up_sync(0xffffffff, best[j], 1);
            if (lane == 0) left = before;
            const unsigned place = j * WARP + lane;
            if (place > better) best[j] = left;
            if (place == better) best[j] = e;
            before = last;
        }
    }
    /* Insert those of the lanes' entries that exceed *least, the k-th best so
     * far, which rises. */
    __device__ __forceinline__ void offer(entry own, unsigned k, entry *least) {
        unsigned votes = __ballot_sync(0xffffffff, own > *least);
        while (votes) {
            insert(__shfl_sync(0xffffffff, own, __ffs(votes) - 1));
            *least = max(*least, find(k - 1));
            votes &= votes - 1;
            votes &= __ballot_sync(0xffffffff, own > *least);
        }
    }
    /* Write the best k as the result of a row. */
    __device__ __forceinline__ void write(const struct selection &s,
                                          size_t row) const {
#pragma unroll
        for (unsigned j = 0; j < KEPT; j++) {
            const unsigned place = j * WARP + threadIdx.x % WARP;
            if (place < s.k) write_result(s, row, place, best[j]);
        }
    }
};

#endif
