/* 04_filtered.cu -- topk, rung 4: read x once, and select among candidates.
 *
 * Before:     rung 3 reads all of x for each digit.
 * Idea:       read a sample first, spread over the row, in groups. The k-th
 *             largest of the groups' maxima is a floor: k numbers reach it, so
 *             no number below it is in the result. One pass copies the numbers
 *             that reach the floor to a buffer. A block selects among them or,
 *             if they are too many, rung 3 does.
 * Prediction: one read of x, and a few percent for sample and buffer: a
 *             sample of one in f numbers leaves about k f candidates. A row of
 *             2^28 numbers with k = 64 has a sample of 2^22, and 4200
 *             candidates. In a sorted row, each of the k last lines of the
 *             sample adds the numbers between it and the next line.
 * Limit:      more candidates than fit in the buffer, a 32nd of the row: then
 *             rung 3 selects in the row itself, so the result is late, but
 *             correct. Short rows need separate kernels: rung 5. */
#include "select.cuh"

#include "common/registers.cuh"

enum {
    LINE = 32,                  // numbers in 128 bytes, which 8 lanes load
    AHEAD = 4,                  // loads of 16 bytes that a thread has in flight
    TILE = 4 * AHEAD * THREADS, // numbers that a block loads at a time
    LISTED = 512,      // candidates that a block lists in shared memory
    LEAST_ROOM = 1024, // minimum entries of the buffer
    MOST_MAXIMA = 4096 // groups of a sample, unless k needs more
};

/* Return the number of floats before the first multiple of 128 bytes. */
static __device__ __forceinline__ unsigned find_head(const float *x) {
    return (0u - (unsigned)((uintptr_t)x / sizeof *x)) % LINE;
}

/* The sample of a row: `groups` groups of `lanes` threads load `loads` times
 * four numbers each. */
struct sample {
    unsigned groups, lanes, loads;
    unsigned sorted; // maxima that a block sorts: of groups or of their unions

    __host__ __device__ unsigned count_threads() const {
        return groups * lanes;
    }
};

/* Return the sample of a row. If one of f numbers is in the sample, that costs
 * 4 n / f bytes for the sample, and about 30 k f bytes for the candidates. Each
 * candidate also delays a warp, so a few thousand of them are the limit. */
static struct sample plan_sample(size_t rows, size_t cols, size_t k) {
    size_t f = 1;
    while (f * f * 32 * k <= cols && (f < 32 || f * k * rows < 4096)) f *= 2;
    const size_t loads = cols / f / 4;
    struct sample p;
    p.sorted = p.groups = (unsigned)round_up(max(2 * k, (size_t)THREADS));
    while (p.groups < MOST_MAXIMA && 16 * WARP * p.groups <= loads)
        p.groups *= 2;
    p.lanes = 1;
    while (p.lanes < WARP && 2 * p.count_threads() <= loads) p.lanes *= 2;
    p.loads = (unsigned)max(loads / p.count_threads(), (size_t)1);
    return p;
}

/* A thread's loads of a sample. Neighbours among the lines of a sample belong
 * to different groups, so that sorted rows have few candidates, too. */
struct sampler {
    unsigned first, step; // numbers of the thread's lines in the sample
    unsigned stride;      // lines of the row per line of the sample

    __device__ __forceinline__ sampler(const struct sample &p, unsigned lines,
                                       unsigned thread) {
        const unsigned all = p.count_threads() / 8, team = thread / 8;
        const unsigned each = max(p.lanes / 8, 1u); // teams of a group
        first = team % each * (all / each) + team / each;
        step = all;
        stride = lines / (all * p.loads);
    }
    /* Return the first number of load j, from the row's first whole line. A
     * line's place in its part of the row varies, since data may have a
     * period. */
    __device__ __forceinline__ size_t find(unsigned j) const {
        const unsigned i = first + j * step;
        const uint64_t place = (uint64_t)(i * 2654435769u) * stride >> 32;
        return ((size_t)i * stride + place) * LINE + threadIdx.x % 8 * 4;
    }
};

