/* 05_batched.cu -- topk, rung 5: a row stays in shared memory.
 *
 * Before:     rung 4 needs a dozen kernels, and writes candidates to memory.
 * Idea:       a warp or a block copies a row to shared memory, and each thread
 *             notes the largest of its numbers. The k-th largest of these is a
 *             floor, as in rung 4: only the k threads that reach it read their
 *             numbers again. They leave few candidates, which are sorted.
 *             Several blocks take parts of a longer row, and another one merges
 *             the parts' k best.
 * Prediction: one read of x and, for a longer row, 16 k bytes per part. At
 *             most k threads have candidates, so their number is bounded for
 *             every order of x.
 * Limit:      the merge. If the parts have more than 8192 entries, or shared
 *             memory is too small for all possible candidates, the row uses
 *             rung 4. If k is a large part of the row, it uses rung 3. */
#include "select.cuh"

enum {
    SHORT = 4096,  // length of the longest row that a warp handles
    PART = 8192,   // numbers that a block keeps: 32 KiB
    MERGED = 8192, // entries of all parts of a row
    AHEAD = 8      // groups that a thread has in flight
};

/* The shared memory of a row: its numbers, then room for entries. */
struct room {
    unsigned cols, entries; // a multiple of 4; a power of 2

    size_t count_bytes() const {
        return cols * sizeof(float) + entries * sizeof(entry);
    }
};

/* Return the memory that WIDTH threads need for the largest set of candidates:
 * all numbers of k threads. */
static struct room plan_room(unsigned cols, size_t k, unsigned width) {
    const size_t own = CEIL_DIV(cols, 4 * width) * 4;
    const size_t all = cols, most = k > width ? all : min(all, k * own);
    const size_t entries = round_up(most > width ? most : width);
    return {CEIL_DIV(cols, 4) * 4, (unsigned)entries};
}

/* Copy the row to shared memory, and return the thread's largest entry. */
template <bool WIDE>
static __device__ __forceinline__ entry keep_row(float *row_s, const float *x,
                                                 unsigned cols,
                                                 sharer<WIDE> own) {
    const unsigned groups = own.count_groups(cols);
    entry most = NOTHING;
    for (unsigned first = 0; first < groups; first += AHEAD) {
        four v[AHEAD];
#pragma unroll
        for (unsigned j = 0; j < AHEAD; j++)
            v[j] = own.load(x, first + j, cols, -INFINITY);
#pragma unroll
        for (unsigned j = 0; j < AHEAD; j++) {
            own.store(row_s, first + j, cols, v[j]);
#pragma unroll
            for (unsigned k = 0; k < 4; k++)
                most =
                    max(most, make_entry(v[j].at[k], own.find(first + j, k)));
        }
    }
    return most;
}

/* Append the thread's entries that reach the floor to kept_s. */
template <bool WIDE>
static __device__ __forceinline__ void
keep_candidates(entry *kept_s, unsigned *count_s, const float *row_s,
                unsigned cols, entry floor, sharer<WIDE> own) {
    for (unsigned j = 0; j < own.count_groups(cols); j++) {
        const four v = own.load(row_s, j, cols, -INFINITY);
#pragma unroll
        for (unsigned k = 0; k < 4; k++) {
            const size_t col = own.find(j, k);
            const entry e = make_entry(v.at[k], col);
            if (col < cols && e >= floor) kept_s[atomicAdd(count_s, 1u)] = e;
        }
    }
}

/* Parts of rows: each row has `parts` of `length` numbers; the last one may be
 * shorter. best: NULL if a part is a whole row, else the parts' k best entries
 * (rows,parts,k), with NOTHING after fewer. */
struct division {
    unsigned parts, length;
    entry *best;
};

/* Select with WIDTH threads, a warp or a block, per part of a row. Columns in
 * entries count from the part's beginning. */
