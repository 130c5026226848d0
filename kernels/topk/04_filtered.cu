/* 04_filtered.cu -- topk, rung 4: read x once, and select among candidates.
 *
 * Before:     rung 3 reads all of x for each digit.
 * Idea:       read a sample first, spread over the row, in groups of sectors.
 *             The k-th largest of the groups' maxima is a floor: k numbers
 *             reach it, so no number below it is in the result. One pass copies
 *             the numbers that reach the floor to a buffer. A block selects
 *             among them or, if they are too many, rung 3 does.
 * Prediction: one read of x, and a few percent for sample and buffer: sampling
 *             one number of f leaves about k f candidates. In sorted
 *             rows the candidates of a few sectors join them.
 * Limit:      more candidates than fit in the buffer, a 32nd of the row: then
 *             rung 3 selects in the row itself, so the result is late, but
 *             correct. Short rows need separate kernels: rung 5. */
#include "select.cuh"

enum {
    SECTOR = 8,           // floats in 32 bytes, the least that memory moves
    CANDIDATES = 1 << 15, // approximate maximum for random numbers
    STEP = 4 * WARP,      // numbers that a warp reads at a time
    AHEAD = 4,            // steps whose loads a warp has in flight
    LEAST_ROOM = 1024     // minimum entries of the buffer
};

/* The sample of a row: `groups` groups of `sectors` sectors of x. Neighbours in
 * the sample are `stride` sectors apart, and belong to different groups. */
struct sample {
    unsigned groups, sectors;
    size_t stride;
};

/* Return the sample of a row. If one of f numbers is in the sample, that costs
 * 4 n / f bytes for the sample, and about 30 k f bytes for the candidates. */
static struct sample plan_sample(size_t cols, size_t k) {
    size_t f = 1;
    while (f * f * 32 * k <= cols && 2 * f * k <= CANDIDATES) f *= 2;
    struct sample p;
    p.groups = (unsigned)round_up(max(2 * k, (size_t)WARP));
    p.sectors = (unsigned)(cols / f / SECTOR / p.groups);
    if (p.sectors == 0) p.sectors = 1;
    p.stride = cols / SECTOR / p.groups / p.sectors;
    return p;
}

/* Find the maximum of each group of each row. Eight lanes share a group. */
static __global__ void find_maxima(entry *maxima, struct selection s,
                                   struct sample p) {
    const size_t i = (size_t)blockIdx.x * THREADS + threadIdx.x;
    const size_t row = i / SECTOR / p.groups, group = i / SECTOR % p.groups;
    const float *x = s.x + row * s.cols;
    entry most = NOTHING;
    for (unsigned j = 0; j < p.sectors; j++) {
        const size_t sector = (group + (size_t)j * p.groups) * p.stride;
        const size_t col = sector * SECTOR + i % SECTOR;
        most = max(most, make_entry(x[col], col));
    }
    for (int distance = SECTOR / 2; distance > 0; distance /= 2)
        most = max(most, __shfl_xor_sync(0xffffffff, most, distance));
    if (i % SECTOR == 0) maxima[i / SECTOR] = most;
}

/* Find each row's floor, the k-th largest of its maxima. Each has a block. */
static __global__ void __launch_bounds__(THREADS)
    find_floors(struct search *searches, const entry *maxima, unsigned groups,
                unsigned k, unsigned room) {
    __shared__ entry maxima_s[SORTED];
    for (unsigned i = threadIdx.x; i < groups; i += THREADS)
        maxima_s[i] = maxima[(size_t)blockIdx.x * groups + i];
    __syncthreads(); // the maxima are stored
    sort_shared<THREADS>(maxima_s, groups, threadIdx.x);
    if (threadIdx.x) return;
    searches[blockIdx.x].floor = maxima_s[k - 1];
    searches[blockIdx.x].room = room;
}

/* A warp's own part of the candidates, in shared memory. */
struct collector {
    entry *own_s;   // (2 STEP)
    unsigned count; // the same in all lanes

