/* select.cuh -- radix select: the k largest entries by digits of 8 bits.
 *
 * A pass counts the next digit of all entries that agree with the digits chosen
 * so far. The counts determine the digit of the k-th largest entry. Entries
 * above it belong to the result, entries below do not, and the others wait for
 * the next digit. If all of the others belong to it, too, no pass is left. */
#ifndef WEFT_TOPK_SELECT_CUH
#define WEFT_TOPK_SELECT_CUH
#include "topk.cuh"

enum { DIGITS = 256, BITS = 8, GROUP_ROWS = 1024 };

/* SETTLED: exactly the entries that reach the floor are wanted. WRITTEN:
 * the row has its result. */
enum search_state { SEARCHING, SETTLED, WRITTEN };

/* The information so far about a row's k-th largest entry. */
struct search {
    entry floor;        // its digits so far; the others are 0
    unsigned wanted;    // number of entries with these digits in the result
    unsigned state;     // enum search_state
    unsigned arrived;   // blocks that have counted in this pass
    unsigned collected; // entries of the result that have been found
    // The k-th largest entry is among the candidates in memory, if these are at
    // most `room`; otherwise it may be anywhere in the row.
    unsigned candidates, room;
    unsigned counts[DIGITS];
};

/* The numbers of a row that are searched, as one of the row's blocks reads
 * them: x, or the candidates that a filter has found in it. */
struct source {
    const float *x;
    const entry *candidates; // NULL: x is read
    size_t count;
    bool aligned; // x begins at a multiple of 16 bytes
};

/* The blocks of a launch, of which `parts` share each row. */
struct layout {
    size_t rows;
    unsigned parts;

    unsigned count_blocks() const { return (unsigned)(rows * parts); }
    __device__ __forceinline__ size_t find_row() const {
        return blockIdx.x / parts;
    }
    __device__ __forceinline__ unsigned find_part() const {
        return blockIdx.x % parts;
    }
};

/* Return a layout with at least `each` blocks per multiprocessor, unless a
 * block would have fewer than some thousand numbers. */
static inline layout lay_out(size_t rows, size_t cols, size_t each) {
#ifdef __CUDACC__
    const size_t all = (size_t)device_has(cudaDevAttrMultiProcessorCount);
#else
    const size_t all = 2; // the same on every machine
#endif
    const size_t most = CEIL_DIV(cols, 16 * THREADS);
    const size_t wanted = CEIL_DIV(each * all, rows);
    return {rows, (unsigned)(wanted < most ? wanted : most)};
}

/* Load four numbers of x, starting at a multiple of four. Numbers past its end
 * are NaN, and the caller must skip them. */
static __device__ __forceinline__ four load_four(const source &from, size_t i) {
    four v = {NAN, NAN, NAN, NAN};
    if (from.aligned && i + 4 <= from.count) {
        const float4 wide = *(const float4 *)(from.x + i);
        v = {wide.x, wide.y, wide.z, wide.w};
    } else {
#pragma unroll
        for (int k = 0; k < 4; k++)
            if (i + k < from.count) v.at[k] = from.x[i + k];
    }
    return v;
}

/* Call use(entry) for each entry of the block's part of the source. */
template <class F>
static __device__ __forceinline__ void visit(const source &from,
                                             const layout &l, F use) {
    const size_t own = (size_t)l.find_part() * THREADS + threadIdx.x;
    const size_t step = (size_t)l.parts * THREADS;
    if (from.candidates) {
        for (size_t i = own; i < from.count; i += step) use(from.candidates[i]);
        return;
    }
    for (size_t i = 4 * own; i < from.count; i += 4 * step) {
        const four v = load_four(from, i);
#pragma unroll
        for (int k = 0; k < 4; k++)
            if (i + k < from.count) use(make_entry(v.at[k], i + k));
    }
}

/* ---- entries that one block selects from --------------------------------- */

enum {
    MANY = 1024,  // threads of a block that handles a row alone
    SORTED = 4096 // entries that it sorts in shared memory: 32 KiB
};

/* Return whether sort_best() succeeds for entries in any order. */
static inline bool can_sort_best(size_t count, size_t k) {
    return count <= SORTED ||
           (k <= MANY && k * CEIL_DIV(count, MANY) <= SORTED);
}

/* Return the k-th largest of the threads' maxima, which k entries reach. */
static __device__ __forceinline__ entry raise_floor(entry *kept_s,
                                                    const entry *entries,
                                                    unsigned count,
                                                    unsigned k) {
    entry most = NOTHING;
    for (unsigned i = threadIdx.x; i < count; i += MANY)
        most = max(most, entries[i]);
    kept_s[threadIdx.x] = most;
    __syncthreads(); // the maxima are stored
    sort_shared<MANY>(kept_s, MANY, threadIdx.x);
    const entry floor = kept_s[k - 1];
    __syncthreads(); // all threads have read it
    return floor;
}

/* Store the k largest of `count` entries in kept_s, the largest first. All MANY
 * threads of a block call this. It fails, and returns false to all of them, if
 * more than SORTED entries may be among the k largest. */
static __device__ __forceinline__ bool sort_best(entry kept_s[SORTED],
                                                 unsigned *count_s,
                                                 const entry *entries,
                                                 unsigned count, unsigned k) {
    entry floor = NOTHING;
    if (threadIdx.x == 0) *count_s = 0;
    if (count > SORTED && k <= MANY)
        floor = raise_floor(kept_s, entries, count, k);
    floor = max(floor, NOTHING + 1);
    __syncthreads(); // no entry is kept
    if (count > SORTED && k > MANY) return false;
    for (unsigned i = threadIdx.x; i < count; i += MANY) {
        if (entries[i] < floor) continue;
        const unsigned place = atomicAdd(count_s, 1u);
        if (place < SORTED) kept_s[place] = entries[i];
    }
    __syncthreads(); // the entries are stored
    const unsigned kept = *count_s, padded = (unsigned)round_up(kept);
    if (kept > SORTED) return false;
    for (unsigned i = kept + threadIdx.x; i < padded; i += MANY)
        kept_s[i] = NOTHING;
    __syncthreads(); // the entries after the kept ones are stored
    sort_shared<MANY>(kept_s, padded, threadIdx.x);
    return true;
}

/* ---- radix select -------------------------------------------------------- */

/* Select the k largest entries of each row, and write them in order. Where
 * candidates (rows,room) are few enough, it reads only those. candidates: NULL
 * without a filter. Returns a weft_status. */
int select_rows(const struct selection &s, struct search *searches,
                const entry *candidates);

/* Claim zeroed searches for all rows; *searches receives them. */
static inline int claim_searches(scratch *memory, size_t rows,
                                 struct search **searches) {
    const size_t bytes = rows * sizeof(struct search);
    WEFT_TRY(memory->claim("topk", bytes));
    *searches = (struct search *)memory->memory;
    WEFT_CUDA_TRY(cudaMemsetAsync(*searches, 0, bytes, memory->stream));
    return WEFT_OK;
}

#endif
