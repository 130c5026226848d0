/* sort.c -- a sort of 32-bit keys in plain C.
 *
 * All threads first sort by the highest digit: each counts the digits of its
 * share, and the counts of all determine the places of its keys. A bucket has
 * the keys with one value of that digit. Each thread takes one bucket after
 * another, and sorts it in its caches with a radix sort from the lowest digit.
 * If one bucket has more than an eighth of the keys, all threads sort all keys
 * from the least digit instead. Bits that are equal in all keys need no pass.
 *
 * In a pass through all of the memory, a key first goes to a line of 16 keys of
 * its digit. A full line is written whole, past the caches. Keys with values
 * move as words of 64 bits: the key, then the value. Equal keys keep the order
 * of x for any number of threads, so every bit of the result is the same. */
#include <omp.h>
#include <stdlib.h>
#include <string.h>

#include "../sort/order.h"
#include "reference.h"
#include "simd.h"

enum {
    NARROW = 8,       // bits of a digit if all words stay in the caches
    WIDEST = 11,      // bits of a digit otherwise, or if one digit suffices
    SLOTS = 16,       // words of a line
    PIECE = 1 << 16,  // words between interrupt checks
    SHARE = 1 << 16,  // minimum words to occupy a thread
    SPLIT = 1 << 17,  // with fewer, all words fit in the cache of a core
    CACHED = 1 << 22, // with fewer words, all of them stay in the caches
    FEW = 32          // with fewer, insertion is fastest
};

/* The input of a pass: keys, keys with values from their arrays, or words of
 * both. */
enum layout { KEYS, ARRAYS, PAIRS };

struct pass {
    enum layout layout;
    const uint32_t *x, *values; // input of ARRAYS; values may be NULL
    const void *from;           // input of KEYS and PAIRS
    void *to;                   // words; NULL: the last pass of pairs
    uint32_t *y, *moved;        // receive the keys and values of that pass
    size_t count;
    uint32_t shift, digits; // digits: the number of values of a digit
    struct sort_order order;
    size_t shifted; // words from a multiple of 64 bytes to the output
    int buffers;    // whether words are collected in lines
    int streams;    // whether lines bypass the caches
};

/* The state of a thread in a pass. Places count from a multiple of 64 bytes. */
struct lines {
    uint32_t count[1 << WIDEST], first[1 << WIDEST], place[1 << WIDEST];
    uint64_t words[(1 << WIDEST) * SLOTS] __attribute__((aligned(64)));
};

/* ---- words --------------------------------------------------------------- */

SIMD_INLINE uint64_t load_word(const struct pass *p, enum layout layout,
                               size_t i) {
    if (layout == KEYS) return ((const uint32_t *)p->from)[i];
    if (layout == PAIRS) return ((const uint64_t *)p->from)[i];
    const uint32_t value = p->values ? p->values[i] : (uint32_t)i;
    return (uint64_t)p->x[i] << 32 | value;
}

SIMD_INLINE uint32_t find_digit(const struct pass *p, enum layout layout,
                                int is_float, uint64_t word) {
    const uint32_t key = (uint32_t)(layout == KEYS ? word : word >> 32);
    const struct sort_order order = {p->order.flips, (uint32_t)is_float};
    return rank_key(key, order) >> p->shift & (p->digits - 1);
}

SIMD_INLINE uint64_t load_slot(const struct lines *l, int wide, size_t i) {
    return wide ? l->words[i] : ((const uint32_t *)l->words)[i];
}

SIMD_INLINE void store_slot(struct lines *l, int wide, size_t i,
                            uint64_t word) {
    if (wide)
        l->words[i] = word;
    else
        ((uint32_t *)l->words)[i] = (uint32_t)word;
}

SIMD_INLINE void store_word(const struct pass *p, int wide, size_t i,
                            uint64_t word) {
    if (!wide) {
        ((uint32_t *)p->to)[i] = (uint32_t)word;
    } else if (p->to) {
        ((uint64_t *)p->to)[i] = word;
    } else {
        p->y[i] = (uint32_t)(word >> 32);
        p->moved[i] = (uint32_t)word;
    }
}

