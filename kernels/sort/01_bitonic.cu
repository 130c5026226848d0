/* 01_bitonic.cu -- sort, rung 1: a network of comparisons.
 *
 * Idea:       two sorted halves, the second one read backwards, rise and then
 *             fall. Comparing and exchanging keys at half of the length, a
 *             quarter, ..., 1 puts them in order (Batcher, 1968). The choice of
 *             pairs does not depend on the keys, so every thread has a pair.
 *             A word holds a key's rank and index, so no two words are equal,
 *             and the sort is stable. Tiles of 512 words are sorted and merged
 *             in shared memory.
 * Prediction: for 2^k keys, k (k + 1) / 2 steps. Those at distances of at least
 *             512 read and write 8 bytes for each key in global memory: 66 of
 *             210 steps for 2^20 keys, and 11 more for the tiles.
 * Limit:      the number of steps grows with the length. Rung 2 compares no
 *             keys. */
#include "sort.cuh"

typedef unsigned long long sort_word; // rank << 32 | index

enum { PAIR_TILE = 2 * THREADS };

/* Put two words in order. A missing word, past the end, is the greatest. */
static __device__ __forceinline__ void exchange(sort_word *words, size_t low,
                                                size_t high, size_t count) {
    if (high >= count) return;
    const sort_word a = words[low], b = words[high];
    if (a > b) {
        words[low] = b;
        words[high] = a;
    }
}

/* Do the first step of a merge for pair t; every `length` words have `length` /
 * 2 pairs. Word i of the first half meets word i from the end. */
static __device__ __forceinline__ void
exchange_mirrored(sort_word *words, size_t t, size_t length, size_t count) {
    const size_t low = t / (length / 2) * length + t % (length / 2);
    exchange(words, low, low ^ (length - 1), count);
}

static __device__ __forceinline__ void
exchange_apart(sort_word *words, size_t t, size_t distance, size_t count) {
    const size_t low = t / distance * (2 * distance) + t % distance;
    exchange(words, low, low + distance, count);
}

static __global__ void sort_tiles(sort_word *words, const unsigned *x,
                                  unsigned count, sort_order order) {
    __shared__ sort_word words_s[PAIR_TILE];
    const size_t first = (size_t)blockIdx.x * PAIR_TILE;
    for (size_t i = threadIdx.x; i < PAIR_TILE && first + i < count;
         i += THREADS)
        words_s[i] =
            (sort_word)rank_key(x[first + i], order) << 32 | (first + i);
    for (unsigned length = 2; length <= PAIR_TILE; length *= 2) {
        __syncthreads(); // the previous step's words are stored
        exchange_mirrored(words_s, threadIdx.x, length, count - first);
        for (unsigned d = length / 4; d > 0; d /= 2) {
            __syncthreads(); // the previous step's words are stored
            exchange_apart(words_s, threadIdx.x, d, count - first);
        }
    }
    __syncthreads(); // the tile is sorted
    for (size_t i = threadIdx.x; i < PAIR_TILE && first + i < count;
         i += THREADS)
        words[first + i] = words_s[i];
}

/* Do a merge's steps at distances of at most THREADS. */
static __global__ void merge_tiles(sort_word *words, unsigned count) {
    __shared__ sort_word words_s[PAIR_TILE];
    const size_t first = (size_t)blockIdx.x * PAIR_TILE;
    for (size_t i = threadIdx.x; i < PAIR_TILE && first + i < count;
         i += THREADS)
        words_s[i] = words[first + i];
    for (unsigned d = THREADS; d > 0; d /= 2) {
        __syncthreads(); // the previous step's words are stored
        exchange_apart(words_s, threadIdx.x, d, count - first);
    }
    __syncthreads(); // the tile is sorted
    for (size_t i = threadIdx.x; i < PAIR_TILE && first + i < count;
         i += THREADS)
        words[first + i] = words_s[i];
}

static __global__ void merge_mirrored(sort_word *words, size_t length,
                                      unsigned count) {
    const size_t t = (size_t)blockIdx.x * THREADS + threadIdx.x;
    exchange_mirrored(words, t, length, count);
}

static __global__ void merge_apart(sort_word *words, size_t distance,
                                   unsigned count) {
    const size_t t = (size_t)blockIdx.x * THREADS + threadIdx.x;
    exchange_apart(words, t, distance, count);
}

static __global__ void gather_keys(sorting s, const sort_word *words) {
    const size_t i = (size_t)blockIdx.x * THREADS + threadIdx.x;
    if (i >= s.count) return;
    const unsigned from = (unsigned)words[i];
    s.y[i] = s.x[from];
    if (s.sorted_values) s.sorted_values[i] = s.values ? s.values[from] : from;
}

int sort_bitonic(const struct sorting *s) {
    const unsigned tiles = CEIL_DIV(s->count, (unsigned)PAIR_TILE);
    scratch memory(s->stream);
    WEFT_TRY(memory.claim("sort", s->count * sizeof(sort_word)));
    sort_word *const words = (sort_word *)memory.memory;
    sort_tiles<<<tiles, THREADS, 0, s->stream>>>(words, s->x, s->count,
                                                 s->order);
    WEFT_LAUNCHED(sort_tiles);
    for (size_t length = 2 * PAIR_TILE; length / 2 < s->count; length *= 2) {
        const unsigned blocks = // one thread per pair
            (unsigned)(CEIL_DIV(s->count, length) * (length / PAIR_TILE));
        merge_mirrored<<<blocks, THREADS, 0, s->stream>>>(words, length,
                                                          s->count);
        WEFT_LAUNCHED(merge_mirrored);
        for (size_t d = length / 4; d >= PAIR_TILE; d /= 2) {
            merge_apart<<<blocks, THREADS, 0, s->stream>>>(words, d, s->count);
            WEFT_LAUNCHED(merge_apart);
        }
        merge_tiles<<<tiles, THREADS, 0, s->stream>>>(words, s->count);
        WEFT_LAUNCHED(merge_tiles);
    }
    gather_keys<<<blocks_for(s->count), THREADS, 0, s->stream>>>(*s, words);
    WEFT_LAUNCHED(gather_keys);
    return WEFT_OK;
}