    /* Add those of the lanes' numbers that reach the floor; least is the
     * floor's number. A lane has four of them, starting at column `first`.
     * Return whether the next call may lack room. */
    __device__ __forceinline__ bool add(four v, size_t first, size_t cols,
                                        entry floor, float least) {
        entry e[4] = {NOTHING, NOTHING, NOTHING, NOTHING};
        bool any = false;
#pragma unroll
        for (int k = 0; k < 4; k++) // NaN is not less than a number
            if (!(v.at[k] < least) && first + k < cols) {
                e[k] = make_entry(v.at[k], first + k);
                any = true;
            }
        if (!__any_sync(0xffffffff, any)) return false;
#pragma unroll
        for (int k = 0; k < 4; k++) {
            const unsigned votes = __ballot_sync(0xffffffff, e[k] >= floor);
            const unsigned below = (1u << threadIdx.x % WARP) - 1;
            if (e[k] >= floor) own_s[count + __popc(votes & below)] = e[k];
            count += __popc(votes);
        }
        return count > STEP;
    }
    /* Copy all entries to the row's candidates, starting at `first`, as far as
     * they fit. */
    __device__ __forceinline__ void copy(entry *candidates, unsigned first,
                                         unsigned room) {
        __syncwarp(); // the entries are stored
        for (unsigned i = threadIdx.x % WARP; i < count; i += WARP)
            if (first + i < room) candidates[first + i] = own_s[i];
        __syncwarp(); // the entries are read
        count = 0;
    }
};

/* Take places for `count` candidates, and return the first. The count of a full
 * buffer stays above its room, and rises no further. */
static __device__ __forceinline__ unsigned take_places(struct search *at,
                                                       unsigned count) {
    const unsigned first = *(volatile unsigned *)&at->candidates;
    return first > at->room ? first : atomicAdd(&at->candidates, count);
}

static __global__ void __launch_bounds__(THREADS)
    filter(entry *candidates, struct search *searches, struct selection s,
           layout l) {
    __shared__ entry entries_s[WARPS][2 * STEP];
    __shared__ unsigned counts_s[WARPS], first_s;
    const size_t row = l.find_row();
    struct search *at = &searches[row];
    const float *x = s.x + row * s.cols;
    const source from = {x, NULL, s.cols, (uintptr_t)x % sizeof(float4) == 0};
    const entry floor = at->floor;
    const float least = find_value(floor, x);
    candidates += row * at->room;
    collector c = {entries_s[threadIdx.x / WARP], 0};
    const size_t stride = (size_t)l.parts * THREADS * 4;
    size_t i = ((size_t)l.find_part() * THREADS + threadIdx.x) * 4;
    // All lanes of a warp continue while one has numbers, since they vote.
    for (; i / STEP * STEP < s.cols; i += AHEAD * stride) {
        four v[AHEAD];
#pragma unroll
        for (int j = 0; j < AHEAD; j++) v[j] = load_four(from, i + j * stride);
#pragma unroll
        for (int j = 0; j < AHEAD; j++) {
            if (!c.add(v[j], i + j * stride, s.cols, floor, least)) continue;
            unsigned first = 0;
            if (threadIdx.x % WARP == 0) first = take_places(at, c.count);
            c.copy(candidates, __shfl_sync(0xffffffff, first, 0), at->room);
        }
    }
    unsigned all;
    const unsigned earlier = add_earlier_warps(c.count, counts_s, &all);
    if (threadIdx.x == 0) first_s = all ? take_places(at, all) : 0;
    __syncthreads(); // first_s is stored
    c.copy(candidates, first_s + earlier, at->room);
}

/* Write the result of each row whose candidates are few enough to be sorted in
 * shared memory; the passes of rung 3 then skip the row. A block of MANY
 * threads handles one row. */
static __global__ void __launch_bounds__(MANY)
    settle_rows(struct selection s, struct search *searches,
                const entry *candidates) {
    __shared__ entry kept_s[SORTED];
    __shared__ unsigned count_s;
    struct search *at = &searches[blockIdx.x];
    candidates += (size_t)blockIdx.x * at->room;
    const bool done =
        at->candidates <= at->room &&
        sort_best(kept_s, &count_s, candidates, at->candidates, (unsigned)s.k);
    if (done)
        for (unsigned i = threadIdx.x; i < s.k; i += MANY)
            write_result(s, blockIdx.x, i, kept_s[i]);
    if (threadIdx.x) return;
    at->floor = 0; // as at the start of rung 3
    if (done) at->state = WRITTEN;
}

static int filter_rows(const struct selection &s) {
    const struct sample p = plan_sample(s.cols, s.k);
    const unsigned room = (unsigned)max(s.cols / 32, (size_t)LEAST_ROOM);
    const layout l = lay_out(s.rows, s.cols, 32);
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
    settle_rows<<<(unsigned)s.rows, MANY, 0, s.stream>>>(s, searches,
                                                         candidates);
    WEFT_LAUNCHED(settle_rows);
    return select_rows(s, searches, candidates);
}

int topk_filtered(const struct selection *s) {
    // A sample of 2 k groups must be a small part of the row.
    if (s->cols < 64 * s->k || s->cols < 4096 || 2 * s->k > SORTED)
        return topk_radix(s);
    const size_t rows = ((size_t)1 << 28) / s->cols;
    return run_groups(*s, rows < 1 ? 1 : min(rows, (size_t)GROUP_ROWS),
                      filter_rows);
}
