/* 05_batched.cu -- topk, rung 5: a row stays in shared memory.
 *
 * Before:     rung 4 needs a dozen kernels, and writes candidates to memory.
 * Idea:       a warp or a block copies a row to shared memory, and each thread
 *             notes the largest of its numbers. The k-th largest of these is a
 *             floor, as in rung 4: only the k threads that reach it look at
 *             their numbers again. They leave few candidates, which are sorted.
 * Prediction: one reading of x and no other traffic but the result. At most k
 *             threads have candidates, so their number is bounded for every
 *             order of x.
 * Limit:      shared memory. Rows for which it does not suffice use rung 4, or
 *             rung 3 if k is a large part of a row. */
#include "topk.cuh"

enum { SHORT = 4096, AHEAD = 8 }; // a warp's longest row; groups loaded at once

/* The shared memory of a row: its numbers, then room for entries. */
struct room {
    unsigned columns, entries; // a multiple of 4; a power of 2

    size_t count_bytes() const {
        return columns * sizeof(float) + entries * sizeof(entry);
    }
};

/* Return the memory that WIDTH threads need for the largest set of candidates:
 * all numbers of k threads. */
static struct room plan_room(const struct selection &s, unsigned width) {
    const size_t own = CEIL_DIV(s.columns, 4 * (size_t)width) * 4;
    const size_t most = s.k > width ? s.columns : min(s.columns, s.k * own);
    const size_t entries = round_up(most > width ? most : width);
    return {(unsigned)CEIL_DIV(s.columns, 4) * 4, (unsigned)entries};
}

/* Copy the row to shared memory, and return the thread's largest entry. */
template <bool WIDE>
static __device__ __forceinline__ entry keep_row(float *row_s, const float *x,
                                                 unsigned columns,
                                                 sharer<WIDE> own) {
    const unsigned groups = own.count_groups(columns);
    entry most = NOTHING;
    for (unsigned first = 0; first < groups; first += AHEAD) {
        four v[AHEAD];
#pragma unroll
        for (unsigned j = 0; j < AHEAD; j++)
            v[j] = own.load(x, first + j, columns, -INFINITY);
#pragma unroll
        for (unsigned j = 0; j < AHEAD; j++) {
            own.store(row_s, first + j, columns, v[j]);
#pragma unroll
            for (unsigned k = 0; k < 4; k++)
                most = max(most, make_entry(v[j].at[k],
                                            own.find(first + j, k)));
        }
    }
    return most;
}

/* Append the thread's entries from the floor on to kept_s. */
template <bool WIDE>
static __device__ __forceinline__ void
keep_candidates(entry *kept_s, unsigned *count_s, const float *row_s,
                unsigned columns, entry floor, sharer<WIDE> own) {
    for (unsigned j = 0; j < own.count_groups(columns); j++) {
        const four v = own.load(row_s, j, columns, -INFINITY);
#pragma unroll
        for (unsigned k = 0; k < 4; k++) {
            const size_t column = own.find(j, k);
            const entry e = make_entry(v.at[k], column);
            if (column < columns && e >= floor)
                kept_s[atomicAdd(count_s, 1u)] = e;
        }
    }
}

/* WIDTH threads, a warp or a block, handle a row. */
template <unsigned WIDTH, bool WIDE>
static __global__ void __launch_bounds__(THREADS)
    select_in_shared(struct selection s, struct room r) {
    extern __shared__ entry memory_s[];
    __shared__ unsigned counts_s[WARPS];
    const unsigned place = threadIdx.x / WIDTH; // of the row in the block
    const size_t row = (size_t)blockIdx.x * (blockDim.x / WIDTH) + place;
    if (row >= s.rows) return; // all WIDTH threads
    const unsigned columns = (unsigned)s.columns, k = (unsigned)s.k;
    const sharer<WIDE> own = {threadIdx.x % WIDTH, WIDTH};
    entry *kept_s = memory_s + place * (r.entries + r.columns / 2);
    float *row_s = (float *)(kept_s + r.entries);
    unsigned *count_s = &counts_s[place];

    const entry most = keep_row(row_s, s.x + row * s.columns, columns, own);
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
        keep_candidates(kept_s, count_s, row_s, columns, floor, own);
    wait_for<WIDTH>(); // the candidates and the row are stored
    const unsigned count = *count_s, padded = (unsigned)round_up(count);
    for (unsigned i = count + own.own; i < padded; i += WIDTH)
        kept_s[i] = NOTHING;
    wait_for<WIDTH>(); // the entries behind the candidates are stored
    sort_shared<WIDTH>(kept_s, padded, own.own);
    for (unsigned i = own.own; i < k; i += WIDTH) {
        s.values[row * k + i] = find_value(kept_s[i], row_s);
        s.indices[row * k + i] = find_column(kept_s[i]);
    }
}

template <unsigned WIDTH, bool WIDE>
static int launch_select(const struct selection &s, struct room r,
                         size_t most_bytes) {
    const size_t fit = most_bytes / r.count_bytes(), most = THREADS / WIDTH;
    const size_t together = fit < most ? fit : most; // rows of a block
    const struct launch l = {"select_in_shared",
                             (unsigned)CEIL_DIV(s.rows, together),
                             (unsigned)together * WIDTH,
                             together * r.count_bytes(),
                             s.stream,
                             0};
    return launch_kernel(l, select_in_shared<WIDTH, WIDE>, s, r);
}

int topk_batched(const struct selection *s) {
    const size_t bytes = count_room() * sizeof(float);
    if (s->columns > bytes / sizeof(float)) return topk_filtered(s);
    const bool wide =
        rows_are_aligned(s->x, s->x, s->x, (unsigned)s->columns);
    const bool narrow = s->k <= WARP && s->columns <= SHORT;
    const struct room r = plan_room(*s, narrow ? WARP : THREADS);
    if (r.count_bytes() > bytes) return topk_filtered(s);
    if (narrow)
        return wide ? launch_select<WARP, true>(*s, r, bytes)
                    : launch_select<WARP, false>(*s, r, bytes);
    return wide ? launch_select<THREADS, true>(*s, r, bytes)
                : launch_select<THREADS, false>(*s, r, bytes);
}
