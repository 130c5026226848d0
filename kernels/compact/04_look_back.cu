/* 04_look_back.cu -- compact, rung 4: one pass, in which tiles look back.
 *
 * Before:     rung 3 reads x twice, since it needs all counts before the first
 *             write.
 * Idea:       a block publishes the count of its tile. Then it adds the counts
 *             of earlier tiles, back to one that has published its place, too
 *             (common/look_back.cuh). Loads are 16 bytes wide. The kept
 *             numbers are first collected in shared memory, so that all lanes
 *             of a warp write neighbours, starting at a multiple of 128 bytes.
 * Prediction: x is read once: 6 bytes per number if half are kept, and the
 *             order and bits of rung 3.
 * Limit:      while a block waits for its place, it loads nothing. On an H200,
 *             2^28 numbers take 630 us, and a copy of their bytes 380. Larger
 *             tiles in a ring keep loads in flight (rung 5). */
#include "compact.cuh"

#include "common/look_back.cuh"

enum { FOURS = ITEMS / 4, LINE = 32 }; // floats of 128 bytes

/* The numbers of a thread in a warp's part of a tile, four neighbours at a
 * time, and the lanes' votes on them. */
struct wide_ballots {
    four value[FOURS];
    unsigned votes[FOURS][4], kept; // the same in all lanes

    __device__ __forceinline__ wide_ballots(const float *x, size_t first,
                                            size_t count, float threshold)
        : kept(0) {
        const bool aligned = (uintptr_t)x % sizeof(float4) == 0;
        const size_t own = first + 4 * (threadIdx.x % WARP);
#pragma unroll
        for (int j = 0; j < FOURS; j++)
            value[j] = load_four(x, own + j * (4 * WARP), count, aligned);
#pragma unroll
        for (int j = 0; j < FOURS; j++)
#pragma unroll
            for (int k = 0; k < 4; k++) {
                votes[j][k] =
                    __ballot_sync(0xffffffff, value[j].at[k] > threshold);
                kept += __popc(votes[j][k]);
            }
    }
    /* Store the kept numbers from `at` onwards, in the order of x. */
    __device__ __forceinline__ void store(float *at, float threshold) const {
#pragma unroll
        for (int j = 0; j < FOURS; j++) {
            float *own = at;
#pragma unroll
            for (int k = 0; k < 4; k++) {
                own += count_below(votes[j][k]);
                at += __popc(votes[j][k]);
            }
#pragma unroll
            for (int k = 0; k < 4; k++)
                if (value[j].at[k] > threshold) *own++ = value[j].at[k];
        }
    }
};

/* Copy a tile's kept numbers to y. Each warp writes whole lines of 128 bytes;
 * the first and the last line may be shared with other tiles. */
static __device__ __forceinline__ void
write_lines(float *y, const float *values_s, unsigned kept) {
    const int past = (int)((uintptr_t)y / sizeof(float) % LINE);
    for (int i = (int)threadIdx.x - past; i < (int)kept; i += THREADS)
        if (i >= 0) y[i] = values_s[i];
}

/* Publish the tile's count, and return its place in y to every lane of the
 * calling warp. */
static __device__ __forceinline__ unsigned
find_place(const chain<unsigned> &tiles, unsigned tile, unsigned own) {
    const bool publishes = threadIdx.x % WARP == 0;
    if (publishes && tile) tiles.publish(tile, TILE_SUM, own);
    const unsigned first = tile ? tiles.look_back_warp(tile) : 0;
    if (publishes) tiles.publish(tile, TILE_PREFIX, first + own);
    return first;
}

static __global__ void __launch_bounds__(THREADS)
    compact_tiles(float *y, place *kept, chain<unsigned> tiles, const float *x,
                  size_t count, float threshold) {
    __shared__ float values_s[TILE];
    __shared__ unsigned counts_s[WARPS], tile_s, first_s;
    const unsigned tile = tiles.take_tile(&tile_s);
    const wide_ballots b(x, find_part(tile), count, threshold);
    unsigned all;
    const unsigned earlier = add_earlier_warps(b.kept, counts_s, &all);
    if (threadIdx.x < WARP) {
        const unsigned first = find_place(tiles, tile, all);
        if (threadIdx.x == 0) first_s = first;
    }
    b.store(values_s + earlier, threshold);
    __syncthreads(); // first_s and the tile's kept numbers are stored
    write_lines(y + first_s, values_s, all);
    if (tile == gridDim.x - 1 && threadIdx.x == 0) *kept = first_s + all;
}

int compact_look_back(const struct compaction *c) {
    // A tile publishes 32 bits, too few for the places of more numbers.
    if (c->count >> 32) return compact_three_kernels(c);
    const unsigned blocks = (unsigned)CEIL_DIV(c->count, TILE);
    scratch memory(c->stream);
    chain<unsigned> tiles;
    WEFT_TRY(claim_chain("compact", &memory, blocks, &tiles));
    compact_tiles<<<blocks, THREADS, 0, c->stream>>>(
        c->y, (place *)c->kept, tiles, c->x, c->count, c->threshold);
    WEFT_LAUNCHED(compact_tiles);
    return WEFT_OK;
}