template <unsigned WIDTH, bool WIDE>
static __global__ void __launch_bounds__(THREADS)
    select_in_shared(struct selection s, struct division d, struct room r) {
    extern __shared__ entry memory_s[];
    __shared__ unsigned counts_s[WARPS];
    const unsigned place = threadIdx.x / WIDTH; // of the part in the block
    const size_t part = (size_t)blockIdx.x * (blockDim.x / WIDTH) + place;
    const size_t row = part / d.parts;
    if (row >= s.rows) return; // all WIDTH threads return
    const size_t first = part % d.parts * d.length;
    const unsigned cols = (unsigned)min((size_t)d.length, s.cols - first);
    const unsigned k = (unsigned)s.k;
    const sharer<WIDE> own = {threadIdx.x % WIDTH, WIDTH};
    entry *kept_s = memory_s + place * (r.entries + r.cols / 2);
    float *row_s = (float *)(kept_s + r.entries);
    unsigned *count_s = &counts_s[place];

    const entry most = keep_row(row_s, s.x + row * s.cols + first, cols, own);
    entry floor = NOTHING;
    if (own.own == 0) *count_s = 0;
    if (k <= WIDTH) {
        kept_s[own.own] = most;
        wait_for<WIDTH>(); // the maxima are stored
        sort_shared<WIDTH>(kept_s, WIDTH, own.own);
        floor = kept_s[k - 1];
    }
    wait_for<WIDTH>(); // the floor is read, and the count is 0
    if (most >= floor)
        keep_candidates(kept_s, count_s, row_s, cols, floor, own);
    wait_for<WIDTH>(); // the candidates and the row are stored
    const unsigned count = *count_s, padded = (unsigned)round_up(count);
    for (unsigned i = count + own.own; i < padded; i += WIDTH)
        kept_s[i] = NOTHING;
    wait_for<WIDTH>(); // the entries after the candidates are stored
    sort_shared<WIDTH>(kept_s, padded, own.own);
    for (unsigned i = own.own; i < k; i += WIDTH)
        if (d.best) { // a column is stored inverted
            d.best[part * k + i] = i < count ? kept_s[i] - first : NOTHING;
        } else {
            s.values[row * k + i] = find_value(kept_s[i], row_s);
            s.indices[row * k + i] = find_col(kept_s[i]);
        }
}

template <unsigned WIDTH, bool WIDE>
static int launch_select(const struct selection &s, struct division d,
                         struct room r) {
    const size_t fit = count_room() * sizeof(float) / r.count_bytes();
    const size_t most = THREADS / WIDTH, together = fit < most ? fit : most;
    const struct launch l = {"select_in_shared",
                             (unsigned)CEIL_DIV(s.rows * d.parts, together),
                             (unsigned)together * WIDTH,
                             together * r.count_bytes(),
                             s.stream,
                             0};
    return launch_kernel(l, select_in_shared<WIDTH, WIDE>, s, d, r);
}

static int select_parts(const struct selection &s, struct division d,
                        struct room r, bool narrow) {
    const bool wide = ((uintptr_t)s.x % 16 | s.cols % 4) == 0;
    if (narrow)
        return wide ? launch_select<WARP, true>(s, d, r)
                    : launch_select<WARP, false>(s, d, r);
    return wide ? launch_select<THREADS, true>(s, d, r)
                : launch_select<THREADS, false>(s, d, r);
}

/* Write the k best of a row's `count` entries, with a block per row. */
static __global__ void __launch_bounds__(MANY)
    merge_parts(struct selection s, const entry *best, unsigned count) {
    __shared__ entry kept_s[SORTED];
    __shared__ unsigned count_s;
    best += (size_t)blockIdx.x * count;
    sort_best(kept_s, &count_s, best, count, (unsigned)s.k);
    for (unsigned i = threadIdx.x; i < s.k; i += MANY)
        write_result(s, blockIdx.x, i, kept_s[i]);
}

static int select_and_merge(const struct selection &s, unsigned parts,
                            struct room r) {
    const unsigned count = parts * (unsigned)s.k;
    scratch memory(s.stream);
    WEFT_TRY(memory.claim("topk", s.rows * count * sizeof(entry)));
    const struct division d = {parts, PART, (entry *)memory.memory};
    WEFT_TRY(select_parts(s, d, r, false));
    merge_parts<<<(unsigned)s.rows, MANY, 0, s.stream>>>(s, d.best, count);
    WEFT_LAUNCHED(merge_parts);
    return WEFT_OK;
}

int topk_batched(const struct selection *s) {
    const unsigned parts = (unsigned)CEIL_DIV(s->cols, PART);
    const unsigned length = parts > 1 ? (unsigned)PART : (unsigned)s->cols;
    const bool narrow = s->k <= WARP && length <= SHORT;
    const struct room r =
        plan_room(length, s->k, narrow ? (unsigned)WARP : (unsigned)THREADS);
    if (r.count_bytes() > count_room() * sizeof(float)) return topk_filtered(s);
    if (parts == 1) return select_parts(*s, {1, length, NULL}, r, narrow);
    if (s->k * parts > MERGED || !can_sort_best(s->k * parts, s->k))
        return topk_filtered(s);
    return select_and_merge(*s, parts, r);
}
