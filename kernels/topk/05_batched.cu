/* 05_batched.cu -- topk, rung 5: a row stays on the chip.
 *
 * Before:     rung 4 needs three kernels, and writes candidates to memory.
 * Idea:       a warp keeps a row of up to 1024 numbers in its registers, and up
 *             to 4096 in shared memory, where a bulk copy brings it. Each lane
 *             notes the largest of its numbers. The k-th largest of these is a
 *             floor, as in rung 4: only the k lanes that reach it have their
 *             numbers examined again. They leave few candidates, whose ranks
 *             are counted. For a larger k, a block does the same. Several
 *             blocks take parts of a longer row, and another one merges the
 *             parts' k best.
 * Prediction: one read of x and, for a longer row, 16 k bytes per part. Twelve
 *             warps keep 192 KB in flight per multiprocessor, since a warp
 *             requests its next row as soon as it has examined one.
 * Limit:      rows with many equal numbers, whose candidates exceed a warp's
 *             list: then the warp does as in rung 2, from the floor up. Before
 *             compute capability 9.0, and for rows that do not begin at
 *             multiples of 16 bytes, registers keep rows of 4096, too. If the
 *             parts have more than 8192 entries, the row uses rung 4. If k is a
 *             large part of the row, it uses rung 3. */
#include "heap.cuh"
#include "select.cuh"

#include "common/hopper.cuh"

enum {
    HELD = 1024,   // longest row that a warp of any device keeps in registers
    SHORT = 4096,  // longest row that a warp handles
    PART = 8192,   // numbers that a block keeps: 32 KiB
    MERGED = 8192, // entries of all parts of a row
    SORTED = 4096, // entries that a block sorts in shared memory: 32 KiB
    MANY = 1024,   // threads of a block that merges
    AHEAD = 8      // groups that a thread has in flight
};

/* ---- a warp per row ------------------------------------------------------ */

enum {
    FEW = 256,      // candidates that a warp lists
    RESIDENT = 4,   // warps of a block with rows in registers
    MOST_WARPS = 24 // warps of a block with rows in shared memory
};

/* Return whether one load can fetch four numbers of a row. */
static bool is_wide(const struct selection &s) {
    return rows_are_aligned(s.x, s.x, s.x, (unsigned)s.cols);
}

static __device__ __forceinline__ unsigned find_key(float v) {
    return rank_float(__float_as_uint(v));
}

static __device__ __forceinline__ float max_four(four v, float most) {
    return max_nan(max_nan(most, max_nan(v.at[0], v.at[1])),
                   max_nan(v.at[2], v.at[3]));
}

/* Return the k-th largest of the lanes' keys to all lanes. */
static __device__ __forceinline__ unsigned find_floor(unsigned key,
                                                      unsigned k) {
    const unsigned lane = threadIdx.x % WARP;
#pragma unroll
    for (unsigned size = 2; size <= WARP; size *= 2)
#pragma unroll
        for (unsigned stride = size / 2; stride; stride /= 2) {
            const unsigned other = __shfl_xor_sync(0xffffffff, key, stride);
            const bool larger = !(lane & stride) == !(lane & size);
            key = larger ? max(key, other) : min(key, other);
        }
    return __shfl_sync(0xffffffff, key, (int)k - 1);
}

/* The candidates of a warp's row: numbers whose keys reach the floor. */
struct __align__(16) candidate_list {
    entry entries[FEW];
    unsigned count; // of all candidates, even beyond FEW

    __device__ __forceinline__ void keep(float v, unsigned col,
                                         unsigned floor) {
        if (find_key(v) < floor) return;
        const unsigned place = atomicAdd(&count, 1u);
        if (place < FEW) entries[place] = make_entry(v, col);
    }
};

/* Write the result of a row whose candidates are complete. At least k numbers
 * reach the floor. */
