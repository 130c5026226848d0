/* 04_filtered.cu -- topk, rung 4: read x once, and select among candidates.
 *
 * Before:     rung 3 reads all of x for each digit.
 * Idea:       read a sample first, spread over the row, in groups of sectors.
 *             The k-th largest of the groups' maxima is a floor: k numbers
 *             reach it, so no number below it is in the result. One pass copies
 *             the numbers from the floor on to a buffer, and rung 3 selects
 *             among them.
 * Prediction: one reading of x, and a few percent for sample and buffer: one
 *             number of f in the sample leaves about k f candidates. In sorted
 *             rows the candidates of a few sectors join them.
 * Limit:      more candidates than the buffer has room for, a 32nd of the row:
 *             then rung 3 selects in the row itself, so the result is right, and
 *             only late. Short rows need kernels of their own: rung 5. */
#include "select.cuh"

enum {
    SECTOR = 8,         // floats of 32 bytes, which memory moves at least
    MOST_GROUPS = 4096, // whose maxima one block sorts in shared memory
    CANDIDATES = 1 << 16 // at most about so many for random numbers
};

/* The sample of a row: `groups` groups of `sectors` sectors of x. Neighbours in
 * the sample are `stride` sectors apart in x, and belong to different groups. */
struct sample {
    unsigned groups, sectors;
    size_t stride;
};

/* Return the sample of a row. If a number of f is in the sample, that costs
 * 4 n / f bytes for the sample, and about 16 k f bytes for the candidates. */
static struct sample plan_sample(size_t columns, size_t k) {
    size_t f = 1;
    while (f * f * 16 * k <= columns && 2 * f * k <= CANDIDATES) f *= 2;
    struct sample p;
    p.groups = (unsigned)round_up(2 * k < WARP ? WARP : 2 * k);
    p.sectors = (unsigned)(columns / f / SECTOR / p.groups);
    if (p.sectors == 0) p.sectors = 1;
    p.stride = columns / SECTOR / p.groups / p.sectors;
    return p;
}

/* Find the maximum of each group of each row. Eight lanes share a group. */
static __global__ void find_maxima(entry *maxima, struct selection s,
                                   struct sample p) {
    const size_t i = (size_t)blockIdx.x * THREADS + threadIdx.x;
    const size_t row = i / SECTOR / p.groups, group = i / SECTOR % p.groups;
    const float *x = s.x + row * s.columns;
    entry most = NOTHING;
    for (unsigned j = 0; j < p.sectors; j++) {
        const size_t sector = (group + (size_t)j * p.groups) * p.stride;
        const size_t column = sector * SECTOR + i % SECTOR;
        most = max(most, make_entry(x[column], column));
    }
    for (int distance = SECTOR / 2; distance > 0; distance /= 2)
        most = max(most, __shfl_xor_sync(0xffffffff, most, distance));
    if (i % SECTOR == 0) maxima[i / SECTOR] = most;
}

/* Find each row's floor, the k-th largest of its maxima. A block per row. */
static __global__ void __launch_bounds__(THREADS)
    find_floors(struct search *searches, const entry *maxima, unsigned groups,
                unsigned k, unsigned room) {
    __shared__ entry maxima_s[MOST_GROUPS];
    for (unsigned i = threadIdx.x; i < groups; i += THREADS)
        maxima_s[i] = maxima[(size_t)blockIdx.x * groups + i];
    __syncthreads(); // the maxima are stored
    sort_shared<THREADS>(maxima_s, groups, threadIdx.x);
    if (threadIdx.x) return;
    searches[blockIdx.x].floor = maxima_s[k - 1];
    searches[blockIdx.x].room = room;
}

/* Append a warp's entries from the floor on to the candidates. A full buffer
 * receives no more, and then its count stays above its room. */
