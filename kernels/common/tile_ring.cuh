/* tile_ring.cuh -- persistent blocks whose warps have different work: tiles
 * arrive while others wait for the sum of all earlier tiles.
 *
 * A block takes tiles with tickets until none is left. Its shared memory has
 * RING_SLOTS slots for them:
 *
 *     1 warp        loads a tile into each free slot, with one bulk copy
 *     RING_ADDERS   add each tile when it arrives, and publish its sum
 *     1 warp        reads the published sums, and adds those of earlier tiles
 *     RING_PARTS    take a tile's parts into registers, wait for the sum of the
 *                   earlier tiles, and write the results
 *
 * So no tile's load waits for another tile, and its sum is published as soon as
 * the tile has arrived. Tickets are taken in order, and a block finishes its
 * tiles in that order. So the earliest unfinished tile never waits, whichever
 * blocks have begun.
 *
 * All sums are added in an order that depends on the tile's number alone:
 * RING_SECTION neighbouring tiles are a section. A tile adds the earlier tiles
 * of its section in a tree, and the sums of the earlier sections one after the
 * other. The warp that looks back keeps the sum of all complete sections in a
 * register, so it waits for the sums of tiles alone.
 *
 * Source: Merrill and Garland, Single-pass Parallel Prefix Scan with Decoupled
 * Look-back, 2016, for published sums; the warps' division of work is that of
 * CUTLASS' warp-specialised kernels. */
#ifndef WEFT_TILE_RING_CUH
#define WEFT_TILE_RING_CUH
#include "hopper.cuh"
#include "look_back.cuh"
#include "rows.cuh"
#include "scans.cuh"

enum {
    RING_PARTS = 16, // parts of a tile
    RING_ROWS = 8,   // rows of a part, each of a group of four per lane
    RING_SLOTS = 3,
    RING_ADDERS = 8, // warps
    // While a tile waits in registers, its slot is free, but its entry is not.
    RING_ENTRIES = RING_SLOTS + 1,
    RING_FOURS = RING_PARTS * RING_ROWS * WARP, // groups of four of a tile
    RING_NUMBERS = 4 * RING_FOURS,
    RING_BYTES = RING_NUMBERS * (int)sizeof(float),
    RING_STRIDE = RING_BYTES + 128,     // results may begin within a line
    RING_FINISHERS = RING_PARTS * WARP, // threads
    RING_THREADS = (2 + RING_ADDERS + RING_PARTS) * WARP,
    RING_SECTION = 128,
    RING_LANE = RING_SECTION / WARP, // tiles of a section that a lane reads
};

/* A position in a ring of N, and the parity of its use. */
template <int N> struct ring_turn {
    unsigned at = 0, parity = 0;

    __device__ __forceinline__ void advance() {
        if (++at == N) {
            at = 0;
            parity ^= 1;
        }
    }
};

/* The slot and the entry of a tile. */
struct ring_place {
    ring_turn<RING_SLOTS> slot;
    ring_turn<RING_ENTRIES> entry;

    __device__ __forceinline__ void advance() {
        slot.advance();
        entry.advance();
    }
};

/* The barriers and sums of a block, in shared memory. T: float or unsigned. */
template <class T> struct tile_ring {
    mbarrier full[RING_SLOTS], empty[RING_SLOTS];
    mbarrier taken[RING_ENTRIES], added[RING_ENTRIES], ready[RING_ENTRIES];
    unsigned tile[RING_ENTRIES];      // at the end: the number of tiles or more
    T sums[RING_ENTRIES][RING_PARTS]; // of each part
    T before[RING_ENTRIES];           // the sum of all earlier tiles

    /* All threads of the block call this first. */
    __device__ __forceinline__ void begin() {
        if (threadIdx.x == 0) {
            for (int i = 0; i < RING_SLOTS; i++) {
                mbarrier_init(&full[i], 1);
                mbarrier_init(&empty[i], RING_PARTS);
            }
            for (int i = 0; i < RING_ENTRIES; i++) {
                mbarrier_init(&taken[i], 1);
                mbarrier_init(&added[i], RING_ADDERS);
                mbarrier_init(&ready[i], 1);
            }
            fence_barrier_init();
        }
        __syncthreads(); // the barriers are initialised
    }
    /* Wait for a tile's arrival and return its number. */
    __device__ __forceinline__ unsigned wait_tile(const ring_place &p) {
        mbarrier_wait(&full[p.slot.at], p.slot.parity);
        return tile[p.entry.at];
    }
    /* Wait until all parts are added: the adders have read the slot. */
    __device__ __forceinline__ void wait_added(const ring_place &p) {
        mbarrier_wait(&added[p.entry.at], p.entry.parity);
    }
    /* Return the sum of the tile's first `parts` parts. */
    __device__ __forceinline__ T add_parts(const ring_place &p,
                                           unsigned parts) const {
        T sum = T();
#pragma unroll
        for (unsigned i = 0; i < RING_PARTS; i++)
            if (i < parts) sum += sums[p.entry.at][i];
        return sum;
    }
    /* Wait for the sum of all earlier tiles and return it. */
    __device__ __forceinline__ T wait_before(const ring_place &p) {
        mbarrier_wait(&ready[p.entry.at], p.entry.parity);
        return before[p.entry.at];
    }
    /* Free the slot of the calling warp's part. */
    __device__ __forceinline__ void free_slot(const ring_place &p) {
        __syncwarp(); // no lane uses the slot
        if (threadIdx.x % WARP == 0) mbarrier_arrive(&empty[p.slot.at]);
    }
};