/* ---- lines --------------------------------------------------------------- */

/* Copy a number of bytes that is a multiple of 64. */
SIMD_INLINE void copy_line(void *to, const void *from, size_t bytes,
                           int streams) {
    float *const t = to;
    const float *const f = from;
    if (!streams) {
        memcpy(to, from, bytes);
        return;
    }
    for (size_t i = 0; i < bytes / sizeof(float); i += VLEN)
        vstream(t + i, vload(f + i));
}

/* Write a full line to place `at`. */
SIMD_INLINE void write_line(const struct pass *p, const struct lines *l,
                            int wide, size_t line, size_t at) {
    if (!wide) {
        copy_line((uint32_t *)p->to + at, (const uint32_t *)l->words + line,
                  SLOTS * 4, p->streams);
    } else if (p->to) {
        copy_line((uint64_t *)p->to + at, l->words + line, SLOTS * 8,
                  p->streams);
    } else {
        uint32_t keys[SLOTS], values[SLOTS];
        for (int i = 0; i < SLOTS; i++) {
            keys[i] = (uint32_t)(l->words[line + i] >> 32);
            values[i] = (uint32_t)l->words[line + i];
        }
        copy_line(p->y + at, keys, sizeof keys, p->streams);
        copy_line(p->moved + at, values, sizeof values, p->streams);
    }
}

/* Write the words of a digit's line at the places `from` to `end` - 1. */
static void write_part(const struct pass *p, const struct lines *l, int wide,
                       uint32_t digit, size_t from, size_t end) {
    for (size_t i = from; i < end; i++)
        store_word(p, wide, i - p->shifted,
                   load_slot(l, wide, digit * SLOTS + i % SLOTS));
}

/* Write the words that are left in the lines. */
static void write_rest(const struct pass *p, const struct lines *l) {
    for (uint32_t d = 0; d < p->digits; d++) {
        const size_t line = l->place[d] / SLOTS * SLOTS, first = l->first[d];
        write_part(p, l, p->layout != KEYS, d, line < first ? first : line,
                   l->place[d]);
    }
}

/* ---- passes -------------------------------------------------------------- */

SIMD_INLINE void count_piece(const struct pass *p, struct lines *l,
                             size_t first, size_t end, enum layout layout,
                             int is_float) {
    for (size_t i = first; i < end; i++) {
        const uint64_t word = // keys only, even of pairs
            layout == ARRAYS ? (uint64_t)p->x[i] << 32
                             : load_word(p, layout, i);
        l->count[find_digit(p, layout, is_float, word)]++;
    }
}

/* Write the line of a digit that ends at a place. */
static __attribute__((noinline)) void end_line(const struct pass *p,
                                               const struct lines *l,
                                               uint32_t digit, uint32_t place) {
    const uint32_t line = place / SLOTS * SLOTS;
    const int wide = p->layout != KEYS;
    if (line >= l->first[digit])
        write_line(p, l, wide, digit * SLOTS, line - p->shifted);
    else
        write_part(p, l, wide, digit, l->first[digit], place + 1);
}

SIMD_INLINE void scatter_piece(const struct pass *pass, struct lines *l,
                               size_t first, size_t end, enum layout layout,
                               int is_float, int buffers) {
    const int wide = layout != KEYS;
    const struct pass own = *pass, *const p = &own; // no store changes it
    for (size_t i = first; i < end; i++) {
        const uint64_t word = load_word(p, layout, i);
        const uint32_t digit = find_digit(p, layout, is_float, word);
        const uint32_t place = l->place[digit]++;
        if (!buffers) {
            store_word(p, wide, place - p->shifted, word);
            continue;
        }
        store_slot(l, wide, digit * SLOTS + place % SLOTS, word);
        if (place % SLOTS == SLOTS - 1) end_line(pass, l, digit, place);
    }
}

