/* 03_multisplit.cu -- sort, rung 3: a tile is ordered in shared memory first.
 *
 * Before:     lanes of rung 2 write to places far apart, and eight passes read
 *             and write all keys.
 * Idea:       digits have 8 bits, so four passes suffice. Eight ballots find
 *             the lanes of a warp that have equal digits (tile.cuh). The block
 *             orders its tile in shared memory. Then keys of one digit are
 *             neighbours there and in the output.
 * Prediction: half of the passes, and at most five sectors for 32 neighbours. A
 *             pass still reads the keys twice: at least 48 bytes for each key.
 * Limit:      the second read. Rung 4 counts all digits in one read. */
#include "tile.cuh"

enum { ITEMS = 32, TILE = ITEMS * THREADS }; // ITEMS: keys per thread

template <bool FLOAT>
static __global__ void count_bytes(unsigned *counts, sort_pass p) {
    __shared__ unsigned counts_s[DIGITS];
    counts_s[threadIdx.x] = 0;
    __syncthreads(); // all counts are 0
    for (int j = 0; j < ITEMS; j++) {
        const unsigned i = blockIdx.x * TILE + j * THREADS + threadIdx.x;
        if (i < p.count)
            atomicAdd(&counts_s[p.find_digit<BITS>(p.rank<FLOAT>(p.x[i]))], 1u);
    }
    __syncthreads(); // all keys of the tile are counted
    counts[threadIdx.x * gridDim.x + blockIdx.x] = counts_s[threadIdx.x];
}

template <bool FLOAT, bool VALUES>
static __global__ void __launch_bounds__(THREADS, RESIDENT)
    scatter_bytes(sort_pass p, const unsigned *firsts) {
    __shared__ tile_room<ITEMS> r_s;
    const unsigned tile = blockIdx.x, digit = find_own(p);
    r_s.begin(p);
    __syncthreads(); // the position of the digit is stored
    tile_keys<FLOAT, VALUES, ITEMS, false> k;
    k.load(p, tile);
    k.count(&r_s);
    __syncthreads(); // all warps have counted
    const digit_counts c(r_s, digit);
    c.place(&r_s, digit);
    r_s.places[digit] += firsts[threadIdx.x * gridDim.x + tile];
    __syncthreads(); // all places are stored
    k.order(&r_s);
    __syncthreads(); // the tile is in order
    k.scatter(p, tile, &r_s);
}

template <bool FLOAT, bool VALUES>
static int split_passes(const struct sorting *s) {
    const unsigned tiles = CEIL_DIV(s->count, (unsigned)TILE);
    sort_memory m(s);
    WEFT_TRY(m.claim(s, (size_t)DIGITS * tiles + DIGITS));
    unsigned *const totals = m.rest, *const counts = m.rest + DIGITS;
    for (unsigned p = 0; p < PASSES; p++) {
        const sort_pass pass = find_pass(s, m, p, BITS);
        count_bytes<FLOAT><<<tiles, THREADS, 0, s->stream>>>(counts, pass);
        WEFT_LAUNCHED(count_bytes);
        WEFT_TRY(scan_counts(counts, totals, DIGITS, tiles, s->stream));
        scatter_bytes<FLOAT, VALUES>
            <<<tiles, THREADS, 0, s->stream>>>(pass, counts);
        WEFT_LAUNCHED(scatter_bytes);
    }
    return WEFT_OK;
}

template <bool FLOAT> static int split_keys(const struct sorting *s) {
    return s->sorted_values ? split_passes<FLOAT, true>(s)
                            : split_passes<FLOAT, false>(s);
}

int sort_multisplit(const struct sorting *s) {
    return s->order.is_float ? split_keys<true>(s) : split_keys<false>(s);
}
