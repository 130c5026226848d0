/* 02_heap_a_warp.cu -- topk, rung 2: a warp keeps the k best so far.
 *
 * Before:     rung 1 moves every number many times.
 * Idea:       a warp reads a row once. Its registers contain the best entries
 *             so far, in order. A number is a candidate only if it exceeds the
 *             k-th of them; the lanes vote in a ballot. The place of a
 *             candidate is the number of better ones, and all worse ones move
 *             by one lane.
 * Prediction: each number is read once. Of n numbers in random order, about
 *             k (1 + ln(n / k)) are candidates. In ascending order, all are.
 * Limit:      one warp per row, and registers for at most 256 entries: a larger
 *             k uses rung 3. Rung 3 has many blocks per row, and any k. */
#include "heap.cuh"

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
        h.offer(own, (unsigned)s.k, &least);
    }
    h.write(s, row);
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