/* Return the largest entry of four neighbours, the first at column `col`. */
static __device__ __forceinline__ entry find_largest(float4 v, size_t col) {
    return max(max(make_entry(v.x, col), make_entry(v.y, col + 1)),
               max(make_entry(v.z, col + 2), make_entry(v.w, col + 3)));
}

/* Find the maximum of each group of each row. The last block of a row finds its
 * floor, the k-th largest of the maxima. */
static __global__ void __launch_bounds__(THREADS)
    take_sample(struct search *searches, entry *maxima, struct selection s,
                struct sample p, unsigned room) {
    extern __shared__ entry sorted_s[];
    __shared__ unsigned earlier_s;
    const unsigned parts = p.count_threads() / THREADS;
    const size_t row = blockIdx.x / parts;
    const unsigned thread = blockIdx.x % parts * THREADS + threadIdx.x;
    const float *const x = s.x + row * s.cols;
    const unsigned head = find_head(x);
    const unsigned lines = (unsigned)((s.cols - head) / LINE);
    struct search *const at = &searches[row];
    const sampler own(p, lines, thread);
    maxima += row * p.groups;
    entry most = NOTHING;
    for (unsigned j = 0; j < p.loads; j += AHEAD) {
        float4 v[AHEAD] = {};
#pragma unroll
        for (unsigned i = 0; i < AHEAD; i++)
            if (j + i < p.loads)
                v[i] = *(const float4 *)(x + head + own.find(j + i));
#pragma unroll
        for (unsigned i = 0; i < AHEAD; i++)
            if (j + i < p.loads)
                most = max(most, find_largest(v[i], head + own.find(j + i)));
    }
    for (unsigned distance = p.lanes / 2; distance > 0; distance /= 2)
        most = max(most, __shfl_xor_sync(0xffffffff, most, (int)distance));
    if (thread % p.lanes == 0) maxima[thread / p.lanes] = most;
    if (arrive(&at->arrived, &earlier_s) != parts - 1) return;
    for (unsigned i = threadIdx.x; i < p.sorted; i += THREADS) {
        most = NOTHING;
        visit_every(maxima, i, p.groups, p.sorted,
                    [&](entry e) { most = max(most, e); });
        sorted_s[i] = most;
    }
    __syncthreads(); // the maxima are stored
    sort_shared<THREADS>(sorted_s, p.sorted);
    if (threadIdx.x) return;
    at->floor = sorted_s[s.k - 1];
    at->room = room;
    at->arrived = 0; // rung 3 starts with this value, too
}

/* The candidates that a block has found. */
struct candidate_list {
    entry entries[LISTED];
    unsigned count; // of all candidates, even beyond LISTED
};

/* The destinations of candidates. `least` is the floor's number. */
struct keeper {
    struct search *at;
    entry *candidates, floor;
    float least;
    candidate_list *list_s;

    /* NaN is not less than a number. */
    __device__ __forceinline__ bool may_reach(float v) const {
        return !(v < least);
    }
    __device__ __forceinline__ void keep(float v, size_t col) const {
        if (!may_reach(v)) return;
        const entry e = make_entry(v, col);
        if (e < floor) return;
        const unsigned place = atomicAdd(&list_s->count, 1u);
        if (place < LISTED)
            list_s->entries[place] = e;
        else
            append(e);
    }
    /* Append an entry for which the list has no room. The count of a full
     * buffer stays above its room, and hardly rises. */
    __device__ __forceinline__ void append(entry e) const {
        if (*(volatile unsigned *)&at->candidates > at->room) return;
        const unsigned place = atomicAdd(&at->candidates, 1u);
        if (place < at->room) candidates[place] = e;
    }
};

