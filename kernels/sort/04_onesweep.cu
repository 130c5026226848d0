/* 04_onesweep.cu -- sort, rung 4: count all digits once, then read once a pass.
 *
 * Before:     each pass of rung 3 reads the keys twice: to count, and to write.
 * Idea:       the number of keys with a digit does not depend on their order,
 *             so one kernel counts all four digits. In a pass, a tile publishes
 *             its counts of the 256 digits. Thread d adds the earlier tiles'
 *             counts of digit d, until it finds a tile that has published the
 *             sum of all (Adinets and Merrill, 2022).
 *             The count has a copy for each lane, so that no two lanes add to
 *             one bank. The passes move tiles of 44 keys per thread, in three
 *             blocks per multiprocessor (tile.cuh).
 * Prediction: 4 bytes for each key to count, and four times 4 read and 4
 *             written: 36. A run of keys with one digit begins and ends within
 *             a sector, which another request also writes: with 44 keys in a
 *             run, about a sixth more bytes are counted. The L2 cache joins
 *             these writes before they reach the memory.
 * Measured:   3677 us for 2^28 keys, and 5430 us with CUB. In a program of
 *             their own, the count took 274 us and a pass 877. With ballots in
 *             C++ and one copy of the counts, these were 532 and 1620 (NVIDIA
 *             H200, 2026-11-30).
 * Limit:      36 bytes for each key. A tile also writes 2 KiB of states for the
 *             88 KiB that it moves. A pass takes 1.7 times as long as a copy of
 *             its bytes, since it adds and exchanges in shared memory, and
 *             waits for earlier tiles. */
#include "common/counts.cuh"
#include "tile.cuh"

/* Keys of a tile per thread. Large tiles have longer runs of a digit and fewer
 * states, but only integers without values leave enough registers for them.
 * They also require a tile per multiprocessor; otherwise some multiprocessors
 * would be idle. */
enum { LARGE = 44, SMALL = 24 };

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
    /* Return the place of the first key with a digit in `tile`, which is not
     * the first tile. */
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

/* ---- the count ----------------------------------------------------------- */

enum {
    WIDE = 1024,    // threads of a block that counts
    LOADS = 2,      // loads in flight per thread
    PART = 1 << 13, // minimum keys per block, to outweigh adding its counts
};

static constexpr size_t copies_bytes(unsigned copies) {
    return copies * (PASSES * DIGITS * sizeof(unsigned));
}

/* Add the counts of the keys' four digits to counts (PASSES,DIGITS). A block
 * has COPIES copies of them, one for each lane of a warp or of half a warp:
 * word COPIES b + c is the count of bin b in copy c. */
template <bool FLOAT, int COPIES>
static __global__ void __launch_bounds__(WIDE)
    count_digits(unsigned *counts, sort_pass p) {
    extern __shared__ __align__(16) unsigned copies_s[];
    for (unsigned i = threadIdx.x; i < PASSES * DIGITS * COPIES; i += WIDE)
        copies_s[i] = 0;
    __syncthreads(); // all counts are 0
    unsigned *const own_s = copies_s + threadIdx.x % COPIES;
    const auto add = [&](unsigned key) {
        const unsigned rank = p.rank<FLOAT>(key);
#pragma unroll
        for (int d = 0; d < PASSES; d++) {
            const unsigned digit = rank >> d * BITS & (DIGITS - 1);
            atomicAdd(&own_s[(d * DIGITS + digit) * COPIES], 1u);
        }
    };
    const auto add_four = [&](uint4 v) {
        add(v.x);
        add(v.y);
        add(v.z);
        add(v.w);
    };
    // Groups of four begin at a multiple of 16 bytes. The first block counts
    // the keys at the ends.
    const unsigned head =
        min(p.count, (unsigned)(16 - (uintptr_t)p.x % 16) % 16 / 4);
    const unsigned groups = (p.count - head) / 4, tail = head + 4 * groups;
    const uint4 *const at = (const uint4 *)(p.x + head);
    const unsigned step = gridDim.x * WIDE;
    unsigned i = blockIdx.x * WIDE + threadIdx.x;
    for (; i + (LOADS - 1) * step < groups; i += LOADS * step) {
        uint4 v[LOADS];
#pragma unroll
        for (int k = 0; k < LOADS; k++) v[k] = __ldcs(at + i + k * step);
#pragma unroll
        for (int k = 0; k < LOADS; k++) add_four(v[k]);
    }
    for (; i < groups; i += step) add_four(at[i]);
    if (blockIdx.x == 0) {
        if (threadIdx.x < head) add(p.x[threadIdx.x]);
        if (threadIdx.x < p.count - tail) add(p.x[tail + threadIdx.x]);
    }
    __syncthreads(); // all keys are counted
    static_assert((int)WIDE == PASSES * DIGITS, "a thread per bin");
    unsigned sum = 0;
#pragma unroll 8
    for (unsigned c = 0; c < COPIES; c++) // each lane reads a different bank
        sum += copies_s[threadIdx.x * COPIES + (threadIdx.x + c) % COPIES];
    if (sum) atomicAdd(&counts[threadIdx.x], sum);
}

