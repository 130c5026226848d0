/* tma_work.cuh -- the assignment of tiles of c to blocks in rungs 11 and 12.
 *
 * The grid has as many blocks as the device runs simultaneously. Each computes
 * every gridDim.x-th tile. The last round is not full: 512 tiles on 132 blocks
 * leave 116, for which 16 multiprocessors would wait. Those tiles are cut
 * along k, so that all blocks get the same number of steps. A tile is then
 * computed in pieces, and the block that finishes last adds them up, always in
 * the same order.
 *
 * Source:  Osama et al., "Stream-K", PPoPP 2023 (its "hybrid" form). */
#ifndef WEFT_MATMUL_TMA_WORK_CUH
#define WEFT_MATMUL_TMA_WORK_CUH
#include "matmul.h"

#include <limits.h>

/* The division of c, the same for all blocks. */
struct work {
    int tiles_m, tiles_n; /* tiles of one matrix of the batch */
    int tiles;            /* tiles of all matrices */
    int steps;            /* steps along k per tile */
    int whole;            /* number of leading tiles that are not cut */
    int units;            /* total number of steps of the tiles that are cut */
    int sharers;          /* number of leading blocks that share `units` */
    float *partials;      /* sums of the pieces */
    unsigned *arrived;    /* number of finished pieces of each cut tile */
};

/* Steps `first` to `last` - 1 of one tile. */
struct piece {
    int tile, first, last;
};

/* Return the first unit (a step of a cut tile) of block `block`'s share. The
 * share ends where the next block's begins, and has at least one unit. */
static __device__ __forceinline__ int share(const struct work &w, int block) {
    return w.units * block / w.sharers;
}

/* Return the block whose share contains unit `unit`. */
static __device__ __forceinline__ int owner(const struct work &w, int unit) {
    return ((unit + 1) * w.sharers - 1) / w.units;
}

static __device__ __forceinline__ int whole_tiles(const struct work &w) {
    const int left = w.whole - (int)blockIdx.x;
    return left > 0 ? CEIL_DIV(left, (int)gridDim.x) : 0;
}

/* Return the number of pieces that the block computes: its whole tiles, then
 * the pieces of its share. */
static __device__ __forceinline__ int pieces_of_block(const struct work &w) {
    const int block = blockIdx.x;
    if (block >= w.sharers) return whole_tiles(w);
    const int unit = share(w, block), end = share(w, block + 1);
    return whole_tiles(w) + (end - 1) / w.steps - unit / w.steps + 1;
}

/* Return the i-th piece of the block. */
static __device__ __forceinline__ struct piece piece_at(const struct work &w,
                                                        int i) {
    const int cut = i - whole_tiles(w);
    if (cut < 0) return {(int)(blockIdx.x + i * gridDim.x), 0, w.steps};
    const int unit = share(w, blockIdx.x), end = share(w, blockIdx.x + 1);
    const int tile = unit / w.steps + cut;
    const int start = (int)tile * w.steps;
    return {w.whole + tile, unit > start ? unit - start : 0,
            end < start + w.steps ? end - start : w.steps};
}

/* The place of a tile. Concurrent blocks compute tiles of a band of BAND rows
 * of tiles, column by column. So the parts of a and b that they read overlap
 * more, and stay in the L2 cache. */
struct place {
    int row0, col0, z;
};

template <int BM, int BN>
static __device__ __forceinline__ struct place place_of(int tile,
                                                        const struct work &w) {
    enum { BAND = 8 };
    const int z = tile / (w.tiles_m * w.tiles_n);
    const int in_matrix = tile - z * w.tiles_m * w.tiles_n;
    const int band = in_matrix / (BAND * w.tiles_n);
    const int in_band = in_matrix - band * BAND * w.tiles_n;
    const int left = w.tiles_m - band * BAND;
    const int high = left < BAND ? left : BAND;
    return {(band * BAND + in_band % high) * BM, in_band / high * BN, z};
}

/* ---- pieces of tiles that were cut ------------------------------------- */

/* Return the address of a piece's sums: COUNT for each thread, with those of
 * neighbouring threads adjacent. Along the steps, the next piece has the next
 * block, the next tile, or both, so `block + tile` differs. */
template <int COUNT>
static __device__ __forceinline__ float *partial_of(const struct work &w,
                                                    int block, int tile) {
    return w.partials + (size_t)(block + tile - w.whole) * COUNT * blockDim.x +
           threadIdx.x;
}

