/* tile.cuh -- ordering a tile by one digit within a block, for rungs 3 and 4.
 *
 * A warp handles ITEMS rows of 32 neighbouring keys. First, each warp counts
 * its digits in shared memory. Sums over the warps and over the digits turn the
 * counts into the places of each warp's first key with a digit. Then the warp
 * goes through its keys again, row after row. The lanes whose keys have the
 * same digit find each other, take places in the order of the lanes, and move
 * the digit's next place.
 * Thread d also handles digit d, since a block has as many threads as a digit
 * has values. Source: Adinets and Merrill, Onesweep: A Faster Least Significant
 * Digit Radix Sort for GPUs, 2022. */
#ifndef WEFT_SORT_TILE_CUH
#define WEFT_SORT_TILE_CUH
#include "sort.cuh"

enum { BITS = 8, DIGITS = 1 << BITS, PASSES = 32 / BITS };
enum { ITEMS = 32, TILE = ITEMS * THREADS }; // ITEMS: keys per thread
enum { RESIDENT = 2 }; // blocks per multiprocessor; more would lack registers
static_assert((int)DIGITS == (int)THREADS, "a thread per digit");

/* The shared memory of a block that orders a tile. */
struct tile_room {
    unsigned words[TILE];           // the tile's keys, later its values
    unsigned counts[WARPS][DIGITS]; // the warps' digit counts, later places
    unsigned places[DIGITS]; // per digit: distance from the tile to the output
    unsigned sums[WARPS], tile;
};

/* Return the number of tiles. */
static inline unsigned count_tiles(unsigned count) {
    return CEIL_DIV(count, (unsigned)TILE);
}

/* Return the lanes of the warp whose digits equal that of the calling lane. A
 * ballot for each bit is faster than __match_any_sync(): on an H200, a pass
 * over 2^28 keys took 1605 us instead of 2515. */
static __device__ __forceinline__ unsigned find_peers(unsigned digit) {
    unsigned peers = 0xffffffff;
#pragma unroll
    for (int bit = 0; bit < BITS; bit++) {
        const bool is_set = digit >> bit & 1;
        const unsigned lanes = __ballot_sync(0xffffffff, is_set);
        peers &= is_set ? lanes : ~lanes;
    }
    return peers;
}

/* A thread's keys, and their places in the tile. FLOAT: whether keys are
 * floats. */
template <bool FLOAT> struct tile_keys {
    unsigned key[ITEMS], place[ITEMS];

    /* Return the index of the thread's key j. */
    static __device__ __forceinline__ unsigned find(unsigned tile, int j) {
        const unsigned warp = threadIdx.x / WARP, lane = threadIdx.x % WARP;
        return tile * TILE + (warp * ITEMS + j) * WARP + lane;
    }
    __device__ __forceinline__ void load(const sort_pass &p, unsigned tile) {
#pragma unroll
        for (int j = 0; j < ITEMS; j++) {
            const unsigned i = find(tile, j);
            key[j] = i < p.count ? p.x[i] : 0;
        }
    }
    /* Return the digit of key j. Those past the end come last in the tile. */
    __device__ __forceinline__ unsigned find_digit(const sort_pass &p,
                                                   unsigned tile, int j) const {
        const unsigned digit = p.find_digit<BITS>(p.rank<FLOAT>(key[j]));
        return find(tile, j) < p.count ? digit : DIGITS - 1;
    }
    /* Count the digits of the warp's keys. */
    __device__ __forceinline__ void count(const sort_pass &p, unsigned tile,
                                          tile_room *r_s) const {
        unsigned *const counts_s = r_s->counts[threadIdx.x / WARP];
        for (unsigned d = threadIdx.x % WARP; d < DIGITS; d += WARP)
            counts_s[d] = 0;
        __syncwarp(); // all counts are 0
#pragma unroll
        for (int j = 0; j < ITEMS; j++)
            atomicAdd(&counts_s[find_digit(p, tile, j)], 1u);
    }
    /* Find each key's place, and order the keys in r_s->words; a barrier must
     * follow. place_digits() has found the warp's places. */
    __device__ __forceinline__ void order(const sort_pass &p, unsigned tile,
                                          tile_room *r_s) {
        unsigned *const places_s = r_s->counts[threadIdx.x / WARP];
#pragma unroll
        for (int j = 0; j < ITEMS; j++) {
            const unsigned digit = find_digit(p, tile, j);
            const unsigned peers = find_peers(digit);
            const unsigned lower = count_below(peers);
            place[j] = places_s[digit] + lower;
            __syncwarp(); // all lanes have read the places
            if (lower == 0) places_s[digit] += __popc(peers);
            __syncwarp(); // the places of the next row are stored
        }
#pragma unroll
        for (int j = 0; j < ITEMS; j++) r_s->words[place[j]] = key[j];
    }
    /* Write the tile's keys, and their values, to their places in the output.
     * Neighbours in shared memory are mostly neighbours in the output, too. */
    __device__ __forceinline__ void scatter(const sort_pass &p, unsigned tile,
                                            tile_room *r_s) const {
        const unsigned valid = p.count - tile * TILE; // may exceed TILE
        unsigned to[ITEMS];
#pragma unroll
        for (int j = 0; j < ITEMS; j++) {
            const unsigned i = j * THREADS + threadIdx.x;
            const unsigned moved = r_s->words[i];
            const unsigned digit = p.find_digit<BITS>(p.rank<FLOAT>(moved));
            to[j] = r_s->places[digit] + i;
            if (i < valid) p.y[to[j]] = moved;
        }
        if (!p.sorted_values) return;
        __syncthreads(); // all keys have been read
#pragma unroll
        for (int j = 0; j < ITEMS; j++)
            r_s->words[place[j]] = p.load_value(find(tile, j));
        __syncthreads(); // the values are in order
#pragma unroll
        for (int j = 0; j < ITEMS; j++) {
            const unsigned i = j * THREADS + threadIdx.x;
            if (i < valid) p.sorted_values[to[j]] = r_s->words[i];
        }
    }
};

/* Turn the warps' counts into places in the tile. Return, to thread d, the
 * place of the first key with digit d, and in *total the number of such keys.
 * All warps have counted before a barrier. */
static __device__ __forceinline__ unsigned place_digits(tile_room *r_s,
                                                        unsigned *total) {
    unsigned sum = 0;
#pragma unroll
    for (unsigned w = 0; w < WARPS; w++) {
        const unsigned own = r_s->counts[w][threadIdx.x];
        r_s->counts[w][threadIdx.x] = sum;
        sum += own;
    }
    const unsigned first = add_earlier_threads(sum, r_s->sums);
#pragma unroll
    for (unsigned w = 0; w < WARPS; w++) r_s->counts[w][threadIdx.x] += first;
    *total = sum;
    return first;
}

#endif