static __device__ __forceinline__ void write_best(const struct selection &s,
                                                  size_t row,
                                                  const candidate_list *list_s,
                                                  unsigned floor) {
    const unsigned lane = threadIdx.x % WARP, count = list_s->count;
    if (count <= FEW) {
        for (unsigned i = lane; i < count; i += WARP) {
            const entry e = list_s->entries[i];
            unsigned better = 0;
            for (unsigned j = 0; j < count; j++)
                better += list_s->entries[j] > e;
            if (better < s.k) write_result(s, row, better, e);
        }
        return;
    }
    heap<1> h;
    const float *const x = s.x + row * s.cols;
    entry least = ((entry)floor << 32) - 1;
    for (unsigned first = 0; first < s.cols; first += WARP) {
        const unsigned i = first + lane;
        const entry own = i < s.cols ? make_entry(x[i], i) : NOTHING;
        h.offer(own, (unsigned)s.k, &least);
    }
    h.write(s, row);
}

/* Select in a row of at most 128 STEPS numbers. The lanes' maxima may include
 * -INFINITY beyond the row's end: if that is the floor, all numbers reach it.
 */
template <unsigned STEPS, bool WIDE>
static __global__ void __launch_bounds__(RESIDENT *WARP, STEPS > 8 ? 2 : 8)
    select_in_registers(struct selection s) {
    __shared__ candidate_list lists_s[RESIDENT];
    const unsigned warp = threadIdx.x / WARP, cols = (unsigned)s.cols;
    const size_t row = (size_t)blockIdx.x * RESIDENT + warp;
    if (row >= s.rows) return; // the whole warp returns
    const float *const x = s.x + row * cols;
    const sharer<WIDE> own = {threadIdx.x % WARP, WARP};
    candidate_list *const list_s = &lists_s[warp];
    if (own.own == 0) list_s->count = 0;
    four v[STEPS];
#pragma unroll
    for (unsigned j = 0; j < STEPS; j++) v[j] = own.load(x, j, cols, -INFINITY);
    float most = -INFINITY;
#pragma unroll
    for (unsigned j = 0; j < STEPS; j++) most = max_four(v[j], most);
    const unsigned floor = find_floor(find_key(most), (unsigned)s.k);
    __syncwarp(); // the list is empty
    if (find_key(most) >= floor)
#pragma unroll
        for (unsigned j = 0; j < STEPS; j++) {
            if (find_key(max_four(v[j], -INFINITY)) < floor) continue;
#pragma unroll
            for (unsigned k = 0; k < 4; k++) {
                const unsigned col = (unsigned)own.find(j, k);
                if (col < cols) list_s->keep(v[j].at[k], col, floor);
            }
        }
    __syncwarp(); // the candidates are stored
    write_best(s, row, list_s, floor);
}

template <unsigned STEPS> static int hold_rows(const struct selection &s) {
    const auto kernel = is_wide(s) ? select_in_registers<STEPS, true>
                                   : select_in_registers<STEPS, false>;
    const size_t blocks = CEIL_DIV(s.rows, (size_t)RESIDENT);
    kernel<<<(unsigned)blocks, RESIDENT * WARP, 0, s.stream>>>(s);
    WEFT_LAUNCHED(select_in_registers);
    return WEFT_OK;
}

/* Keep in list_s the numbers of the lanes whose maximum reaches the floor. All
 * lanes share the numbers of one such lane at a time. */
static __device__ __forceinline__ void
examine_lanes(candidate_list *list_s, const float *row_s, unsigned cols,
              unsigned lanes, unsigned floor) {
    for (; lanes; lanes &= lanes - 1) {
        const unsigned first = (__ffs((int)lanes) - 1) * 4;
#pragma unroll 4
        for (unsigned i = threadIdx.x % WARP; i / 4 * 4 * WARP + first < cols;
             i += WARP) {
            const unsigned col = i / 4 * 4 * WARP + first + i % 4;
            list_s->keep(row_s[col], col, floor);
        }
    }
}

/* Each warp has a slot of shared memory: for a row, of a multiple of 16 bytes,
 * and for its candidates. */