static __device__ __forceinline__ void
append(entry *candidates, struct search *at, const entry own[4], entry floor) {
    unsigned votes[4], all = 0;
#pragma unroll
    for (int k = 0; k < 4; k++) {
        votes[k] = __ballot_sync(0xffffffff, own[k] >= floor);
        all += __popc(votes[k]);
    }
    if (all == 0) return; // the whole warp
    unsigned first = 0;
    if (threadIdx.x % WARP == 0) {
        first = *(volatile unsigned *)&at->candidates;
        if (first <= at->room) first = atomicAdd(&at->candidates, all);
    }
    first = __shfl_sync(0xffffffff, first, 0);
    const unsigned below = (1u << threadIdx.x % WARP) - 1;
#pragma unroll
    for (int k = 0; k < 4; k++) {
        const unsigned place = first + __popc(votes[k] & below);
        if (own[k] >= floor && place < at->room) candidates[place] = own[k];
        first += __popc(votes[k]);
    }
}

static __global__ void __launch_bounds__(THREADS)
    filter(entry *candidates, struct search *searches, struct selection s,
           layout l) {
    const size_t row = l.find_row();
    struct search *at = &searches[row];
    const float *x = s.x + row * s.columns;
    const source from = {x, NULL, s.columns, (uintptr_t)x % sizeof(float4) == 0};
    const entry floor = at->floor;
    const float least = find_value(floor, x);
    const size_t step = (size_t)l.parts * THREADS * 4;
    // All lanes of a warp begin together, since they vote.
    size_t i = ((size_t)l.find_part() * THREADS + threadIdx.x) * 4;
    for (; i / (4 * WARP) * (4 * WARP) < s.columns; i += step) {
        const four v = load_four(from, i);
        entry own[4] = {NOTHING, NOTHING, NOTHING, NOTHING};
#pragma unroll
        for (int k = 0; k < 4; k++) // NaN is not less than a number
            if (!(v.at[k] < least) && i + k < s.columns)
                own[k] = make_entry(v.at[k], i + k);
        append(candidates + row * at->room, at, own, floor);
    }
}

static __global__ void forget_floors(struct search *searches, size_t rows) {
    const size_t row = (size_t)blockIdx.x * THREADS + threadIdx.x;
    if (row < rows) searches[row].floor = 0;
}

static int filter_rows(const struct selection &s) {
    const struct sample p = plan_sample(s.columns, s.k);
    const unsigned room = (unsigned)(s.columns / 32);
    const layout l = lay_out(s.rows, s.columns);
    const size_t groups = s.rows * p.groups;
    scratch memory(s.stream), more(s.stream);
    struct search *searches;
    WEFT_TRY(claim_searches(&memory, s.rows, &searches));
    WEFT_TRY(more.claim("topk", (groups + s.rows * room) * sizeof(entry)));
    entry *maxima = (entry *)more.memory, *candidates = maxima + groups;
    find_maxima<<<blocks_for(groups * SECTOR), THREADS, 0, s.stream>>>(maxima,
                                                                       s, p);
    WEFT_LAUNCHED(find_maxima);
    find_floors<<<(unsigned)s.rows, THREADS, 0, s.stream>>>(
        searches, maxima, p.groups, (unsigned)s.k, room);
    WEFT_LAUNCHED(find_floors);
    filter<<<l.count_blocks(), THREADS, 0, s.stream>>>(candidates, searches, s,
                                                       l);
    WEFT_LAUNCHED(filter);
    forget_floors<<<blocks_for(s.rows), THREADS, 0, s.stream>>>(searches,
                                                                s.rows);
    WEFT_LAUNCHED(forget_floors);
    return select_rows(s, searches, candidates);
}

int topk_filtered(const struct selection *s) {
    // A sample of 2 k groups must be a small part of the row.
    if (s->columns < 64 * s->k || s->columns < 4096 || 2 * s->k > MOST_GROUPS)
        return topk_radix(s);
    const size_t rows = ((size_t)1 << 28) / s->columns;
    return run_groups(*s, rows < 1 ? 1 : min(rows, (size_t)GROUP_ROWS),
                      filter_rows);
}
