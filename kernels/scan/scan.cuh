/* scan.cuh -- the rungs of scan, and the code that they share.
 *
 * A block scans a tile of neighbouring numbers: it loads the tile, computes the
 * running sums within it, and stores them with the sum of all earlier tiles
 * added. Every sum begins at 0, even that of a thread or tile without numbers,
 * so a result is never -0. A reverse scan counts tiles, and the numbers in
 * them, from the end of the array. */
#ifndef WEFT_SCAN_CUH
#define WEFT_SCAN_CUH
#include "common/internal.cuh"

#include "common/checks.cuh"
#include "common/launch.cuh"
#include "common/look_back.cuh"
#include "common/rows.cuh"
#include "common/scans.cuh"

/* The arguments of weft_scan(), which the rungs receive. */
struct scanning {
    float *y;       // (count)
    const float *x; // (count)
    size_t count;
    bool exclusive, reverse;
    cudaStream_t stream;
};

/* Below this count, large tiles would be too few to keep a GPU busy. */
#ifdef __CUDACC__
enum { SCAN_LONG = 1 << 22 };
#else
enum { SCAN_LONG = 1 << 14 };
#endif

/* Queue the work of a rung; each returns a weft_status. */
int scan_kogge_stone(const struct scanning *s);
int scan_brent_kung(const struct scanning *s);
int scan_shuffle(const struct scanning *s);
int scan_three_kernels(const struct scanning *s);
int scan_chained(const struct scanning *s);
int scan_look_back(const struct scanning *s);
int scan_look_back_warp(const struct scanning *s);
int scan_items(const struct scanning *s);
int scan_fallback(const struct scanning *s);
int scan_fixed_order(const struct scanning *s);
int scan_bulk(const struct scanning *s);

/* ---- tiles --------------------------------------------------------------- */

/* A tile of THREADS numbers, one per thread. Block::add_before() returns to
 * each thread the sum over all earlier threads, and the total. */
template <class Block> struct singles {
    enum { NUMBERS = THREADS, SHARED = THREADS };
    float own, before;

    static __device__ __forceinline__ size_t find(const scanning &s,
                                                  unsigned tile) {
        const size_t i = (size_t)tile * NUMBERS + threadIdx.x;
        return s.reverse ? s.count - 1 - i : i; // past the end: >= count
    }
    __device__ __forceinline__ void load(const scanning &s, unsigned tile) {
        const size_t i = find(s, tile);
        own = i < s.count ? s.x[i] : 0.0f;
    }
    /* Scan the tile and return its sum to every thread. */
    __device__ __forceinline__ float scan(float sums_s[SHARED]) {
        float total;
        before = Block::add_before(own, sums_s, &total);
        return total;
    }
    __device__ __forceinline__ void store(const scanning &s, unsigned tile,
                                          float earlier) const {
        const size_t i = find(s, tile);
        const float base = earlier + before;
        if (i < s.count) s.y[i] = s.exclusive ? base : base + own;
    }
};

static __device__ __forceinline__ four swap_four(four v) {
    return {v.at[3], v.at[2], v.at[1], v.at[0]};
}

static __device__ __forceinline__ bool is_aligned(const scanning &s) {
    return ((uintptr_t)s.x | (uintptr_t)s.y) % sizeof(float4) == 0;
}

/* Return whether a load of 16 bytes may fetch the four numbers at i. */
static __device__ __forceinline__ bool is_wide(const scanning &s, size_t i) {
    return is_aligned(s) && i + 4 <= s.count;
}

static __device__ __forceinline__ four make_four(float4 v) {
    return {v.x, v.y, v.z, v.w};
}

/* Load the four numbers of x at i; past the end they are 0. */
static __device__ __forceinline__ four load_four(const scanning &s, size_t i) {
    four v = {0.0f, 0.0f, 0.0f, 0.0f};
    if (is_wide(s, i)) {
        v = make_four(*(const float4 *)(s.x + i));
    } else {
#pragma unroll
        for (int k = 0; k < 4; k++)
            if (i + k < s.count) v.at[k] = s.x[i + k];
    }
    return v;
}

