/* 03_three_kernels.cu -- compact, rung 3: count, scan the counts, scatter.
 *
 * Before:     rung 2 writes the warps' numbers in an order that varies.
 * Idea:       a kernel counts the kept numbers of each tile of x. A second one,
 *             of one block, replaces each count by the sum of the earlier ones:
 *             the place of the tile's first number. A third reads x again and
 *             writes every kept number to its place.
 * Prediction: the order of x and the same bits in every run. x is read twice,
 *             so at least 10 bytes move for each number of which half are kept,
 *             not 6. Tables of counted traffic show 16: they treat the k-th
 *             stores of all lanes as one request, though lanes that have
 *             skipped a row are in different rows.
 * Limit:      the second read. Rung 4 reads x once. */
#include "compact.cuh"

/* A thread's numbers of a warp's part of a tile: one in each row of the part.
 * The warp keeps `kept` of the part's numbers. */
struct part {
    float value[ITEMS];
    unsigned kept;

    __device__ __forceinline__ part(const float *x, size_t first, size_t count,
                                    float threshold)
        : kept(0) {
#pragma unroll
        for (int j = 0; j < ITEMS; j++) {
            const size_t i = first + j * WARP + threadIdx.x % WARP;
            value[j] = i < count ? x[i] : NAN; // NaN is never kept
        }
#pragma unroll
        for (int j = 0; j < ITEMS; j++)
            kept += __popc(__ballot_sync(0xffffffff, value[j] > threshold));
    }
};

static __global__ void count_tiles(place *counts, const float *x, size_t count,
                                   float threshold) {
    __shared__ unsigned counts_s[WARPS];
    const part p(x, find_part(blockIdx.x), count, threshold);
    unsigned all;
    add_earlier_warps(p.kept, counts_s, &all);
    if (threadIdx.x == 0) counts[blockIdx.x] = all;
}

/* Replace each of the tiles' counts with the sum of the earlier ones, and store
 * the sum of all in *kept. The grid has one block. */
static __global__ void scan_counts(place *counts, place *kept, unsigned tiles) {
    __shared__ unsigned counts_s[WARPS];
    place before = 0;
    for (unsigned first = 0; first < tiles; first += THREADS) {
        const unsigned i = first + threadIdx.x;
        const unsigned own = i < tiles ? (unsigned)counts[i] : 0;
        const unsigned upto = scan_lanes(own);
        const unsigned sum = __shfl_sync(0xffffffff, upto, WARP - 1);
        unsigned all;
        const unsigned earlier = add_earlier_warps(sum, counts_s, &all);
        if (i < tiles) counts[i] = before + earlier + (upto - own);
        before += all;
        __syncthreads(); // counts_s has been read
    }
    if (threadIdx.x == 0) *kept = before;
}

static __global__ void scatter(float *y, const place *firsts, const float *x,
                               size_t count, float threshold) {
    __shared__ unsigned counts_s[WARPS];
    const part p(x, find_part(blockIdx.x), count, threshold);
    unsigned all;
    place at = firsts[blockIdx.x] + add_earlier_warps(p.kept, counts_s, &all);
#pragma unroll
    for (int j = 0; j < ITEMS; j++) {
        const bool keeps = p.value[j] > threshold;
        const unsigned votes = __ballot_sync(0xffffffff, keeps);
        if (keeps) y[at + count_below(votes)] = p.value[j];
        at += __popc(votes);
    }
}

int compact_three_kernels(const struct compaction *c) {
    const unsigned tiles = (unsigned)CEIL_DIV(c->count, TILE);
    scratch memory(c->stream);
    WEFT_TRY(memory.claim("compact", tiles * sizeof(place)));
    place *counts = (place *)memory.memory;
    count_tiles<<<tiles, THREADS, 0, c->stream>>>(counts, c->x, c->count,
                                                  c->threshold);
    WEFT_LAUNCHED(count_tiles);
    scan_counts<<<1, THREADS, 0, c->stream>>>(counts, (place *)c->kept, tiles);
    WEFT_LAUNCHED(scan_counts);
    scatter<<<tiles, THREADS, 0, c->stream>>>(c->y, counts, c->x, c->count,
                                              c->threshold);
    WEFT_LAUNCHED(scatter);
    return WEFT_OK;
}