static __device__ __forceinline__ char *find_slot(char *slots_s,
                                                  const ring_place &p) {
    return slots_s + p.slot.at * RING_STRIDE;
}

/* ---- one thread loads ---------------------------------------------------- */

/* Load tiles until none is left, then store the end. */
template <class Work, class T>
static __device__ __forceinline__ void
load_tiles(tile_ring<T> *ring_s, char *slots_s, const Work &work,
           const chain<T> &c, unsigned tiles) {
    ring_place p;
    unsigned tile = atomicAdd(c.ticket, 1u);
    for (;; p.advance()) {
        mbarrier *const full = &ring_s->full[p.slot.at];
        mbarrier_wait(&ring_s->empty[p.slot.at], p.slot.parity ^ 1);
        ring_s->tile[p.entry.at] = tile;
        mbarrier_arrive(&ring_s->taken[p.entry.at]);
        if (tile < tiles && work.is_whole(tile)) {
            mbarrier_expect(full, RING_BYTES);
            bulk_load(find_slot(slots_s, p), work.find(tile), full, RING_BYTES);
        } else {
            mbarrier_arrive(full); // the readers load from memory
        }
        if (tile >= tiles) return;
        tile = atomicAdd(c.ticket, 1u); // while the copy is in flight
    }
}

/* ---- warps add ----------------------------------------------------------- */

/* Return the caller's group of four in row `row` of part `part` of a tile, in
 * the order of the sums. Tiles that no bulk copy can move are not in the slot.
 */
template <class Work>
static __device__ __forceinline__ four get_four(const Work &work,
                                                const char *slot_s,
                                                unsigned tile, unsigned part,
                                                int row) {
    const unsigned own =
        work.find_own((part * RING_ROWS + row) * WARP + threadIdx.x % WARP);
    if (!work.is_whole(tile)) return work.load(tile, own);
    return work.put_in_order(((const four *)slot_s)[own]);
}

/* Add the parts of each tile, and publish its sum. warp: the number of the
 * calling warp among the adders. */
template <class Work, class T>
static __device__ __forceinline__ void
add_tiles(tile_ring<T> *ring_s, char *slots_s, const Work &work,
          const chain<T> &c, unsigned tiles, unsigned warp) {
    const unsigned lane = threadIdx.x % WARP;
    for (ring_place p;; p.advance()) {
        const unsigned tile = ring_s->wait_tile(p);
        if (tile >= tiles) return;
        for (unsigned part = warp; part < RING_PARTS; part += RING_ADDERS) {
            T sum = T();
#pragma unroll
            for (int row = 0; row < RING_ROWS; row++)
                sum += work.add(
                    get_four(work, find_slot(slots_s, p), tile, part, row));
            sum = add_lanes(sum);
            if (lane == 0) ring_s->sums[p.entry.at][part] = sum;
        }
        if (lane == 0) mbarrier_arrive(&ring_s->added[p.entry.at]);
        if (warp == 0) {
            ring_s->wait_added(p);
            const T sum = ring_s->add_parts(p, RING_PARTS);
            if (lane == 0) c.publish(tile, TILE_SUM, sum);
        }
        __syncwarp();
    }
}

/* ---- a warp looks back --------------------------------------------------- */

/* The published sums of two neighbouring sections, in the registers of a warp:
 * lane i has tiles i, i + 32, i + 64 and so on. */