/* Compile a function of a piece for each layout and kind of keys. */
#define EACH_LAYOUT(function, ...)                                \
    switch (2 * p->layout + (p->order.is_float != 0)) {           \
    case 2 * KEYS: function(__VA_ARGS__, KEYS, 0); break;         \
    case 2 * KEYS + 1: function(__VA_ARGS__, KEYS, 1); break;     \
    case 2 * ARRAYS: function(__VA_ARGS__, ARRAYS, 0); break;     \
    case 2 * ARRAYS + 1: function(__VA_ARGS__, ARRAYS, 1); break; \
    case 2 * PAIRS: function(__VA_ARGS__, PAIRS, 0); break;       \
    case 2 * PAIRS + 1: function(__VA_ARGS__, PAIRS, 1); break;   \
    }

SIMD_INLINE void scatter_buffered(const struct pass *p, struct lines *l,
                                  size_t first, size_t end, enum layout layout,
                                  int is_float) {
    scatter_piece(p, l, first, end, layout, is_float, 1);
}

SIMD_INLINE void scatter_direct(const struct pass *p, struct lines *l,
                                size_t first, size_t end, enum layout layout,
                                int is_float) {
    scatter_piece(p, l, first, end, layout, is_float, 0);
}

static void count_share(const struct pass *p, struct lines *l, size_t first,
                        size_t end) {
    memset(l->count, 0, p->digits * sizeof *l->count);
    for (; first < end && !weft_interrupted(); first += PIECE) {
        const size_t stop = end - first < PIECE ? end : first + PIECE;
        EACH_LAYOUT(count_piece, p, l, first, stop)
    }
}

static void scatter_share(const struct pass *p, struct lines *l, size_t first,
                          size_t end) {
    for (; first < end && !weft_interrupted(); first += PIECE) {
        const size_t stop = end - first < PIECE ? end : first + PIECE;
        if (p->buffers) {
            EACH_LAYOUT(scatter_buffered, p, l, first, stop)
        } else {
            EACH_LAYOUT(scatter_direct, p, l, first, stop)
        }
    }
    if (p->buffers) write_rest(p, l);
    vstream_end();
}

/* Find the places of thread `own`'s keys, starting at `at`: after all smaller
 * digits, and after the keys of earlier threads. Returns the number of keys
 * with the most frequent digit. */
static size_t find_places(const struct pass *p, struct lines *all, int own,
                          int threads, size_t at) {
    size_t largest = 0;
    for (uint32_t d = 0; d < p->digits; d++) {
        const size_t before = at;
        for (int t = 0; t < threads; t++) {
            if (t == own) all[own].first[d] = all[own].place[d] = (uint32_t)at;
            at += all[t].count[d];
        }
        if (at - before > largest) largest = at - before;
    }
    return largest;
}

/* Run a pass with all threads, unless more than `most` keys have one digit.
 * Returns whether it has run. */
static int run_pass(const struct pass *p, struct lines *all, int threads,
                    size_t most) {
    int runs = 0;
#pragma omp parallel num_threads(threads) if (threads > 1)
    {
        const int own = omp_get_thread_num(), team = omp_get_num_threads();
        const size_t first = p->count * (size_t)own / (size_t)team;
        const size_t end = p->count * (size_t)(own + 1) / (size_t)team;
        count_share(p, all + own, first, end);
#pragma omp barrier
        if (find_places(p, all, own, team, p->shifted) <= most) {
            scatter_share(p, all + own, first, end);
            if (own == 0) runs = 1;
        }
    }
    return runs;
}

/* ---- the sort ------------------------------------------------------------ */

/* Return the bits in which the ranks of the keys differ. */
SIMD_INLINE uint32_t compare_piece(const uint32_t *x, size_t count,
                                   struct sort_order order, int is_float) {
    const struct sort_order fixed = {order.flips, (uint32_t)is_float};
    const uint32_t one = rank_key(x[0], fixed);
    uint32_t differ = 0;
    for (size_t i = 0; i < count; i++) differ |= rank_key(x[i], fixed) ^ one;
    return differ;
}

