/* 03_radix_select.cu -- topk, rung 3: digits of 8 bits from the top.
 *
 * Before:     rung 2 has one warp per row, and compares in the order of x.
 * Idea:       count the first digits of all numbers in 256 bins. The k-th
 *             largest number is in the bin where the counts from the top reach
 *             k. The next pass counts the second digit of that bin only, and so
 *             on (select.cuh). Equal numbers are separated by the digits of
 *             their columns, so the lowest columns win.
 * Prediction: 4 digits of a float, and at most 4 of its column, take one read
 *             of x each; another read collects the result. No order of x
 *             makes it slower, and any k is possible.
 * Limit:      the reads. Few numbers matter after the first digit, but each
 *             pass reads all. Rung 4 copies those that matter. */
#include "select.cuh"

static __device__ __forceinline__ source
choose_source(const struct selection &s, const struct search &at, size_t row,
              const entry *candidates) {
    const float *x = s.x + row * s.cols;
    if (candidates && at.candidates <= at.room)
        return {x, candidates + row * at.room, at.candidates, false};
    return {x, NULL, s.cols, (uintptr_t)x % sizeof(float4) == 0};
}

/* Choose the digit at `shift` from the counts of all blocks, and clear them for
 * the next pass. The last block of a row calls this. */
static __device__ __forceinline__ void
choose_digit(struct search *at, unsigned shift, unsigned sums_s[WARPS]) {
    const unsigned digit = DIGITS - 1 - threadIdx.x; // from the top
    const unsigned own = atomicExch(&at->counts[digit], 0u);
    const unsigned upto = scan_lanes(own);
    const unsigned warp = __shfl_sync(0xffffffff, upto, WARP - 1);
    unsigned all;
    const unsigned above = add_earlier_warps(warp, sums_s, &all) + upto - own;
    const unsigned wanted = at->wanted;
    __syncthreads(); // all threads have read the sums
    if (above < wanted && wanted <= above + own) {
        at->floor |= (entry)digit << shift;
        at->wanted = wanted - above;
        if (own == wanted - above) at->state = SETTLED;
        at->arrived = 0;
    }
}

/* Count the digit at `shift` of the entries that agree with the digits above
 * it. The last block of each row chooses the digit. */
static __global__ void __launch_bounds__(THREADS)
    count_digits(struct selection s, layout l, struct search *searches,
                 const entry *candidates, unsigned shift) {
    static_assert((int)DIGITS == (int)THREADS, "a thread per digit");
    __shared__ unsigned counts_s[DIGITS], sums_s[WARPS], last_s;
    struct search *at = &searches[l.find_row()];
    if (at->state != SEARCHING) return; // the whole block returns
    const entry floor = at->floor;
    const unsigned keep = shift + BITS;
    const source from = choose_source(s, *at, l.find_row(), candidates);
    counts_s[threadIdx.x] = 0;
    __syncthreads(); // the counts are 0
    visit(from, l, [&](entry e) {
        if (keep == 64 || (e ^ floor) >> keep == 0)
            atomicAdd(&counts_s[e >> shift & (DIGITS - 1)], 1u);
    });
    __syncthreads(); // the counts are complete
    if (const unsigned own = counts_s[threadIdx.x])
        atomicAdd(&at->counts[threadIdx.x], own);
    __threadfence(); // the counts are visible before the arrival
    __syncthreads(); // all threads have added
    if (threadIdx.x == 0) last_s = atomicAdd(&at->arrived, 1u) == l.parts - 1;
    __syncthreads(); // last_s is stored
    if (!last_s) return;
    __threadfence(); // the arrivals are read before the counts
    choose_digit(at, shift, sums_s);
}

static __global__ void collect(struct selection s, layout l,
                               struct search *searches, const entry *candidates,
                               entry *found, size_t padded) {
    const size_t row = l.find_row();
    struct search *at = &searches[row];
    if (at->state == WRITTEN) return; // the whole block returns
    const entry floor = at->floor;
    found += row * padded;
    visit(choose_source(s, *at, row, candidates), l, [&](entry e) {
        if (e >= floor) found[atomicAdd(&at->collected, 1u)] = e;
    });
}

static __global__ void begin(struct search *searches, size_t rows,
                             unsigned wanted) {
    const size_t row = (size_t)blockIdx.x * THREADS + threadIdx.x;
    if (row < rows) searches[row].wanted = wanted;
}

int select_rows(const struct selection &s, struct search *searches,
                const entry *candidates) {
    const layout l = lay_out(s.rows, s.cols, 8);
    const size_t padded = round_up(s.k),
                 bytes = s.rows * padded * sizeof(entry);
    scratch memory(s.stream);
    WEFT_TRY(memory.claim("topk", bytes));
    entry *found = (entry *)memory.memory;
    WEFT_CUDA_TRY(cudaMemsetAsync(found, 0, bytes, s.stream)); // NOTHING
    begin<<<blocks_for(s.rows), THREADS, 0, s.stream>>>(searches, s.rows,
                                                        (unsigned)s.k);
    WEFT_LAUNCHED(begin);
    for (int shift = 64 - BITS; shift >= 0; shift -= BITS) {
        count_digits<<<l.count_blocks(), THREADS, 0, s.stream>>>(
            s, l, searches, candidates, (unsigned)shift);
        WEFT_LAUNCHED(count_digits);
    }
    collect<<<l.count_blocks(), THREADS, 0, s.stream>>>(
        s, l, searches, candidates, found, padded);
    WEFT_LAUNCHED(collect);
    return sort_and_write(s, found, padded);
}

static int select_whole(const struct selection &s) {
    scratch memory(s.stream);
    struct search *searches;
    WEFT_TRY(claim_searches(&memory, s.rows, &searches));
    return select_rows(s, searches, NULL);
}

int topk_radix(const struct selection *s) {
    return run_groups(*s, GROUP_ROWS, select_whole);
}