/* Store this thread's part of a piece, computed by block `own` of the sharers.
 * If it is the tile's last piece to arrive, acc receives the total sums and the
 * function returns true. All threads of the block must call it, with a word of
 * shared memory. */
template <int ROWS, int COLS>
static __device__ __forceinline__ bool
add_pieces(float acc[ROWS][COLS], int own, const struct piece &p,
           const struct work &w, unsigned *before_s) {
    enum { COUNT = ROWS * COLS, BATCH = 32 };
    static_assert(COUNT % BATCH == 0, "whole batches");
    float *const mine = partial_of<COUNT>(w, own, p.tile);
#pragma unroll
    for (int i = 0; i < COUNT; i++)
        mine[(size_t)i * blockDim.x] = acc[i / COLS][i % COLS];
    __threadfence(); // make the sums visible before the arrival
    __syncthreads();
    const int cut = p.tile - w.whole;
    if (threadIdx.x == 0) *before_s = atomicAdd(&w.arrived[cut], 1u);
    __syncthreads();
    const int unit = (int)cut * w.steps;
    const int first = owner(w, unit), last = owner(w, unit + w.steps - 1);
    if (*before_s != (unsigned)(last - first)) return false;
    __threadfence();
#pragma unroll
    for (int i = 0; i < COUNT; i++) acc[i / COLS][i % COLS] = 0.0f;
    for (int block = first; block <= last; block++) {
        const float *const part = partial_of<COUNT>(w, block, p.tile);
        // At -O1, ptxas keeps each addition right after its load. So load a
        // whole batch before adding any of it.
#pragma unroll
        for (int first_i = 0; first_i < COUNT; first_i += BATCH) {
            float part_r[BATCH];
#pragma unroll
            for (int i = 0; i < BATCH; i++)
                part_r[i] = __ldcg(part + (size_t)(first_i + i) * blockDim.x);
#pragma unroll
            for (int i = 0; i < BATCH; i++)
                acc[(first_i + i) / COLS][(first_i + i) % COLS] += part_r[i];
        }
    }
    return true;
}

/* ---- on the host ------------------------------------------------------- */

/* Divide q's c into tiles of bm x bn for `blocks` blocks. Each tile of the last
 * round is cut into at most four pieces, or five if a share continues in the
 * next tile. One block adds the pieces, which costs the time of `worth`
 * multiply-adds per piece. If cutting saves less, the tiles stay whole. */
static inline struct work divide(const struct product *q, int bm, int bn,
                                 int bk, int blocks, double worth) {
    struct work w = {};
    w.tiles_m = CEIL_DIV(q->m, bm);
    w.tiles_n = CEIL_DIV(q->n, bn);
    w.tiles = w.tiles_m * w.tiles_n * q->batch;
    w.steps = CEIL_DIV(q->k, bk);
    w.whole = w.tiles;
    const int left = w.tiles % blocks;
    if (!left || w.steps < 4) return w;
    const int sharers = 4 * left < blocks ? 4 * left : blocks;
    const double units = (double)left * w.steps;
    // With so many steps, the products in share() and owner() would overflow.
    if ((units + 1) * sharers > INT_MAX) return w;
    const double saved = (w.steps - units / sharers) * bm * bn * bk;
    if (saved < worth * CEIL_DIV(sharers, left)) return w;
    w.whole = w.tiles - left;
    w.units = left * w.steps;
    w.sharers = sharers;
    return w;
}

/* Return the bytes of the arrival counters and of the partial sums that follow
 * them. */
static inline size_t work_bytes(const struct work *w, int bm, int bn,
                                int blocks) {
    if (!w->units) return 0;
    const size_t cut = (size_t)(w->tiles - w->whole);
    return CEIL_DIV(cut * sizeof(unsigned), 256) * 256 +
           (blocks + cut) * bm * bn * sizeof(float);
}

/* Make *w use `scratch`, an array of work_bytes() bytes. Returns a
 * weft_status. */
static inline int work_place(struct work *w, void *scratch,
                             cudaStream_t stream) {
    if (!w->units) return WEFT_OK;
    const size_t cut = (size_t)(w->tiles - w->whole) * sizeof(unsigned);
    w->arrived = (unsigned *)scratch;
    w->partials = (float *)((char *)scratch + CEIL_DIV(cut, 256) * 256);
    WEFT_CUDA_TRY(cudaMemsetAsync(scratch, 0, cut, stream));
    return WEFT_OK;
}

#endif
