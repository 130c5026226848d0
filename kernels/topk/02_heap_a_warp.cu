/* 02_heap_a_warp.cu -- topk, rung 2: a warp keeps the k best so far.
 *
 * Before:     rung 1 moves every number many times.
 * Idea:       a warp reads a row once. Its registers contain the best entries
 *             so far, in order. A number is a candidate only if it exceeds the
 *             k-th of them; the lanes vote in a ballot. The place of a
 * candidate is the number of better ones, and all worse ones move by one lane.
 * Prediction: each number is read once. Of n numbers in random order, about
 *             k (1 + ln(n / k)) are candidates. In ascending order, all are.
 * Limit:      one warp per row, and registers for at most 256 entries: a larger
 *             k uses rung 3. Rung 3 has many blocks per row, and any k. */
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
        entry e = NOTHING;
#pragma unroll
        for (unsigned j = 0; j < KEPT;
             j++) // without an index, all stay in registers
            e |= place / WARP == j ? best[j] : NOTHING;
        return __shfl_sync(0xffffffff, e, (int)(place % WARP));
    }
    /* Insert an entry, which is the same in all lanes. The last one drops out.
     */
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
};

template <int KEPT>
static __global__ void __launch_bounds__(THREADS)
    keep_best(struct selection s) {
    const size_t row = (size_t)blockIdx.x * WARPS + threadIdx.x / WARP;
    if (row >= s.rows) return; // the whole warp returns
    const unsigned lane = threadIdx.x % WARP;
    const float *x = s.x + row * s.cols;
    heap<KEPT> h;
    entry least = NOTHING; // the k-th best so far
    for (size_t first = 0; first < s.cols; first += WARP) {
        const size_t i = first + lane;
        const entry own = i < s.cols ? make_entry(x[i], i) : NOTHING;
        unsigned votes = __ballot_sync(0xffffffff, own > least);
        while (votes) {
            h.insert(__shfl_sync(0xffffffff, own, __ffs(votes) - 1));
            least = h.find((unsigned)s.k - 1);
            votes &= votes - 1;
            votes &= __ballot_sync(0xffffffff, own > least);
        }
    }
#pragma unroll
    for (unsigned j = 0; j < KEPT; j++) {
        const unsigned place = j * WARP + lane;
        if (place < s.k) write_result(s, row, place, h.best[j]);
    }
}

int topk_heap(const struct selection *s) {
    const unsigned blocks = (unsigned)CEIL_DIV(s->rows, WARPS);
    if (s->k > 8 * WARP) return topk_radix(s);
    if (s->k <= WARP)
        keep_best<1><<<blocks, THREADS, 0, s->stream>>>(*s);
    else
        keep_best<8><<<blocks, THREADS, 0, s->stream>>>(*s);
    WEFT_LAUNCHED(keep_best);
    return WEFT_OK;
}
