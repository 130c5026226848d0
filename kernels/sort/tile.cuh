/* tile.cuh -- ordering a tile by one digit within a block, for rungs 3 and 4.
 *
 * A warp handles ITEMS rows of 32 neighbouring keys. First, each warp counts
 * its digits in shared memory. Sums over the warps and over the digits turn the
 * counts into the places of each warp's first key with a digit. Then the warp
 * goes through its keys again, row after row. The lanes whose keys have the
 * same digit find each other. The highest of them takes places for all of them
 * with one atomic addition, which also moves the digit's next place, and each
 * lane stores its key at its place. Source: Adinets and Merrill, Onesweep: A
 * Faster Least Significant Digit Radix Sort for GPUs, 2022.
 *
 * A digit is a byte of the key or, for floats, of its rank without the order's
 * flips. In shared memory, counts and places have the index of that byte. A
 * block has as many threads as a digit has values, and thread t handles the
 * byte that comes at position t in the order: t ^ flips (find_own()). So the
 * flips cost nothing per key.
 *
 * ptxas would keep the digits of all keys from the count to the scatter, for
 * which it lacks registers: they would spill. So each of the three stages reads
 * the position of the byte anew from shared memory, and computes the digits
 * again: one instruction for an integer. */
#ifndef WEFT_SORT_TILE_CUH
#define WEFT_SORT_TILE_CUH
#include "common/ptx.cuh"
#include "sort.cuh"

enum { BITS = 8, DIGITS = 1 << BITS, PASSES = 32 / BITS };
enum { RESIDENT = 3 }; // blocks per multiprocessor; more would lack registers
static_assert((int)DIGITS == (int)THREADS, "a thread per digit");

/* The shared memory of a block that orders a tile of ITEMS keys per thread. */
template <int ITEMS> struct tile_room {
    enum { TILE = ITEMS * THREADS };
    unsigned counts[WARPS][DIGITS]; // the warps' digit counts, later places
    unsigned words[TILE];           // the tile's keys, later its values
    unsigned places[DIGITS]; // per digit: distance from the tile to the output
    unsigned spare[WARP];    // for lanes that take no places
    unsigned sums[WARPS], tile;
    unsigned byte; // selects the digit's byte in __byte_perm()

    /* Store the values that the launch determines; a barrier must follow. */
    __device__ __forceinline__ void begin(const sort_pass &p) {
        if (threadIdx.x < WARP) spare[threadIdx.x] = 0;
        if (threadIdx.x == 0) byte = 0x4440 + p.shift / 8;
    }
};

/* Return the digit at position threadIdx.x in the order. */
static __device__ __forceinline__ unsigned find_own(const sort_pass &p) {
    return threadIdx.x ^ (p.order.flips >> p.shift & (DIGITS - 1));
}

/* Return the lanes of the warp whose digits equal that of the calling lane.
 * Ballots are faster than __match_any_sync(), and equal_bit() than ballots in
 * C++: a pass over 2^28 keys took 972 us instead of 1327 (NVIDIA H200,
 * 2026-11-30). */
static __device__ __forceinline__ unsigned find_peers(unsigned digit) {
    static_assert((int)BITS == 8, "eight ballots");
    const unsigned low =
        and3(equal_bit<0>(digit), equal_bit<1>(digit), equal_bit<2>(digit));
    const unsigned upto = and3(low, equal_bit<3>(digit), equal_bit<4>(digit));
    return and3(upto, equal_bit<5>(digit), equal_bit<6>(digit)) &
           equal_bit<7>(digit);
}

/* A thread's keys and, with VALUES, their places in the tile. FLOAT: whether
 * keys are floats. WHOLE: whether the tile has all of its keys, so that none
 * needs a comparison with the end. */
