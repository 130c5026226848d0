/* 02_ballot.cu -- compact, rung 2: a warp takes places for all its lanes.
 *
 * Before:     rung 1 adds to the count once for each kept number.
 * Idea:       the lanes vote by a ballot. One lane adds the number of votes to
 *             the count and hands the old count to the others. A lane's place
 *             is that count plus the votes of lower lanes.
 * Prediction: one atomic addition per 32 numbers read. The lanes of a warp
 *             write neighbours in y: fewer sectors.
 * Limit:      the order of the warps still varies. Rung 3 finds each place
 *             without an atomic addition. */
#include "compact.cuh"

static __global__ void keep_by_warps(float *y, place *kept, const float *x,
                                     size_t count, float threshold) {
    const size_t i = (size_t)blockIdx.x * THREADS + threadIdx.x;
    const float value = i < count ? x[i] : NAN; // NaN is never kept
    const unsigned votes = __ballot_sync(0xffffffff, value > threshold);
    place first = 0;
    if (threadIdx.x % WARP == 0 && votes)
        first = atomicAdd(kept, (place)__popc(votes));
    first = __shfl_sync(0xffffffff, first, 0);
    if (value > threshold) y[first + count_below(votes)] = value;
}

int compact_ballot(const struct compaction *c) {
    WEFT_CUDA_TRY(cudaMemsetAsync(c->kept, 0, sizeof *c->kept, c->stream));
    keep_by_warps<<<blocks_for(c->count), THREADS, 0, c->stream>>>(
        c->y, (place *)c->kept, c->x, c->count, c->threshold);
    WEFT_LAUNCHED(keep_by_warps);
    return WEFT_OK;
}