template <bool FLOAT, int COPIES>
static int launch_count(unsigned *counts, const sort_pass &p,
                        cudaStream_t stream) {
    const auto kernel = count_digits<FLOAT, COPIES>;
    struct launch l = {"count_digits",       1,      WIDE,
                       copies_bytes(COPIES), stream, 0};
    WEFT_TRY(claim_shared(l, (const void *)kernel));
    const unsigned most =
        count_resident(kernel, WIDE, l.shared_bytes, BLOCKS_ON_CPU);
    l.grid = divide_count(p.count, PART, most);
    return launch_kernel(l, kernel, counts, p);
}

/* ---- passes -------------------------------------------------------------- */

/* Return, to each thread, the place of the tile's first key with the thread's
 * digit, and publish the place after its last one. counts (DIGITS): those of
 * all keys. */
static __device__ __forceinline__ unsigned
find_place(const digit_states &states, const unsigned *counts, unsigned tile,
           unsigned total, unsigned *sums_s) {
    const unsigned digit = threadIdx.x;
    const unsigned place = tile == 0
                               ? add_earlier_threads(counts[digit], sums_s)
                               : states.look_back(tile, digit);
    states.publish(tile, digit, PLACE | (place + total));
    return place;
}

/* Order a tile by a digit. It publishes its counts before it finds the places
 * of its keys, so that later tiles wait less. */
template <class KEYS>
static __device__ __forceinline__ void
sweep_tile(const sort_pass &p, const digit_states &states,
           const unsigned *counts, unsigned tile, typename KEYS::room *r_s) {
    const unsigned digit = find_own(p);
    KEYS k;
    k.load(p, tile);
    k.count(r_s);
    __syncthreads(); // all warps have counted
    const digit_counts c(*r_s, digit);
    if (tile > 0) states.publish(tile, threadIdx.x, c.total + 1);
    c.place(r_s, digit);
    __syncthreads(); // all places in the tile are stored
    k.order(r_s);
    r_s->places[digit] += find_place(states, counts, tile, c.total, r_s->sums);
    __syncthreads(); // the tile is in order, and all places are stored
    k.scatter(p, tile, r_s);
}

template <bool FLOAT, bool VALUES, int ITEMS>
static __global__ void __launch_bounds__(THREADS, RESIDENT)
    sweep(sort_pass p, digit_states states, const unsigned *counts) {
    extern __shared__ __align__(1024) char room_s[];
    tile_room<ITEMS> *const r_s = (tile_room<ITEMS> *)room_s;
    r_s->begin(p);
    const unsigned tile = states.take_tile(&r_s->tile);
    if ((tile + 1) * (ITEMS * THREADS) <= p.count)
        sweep_tile<tile_keys<FLOAT, VALUES, ITEMS, true>>(p, states, counts,
                                                          tile, r_s);
    else
        sweep_tile<tile_keys<FLOAT, VALUES, ITEMS, false>>(p, states, counts,
                                                           tile, r_s);
}

template <bool FLOAT, bool VALUES, int ITEMS>
static int sweep_passes(const struct sorting *s) {
    const auto kernel = sweep<FLOAT, VALUES, ITEMS>;
    const unsigned tiles = CEIL_DIV(s->count, (unsigned)(ITEMS * THREADS));
    const size_t states = (size_t)tiles * DIGITS; // states of a pass
    const size_t words = PASSES * (DIGITS + states) + PASSES;
    sort_memory m(s);
    WEFT_TRY(m.claim(s, words));
    WEFT_CUDA_TRY(
        cudaMemsetAsync(m.rest, 0, words * sizeof(unsigned), s->stream));
    unsigned *const counts = m.rest;
    const sort_pass all = find_pass(s, m, 0, BITS);
    const bool has_room =
        (size_t)device_has(cudaDevAttrMaxSharedMemoryPerBlockOptin) >=
        copies_bytes(WARP);
    WEFT_TRY((has_room
                  ? launch_count<FLOAT, WARP>
                  : launch_count<FLOAT, WARP / 2>)(counts, all, s->stream));
    const struct launch l = {
        "sweep", tiles, THREADS, sizeof(tile_room<ITEMS>), s->stream, 0};
    for (unsigned p = 0; p < PASSES; p++) {
        unsigned *const first = counts + PASSES * DIGITS + p * states;
        const digit_states d = {first, m.rest + (words - PASSES + p)};
        WEFT_TRY(launch_kernel(l, kernel, find_pass(s, m, p, BITS), d,
                               counts + p * DIGITS));
    }
    return WEFT_OK;
}

/* Return the number of multiprocessors or, on the CPU target, 2, so that the
 * result does not depend on the machine. */
static unsigned count_multiprocessors(void) {
#ifdef __CUDACC__
    return (unsigned)device_has(cudaDevAttrMultiProcessorCount);
#else
    return 2;
#endif
}

int sort_onesweep(const struct sorting *s) {
    const bool moves = s->sorted_values != NULL;
    if (s->order.is_float)
        return moves ? sweep_passes<true, true, SMALL>(s)
                     : sweep_passes<true, false, SMALL>(s);
    if (moves) return sweep_passes<false, true, SMALL>(s);
    const unsigned enough = count_multiprocessors() * (LARGE * THREADS);
    return s->count < enough ? sweep_passes<false, false, SMALL>(s)
                             : sweep_passes<false, false, LARGE>(s);
}
