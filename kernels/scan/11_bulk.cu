/* 11_bulk.cu -- scan, rung 11: tiles arrive while others wait.
 *
 * Before:     a block of rung 10 holds its tile from the first load until all
 *             earlier tiles are summed up. While it waits, it loads nothing.
 * Idea:       a block per multiprocessor handles tiles of 64 KB in a ring of
 *             three slots (common/tile_ring.cuh). One thread requests them with
 *             cp.async.bulk. Some warps add a tile when it arrives, one adds
 *             the sums of earlier tiles, and 16 scan and store it. The slot is
 *             free again when these have the tile in registers.
 * Prediction: a pass without waits takes 540 us for 2^28 numbers on an H200,
 *             where a copy takes 506. Rung 10 takes 170 us more, most of which
 *             the ring hides.
 * Limit:      the memory. The rung needs compute capability 9.0. Threads load
 *             the last tile, and all tiles if addresses are not multiples of
 *             16.
 * Error:      trees add the numbers of a tile, and the 128 tiles of a section.
 *             Sections are added one after the other. So the last sum's error
 *             grows with the count divided by 2^21. */
#include "scan.cuh"

#include "common/tile_ring.cuh"

struct scan_work {
    scanning s;

    __device__ __forceinline__ size_t find_start(unsigned tile) const {
        const size_t all = CEIL_DIV(s.count, (size_t)RING_NUMBERS);
        return (s.reverse ? all - 1 - tile : tile) * RING_NUMBERS;
    }
    __device__ __forceinline__ const float *find(unsigned tile) const {
        return s.x + find_start(tile);
    }
    __device__ __forceinline__ bool is_whole(unsigned tile) const {
        return is_aligned(s) && find_start(tile) + RING_NUMBERS <= s.count;
    }
    __device__ __forceinline__ unsigned find_own(unsigned own) const {
        return s.reverse ? RING_FOURS - 1 - own : own;
    }
    __device__ __forceinline__ four put_in_order(four v) const {
        return s.reverse ? swap_four(v) : v;
    }
    __device__ __forceinline__ four load(unsigned tile, unsigned own) const {
        return put_in_order(load_four(s, find_start(tile) + 4 * own));
    }
    static __device__ __forceinline__ float add(four v) { return add_four(v); }

    /* Scan and store part `part` of each tile. */
    __device__ __forceinline__ void finish(tile_ring<float> *ring_s,
                                           char *slots_s, unsigned tiles,
                                           unsigned part) const {
        for (ring_place p;; p.advance()) {
            const unsigned tile = ring_s->wait_tile(p);
            if (tile >= tiles) return;
            four v[RING_ROWS];
            float before[RING_ROWS], sum = 0.0f; // of the part's earlier rows
#pragma unroll
            for (int row = 0; row < RING_ROWS; row++)
                v[row] =
                    get_four(*this, find_slot(slots_s, p), tile, part, row);
            ring_s->wait_added(p);
            ring_s->free_slot(p);
#pragma unroll
            for (int row = 0; row < RING_ROWS; row++) {
                for (int k = 1; k < 4; k++) v[row].at[k] += v[row].at[k - 1];
                const float upto = scan_lanes(v[row].at[3]);
                before[row] = sum + shift_lanes(upto, 1);
                sum += __shfl_sync(0xffffffff, upto, WARP - 1);
            }
            const float parts = ring_s->add_parts(p, part),
                        earlier = ring_s->wait_before(p) + parts;
#pragma unroll
            for (int row = 0; row < RING_ROWS; row++) {
                const unsigned own = find_own((part * RING_ROWS + row) * WARP +
                                              threadIdx.x % WARP);
                store_sums(s, find_start(tile) + 4 * own, earlier + before[row],
                           v[row]);
            }
        }
    }
};

static __global__ void __launch_bounds__(RING_THREADS)
    scan_ring(scanning s, chain<float> c, unsigned tiles) {
    extern __shared__ __align__(128) char slots_s[];
    __shared__ tile_ring<float> ring_s;
    const scan_work work = {s};
    run_ring(&ring_s, slots_s, work, c, tiles);
}

int scan_bulk(const struct scanning *s) {
    if (s->count < SCAN_LONG) return scan_fixed_order(s);
    return launch_ring("scan", "scan_ring", *s, scan_ring);
}
