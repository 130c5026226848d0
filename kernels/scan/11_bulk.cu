/* 11_bulk.cu -- scan, rung 11: a tile waits in shared memory.
 *
 * Before:     a block of rung 10 holds its tile in registers, from the first
 *             load until all earlier tiles are summed up.
 * Idea:       one thread requests the tile of 64 KB with cp.async.bulk. The
 *             block adds it up, waits for the tiles before it, and only then
 *             scans it, row by row, straight to memory. So a tile waits in
 *             shared memory, where there is room for three per multiprocessor.
 * Prediction: with 192 KB in flight instead of 128 KB, the waits cost less.
 *             A pass without them takes 535 us for 2^28 numbers on an H200,
 *             where a copy takes 510. The waits add 100.
 * Limit:      a tile holds its memory while it waits: 3 us of 15. The rung
 *             needs compute capability 9.0. If addresses are no multiples of
 *             16, and for the last tile, all threads load. */
#include "scan.cuh"

#include "common/hopper.cuh"
#include "common/tile_tree.cuh"

enum { ROWS = 16 };
typedef fours<ROWS> tile_shape;

/* Request a tile, or load it if no bulk copy can. Thread 0 has initialised
 * `arrived`. */
static __device__ __forceinline__ void
fetch_tile(four *tile_s, mbarrier *arrived, const scanning &s, unsigned tile) {
    const size_t first = tile_shape::find_start(s, tile);
    const unsigned bytes = tile_shape::NUMBERS * sizeof(float);
    if (!tile_shape::is_whole(s, tile)) {
        for (unsigned i = threadIdx.x; i < tile_shape::GROUPS; i += THREADS)
            tile_s[i] = load_four(s, first + 4 * i);
        __syncthreads(); // the tile is stored
        return;
    }
    if (threadIdx.x == 0) {
        mbarrier_expect(arrived, bytes);
        bulk_load(tile_s, s.x + first, arrived, bytes);
    }
    mbarrier_wait(arrived, 0);
}

/* Return the group of four of a row, with the numbers in the scan's order. */
static __device__ __forceinline__ four get_four(const four *tile_s,
                                                const scanning &s, int row) {
    const unsigned own = tile_shape::find_own(row);
    if (!s.reverse) return tile_s[own];
    return swap_four(tile_s[tile_shape::GROUPS - 1 - own]);
}

/* Scan the tile in shared memory and store the sums; `sum` is the sum of all
 * numbers before the warp's. */
static __device__ __forceinline__ void
finish_tile(const four *tile_s, const scanning &s, unsigned tile, float sum) {
#pragma unroll 4
    for (int row = 0; row < ROWS; row++) {
        four v = get_four(tile_s, s, row);
        for (int k = 1; k < 4; k++) v.at[k] += v.at[k - 1];
        const float upto = scan_lanes(v.at[3]);
        const size_t i = 4 * tile_shape::find(s, tile, row);
        store_sums(s, i, sum + shift_lanes(upto, 1), v);
        sum += __shfl_sync(0xffffffff, upto, WARP - 1);
    }
}

static __global__ void __launch_bounds__(THREADS, 3)
    scan_in_shared(scanning s, tile_tree<float> tree) {
    extern __shared__ __align__(128) float4 memory_s[];
    four *const tile_s = (four *)memory_s;
    __shared__ room room_s;
    __shared__ mbarrier arrived_s;
    if (threadIdx.x == 0) {
        mbarrier_init(&arrived_s, 1);
        fence_barrier_init();
    }
    const unsigned tile = tree.tiles.take_tile(&room_s.tile);
    fetch_tile(tile_s, &arrived_s, s, tile);
    float own = 0.0f, total;
#pragma unroll
    for (int row = 0; row < ROWS; row++)
        own += add_four(get_four(tile_s, s, row));
    const float before = add_earlier_warps(add_lanes(own), room_s.sums, &total);
    if (threadIdx.x < WARP) {
        const float earlier = tree.find(tile, total);
        if (threadIdx.x == 0) room_s.earlier = earlier;
    }
    __syncthreads(); // the sum of all earlier tiles is stored
    finish_tile(tile_s, s, tile, room_s.earlier + before);
}

int scan_bulk(const struct scanning *s) {
    if (s->count < SCAN_LONG) return scan_fixed_order(s);
    return scan_in_one<tile_shape>(s, "scan_in_shared", scan_in_shared,
                                   tile_shape::NUMBERS * sizeof(float));
}
