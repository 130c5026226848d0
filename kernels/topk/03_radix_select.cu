/* 03_radix_select.cu -- topk, rung 3: digits of 8 bits from the top.
 *
 * Before:     rung 2 has one warp per row, and compares in the order of x.
 * Idea:       count the first digits of all numbers in 256 bins. The k-th
 *             largest number is in the bin where the counts from the top reach
 *             k. The next pass counts the second digit of that bin only, and so
 *             on (select.cuh). Equal numbers are separated by the digits of
 *             their columns, so the lowest columns win. All passes are in one
 *             launch: the last of a row's blocks to finish a pass chooses the
 *             digit, and the others wait for it.
 * Prediction: 4 digits of a float, and at most 4 of its column, take one read
 *             of x each; another read collects the result. No order of x
 *             makes it slower, and any k is possible.
 * Limit:      the reads. Few numbers matter after the first digit, but each
 *             pass reads all. Rung 4 copies those that matter. */
#include "select.cuh"

#include "common/split.cuh"

enum { KEPT = 2048 }; // entries that a block sorts in shared memory: 16 KiB

static __device__ __forceinline__ source
choose_source(const struct selection &s, const struct search &at, size_t row,
              const entry *candidates) {
    const float *x = s.x + row * s.cols;
    if (candidates && at.candidates <= at.room)
        return {x, candidates + row * at.room, at.candidates, false};
    return {x, NULL, s.cols, (uintptr_t)x % sizeof(float4) == 0};
}

/* Let the last of a row's blocks to arrive call run(), and wait for its end.
 * All threads of these blocks call this. They may then read the results. */
template <class F>
static __device__ __forceinline__ void
take_step(struct search *at, const layout &l, unsigned *earlier_s, F run) {
    const unsigned earlier = arrive(&at->arrived, earlier_s);
    const unsigned step = earlier / l.parts;
    if (earlier % l.parts == l.parts - 1) {
        run();
        __threadfence(); // the results are visible before the step's end
        __syncthreads(); // all threads have stored theirs
        if (threadIdx.x == 0) *(volatile unsigned *)&at->steps = step + 1;
    } else if (threadIdx.x == 0) {
        while (*(volatile unsigned *)&at->steps <= step) __nanosleep(100);
        __threadfence(); // the step's end is read before the results
    }
    __syncthreads(); // the step has ended
}

/* Write the row's result if its candidates are few enough to be sorted in
 * shared memory. */
static __device__ __forceinline__ void
settle(const struct selection &s, size_t row, struct search *at,
       const entry *candidates, entry (&kept_s)[KEPT], unsigned *count_s) {
    const bool done =
        at->candidates <= at->room &&
        sort_best<THREADS>(kept_s, count_s, candidates + row * at->room,
                           at->candidates, (unsigned)s.k);
    if (done)
        for (unsigned i = threadIdx.x; i < s.k; i += THREADS)
            write_result(s, row, i, kept_s[i]);
    if (threadIdx.x) return;
    at->floor = 0; // no digit is known
    if (done) at->state = WRITTEN;
}

/* Count the digit at `shift` of the entries that agree with the digits above
 * it. */
static __device__ __forceinline__ void
count_digits(const source &from, const layout &l, struct search *at,
             unsigned shift, unsigned counts_s[DIGITS]) {
    static_assert((int)DIGITS == (int)THREADS, "a thread per digit");
    const entry floor = at->floor;
    const unsigned keep = shift + BITS;
    counts_s[threadIdx.x] = 0;
    __syncthreads(); // the counts are 0
    visit(from, l, [&](entry e) {
        if (keep == 64 || (e ^ floor) >> keep == 0)
            atomicAdd(&counts_s[e >> shift & (DIGITS - 1)], 1u);
    });
    __syncthreads(); // the counts are complete
    if (const unsigned own = counts_s[threadIdx.x])
        atomicAdd(&at->counts[threadIdx.x], own);
}

/* Choose the digit at `shift` from the counts of all blocks, and clear them for
 * the next pass. The last block of a row calls this. */