static uint32_t compare_keys(const uint32_t *x, size_t count,
                             struct sort_order order, int threads) {
    const size_t pieces = (count + PIECE - 1) / PIECE;
    const uint32_t one = rank_key(x[0], order);
    uint32_t differ = 0;
#pragma omp parallel for num_threads(threads) \
    reduction(| : differ) if (threads > 1)
    for (size_t i = 0; i < pieces; i++) {
        const uint32_t *const piece = x + i * PIECE;
        const size_t left = count - i * PIECE;
        const size_t length = left < PIECE ? left : PIECE;
        differ |= rank_key(piece[0], order) ^ one;
        differ |= order.is_float ? compare_piece(piece, length, order, 1)
                                 : compare_piece(piece, length, order, 0);
    }
    return differ;
}

/* Split the bits that differ into as few digits as possible, starting at the
 * lowest bit. Returns the number of passes; pass p begins at bit shifts[p]. */
static int split_bits(uint32_t differ, int wide, uint32_t shifts[4],
                      uint32_t *digits) {
    if (!differ) return 0;
    const int all = 32 - __builtin_clz(differ) - __builtin_ctz(differ);
    const int most = wide || all <= WIDEST ? WIDEST : NARROW;
    const int passes = (all + most - 1) / most;
    *digits = 1u << (all + passes - 1) / passes;
    int found = 0;
    for (; differ; found++) {
        shifts[found] = (uint32_t)__builtin_ctz(differ);
        differ &= ~((*digits - 1) << shifts[found]);
    }
    return found;
}

/* Make a pass write to `to` or, if it is NULL, to the arrays of the result. */
static void aim_pass(struct pass *p, void *to) {
    const int arrays = p->layout != KEYS && !to;
    const uintptr_t at = (uintptr_t)(arrays ? p->y : to);
    p->to = to;
    p->shifted = at % 64 / (p->layout == KEYS || arrays ? 4 : 8);
    p->buffers = p->count >= CACHED;
    p->streams = !arrays || at % 64 == (uintptr_t)p->moved % 64;
}

/* Memory for the words of a sort between two passes. Keys alone end in the
 * first room, y. */
struct rooms {
    void *at[2];
};

/* Choose the output of the pass that has `left` passes after it; the last pass
 * writes the result. */
static void aim_before_end(struct pass *p, const struct rooms *rooms,
                           int left) {
    const int pairs = p->moved != NULL;
    aim_pass(p, pairs && !left ? NULL : rooms->at[left % 2]);
}

/* Run passes over all words, starting with the lowest digit. */
static void run_passes(struct pass p, const struct rooms *rooms,
                       uint32_t differ, struct lines *all, int threads) {
    uint32_t shifts[4];
    const int passes = split_bits(differ, p.count >= CACHED, shifts, &p.digits);
    for (int i = 0; i < passes && !weft_interrupted(); i++) {
        p.shift = shifts[i];
        aim_before_end(&p, rooms, passes - 1 - i);
        run_pass(&p, all, threads, p.count);
        p.from = p.to;
        if (p.layout == ARRAYS) p.layout = PAIRS;
    }
}

/* Sort the words from `first` to `end` - 1, which have the same highest digit.
 * One thread does this; the words usually fit in its caches. */
static void sort_bucket(struct pass p, const struct rooms *rooms,
                        const uint32_t *shifts, int passes, struct lines *own,
                        size_t first, size_t end) {
    for (int i = 0; i < passes; i++) {
        p.shift = shifts[i];
        aim_before_end(&p, rooms, passes - 1 - i);
        p.buffers = 0;
        p.shifted = 0;
        count_share(&p, own, first, end);
        find_places(&p, own, 0, 1, first);
        scatter_share(&p, own, first, end);
        p.from = p.to;
    }
}

/* Sort by the highest digit first, and then sort each bucket, which has the
 * words with one value of it. So only one pass goes through all of the memory.
 * Returns 0, without having moved a word, if a bucket is too large for that. */