static __global__ void __launch_bounds__(MOST_WARPS *WARP, 1)
    select_in_slots(struct selection s) {
    extern __shared__ __align__(16) char slots_s[];
    __shared__ mbarrier arrived_s[MOST_WARPS];
    const unsigned warp = threadIdx.x / WARP, warps = blockDim.x / WARP;
    const unsigned cols = (unsigned)s.cols, bytes = cols * sizeof(float);
    const sharer<true> own = {threadIdx.x % WARP, WARP};
    const size_t step = (size_t)gridDim.x * warps;
    float *const row_s =
        (float *)(slots_s + warp * (bytes + sizeof(candidate_list)));
    candidate_list *const list_s = (candidate_list *)(row_s + cols);
    mbarrier *const arrived = &arrived_s[warp];
    size_t row = (size_t)blockIdx.x * warps + warp;
    if (row >= s.rows) return; // the whole warp returns
    if (own.own == 0) {
        mbarrier_init(arrived, 1);
        fence_barrier_init();
        mbarrier_expect(arrived, bytes);
        bulk_load(row_s, s.x + row * cols, arrived, bytes);
    }
    __syncwarp(); // the barrier is initialised
    for (unsigned parity = 0; row < s.rows; row += step, parity ^= 1) {
        if (own.own == 0) list_s->count = 0;
        mbarrier_wait(arrived, parity);
        float most = -INFINITY;
#pragma unroll 8
        for (unsigned j = 0; j < own.count_groups(cols); j++)
            most = max_four(own.load(row_s, j, cols, -INFINITY), most);
        const unsigned key = find_key(most);
        const unsigned floor = find_floor(key, (unsigned)s.k);
        __syncwarp(); // the list is empty
        examine_lanes(list_s, row_s, cols,
                      __ballot_sync(0xffffffff, key >= floor), floor);
        __syncwarp(); // the row is read, and the candidates are stored
        if (own.own == 0 && row + step < s.rows) {
            mbarrier_expect(arrived, bytes);
            bulk_load(row_s, s.x + (row + step) * cols, arrived, bytes);
        }
        write_best(s, row, list_s, floor);
        __syncwarp(); // the candidates are read
    }
}

/* Return the bytes of a slot. */
static size_t size_slot(const struct selection &s) {
    return s.cols * sizeof(float) + sizeof(candidate_list);
}

/* Return how many warps of a block have their rows in shared memory, or 0 if
 * bulk copies cannot load them. */
static unsigned count_slots(const struct selection &s) {
    if (device_has(cudaDevAttrComputeCapabilityMajor) < 9) return 0;
    if (!is_wide(s)) return 0;
    const size_t own = 1024; // bytes of the kernel's own arrays, at most
    const size_t all = device_has(cudaDevAttrMaxSharedMemoryPerBlockOptin);
    return (unsigned)min((all - own) / size_slot(s), (size_t)MOST_WARPS);
}

static int load_rows(const struct selection &s, unsigned warps) {
#ifdef __CUDACC__
    const size_t all = (size_t)device_has(cudaDevAttrMultiProcessorCount);
#else
    const size_t all = 2; // the same on every machine
#endif
    const struct launch l = {
        "select_in_slots", (unsigned)min(CEIL_DIV(s.rows, warps), all),
        warps * WARP,      warps * size_slot(s),
        s.stream,          0};
    return launch_kernel(l, select_in_slots, s);
}

static int select_short(const struct selection &s) {
    if (s.cols <= HELD) return hold_rows<HELD / (4 * WARP)>(s);
    const unsigned warps = count_slots(s);
    return warps ? load_rows(s, warps) : hold_rows<SHORT / (4 * WARP)>(s);
}

/* ---- a block per row or part --------------------------------------------- */

/* The shared memory of a row: its numbers, then room for entries. */
struct room {
    unsigned cols, entries; // a multiple of 4; a power of 2

    size_t count_bytes() const {
        return cols * sizeof(float) + entries * sizeof(entry);
    }
};

/* Return the memory for the largest set of candidates: all numbers of k
 * threads. */
