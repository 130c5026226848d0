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
    unsigned above;     // number of entries with larger digits
    unsigned state;     // enum search_state
    unsigned arrived;   // arrivals of blocks, in all steps
    unsigned steps;     // steps that the row's blocks have completed
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

/* Divide rows so that `blocks` blocks have work, unless a block would have
 * fewer than some thousand numbers. */
static inline layout lay_out(size_t rows, size_t cols, size_t blocks) {
    const size_t most = CEIL_DIV(cols, 16 * THREADS);
    const size_t wanted = max(blocks / rows, (size_t)1);
    return {rows, (unsigned)min(wanted, most)};
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

/* Count a block's arrival, and return to its threads how many arrivals were
 * earlier. A block that arrives later finds the results that this block has
 * stored. */
static __device__ __forceinline__ unsigned arrive(unsigned *arrived,
                                                  unsigned *earlier_s) {
    __threadfence(); // the results are visible before the arrival
    __syncthreads(); // all threads have stored theirs
    if (threadIdx.x == 0) *earlier_s = atomicAdd(arrived, 1u);
    __syncthreads(); // the count is stored
    __threadfence(); // the arrivals are read before other blocks' results
    return *earlier_s;
}

/* ---- entries that one block selects from --------------------------------- */

/* Call use(entry) for every `step`-th of `count` entries, starting at `own`,
 * and use(NOTHING) for some positions after the last. Eight loads are in
 * flight. */
template <class F>
static __device__ __forceinline__ void visit_every(const entry *entries,
                                                   unsigned own, unsigned count,
                                                   unsigned step, F use) {
    for (; own < count; own += 8 * step) {
        entry e[8];
#pragma unroll
        for (unsigned j = 0; j < 8; j++) {
            const unsigned i = own + j * step;
            e[j] = i < count ? entries[i] : NOTHING;
        }
#pragma unroll
        for (unsigned j = 0; j < 8; j++) use(e[j]);
    }
}

/* Return the k-th largest of the WIDTH threads' maxima; k entries reach it. */
template <unsigned WIDTH>
static __device__ __forceinline__ entry
raise_floor(entry *kept_s, const entry *entries, unsigned count, unsigned k) {
    entry most = NOTHING;
    visit_every(entries, threadIdx.x, count, WIDTH,
                [&](entry e) { most = max(most, e); });
    kept_s[threadIdx.x] = most;
    __syncthreads(); // the maxima are stored
    sort_shared<WIDTH>(kept_s, WIDTH);
    const entry floor = kept_s[k - 1];
    __syncthreads(); // all threads have read it
    return floor;
}

/* Store the k largest of `count` entries in kept_s, the largest first. All
 * WIDTH threads of a block call this. It fails, and returns false to all of
 * them, if more than ROOM entries may be among the k largest. */
template <unsigned WIDTH, unsigned ROOM>
static __device__ __forceinline__ bool
sort_best(entry (&kept_s)[ROOM], unsigned *count_s, const entry *entries,
          unsigned count, unsigned k) {
    entry floor = NOTHING + 1;
    if (threadIdx.x == 0) *count_s = 0;
    if (count > WIDTH && k <= WIDTH)
        floor = max(floor, raise_floor<WIDTH>(kept_s, entries, count, k));
    __syncthreads(); // no entry is kept
    visit_every(entries, threadIdx.x, count, WIDTH, [&](entry e) {
        if (e < floor) return;
        const unsigned place = atomicAdd(count_s, 1u);
        if (place < ROOM) kept_s[place] = e;
    });
    __syncthreads(); // the entries are stored
    const unsigned kept = *count_s, padded = (unsigned)round_up(kept);
    if (kept > ROOM) return false;
    for (unsigned i = kept + threadIdx.x; i < padded; i += WIDTH)
        kept_s[i] = NOTHING;
    __syncthreads(); // the entries after the kept ones are stored
    sort_shared<WIDTH>(kept_s, padded);
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
