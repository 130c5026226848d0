/* topk.cuh -- the rungs of topk, and the code that they share.
 *
 * A rung compares entries, which are integers of 64 bits: the upper half is a
 * number as a key, and the lower half is its column, inverted. All entries of a
 * row differ. The larger one of two is the larger number or, for equal numbers,
 * the one with the lower column. So the k largest entries form one set in one
 * order, whatever the order in which threads find them. */
#ifndef WEFT_TOPK_CUH
#define WEFT_TOPK_CUH
#include "common/internal.cuh"

#include <math.h>
#include <stdint.h>

#include "common/float_rank.h"
#include "common/rows.cuh"
#include "common/scans.cuh"
#include "common/scratch.cuh"

/* The arguments of weft_topk(), which the rungs receive. */
struct selection {
    float *values;    // (rows,k)
    int64_t *indices; // (rows,k)
    const float *x;   // (rows,cols)
    size_t rows, cols, k;
    cudaStream_t stream;
};

/* Queue the work of a rung; each returns a weft_status. */
int topk_sort(const struct selection *s);
int topk_heap(const struct selection *s);
int topk_radix(const struct selection *s);
int topk_filtered(const struct selection *s);
int topk_batched(const struct selection *s);

/* ---- entries ------------------------------------------------------------- */

typedef unsigned long long entry;

/* No number has this entry; it is below all others. */
#define NOTHING ((entry)0)

enum : unsigned { TOP = 0x80000000, KEY_OF_ZERO = TOP, KEY_OF_NAN = ~0u };

static __device__ __forceinline__ entry make_entry(float x, size_t col) {
    return (entry)rank_float(__float_as_uint(x)) << 32 | ~(unsigned)col;
}

static __device__ __forceinline__ unsigned find_col(entry e) {
    return ~(unsigned)e;
}

/* Return the entry's number. A key has neither the sign of a 0 nor the bits of
 * a NaN, so these are read from the row. */
static __device__ __forceinline__ float find_value(entry e, const float *row) {
    const unsigned key = (unsigned)(e >> 32);
    if (key == KEY_OF_ZERO || key == KEY_OF_NAN) return row[find_col(e)];
    return __uint_as_float(key & TOP ? key ^ TOP : ~key);
}

/* Store an entry as result `place` of a row. */
static __device__ __forceinline__ void
write_result(const struct selection &s, size_t row, size_t place, entry e) {
    const size_t at = row * s.k + place;
    s.values[at] = find_value(e, s.x + row * s.cols);
    s.indices[at] = find_col(e);
}

/* ---- sorting ------------------------------------------------------------- */

/* Exchange entries that are `stride` apart and in the wrong order: a step of a
 * bitonic sort of `count` entries, which begin at entry `first` of an array.
 * Runs of `size` entries become ordered, every second one upwards. `own`: the
 * thread's number among `width`. T: unsigned, or size_t for long rows. */
template <class T>
static __device__ __forceinline__ void exchange_pairs(entry *entries, T first,
                                                      T count, T size, T stride,
                                                      T own, T width) {
    for (T i = own; i < count / 2; i += width) {
        const T lower = 2 * i - (i & (stride - 1)); // lower member of pair i
        const entry a = entries[lower], b = entries[lower + stride];
        const bool falls = ((first + lower) & size) == 0;
        if ((a < b) != falls) continue;
        entries[lower] = b;
        entries[lower + stride] = a;
    }
}

/* Sort `count` entries in shared memory, a power of 2, the largest first. All
 * WIDTH threads of a block call this, after all entries are stored. */
template <unsigned WIDTH>
static __device__ __forceinline__ void sort_shared(entry *entries_s,
                                                   unsigned count) {
    for (unsigned size = 2; size <= count; size *= 2)
        for (unsigned stride = size / 2; stride > 0; stride /= 2) {
            exchange_pairs<unsigned>(entries_s, 0, count, size, stride,
                                     threadIdx.x, WIDTH);
            __syncthreads(); // the entries of this step are stored
        }
}

/* Return the smallest power of 2 that is at least `count`. */
static __host__ __device__ __forceinline__ size_t round_up(size_t count) {
    size_t power = 1;
    while (power < count) power *= 2;
    return power;
}

/* Sort each row of entries (rows,padded), the largest first, and write the
 * first k. A row of NOTHING already has its result. padded: a power of 2.
 * Returns a weft_status. */
int sort_and_write(const struct selection &s, entry *entries, size_t padded);

/* ---- rows ---------------------------------------------------------------- */

/* Call `run` for groups of at most `most` rows, one after another, so that the
 * scratch memory of a group is bounded. Returns a weft_status. */
static inline int run_groups(const struct selection &s, size_t most,
                             int (*run)(const struct selection &)) {
    for (size_t first = 0; first < s.rows; first += most) {
        struct selection part = s;
        part.rows = s.rows - first < most ? s.rows - first : most;
        part.x += first * s.cols;
        part.values += first * s.k;
        part.indices += first * s.k;
        WEFT_TRY(run(part));
    }
    return WEFT_OK;
}

#endif