static __global__ void __launch_bounds__(THREADS, THREADS_PER_SM / THREADS)
    filter(entry *candidates, struct search *searches, struct selection s,
           layout l) {
    __shared__ candidate_list list_s;
    __shared__ unsigned first_s;
    const size_t row = l.find_row();
    struct search *const at = &searches[row];
    const float *const x = s.x + row * s.cols;
    const unsigned room = at->room;
    candidates += row * room;
    const entry floor = at->floor;
    const keeper to = {at, candidates, floor, find_value(floor, x), &list_s};
    if (threadIdx.x == 0) list_s.count = 0;
    __syncthreads(); // the list is empty

    const unsigned head = find_head(x);
    const size_t tiles = (s.cols - head) / TILE;
    for (size_t t = l.find_part(); t < tiles; t += l.parts) {
        const size_t first = head + t * TILE + 4 * threadIdx.x;
        float4 v[AHEAD];
        bool any = false;
#pragma unroll
        for (int j = 0; j < AHEAD; j++)
            v[j] = __ldcs((const float4 *)(x + first) + j * THREADS);
#pragma unroll
        for (int j = 0; j < AHEAD; j++)
            any |= to.may_reach(v[j].x) | to.may_reach(v[j].y) |
                   to.may_reach(v[j].z) | to.may_reach(v[j].w);
        if (any)
#pragma unroll
            for (int j = 0; j < AHEAD; j++) {
                const size_t col = first + j * 4 * THREADS;
                to.keep(v[j].x, col);
                to.keep(v[j].y, col + 1);
                to.keep(v[j].z, col + 2);
                to.keep(v[j].w, col + 3);
            }
        __syncwarp(); // the lanes load their next numbers together
    }
    const size_t rest = s.cols - tiles * TILE; // before and after the tiles
    for (size_t i = l.find_part() * THREADS + threadIdx.x; i < rest;
         i += l.parts * THREADS) {
        const size_t col = i < head ? i : i + tiles * TILE;
        to.keep(x[col], col);
    }
    __syncthreads(); // the list is complete
    const unsigned count = min(list_s.count, (unsigned)LISTED);
    if (threadIdx.x == 0 && count) first_s = atomicAdd(&at->candidates, count);
    __syncthreads(); // first_s is stored
    for (unsigned i = threadIdx.x; i < count; i += THREADS)
        if (first_s + i < room) candidates[first_s + i] = list_s.entries[i];
}

static int filter_rows(const struct selection &s) {
    const struct sample p = plan_sample(s.rows, s.cols, s.k);
    const unsigned room = (unsigned)max(s.cols / 32, (size_t)LEAST_ROOM);
    // Blocks that all run at once suit few rows. With many rows, each has few
    // parts, and rounding may leave much of one wave empty, so the grid has
    // several waves.
    const size_t once = count_resident(filter, THREADS, 0, 16);
    const size_t waves = s.rows <= once / 16 ? 1 : 4;
    const layout l = lay_out(s.rows, s.cols, waves * once);
    const size_t groups = s.rows * p.groups;
    scratch memory(s.stream), more(s.stream);
    struct search *searches;
    WEFT_TRY(claim_searches(&memory, s.rows, &searches));
    WEFT_TRY(more.claim("topk", (groups + s.rows * room) * sizeof(entry)));
    entry *maxima = (entry *)more.memory, *candidates = maxima + groups;
    const size_t blocks = s.rows * p.count_threads() / THREADS;
    take_sample<<<(unsigned)blocks, THREADS, p.sorted * sizeof(entry),
                  s.stream>>>(searches, maxima, s, p, room);
    WEFT_LAUNCHED(take_sample);
    filter<<<l.count_blocks(), THREADS, 0, s.stream>>>(candidates, searches, s,
                                                       l);
    WEFT_LAUNCHED(filter);
    return select_rows(s, searches, candidates);
}

int topk_filtered(const struct selection *s) {
    // A sample of at least 2 k groups must be a small part of the row.
    if (s->cols < 64 * s->k || s->cols < 4096 || s->k > MOST_MAXIMA / 2)
        return topk_radix(s);
    const size_t rows = ((size_t)1 << 28) / s->cols;
    return run_groups(*s, rows < 1 ? 1 : min(rows, (size_t)GROUP_ROWS),
                      filter_rows);
}
