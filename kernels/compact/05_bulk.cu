/* 05_bulk.cu -- compact, rung 5: tiles arrive while others wait.
 *
 * Before:     a block of rung 4 loads 16 KB, waits for its place, writes, and
 *             ends. A multiprocessor runs eight such blocks; while they wait,
 *             they load nothing.
 * Idea:       the ring of scan's rung 11 (common/tile_ring.cuh) with counts.
 *             16 warps take a tile of 64 KB into registers, and store its kept
 *             numbers in the tile's own slot. From there they copy them to y,
 *             16 bytes a lane. A lane's counts of four rows share a word: one
 *             scan over lanes finds the places of 512 numbers.
 * Prediction: 6 bytes per number if half are kept. At the rate of a copy, that
 *             is 380 us for 2^28 numbers on an H200, where rung 4 takes 630.
 * Limit:      the memory. The rung needs compute capability 9.0. Threads load
 *             the last tile, and all tiles if x does not begin at a multiple of
 *             16 bytes.
 * Error:      none: the kept numbers are copies, and counts are integers. */
#include "compact.cuh"

#include "common/tile_ring.cuh"

enum {
    LINE = 32,       // floats of 128 bytes
    SUMMED_ROWS = 4, // rows whose counts share a word
    FINISH = 1,      // number of the barrier of the warps that finish
};

/* Below this count, tiles of 64 KB would be too few to keep a GPU busy. */
#ifdef __CUDACC__
enum { COMPACT_LONG = 1 << 22 };
#else
enum { COMPACT_LONG = 1 << 14 };
#endif

struct compact_work {
    compaction c;

    __device__ __forceinline__ const float *find(unsigned tile) const {
        return c.x + (size_t)tile * RING_NUMBERS;
    }
    __device__ __forceinline__ bool is_whole(unsigned tile) const {
        return (uintptr_t)c.x % sizeof(float4) == 0 &&
               (size_t)(tile + 1) * RING_NUMBERS <= c.count;
    }
    static __device__ __forceinline__ unsigned find_own(unsigned own) {
        return own;
    }
    static __device__ __forceinline__ four put_in_order(four v) { return v; }
    __device__ __forceinline__ four load(unsigned tile, unsigned own) const {
        const size_t i = (size_t)tile * RING_NUMBERS + 4 * own;
        return load_four(c.x, i, c.count, false);
    }
    /* Return how many of four numbers are kept. */
    __device__ __forceinline__ unsigned add(four v) const {
        unsigned kept = 0;
#pragma unroll
        for (int k = 0; k < 4; k++) kept += v.at[k] > c.threshold;
        return kept;
    }
    /* Replace each row of a part with the place of the caller's first kept
     * number of that row. `sum` is the place of the part's first. */
    __device__ __forceinline__ void find_places(unsigned places[RING_ROWS],
                                                const four v[RING_ROWS],
                                                unsigned sum) const {
#pragma unroll
        for (int row = 0; row < RING_ROWS; row += SUMMED_ROWS) {
            unsigned own = 0; // a byte per row: 128 kept numbers at most
#pragma unroll
            for (int j = 0; j < SUMMED_ROWS; j++)
                own += add(v[row + j]) << 8 * j;
            const unsigned upto = scan_lanes(own), below = upto - own,
                           all = __shfl_sync(0xffffffff, upto, WARP - 1);
#pragma unroll
            for (int j = 0; j < SUMMED_ROWS; j++) {
                places[row + j] = sum + (below >> 8 * j & 255);
                sum += all >> 8 * j & 255;
            }
        }
    }
    /* Copy numbers `from` to `end` of a slot to the same places of y, which
     * begins at a line of 128 bytes. Other tiles write the rest of the first
     * and the last line. */
    static __device__ __forceinline__ void
    write_lines(float *y, const float *values_s, unsigned from, unsigned end,
                unsigned thread) {
        for (unsigned i = 4 * thread; i < end; i += 4 * RING_FINISHERS) {
            if (i >= from && i + 4 <= end) {
                *(float4 *)(y + i) = *(const float4 *)(values_s + i);
            } else {
#pragma unroll
                for (unsigned k = i; k < i + 4; k++)
                    if (k >= from && k < end) y[k] = values_s[k];
            }
        }
    }
    /* Write the kept numbers of each tile; the caller has part `part`. */
    __device__ __forceinline__ void finish(tile_ring<unsigned> *ring_s,
                                           char *slots_s, unsigned tiles,
                                           unsigned part) const {
        const unsigned thread = part * WARP + threadIdx.x % WARP;
        for (ring_place p;; p.advance()) {
            const unsigned tile = ring_s->wait_tile(p);
            if (tile >= tiles) return;
            float *const slot_s = (float *)find_slot(slots_s, p);
            four v[RING_ROWS];
            unsigned places[RING_ROWS];
#pragma unroll
            for (int row = 0; row < RING_ROWS; row++)
                v[row] = get_four(*this, (char *)slot_s, tile, part, row);
            ring_s->wait_added(p);
            find_places(places, v, ring_s->add_parts(p, part));
            const unsigned total = ring_s->add_parts(p, RING_PARTS),
                           first = ring_s->wait_before(p);
            float *const to = c.y + first;
            const unsigned past = (uintptr_t)to / sizeof(float) % LINE;
            named_barrier(FINISH, RING_FINISHERS); // no thread reads the tile
#pragma unroll
            for (int row = 0; row < RING_ROWS; row++) {
                float *at = slot_s + past + places[row];
#pragma unroll
                for (int k = 0; k < 4; k++)
                    if (v[row].at[k] > c.threshold) *at++ = v[row].at[k];
            }
            named_barrier(FINISH, RING_FINISHERS); // the numbers are stored
            write_lines(to - past, slot_s, past, past + total, thread);
            if (tile == tiles - 1 && thread == 0)
                *c.kept = (int64_t)first + total;
            fence_proxy_async(); // the next copy comes after these stores
            ring_s->free_slot(p);
        }
    }
};

static __global__ void __launch_bounds__(RING_THREADS)
    compact_ring(compaction c, chain<unsigned> tiles_before, unsigned tiles) {
    extern __shared__ __align__(128) char slots_s[];
    __shared__ tile_ring<unsigned> ring_s;
    const compact_work work = {c};
    run_ring(&ring_s, slots_s, work, tiles_before, tiles);
}

int compact_bulk(const struct compaction *c) {
    // A tile publishes 32 bits, too few for the places of more numbers.
    if (c->count < COMPACT_LONG || c->count >> 32) return compact_look_back(c);
    return launch_ring("compact", "compact_ring", *c, compact_ring);
}
