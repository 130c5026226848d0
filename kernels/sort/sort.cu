/* sort.cu -- a sort of 32-bit keys: rungs and their launcher.
 *
 * A comparison can at best halve the number of possible orders; a digit of 8
 * bits selects one of 256 places. So the best rung makes four passes, and reads
 * the keys once more to count: it moves at least 36 bytes for each key. */
#include "sort.cuh"

#include "reference/reference.h"

#define EVERYWHERE (WEFT_CPU | WEFT_CUDA)

WEFT_RUNGS({"sort", "reference", "plain C, digits of 8 bits, buffered writes",
            "fp32", WEFT_CPU, 0},
           {"sort", "bitonic", "a network of comparisons", "fp32", EVERYWHERE,
            0},
           {"sort", "three_kernels", "eight passes of count, scan, scatter",
            "fp32", EVERYWHERE, 0},
           {"sort", "multisplit", "four passes, tiles ordered in shared memory",
            "fp32", EVERYWHERE, 0},
           {"sort", "onesweep", "one count, and passes that look back", "fp32",
            EVERYWHERE, 0});

enum { REFERENCE, BITONIC, THREE_KERNELS, MULTISPLIT, ONESWEEP };

/* With a block per digit, replace the counts of its tiles with the sums of the
 * earlier ones, and store the sum of all in totals[digit]. */
static __global__ void add_tiles(unsigned *counts, unsigned *totals,
                                 unsigned tiles) {
    __shared__ unsigned sums_s[WARPS];
    unsigned *const own = counts + (size_t)blockIdx.x * tiles;
    unsigned before = 0;
    for (unsigned first = 0; first < tiles; first += THREADS) {
        const unsigned i = first + threadIdx.x, n = i < tiles ? own[i] : 0;
        const unsigned upto = scan_lanes(n);
        const unsigned sum = __shfl_sync(0xffffffff, upto, WARP - 1);
        unsigned all;
        const unsigned earlier = add_earlier_warps(sum, sums_s, &all);
        if (i < tiles) own[i] = before + earlier + (upto - n);
        before += all;
        __syncthreads(); // sums_s has been read
    }
    if (threadIdx.x == 0) totals[blockIdx.x] = before;
}

/* With a block per digit, add the totals of all smaller digits to counts. */
static __global__ void add_digits(unsigned *counts, const unsigned *totals,
                                  unsigned tiles) {
    __shared__ unsigned sums_s[WARPS];
    const unsigned smaller = threadIdx.x < blockIdx.x ? totals[threadIdx.x] : 0;
    const unsigned sum = __shfl_sync(0xffffffff, scan_lanes(smaller), WARP - 1);
    unsigned all;
    add_earlier_warps(sum, sums_s, &all);
    for (unsigned i = threadIdx.x; i < tiles; i += THREADS)
        counts[(size_t)blockIdx.x * tiles + i] += all;
}

int scan_counts(unsigned *counts, unsigned *totals, unsigned digits,
                unsigned tiles, cudaStream_t stream) {
    add_tiles<<<digits, THREADS, 0, stream>>>(counts, totals, tiles);
    WEFT_LAUNCHED(add_tiles);
    add_digits<<<digits, THREADS, 0, stream>>>(counts, totals, tiles);
    WEFT_LAUNCHED(add_digits);
    return WEFT_OK;
}

int weft_sort(int rung, int32_t *y, int32_t *sorted_values, const int32_t *x,
              const int32_t *values, size_t count,
              const struct weft_sort_options *options, weft_stream stream) {
    const int kind = options ? options->kind : WEFT_SORT_INT;
    WEFT_CHECK_RUNG(rung);
    WEFT_REQUIRE(count >= 1, "%s: count = 0, want at least 1", __func__);
    WEFT_REQUIRE(count <= INT32_MAX, "%s: count = %zu, at most %d", __func__,
                 count, INT32_MAX);
    WEFT_REQUIRE(kind >= WEFT_SORT_INT && kind <= WEFT_SORT_FLOAT,
                 "%s: kind = %d, want 0 to 2", __func__, kind);
    CHECK_ARRAY(y);
    CHECK_ARRAY(x);
    WEFT_REQUIRE(sorted_values || !values, "%s: values without sorted_values",
                 __func__);
    const struct sorting s = {(unsigned *)y,
                              (unsigned *)sorted_values,
                              (const unsigned *)x,
                              (const unsigned *)values,
                              (unsigned)count,
                              make_order(kind, options && options->descending),
                              weft_cuda_stream(stream)};
    switch (rung) {
    case REFERENCE:
        return WEFT_REFERENCE(
            sort_reference(y, sorted_values, x, values, count, options));
    case BITONIC: return sort_bitonic(&s);
    case THREE_KERNELS: return sort_three_kernels(&s);
    case MULTISPLIT: return sort_multisplit(&s);
    case ONESWEEP: return sort_onesweep(&s);
    }
    return WEFT_OK;
}