/* Store four sums to y at i. v has the sums within the group, in the
 * scan's order; `base` is the sum before the group. */
static __device__ __forceinline__ void store_sums(const scanning &s, size_t i,
                                                  float base, four v) {
    v = {base + v.at[0], base + v.at[1], base + v.at[2], base + v.at[3]};
    if (s.exclusive) v = {base, v.at[0], v.at[1], v.at[2]};
    if (s.reverse) v = swap_four(v);
    if (is_wide(s, i)) {
        *(float4 *)(s.y + i) = make_float4(v.at[0], v.at[1], v.at[2], v.at[3]);
    } else {
#pragma unroll
        for (int k = 0; k < 4; k++)
            if (i + k < s.count) s.y[i + k] = v.at[k];
    }
}

/* A tile of ROWS groups of four numbers per thread. A warp's numbers are
 * neighbours: ROWS rows of 128, which its lanes load 16 bytes at a time. */
template <int ROWS> struct fours {
    enum { GROUPS = ROWS * THREADS, NUMBERS = 4 * GROUPS, SHARED = WARPS };
    four sums[ROWS];    // within each group
    float before[ROWS]; // the sum of the tile's numbers before each group

    /* Return the place of a thread's group in the tile, in the scan's order. */
    static __device__ __forceinline__ unsigned find_own(int row) {
        const unsigned warp = threadIdx.x / WARP, lane = threadIdx.x % WARP;
        return (warp * ROWS + row) * WARP + lane;
    }
    /* Return the place of a tile's first number in memory. */
    static __device__ __forceinline__ size_t find_start(const scanning &s,
                                                        unsigned tile) {
        const size_t all = CEIL_DIV(s.count, (size_t)NUMBERS);
        return (s.reverse ? all - 1 - tile : tile) * NUMBERS;
    }
    /* Return the place of a thread's group in memory, in groups of four. */
    static __device__ __forceinline__ size_t find(const scanning &s,
                                                  unsigned tile, int row) {
        const unsigned own = find_own(row);
        return find_start(s, tile) / 4 + (s.reverse ? GROUPS - 1 - own : own);
    }
    /* Return whether loads and stores of 16 bytes can move the whole tile. */
    static __device__ __forceinline__ bool is_whole(const scanning &s,
                                                    unsigned tile) {
        return is_aligned(s) && find_start(s, tile) + NUMBERS <= s.count;
    }
    __device__ __forceinline__ void load(const scanning &s, unsigned tile) {
        if (is_whole(s, tile)) { // no load waits for a comparison
#pragma unroll
            for (int row = 0; row < ROWS; row++)
                sums[row] =
                    make_four(((const float4 *)s.x)[find(s, tile, row)]);
        } else {
            for (int row = 0; row < ROWS; row++)
                sums[row] = load_four(s, 4 * find(s, tile, row));
        }
        for (int row = 0; row < ROWS; row++)
            if (s.reverse) sums[row] = swap_four(sums[row]);
    }
    __device__ __forceinline__ float scan(float sums_s[SHARED]) {
        float warp = 0.0f, total; // the sum of the warp's rows up to here
#pragma unroll
        for (int row = 0; row < ROWS; row++) {
            float *const at = sums[row].at;
            for (int k = 1; k < 4; k++) at[k] += at[k - 1];
            const float upto = scan_lanes(at[3]);
            before[row] = warp + shift_lanes(upto, 1);
            warp += __shfl_sync(0xffffffff, upto, WARP - 1);
        }
        const float earlier = add_earlier_warps(warp, sums_s, &total);
#pragma unroll
        for (int row = 0; row < ROWS; row++) before[row] += earlier;
        return total;
    }
    __device__ __forceinline__ void store(const scanning &s, unsigned tile,
                                          float earlier) const {
#pragma unroll
        for (int row = 0; row < ROWS; row++)
            store_sums(s, 4 * find(s, tile, row), earlier + before[row],
                       sums[row]);
    }
};