static int split_buckets(struct pass p, const struct rooms *rooms,
                         uint32_t differ, struct lines *all, int threads) {
    uint32_t shifts[4], digits = 0, first[(1 << WIDEST) + 1] = {0};
    const int high = 32 - __builtin_clz(differ);
    const int length = 64 - __builtin_clzll(p.count);
    const int bits = length < 20 ? 8 : (length > 23 ? 11 : length - 12);
    p.shift = (uint32_t)(high - bits);
    p.digits = 1u << bits;
    const int passes = split_bits(differ & ((1u << p.shift) - 1),
                                  p.count >= CACHED, shifts, &digits);
    aim_before_end(&p, rooms, passes);
    if (!run_pass(&p, all, threads, p.count / 8 + 1)) return 0;
    for (uint32_t d = 0; d < p.digits; d++) {
        first[d + 1] = first[d];
        for (int t = 0; t < threads; t++) first[d + 1] += all[t].count[d];
    }
    const int buckets = (int)p.digits;
    p.from = p.to;
    if (p.layout == ARRAYS) p.layout = PAIRS;
    p.digits = digits;
#pragma omp parallel for schedule(dynamic, 4) \
    num_threads(threads) if (threads > 1)
    for (int d = 0; d < buckets; d++)
        sort_bucket(p, rooms, shifts, passes, all + omp_get_thread_num(),
                    first[d], first[d + 1]);
    return 1;
}

/* Copy keys whose ranks are all equal. */
static void copy_all(const struct pass *p) {
    memcpy(p->y, p->x, p->count * sizeof *p->y);
    if (p->moved && p->values)
        memcpy(p->moved, p->values, p->count * sizeof *p->y);
    else if (p->moved)
        for (size_t i = 0; i < p->count; i++) p->moved[i] = (uint32_t)i;
}

static void sort_many(const struct pass *p, const struct rooms *rooms,
                      struct lines *all, int threads) {
    const uint32_t differ = compare_keys(p->x, p->count, p->order, threads);
    if (!differ) {
        copy_all(p);
        return;
    }
    const int bits = 32 - __builtin_clz(differ) - __builtin_ctz(differ);
    if (bits <= 2 * NARROW || p->count < SPLIT ||
        !split_buckets(*p, rooms, differ, all, threads))
        run_passes(*p, rooms, differ, all, threads);
}

/* Sort a few keys: each moves to its place among the earlier ones. */
static void insert_few(const struct pass *p) {
    uint64_t words[FEW];
    for (size_t i = 0; i < p->count; i++) {
        const uint64_t rank = rank_key(p->x[i], p->order);
        const uint64_t word = rank << 32 | i;
        size_t at = i;
        for (; at > 0 && words[at - 1] > word; at--) words[at] = words[at - 1];
        words[at] = word;
    }
    for (size_t i = 0; i < p->count; i++) {
        const uint32_t from = (uint32_t)words[i];
        p->y[i] = p->x[from];
        if (p->moved) p->moved[i] = p->values ? p->values[from] : from;
    }
}

static int count_threads(size_t count) {
    const size_t most = (count + SHARE - 1) / SHARE;
    const int threads = omp_get_max_threads();
    return most < (size_t)threads ? (int)most : threads;
}

int sort_reference(int32_t *y, int32_t *sorted_values, const int32_t *x,
                   const int32_t *values, size_t count,
                   const struct weft_sort_options *options) {
    struct pass p = {.x = (const uint32_t *)x,
                     .values = (const uint32_t *)values,
                     .from = x,
                     .y = (uint32_t *)y,
                     .moved = (uint32_t *)sorted_values,
                     .count = count,
                     .layout = sorted_values ? ARRAYS : KEYS};
    p.order = make_order(options ? options->kind : WEFT_SORT_INT,
                         options && options->descending);
    if (count < FEW) {
        insert_few(&p);
        return WEFT_OK;
    }
    const int threads = count_threads(count);
    const size_t room = (count * (p.moved ? 8 : 4) + 63) / 64 * 64;
    const size_t lines = (size_t)threads * sizeof(struct lines);
    const size_t bytes = lines + (p.moved ? 2 : 1) * room;
    char *const memory = aligned_alloc(64, bytes);
    if (!memory)
        return weft_fail(WEFT_ENOMEM, "sort: out of memory: %zu bytes", bytes);
    char *const rest = memory + lines;
    const struct rooms rooms = {{p.moved ? rest + room : (char *)y, rest}};
    sort_many(&p, &rooms, (struct lines *)memory, threads);
    free(memory);
    return weft_interrupted() ? weft_fail(WEFT_EINTR, "sort: Ctrl-C") : WEFT_OK;
}