static struct room plan_room(unsigned cols, size_t k) {
    const size_t own = CEIL_DIV(cols, 4 * THREADS) * 4;
    const size_t all = cols, most = k > THREADS ? all : min(all, k * own);
    const size_t entries = round_up(max(most, (size_t)THREADS));
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

/* Select with a block per part of a row. Columns in entries count from the
 * part's beginning. */
template <bool WIDE>
static __global__ void __launch_bounds__(THREADS)
    select_in_shared(struct selection s, struct division d, struct room r) {
    extern __shared__ entry kept_s[];
    __shared__ unsigned count_s;
    const size_t part = blockIdx.x, row = part / d.parts;
    const size_t first = part % d.parts * d.length;
    const unsigned cols = (unsigned)min((size_t)d.length, s.cols - first);
    const unsigned k = (unsigned)s.k;
    const sharer<WIDE> own = {threadIdx.x, THREADS};
    float *row_s = (float *)(kept_s + r.entries);

    const entry most = keep_row(row_s, s.x + row * s.cols + first, cols, own);
    entry floor = NOTHING;
    if (own.own == 0) count_s = 0;
    if (k <= THREADS) {
        kept_s[own.own] = most;
        __syncthreads(); // the maxima are stored
        sort_shared<THREADS>(kept_s, THREADS);
        floor = kept_s[k - 1];
    }
    __syncthreads(); // the floor is read, and the count is 0
    if (most >= floor)
        keep_candidates(kept_s, &count_s, row_s, cols, floor, own);
    __syncthreads(); // the candidates and the row are stored
    const unsigned count = count_s, padded = (unsigned)round_up(count);
    for (unsigned i = count + own.own; i < padded; i += THREADS)
        kept_s[i] = NOTHING;
    __syncthreads(); // the entries after the candidates are stored
    sort_shared<THREADS>(kept_s, padded);
    for (unsigned i = own.own; i < k; i += THREADS)
        if (d.best) { // a column is stored inverted
            d.best[part * k + i] = i < count ? kept_s[i] - first : NOTHING;
        } else {
            s.values[row * k + i] = find_value(kept_s[i], row_s);
            s.indices[row * k + i] = find_col(kept_s[i]);
        }
}

static int select_parts(const struct selection &s, struct division d,
                        struct room r) {
    const struct launch l = {"select_in_shared",
                             (unsigned)(s.rows * d.parts),
                             THREADS,
                             r.count_bytes(),
                             s.stream,
                             0};
    return launch_kernel(
        l, is_wide(s) ? select_in_shared<true> : select_in_shared<false>, s, d,
        r);
}

/* Write the k best of a row's `count` entries, with a block per row. */
static __global__ void __launch_bounds__(MANY)
    merge_parts(struct selection s, const entry *best, unsigned count) {
    __shared__ entry kept_s[SORTED];
    __shared__ unsigned count_s;
    best += (size_t)blockIdx.x * count;
    sort_best<MANY>(kept_s, &count_s, best, count, (unsigned)s.k);
    for (unsigned i = threadIdx.x; i < s.k; i += MANY)
        write_result(s, blockIdx.x, i, kept_s[i]);
}

static int select_and_merge(const struct selection &s, unsigned parts,
                            struct room r) {
    const unsigned count = parts * (unsigned)s.k;
    scratch memory(s.stream);
    WEFT_TRY(memory.claim("topk", s.rows * count * sizeof(entry)));
    const struct division d = {parts, PART, (entry *)memory.memory};
    WEFT_TRY(select_parts(s, d, r));
    merge_parts<<<(unsigned)s.rows, MANY, 0, s.stream>>>(s, d.best, count);
    WEFT_LAUNCHED(merge_parts);
    return WEFT_OK;
}

/* Return whether a block can merge `count` entries in any order. */
static bool can_merge(size_t count, size_t k) {
    return count <= SORTED || (count <= MERGED && k <= MANY &&
                               k * CEIL_DIV(count, MANY) <= SORTED);
}

int topk_batched(const struct selection *s) {
    if (s->k <= WARP && s->cols <= SHORT) return select_short(*s);
    const unsigned parts = (unsigned)CEIL_DIV(s->cols, PART);
    const unsigned length = parts > 1 ? (unsigned)PART : (unsigned)s->cols;
    const struct room r = plan_room(length, s->k);
    if (r.count_bytes() > count_room() * sizeof(float)) return topk_filtered(s);
    if (parts == 1) return select_parts(*s, {1, length, NULL}, r);
    return can_merge(s->k * parts, s->k) ? select_and_merge(*s, parts, r)
                                         : topk_filtered(s);
}