template <bool FLOAT, bool VALUES, int ITEMS, bool WHOLE> struct tile_keys {
    enum { TILE = ITEMS * THREADS };
    typedef tile_room<ITEMS> room;
    unsigned key[ITEMS], place[ITEMS];

    /* Return the index of the thread's key j. */
    static __device__ __forceinline__ unsigned find(unsigned tile, int j) {
        const unsigned warp = threadIdx.x / WARP, lane = threadIdx.x % WARP;
        return tile * TILE + (warp * ITEMS + j) * WARP + lane;
    }
    /* Return a key whose digit comes last, for places past the end. No float's
     * rank consists of 0 only: -inf has it in the highest byte, 2.0 elsewhere.
     */
    static __device__ __forceinline__ unsigned find_last(const sort_pass &p) {
        if (!FLOAT) return ~p.order.flips;
        if (!p.order.flips) return 0x7fffffff; // a NaN
        return p.shift == 24 ? 0xff800000 : 0x40000000;
    }
    __device__ __forceinline__ void load(const sort_pass &p, unsigned tile) {
        const unsigned *const own = p.x + find(tile, 0);
        const unsigned last = find_last(p);
#pragma unroll
        for (int j = 0; j < ITEMS; j++)
            key[j] = WHOLE || find(tile, j) < p.count ? own[j * WARP] : last;
    }
    static __device__ __forceinline__ unsigned find_digit(unsigned key,
                                                          unsigned byte) {
        return __byte_perm(FLOAT ? rank_float(key) : key, 0, byte);
    }
    /* Return the position of the digit's byte, for one stage. */
    static __device__ __forceinline__ unsigned read_byte(const room *r_s) {
        return *(const volatile unsigned *)&r_s->byte;
    }
    /* Count the digits of the warp's keys. */
    __device__ __forceinline__ void count(room *r_s) const {
        unsigned *const counts_s = r_s->counts[threadIdx.x / WARP];
#pragma unroll
        for (int i = 0; i < DIGITS / WARP; i++)
            counts_s[threadIdx.x % WARP + i * WARP] = 0;
        const unsigned byte = read_byte(r_s);
        __syncwarp(); // all counts are 0
#pragma unroll
        for (int j = 0; j < ITEMS; j++)
            atomicAdd(&counts_s[find_digit(key[j], byte)], 1u);
    }
    /* Find each key's place, and order the keys in r_s->words; a barrier must
     * follow. tile_counts::place() has found the warp's places. Lanes that take
     * no places add to a word of their own, which saves a branch. */
    __device__ __forceinline__ void order(room *r_s) {
        unsigned *const places_s = r_s->counts[threadIdx.x / WARP];
        const unsigned lane = threadIdx.x % WARP, higher = ~1u << lane;
        const unsigned byte = read_byte(r_s);
#pragma unroll
        for (int j = 0; j < ITEMS; j++) {
            const unsigned digit = find_digit(key[j], byte);
            const unsigned peers = find_peers(digit);
            const unsigned lower = count_below(peers);
            unsigned *const next_s =
                peers & higher ? &r_s->spare[lane] : &places_s[digit];
            const unsigned first = atomicAdd(next_s, lower + 1);
            const unsigned to =
                __shfl_sync(0xffffffff, first, 31 - __clz((int)peers)) + lower;
            r_s->words[to] = key[j];
            if (VALUES) place[j] = to;
        }
    }
    /* Write the tile's keys, and their values, to their places in the output.
     * Neighbours in shared memory are mostly neighbours in the output, too. */
    __device__ __forceinline__ void scatter(const sort_pass &p, unsigned tile,
                                            room *r_s) const {
        const unsigned valid = p.count - tile * TILE; // may exceed TILE
        const unsigned byte = read_byte(r_s);
        unsigned digits[CEIL_DIV(ITEMS, 4)] = {}; // four in a word
#pragma unroll
        for (int j = 0; j < ITEMS; j++) {
            const unsigned i = j * THREADS + threadIdx.x, moved = r_s->words[i];
            const unsigned digit = find_digit(moved, byte);
            if (VALUES) digits[j / 4] |= digit << j % 4 * BITS;
            unsigned *const y = p.y + threadIdx.x + r_s->places[digit];
            if (WHOLE || i < valid) y[j * THREADS] = moved;
        }
        if (!VALUES) return;
        __syncthreads(); // all keys have been read
#pragma unroll
        for (int j = 0; j < ITEMS; j++)
            r_s->words[place[j]] = p.load_value(find(tile, j));
        __syncthreads(); // the values are in order
#pragma unroll
        for (int j = 0; j < ITEMS; j++) {
            const unsigned i = j * THREADS + threadIdx.x;
            const unsigned digit =
                __byte_perm(digits[j / 4], 0, 0x4440 + j % 4);
            unsigned *const y =
                p.sorted_values + threadIdx.x + r_s->places[digit];
            if (WHOLE || i < valid) y[j * THREADS] = r_s->words[i];
        }
    }
};

/* The counts of a digit in a tile. */
struct digit_counts {
    unsigned earlier[WARPS], total; // of the warps before each, and of all

    /* Read the warps' counts; a barrier must precede this. */
    template <int ITEMS>
    __device__ __forceinline__ digit_counts(const tile_room<ITEMS> &r_s,
                                            unsigned digit)
        : total(0) {
#pragma unroll
        for (unsigned w = 0; w < WARPS; w++) {
            earlier[w] = total;
            total += r_s.counts[w][digit];
        }
    }
    /* Turn the warps' counts into places in the tile; a barrier must follow.
     * Store 0 minus the place of the tile's first key with the digit in
     * r_s->places. */
    template <int ITEMS>
    __device__ __forceinline__ void place(tile_room<ITEMS> *r_s,
                                          unsigned digit) const {
        const unsigned first = add_earlier_threads(total, r_s->sums);
#pragma unroll
        for (unsigned w = 0; w < WARPS; w++)
            r_s->counts[w][digit] = earlier[w] + first;
        r_s->places[digit] = 0 - first;
    }
};

#endif
