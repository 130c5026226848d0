/* 02_three_kernels.cu -- sort, rung 2: eight passes of count, scan, scatter.
 *
 * Before:     rung 1 compares each key with another one in each of its steps:
 *             210 times for 2^20 keys.
 * Idea:       keys are ordered by 4 bits at a time, starting with the lowest. A
 *             kernel counts each tile's keys for each of the 16 digits. A
 *             second one adds up the counts of all smaller digits and earlier
 *             tiles. A third one reads the keys again and writes each to its
 *             place. A thread has neighbouring keys and a counter per digit, so
 *             no two threads share a counter.
 * Prediction: eight passes, whatever the keys. A pass reads the keys twice and
 *             writes them once: at least 96 bytes for each key.
 * Limit:      the writes. Neighbouring lanes write to places far apart, a
 *             sector of 32 bytes for each key. Rung 3 orders a tile in shared
 *             memory first. */
#include "sort.cuh"

enum { BITS = 4, DIGITS = 1 << BITS, ITEMS = 8, TILE = ITEMS * THREADS };

/* The keys of a tile, and a counter per digit and thread, which counts the
 * thread's ITEMS neighbours. */
struct counters {
    unsigned keys[TILE], at[DIGITS][THREADS];

    /* Return the number of the thread's keys. */
    static __device__ __forceinline__ unsigned count_own(const sort_pass &p) {
        const unsigned first = blockIdx.x * TILE + threadIdx.x * ITEMS;
        return first < p.count ? min(p.count - first, (unsigned)ITEMS) : 0;
    }
    __device__ __forceinline__ void count(const sort_pass &p) {
        for (unsigned i = threadIdx.x; i < TILE; i += THREADS) {
            const unsigned from = blockIdx.x * TILE + i;
            if (from < p.count) keys[i] = p.x[from];
        }
        for (int d = 0; d < DIGITS; d++) at[d][threadIdx.x] = 0;
        __syncthreads(); // the keys of the tile are loaded
        const unsigned own = count_own(p);
        for (unsigned j = 0; j < own; j++) {
            const unsigned key = keys[threadIdx.x * ITEMS + j];
            at[p.find_digit<BITS>(rank_key(key, p.order))][threadIdx.x]++;
        }
        __syncthreads(); // all keys of the tile are counted
    }
};

static __global__ void count_nibbles(unsigned *counts, sort_pass p) {
    __shared__ counters c_s;
    c_s.count(p);
    // One warp adds the counters of a digit.
    const unsigned lane = threadIdx.x % WARP;
    for (int d = threadIdx.x / WARP; d < DIGITS; d += WARPS) {
        unsigned sum = 0;
        for (int t = lane; t < THREADS; t += WARP) sum += c_s.at[d][t];
        sum = scan_lanes(sum);
        if (lane == WARP - 1) counts[d * gridDim.x + blockIdx.x] = sum;
    }
}

static __global__ void scatter_nibbles(sort_pass p, const unsigned *firsts) {
    __shared__ counters c_s;
    __shared__ unsigned sums_s[WARPS];
    c_s.count(p);
    for (int d = 0; d < DIGITS; d++) {
        const unsigned own = c_s.at[d][threadIdx.x];
        c_s.at[d][threadIdx.x] = firsts[d * gridDim.x + blockIdx.x] +
                                 add_earlier_threads(own, sums_s);
        __syncthreads(); // sums_s has been read
    }
    const unsigned own = counters::count_own(p);
    for (unsigned j = 0; j < own; j++) {
        const unsigned i = threadIdx.x * ITEMS + j, key = c_s.keys[i];
        const unsigned to =
            c_s.at[p.find_digit<BITS>(rank_key(key, p.order))][threadIdx.x]++;
        p.y[to] = key;
        if (p.sorted_values)
            p.sorted_values[to] = p.load_value(blockIdx.x * TILE + i);
    }
}

int sort_three_kernels(const struct sorting *s) {
    const unsigned tiles = CEIL_DIV(s->count, (unsigned)TILE);
    sort_memory m(s);
    WEFT_TRY(m.claim(s, (size_t)DIGITS * tiles + DIGITS));
    unsigned *const totals = m.rest, *const counts = m.rest + DIGITS;
    for (unsigned p = 0; p < 32 / BITS; p++) {
        const sort_pass pass = find_pass(s, m, p, BITS);
        count_nibbles<<<tiles, THREADS, 0, s->stream>>>(counts, pass);
        WEFT_LAUNCHED(count_nibbles);
        WEFT_TRY(scan_counts(counts, totals, DIGITS, tiles, s->stream));
        scatter_nibbles<<<tiles, THREADS, 0, s->stream>>>(pass, counts);
        WEFT_LAUNCHED(scatter_nibbles);
    }
    return WEFT_OK;
}
