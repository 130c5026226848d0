/* sort.cuh -- the rungs of sort, and the code that they share.
 *
 * A radix sort from the least digit orders the keys by one digit after another.
 * Each pass is stable: keys with equal digits keep their order, which is that
 * of all lower digits. Keys move as they are. A pass computes the rank of a
 * key, an unsigned number that has the order of the keys, and takes its digit
 * from there. So -0 and 0, or two NaN, can have the same rank and differ. */
#ifndef WEFT_SORT_CUH
#define WEFT_SORT_CUH
#include "common/internal.cuh"

#include "common/rows.cuh"
#include "common/scans.cuh"
#include "common/scratch.cuh"
#include "order.h"

/* The arguments of weft_sort(), which the rungs receive. */
struct sorting {
    unsigned *y, *sorted_values; // (count); sorted_values may be NULL
    const unsigned *x, *values;  // (count); without values: 0, 1, 2, ...
    unsigned count;
    struct sort_order order;
    cudaStream_t stream;
};

/* Queue the work of a rung; each returns a weft_status. */
int sort_bitonic(const struct sorting *s);
int sort_three_kernels(const struct sorting *s);
int sort_multisplit(const struct sorting *s);
int sort_onesweep(const struct sorting *s);

/* ---- passes -------------------------------------------------------------- */

/* One pass over the keys, which orders them by a digit. */
struct sort_pass {
    unsigned *y, *sorted_values; // sorted_values: NULL if the sort has none
    const unsigned *x, *values;  // values: NULL in the first pass of an argsort
    unsigned count, shift;       // shift: the position of the digit's last bit
    struct sort_order order;

    /* Return the rank of a key. FLOAT is a constant because each rank would
     * otherwise take eight more instructions. */
    template <bool FLOAT>
    __device__ __forceinline__ unsigned rank(unsigned key) const {
        return (FLOAT ? rank_float(key) : key) ^ order.flips;
    }
    /* Return the digit of BITS bits of a rank. */
    template <int BITS>
    __device__ __forceinline__ unsigned find_digit(unsigned rank) const {
        return rank >> shift & ((1u << BITS) - 1);
    }
    __device__ __forceinline__ unsigned load_value(unsigned i) const {
        return values && i < count ? values[i] : i;
    }
};

/* Round up to a multiple of 128 bytes. */
static inline size_t align_words(size_t words) {
    return CEIL_DIV(words, 32) * 32;
}

/* The memory of a sort: the keys and values between two passes, and `words`
 * words for the rung, which begin at `rest`. */
struct sort_memory {
    scratch memory;
    unsigned *keys, *values, *rest;

    explicit sort_memory(const struct sorting *s) : memory(s->stream) {}
    int claim(const struct sorting *s, size_t words) {
        const size_t own = align_words(s->count);
        const size_t all = (s->sorted_values ? 2 : 1) * own + words;
        WEFT_TRY(memory.claim("sort", all * sizeof(unsigned)));
        keys = (unsigned *)memory.memory;
        values = s->sorted_values ? keys + own : NULL;
        rest = (unsigned *)memory.memory + (all - words);
        return WEFT_OK;
    }
};

/* Return pass p of digits of `bits` bits. The passes write to memory and to y
 * in turn. Their number is even, so the last one writes to y. */
static inline struct sort_pass find_pass(const struct sorting *s,
                                         const sort_memory &m, unsigned p,
                                         unsigned bits) {
    const bool back = p % 2;
    return {back ? s->y : m.keys,
            back ? s->sorted_values : m.values,
            p == 0 ? s->x : (back ? m.keys : s->y),
            p == 0 ? s->values : (back ? m.values : s->sorted_values),
            s->count,
            p * bits,
            s->order};
}

/* ---- digits -------------------------------------------------------------- */

/* Return to each thread the sum over all earlier threads of the block. No
 * thread may be using sums_s. */
static __device__ __forceinline__ unsigned
add_earlier_threads(unsigned own, unsigned sums_s[WARPS]) {
    const unsigned upto = scan_lanes(own);
    const unsigned sum = __shfl_sync(0xffffffff, upto, WARP - 1);
    unsigned all;
    return add_earlier_warps(sum, sums_s, &all) + (upto - own);
}

/* The second kernel of rungs 2 and 3, in sort.cu. Replace each tile's count of
 * each digit with the count of all smaller digits and of all earlier tiles:
 * the place of the tile's first key with that digit. counts (digits, tiles);
 * totals (digits) is memory for the kernel. Returns a weft_status. */
int scan_counts(unsigned *counts, unsigned *totals, unsigned digits,
                unsigned tiles, cudaStream_t stream);

#endif