static __device__ __forceinline__ void choose_digit(struct search *at,
                                                    unsigned k, unsigned shift,
                                                    unsigned sums_s[WARPS]) {
    const unsigned digit = DIGITS - 1 - threadIdx.x; // from the top
    const unsigned own = atomicExch(&at->counts[digit], 0u);
    const unsigned upto = scan_lanes(own);
    const unsigned warp = __shfl_sync(0xffffffff, upto, WARP - 1);
    unsigned all;
    const unsigned above = add_earlier_warps(warp, sums_s, &all) + upto - own;
    const unsigned wanted = k - at->above;
    __syncthreads(); // all threads have read the sums and the count
    if (above < wanted && wanted <= above + own) {
        at->floor |= (entry)digit << shift;
        at->above += above;
        if (own == wanted - above) at->state = SETTLED;
    }
}

/* Write the k entries that the row's blocks have found, in order. */
static __device__ __forceinline__ void write_found(const struct selection &s,
                                                   size_t row,
                                                   const entry *found,
                                                   entry (&kept_s)[KEPT]) {
    const unsigned k = (unsigned)s.k, padded = (unsigned)round_up(k);
    for (unsigned i = threadIdx.x; i < padded; i += THREADS)
        kept_s[i] = i < k ? found[i] : NOTHING;
    __syncthreads(); // the entries are stored
    sort_shared<THREADS>(kept_s, padded);
    for (unsigned i = threadIdx.x; i < k; i += THREADS)
        write_result(s, row, i, kept_s[i]);
}

/* found: (rows,padded). If k exceeds KEPT, the caller sorts and writes. */
static __global__ void __launch_bounds__(THREADS)
    select_by_digits(struct selection s, layout l, struct search *searches,
                     const entry *candidates, entry *found, size_t padded) {
    __shared__ entry kept_s[KEPT];
    __shared__ unsigned counts_s[DIGITS], sums_s[WARPS], earlier_s;
    for (size_t row = l.find_row(); row < s.rows; row += gridDim.x / l.parts) {
        struct search *const at = &searches[row];
        entry *const own = found + row * padded;
        if (candidates)
            take_step(at, l, &earlier_s,
                      [&] { settle(s, row, at, candidates, kept_s, sums_s); });
        if (at->state == WRITTEN) continue; // the whole block
        const source from = choose_source(s, *at, row, candidates);
        for (int shift = 64 - BITS; shift >= 0 && at->state == SEARCHING;
             shift -= BITS) {
            count_digits(from, l, at, (unsigned)shift, counts_s);
            take_step(at, l, &earlier_s, [&] {
                choose_digit(at, (unsigned)s.k, (unsigned)shift, sums_s);
            });
        }
        const entry floor = at->floor;
        visit(from, l, [&](entry e) {
            if (e >= floor) own[atomicAdd(&at->collected, 1u)] = e;
        });
        if (s.k <= KEPT)
            take_step(at, l, &earlier_s,
                      [&] { write_found(s, row, own, kept_s); });
    }
}

int select_rows(const struct selection &s, struct search *searches,
                const entry *candidates) {
    const size_t blocks = count_resident(select_by_digits, THREADS, 0, 16);
    const layout l = lay_out(s.rows, s.cols, blocks);
    const size_t padded = round_up(s.k),
                 bytes = s.rows * padded * sizeof(entry);
    scratch memory(s.stream);
    WEFT_TRY(memory.claim("topk", bytes));
    entry *found = (entry *)memory.memory;
    if (s.k > KEPT) // every entry is NOTHING
        WEFT_CUDA_TRY(cudaMemsetAsync(found, 0, bytes, s.stream));
    struct launch launch = {
        "select_by_digits",
        (unsigned)min(s.rows * l.parts, blocks / l.parts * l.parts),
        THREADS,
        0,
        s.stream,
        0};
    launch.together = TOGETHER;
    WEFT_TRY(launch_kernel(launch, select_by_digits, s, l, searches, candidates,
                           found, padded));
    return s.k > KEPT ? sort_and_write(s, found, padded) : WEFT_OK;
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
