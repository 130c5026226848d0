/* 04_onesweep.cu -- sort, rung 4: count all digits once, then read once a pass.
 *
 * Before:     each pass of rung 3 reads the keys twice: to count, and to write.
 * Idea:       the number of keys with a digit does not depend on their order,
 *             so one kernel counts all four digits. In a pass, a tile publishes
 *             its counts of the 256 digits. Thread d adds the earlier tiles'
 *             counts of digit d, until it finds a tile that has published the
 *             sum of all (Adinets and Merrill, 2022).
 * Prediction: 4 bytes for each key to count, and four times 4 read and 4
 *             written: 36. A run of keys with one digit begins and ends within
 *             a sector, which another request also writes: with 32 keys in a
 *             run, about a fifth more bytes are counted. The L2 cache joins
 *             these writes before they reach the memory.
 * Limit:      36 bytes for each key, and the counts of a tile: 2 KiB for 64
 *             that it moves. On an H200, the work on a tile is the limit:
 *             counting the digits, finding the peers, and ordering the keys. */
#include "tile.cuh"

/* The state that a tile has published for a digit, in 32 bits: 64 bits, as in
 * common/look_back.cuh, would cost twice the traffic. 0: no state yet. 1 or
 * more: its own count + 1. With the highest bit: the digit's place after the
 * tile, which includes the keys with smaller digits. */
enum : unsigned { PLACE = 0x80000000u };

struct digit_states {
    unsigned *words;  // (tiles, DIGITS), 0 before the launch
    unsigned *ticket; // the next tile, 0 before the launch

    /* Return the tile of the calling block, as chain::take_tile() does. */
    __device__ __forceinline__ unsigned take_tile(unsigned *tile_s) const {
        if (threadIdx.x == 0) *tile_s = atomicAdd(ticket, 1u);
        __syncthreads(); // the tile is stored
        return *tile_s;
    }
    __device__ __forceinline__ void publish(unsigned tile, unsigned digit,
                                            unsigned word) const {
        *(volatile unsigned *)&words[tile * DIGITS + digit] = word;
    }
    /* Return the place of the first key of `tile`, which is not the first one,
     * with a digit. */
    __device__ __forceinline__ unsigned look_back(unsigned tile,
                                                  unsigned digit) const {
        for (unsigned sum = 0;;) {
            unsigned found[AT_ONCE]; // words of the tiles before `tile`
#pragma unroll
            for (unsigned k = 0; k < AT_ONCE; k++)
                found[k] = k < tile ? read(tile - 1 - k, digit) : PLACE;
            if (!found[0]) __nanosleep(20);
#pragma unroll
            for (unsigned k = 0; k < AT_ONCE; k++) {
                if (found[k] & PLACE) return sum + (found[k] & ~PLACE);
                if (!found[k]) break; // read it again
                sum += found[k] - 1;
                tile--;
            }
        }
    }

  private:
    enum { AT_ONCE = 4 }; // tiles whose words a thread reads at the same time

    __device__ __forceinline__ unsigned read(unsigned tile,
                                             unsigned digit) const {
        return *(const volatile unsigned *)&words[tile * DIGITS + digit];
    }
};

enum { PORTION = 2 }; // tiles whose digits a block counts

/* Add the counts of the four digits of PORTION tiles to counts
 * (PASSES,DIGITS). */
template <bool FLOAT>
static __global__ void count_digits(unsigned *counts, sort_pass p) {
    __shared__ unsigned counts_s[PASSES][DIGITS];
    for (int d = 0; d < PASSES; d++) counts_s[d][threadIdx.x] = 0;
    __syncthreads(); // all counts are 0
    const size_t first = (size_t)blockIdx.x * (PORTION * TILE) + threadIdx.x;
#pragma unroll 8
    for (int j = 0; j < PORTION * ITEMS; j++) {
        const size_t i = first + j * THREADS;
        const unsigned key = i < p.count ? p.x[i] : 0;
        const unsigned rank = p.rank<FLOAT>(key);
        if (i < p.count) {
#pragma unroll
            for (int d = 0; d < PASSES; d++)
                atomicAdd(&counts_s[d][rank >> d * BITS & (DIGITS - 1)], 1u);
        }
    }
    __syncthreads(); // all keys are counted
    for (int d = 0; d < PASSES; d++)
        if (const unsigned own = counts_s[d][threadIdx.x])
            atomicAdd(&counts[d * DIGITS + threadIdx.x], own);
}

/* Return, to thread d, the place of the tile's first key with digit d, and
 * publish the place after its last one. counts (DIGITS): those of all keys. */
static __device__ __forceinline__ unsigned
find_place(const digit_states &states, const unsigned *counts, unsigned tile,
           unsigned total, tile_room *r_s) {
    const unsigned digit = threadIdx.x;
    const unsigned place = tile == 0
                               ? add_earlier_threads(counts[digit], r_s->sums)
                               : states.look_back(tile, digit);
    states.publish(tile, digit, PLACE | (place + total));
    return place;
}

/* Order the tiles by a digit. A tile publishes its counts before it finds the
 * places of its keys, so that later tiles wait less. */
template <bool FLOAT>
static __global__ void __launch_bounds__(THREADS, RESIDENT)
    sweep(sort_pass p, digit_states states, const unsigned *counts) {
    __shared__ tile_room r_s;
    const unsigned tile = states.take_tile(&r_s.tile);
    tile_keys<FLOAT> k;
    k.load(p, tile);
    k.count(p, tile, &r_s);
    __syncthreads(); // all warps have counted
    unsigned total;
    const unsigned first = place_digits(&r_s, &total);
    if (tile > 0) states.publish(tile, threadIdx.x, total + 1);
    __syncthreads(); // all places in the tile are stored
    k.order(p, tile, &r_s);
    const unsigned place = find_place(states, counts, tile, total, &r_s);
    r_s.places[threadIdx.x] = place - first;
    __syncthreads(); // the tile is in order, and all places are stored
    k.scatter(p, tile, &r_s);
}

template <bool FLOAT> static int sweep_passes(const struct sorting *s) {
    const unsigned tiles = count_tiles(s->count);
    const size_t states = (size_t)tiles * DIGITS; // states of a pass
    const size_t words = PASSES * (DIGITS + states) + PASSES;
    sort_memory m(s);
    WEFT_TRY(m.claim(s, words));
    WEFT_CUDA_TRY(
        cudaMemsetAsync(m.rest, 0, words * sizeof(unsigned), s->stream));
    unsigned *const counts = m.rest;
    count_digits<FLOAT>
        <<<CEIL_DIV(tiles, (unsigned)PORTION), THREADS, 0, s->stream>>>(
            counts, find_pass(s, m, 0, BITS));
    WEFT_LAUNCHED(count_digits);
    for (unsigned p = 0; p < PASSES; p++) {
        unsigned *const first = counts + PASSES * DIGITS + p * states;
        const digit_states d = {first, m.rest + (words - PASSES + p)};
        sweep<FLOAT><<<tiles, THREADS, 0, s->stream>>>(find_pass(s, m, p, BITS),
                                                       d, counts + p * DIGITS);
        WEFT_LAUNCHED(sweep);
    }
    return WEFT_OK;
}

int sort_onesweep(const struct sorting *s) {
    return s->order.is_float ? sweep_passes<true>(s) : sweep_passes<false>(s);
}