template <class T> struct look_back_window {
    unsigned first = 0; // the first tile of the two sections
    T before = T();     // the sum of all tiles before it
    tile_state<T> states[2 * RING_LANE] = {};

    /* Read those states before `tile` that were empty so far. Return whether
     * none is empty now. */
    __device__ __forceinline__ bool read(const chain<T> &c, unsigned tile) {
        bool all = true;
#pragma unroll
        for (int k = 0; k < 2 * RING_LANE; k++) {
            const unsigned at = first + k * WARP + threadIdx.x % WARP;
            if (at >= tile) continue;
            if (states[k].status == TILE_EMPTY) states[k] = c.read(at);
            all = all && states[k].status != TILE_EMPTY;
        }
        return __all_sync(0xffffffff, all);
    }
    /* Return to every lane the sum of the first section's tiles before
     * `tile`. */
    __device__ __forceinline__ T add_section(unsigned tile) const {
        T sum = T();
#pragma unroll
        for (int k = 0; k < RING_LANE; k++)
            if (first + k * WARP + threadIdx.x % WARP < tile)
                sum += states[k].value;
        return add_lanes(sum);
    }
    __device__ __forceinline__ void skip_section() {
        first += RING_SECTION;
#pragma unroll
        for (int k = 0; k < RING_LANE; k++) {
            states[k] = states[k + RING_LANE];
            states[k + RING_LANE] = {};
        }
    }
    /* Return the sum of all tiles before `tile`, which must increase from call
     * to call. */
    __device__ __forceinline__ T find(const chain<T> &c, unsigned tile) {
        for (;;) {
            if (!read(c, tile)) {
                __nanosleep(20);
                continue;
            }
            const T sum = add_section(tile);
            if (tile < first + RING_SECTION) return before + sum;
            before += sum;
            skip_section();
        }
    }
};

/* Store the sum of all earlier tiles for each tile of the block. */
template <class T>
static __device__ __forceinline__ void
look_back(tile_ring<T> *ring_s, const chain<T> &c, unsigned tiles) {
    look_back_window<T> window;
    for (ring_turn<RING_ENTRIES> entry;; entry.advance()) {
        mbarrier_wait(&ring_s->taken[entry.at], entry.parity);
        const unsigned tile = ring_s->tile[entry.at];
        if (tile >= tiles) return;
        const T before = window.find(c, tile);
        if (threadIdx.x % WARP == 0) {
            ring_s->before[entry.at] = before;
            mbarrier_arrive(&ring_s->ready[entry.at]);
        }
        __syncwarp();
    }
}

/* ---- the block ----------------------------------------------------------- */

/* Handle tiles until none is left. All threads of the block call this. slots_s
 * is the dynamic shared memory of RING_SLOTS * RING_STRIDE bytes. Work has:
 *
 *     bool is_whole(tile)         whether a bulk copy can load the tile
 *     const float *find(tile)     where it begins
 *     unsigned find_own(own)      the place in memory of group `own` of a tile
 *     four put_in_order(four)     a loaded group, in the order of the sums
 *     four load(tile, own)        such a group of a tile that is not whole
 *     T add(four)                 its share of the tile's sum
 *     void finish(ring_s, slots_s, tiles, part) */
template <class Work, class T>
static __device__ __forceinline__ void
run_ring(tile_ring<T> *ring_s, char *slots_s, const Work &work,
         const chain<T> &c, unsigned tiles) {
    ring_s->begin();
    const unsigned warp = threadIdx.x / WARP;
    if (warp == 0) {
        if (threadIdx.x == 0) load_tiles(ring_s, slots_s, work, c, tiles);
    } else if (warp == 1) {
        look_back(ring_s, c, tiles);
    } else if (warp < 2 + RING_ADDERS) {
        add_tiles(ring_s, slots_s, work, c, tiles, warp - 2);
    } else {
        work.finish(ring_s, slots_s, tiles, warp - 2 - RING_ADDERS);
    }
}

/* Queue a kernel whose blocks call run_ring() on `count` numbers. Returns a
 * weft_status. */
template <class T, class Arguments>
static int launch_ring(const char *op, const char *name, const Arguments &a,
                       void (*kernel)(Arguments, chain<T>, unsigned)) {
    const unsigned tiles = (unsigned)CEIL_DIV(a.count, (size_t)RING_NUMBERS);
    const unsigned bytes = RING_SLOTS * RING_STRIDE;
    scratch memory(a.stream);
    chain<T> c;
    WEFT_TRY(claim_chain(op, &memory, tiles, &c));
    const unsigned blocks =
        min(tiles, count_resident(kernel, RING_THREADS, bytes, 2));
    return launch_kernel({name, blocks, RING_THREADS, bytes, a.stream, 0},
                         kernel, a, c, tiles);
}

#endif
