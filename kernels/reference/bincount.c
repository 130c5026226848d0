/* bincount.c -- counts of the occurrences of numbers, in plain C.
 *
 * Each thread has four tables if they fit in the L1 cache, since an addition
 * waits for an earlier one to the same count. Otherwise, it has one table. A
 * table has an extra bin for numbers outside [0,bins). If a table would
 * be larger than x, one thread counts without tables. The counts are the same
 * for any number of threads. */
#include <omp.h>
#include <stdlib.h>
#include <string.h>

#include "reference.h"

enum {
    FEW = 1 << 10,   // number of bins for which four tables fit in L1
    TABLES = 4,      // tables of a thread for so few bins
    PIECE = 1 << 16, // numbers between interrupt checks
    CHUNK = 1 << 30  // numbers after which tables are added to the counts
};

/* Return the table's bin of a number: `bins` if it is not in [0,bins). */
static inline uint32_t find_bin(int32_t number, uint32_t bins) {
    const uint32_t bin = (uint32_t)number;
    return bin < bins ? bin : bins;
}

/* Count numbers in `many` tables, which take turns. */
static inline void fill_tables(uint32_t *tables, int many, const int32_t *x,
                               size_t count, uint32_t bins) {
    const size_t width = (size_t)bins + 1;
    size_t i = 0;
    for (; i + TABLES <= count; i += TABLES)
#pragma GCC unroll 4
        for (int k = 0; k < TABLES; k++)
            tables[k % many * width + find_bin(x[i + k], bins)]++;
    for (; i < count; i++) tables[find_bin(x[i], bins)]++;
}

/* Count at most CHUNK numbers in the threads' tables, and add these tables,
 * `all` in total, to the counts. The tables are 0 before and after. Returns
 * whether Ctrl-C has been pressed. */
static int count_chunk(int64_t *counts, uint32_t *tables, int many, int all,
                       const int32_t *x, size_t count, uint32_t bins) {
    const size_t width = (size_t)bins + 1;
    int interrupted = 0;
#pragma omp parallel if (all > many)
    {
        uint32_t *own = tables + omp_get_thread_num() * many * width;
#pragma omp for schedule(static) reduction(| : interrupted)
        for (size_t start = 0; start < count; start += PIECE) {
            const size_t left = count - start;
            const size_t length = left < PIECE ? left : PIECE;
            interrupted |= weft_interrupted();
            if (interrupted) continue;
            if (many == 1)
                fill_tables(own, 1, x + start, length, bins);
            else
                fill_tables(own, TABLES, x + start, length, bins);
        }
#pragma omp for schedule(static)
        for (uint32_t bin = 0; bin < bins; bin++)
            for (int table = 0; table < all; table++) {
                counts[bin] += tables[table * width + bin];
                tables[table * width + bin] = 0;
            }
    }
    return interrupted;
}

/* Count without tables. Returns whether Ctrl-C has been pressed. */
static int count_alone(int64_t *counts, const int32_t *x, size_t count,
                       uint32_t bins) {
    for (size_t i = 0; i < count; i++) {
        if (i % PIECE == 0 && weft_interrupted()) return 1;
        if ((uint32_t)x[i] < bins) counts[x[i]]++;
    }
    return 0;
}

int bincount_reference(int64_t *counts, const int32_t *x, size_t count,
                       int bins) {
    const int threads = count > PIECE ? omp_get_max_threads() : 1;
    const int many = bins <= FEW ? TABLES : 1, all = threads * many;
    int interrupted = 0;
    memset(counts, 0, (size_t)bins * sizeof *counts);
    if ((size_t)bins >= count) {
        interrupted = count_alone(counts, x, count, bins);
    } else {
        const size_t size = all * ((size_t)bins + 1) * sizeof(uint32_t);
        uint32_t *tables = calloc(1, size);
        if (!tables)
            return weft_fail(WEFT_ENOMEM, "bincount: out of memory: %zu bytes",
                             size);
        for (size_t i = 0; i < count && !interrupted; i += CHUNK)
            interrupted =
                count_chunk(counts, tables, many, all, x + i,
                            count - i < CHUNK ? count - i : CHUNK, bins);
        free(tables);
    }
    return interrupted ? weft_fail(WEFT_EINTR, "bincount: Ctrl-C") : WEFT_OK;
}
