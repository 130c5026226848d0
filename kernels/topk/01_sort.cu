/* 01_sort.cu -- topk, rung 1: sort each row, and keep the first k.
 *
 * Idea:       a bitonic sort. A run that rises and falls is sorted by exchanges
 *             of pairs at half its length, at a quarter, and so on. Pairs of
 *             more than a tile are exchanged in global memory, a kernel per
 *             step; all steps within a tile happen in shared memory.
 * Prediction: a row of n = 2^p numbers needs p (p + 1) / 2 steps. For n = 2^20,
 *             those outside of tiles move 45 times 16 bytes per number.
 * Limit:      it also orders all other numbers, which nobody needs. Rung 2
 *             keeps only the k best so far. */
#include "topk.cuh"

enum { TILE = 2048 };                     // entries: 16 KiB
enum : size_t { MOST = (size_t)1 << 24 }; // entries of a group of rows

static __global__ void make_entries(entry *entries, const float *x, size_t rows,
                                    size_t cols, size_t padded) {
    const size_t i = (size_t)blockIdx.x * THREADS + threadIdx.x;
    const size_t row = i / padded, col = i % padded;
    if (row >= rows) return;
    entries[i] = col < cols ? make_entry(x[row * cols + col], col) : NOTHING;
}

/* Sort tiles in shared memory: do the steps of all sizes from `least` to `most`
 * whose stride is below a tile's length. A block handles a tile. */
static __global__ void sort_tiles(entry *entries, unsigned tile, size_t padded,
                                  size_t least, size_t most) {
    __shared__ entry entries_s[TILE];
    const size_t start = (size_t)blockIdx.x * tile;
    for (unsigned i = threadIdx.x; i < tile; i += THREADS)
        entries_s[i] = entries[start + i];
    for (size_t size = least; size <= most; size *= 2)
        for (size_t stride = min(size, (size_t)tile) / 2; stride; stride /= 2) {
            __syncthreads(); // the previous step's entries are stored
            exchange_pairs<size_t>(entries_s, start % padded, tile, size,
                                   stride, threadIdx.x, THREADS);
        }
    __syncthreads(); // the entries are sorted
    for (unsigned i = threadIdx.x; i < tile; i += THREADS)
        entries[start + i] = entries_s[i];
}

/* Do one step with a stride of at least a tile; one thread per pair. */
static __global__ void exchange_far(entry *entries, size_t count, size_t padded,
                                    size_t size, size_t stride) {
    const size_t pair = (size_t)blockIdx.x * THREADS + threadIdx.x;
    if (pair >= count / 2) return;
    const size_t row = pair / (padded / 2);
    exchange_pairs<size_t>(entries + row * padded, 0, padded, size, stride,
                           pair % (padded / 2), padded);
}

static __global__ void write_first(struct selection s, const entry *entries,
                                   size_t padded) {
    const size_t i = (size_t)blockIdx.x * THREADS + threadIdx.x;
    const size_t row = i / s.k, place = i % s.k;
    if (row >= s.rows) return;
    const entry e = entries[row * padded + place];
    if (e != NOTHING) write_result(s, row, place, e);
}

int sort_and_write(const struct selection &s, entry *entries, size_t padded) {
    const unsigned tile = padded < TILE ? (unsigned)padded : (unsigned)TILE;
    const size_t count = s.rows * padded;
    const unsigned tiles = (unsigned)(count / tile);
    sort_tiles<<<tiles, THREADS, 0, s.stream>>>(entries, tile, padded, 2, tile);
    WEFT_LAUNCHED(sort_tiles);
    for (size_t size = 2 * (size_t)tile; size <= padded; size *= 2) {
        for (size_t stride = size / 2; stride >= tile; stride /= 2) {
            exchange_far<<<blocks_for(count / 2), THREADS, 0, s.stream>>>(
                entries, count, padded, size, stride);
            WEFT_LAUNCHED(exchange_far);
        }
        sort_tiles<<<tiles, THREADS, 0, s.stream>>>(entries, tile, padded, size,
                                                    size);
        WEFT_LAUNCHED(sort_tiles);
    }
    write_first<<<blocks_for(s.rows * s.k), THREADS, 0, s.stream>>>(s, entries,
                                                                    padded);
    WEFT_LAUNCHED(write_first);
    return WEFT_OK;
}

static int sort_rows(const struct selection &s) {
    const size_t padded = round_up(s.cols), count = s.rows * padded;
    scratch memory(s.stream);
    WEFT_TRY(memory.claim("topk", count * sizeof(entry)));
    entry *entries = (entry *)memory.memory;
    make_entries<<<blocks_for(count), THREADS, 0, s.stream>>>(
        entries, s.x, s.rows, s.cols, padded);
    WEFT_LAUNCHED(make_entries);
    return sort_and_write(s, entries, padded);
}

int topk_sort(const struct selection *s) {
    const size_t rows = MOST / round_up(s->cols);
    return run_groups(*s, rows ? rows : 1, sort_rows);
}