template <class Tile> static unsigned count_tiles(const scanning *s) {
    return (unsigned)CEIL_DIV(s->count, (size_t)Tile::NUMBERS);
}

/* ---- three kernels ------------------------------------------------------- */

/* The first kernel: each block stores the sum of one tile. */
template <class Tile>
static __device__ __forceinline__ void add_tile(float *sums, const scanning &s,
                                                float sums_s[Tile::SHARED]) {
    Tile t;
    t.load(s, blockIdx.x);
    const float total = t.scan(sums_s);
    if (threadIdx.x == 0) sums[blockIdx.x] = total;
}

/* The second kernel, in scan.cu: replace each of `count` sums with the sum of
 * all earlier ones. Returns a weft_status. */
int scan_sums(float *sums, unsigned count, cudaStream_t stream);

/* The third kernel: each block scans one tile. */
template <class Tile>
static __device__ __forceinline__ void
scan_tile(const scanning &s, const float *earlier, float sums_s[Tile::SHARED]) {
    Tile t;
    t.load(s, blockIdx.x);
    t.scan(sums_s);
    t.store(s, blockIdx.x, earlier[blockIdx.x]);
}

template <class Tile>
static int scan_in_three(const scanning *s, void (*add)(float *, scanning),
                         void (*finish)(scanning, const float *)) {
    const unsigned tiles = count_tiles<Tile>(s);
    scratch memory(s->stream);
    WEFT_TRY(memory.claim("scan", tiles * sizeof(float)));
    float *const sums = (float *)memory.memory;
    WEFT_TRY(launch_kernel({"add_tiles", tiles, THREADS, 0, s->stream, 0}, add,
                           sums, *s));
    WEFT_TRY(scan_sums(sums, tiles, s->stream));
    return launch_kernel({"scan_tiles", tiles, THREADS, 0, s->stream, 0},
                         finish, *s, (const float *)sums);
}

/* ---- one kernel ---------------------------------------------------------- */

/* The shared memory of a block that scans a tile. */
struct room {
    float sums[WARPS], earlier;
    unsigned tile;
};

/* Scan a tile per block. The first warp calls Finder::find(), which publishes
 * the tile's sum, and returns to lane 0 the sum of all earlier tiles.
 * Chain: chain or tile_tree. */
template <class Tile, class Finder, class Chain>
static __device__ __forceinline__ void scan_once(const scanning &s,
                                                 const Chain &c, room *room_s) {
    const unsigned tile = c.take_tile(&room_s->tile);
    Tile t;
    t.load(s, tile);
    const float total = t.scan(room_s->sums);
    if (threadIdx.x < WARP) {
        const float earlier = Finder::find(c, tile, total);
        if (threadIdx.x == 0) room_s->earlier = earlier;
    }
    __syncthreads(); // the sum of all earlier tiles is stored
    t.store(s, tile, room_s->earlier);
}

template <class Tile, class Chain>
static int scan_in_one(const scanning *s, const char *name,
                       void (*kernel)(scanning, Chain)) {
    const unsigned tiles = count_tiles<Tile>(s);
    scratch memory(s->stream);
    Chain c;
    WEFT_TRY(claim_chain("scan", &memory, tiles, &c));
    return launch_kernel({name, tiles, THREADS, 0, s->stream, 0}, kernel, *s,
                         c);
}

/* Rungs 7 and 8: a warp looks back. */
struct warp_finder {
    static __device__ __forceinline__ float find(const chain<float> &c,
                                                 unsigned tile, float total) {
        if (threadIdx.x == 0) c.publish(tile, TILE_SUM, total);
        const float earlier = c.look_back_warp(tile);
        if (threadIdx.x == 0) c.publish(tile, TILE_PREFIX, earlier + total);
        return earlier;
    }
};

#endif
