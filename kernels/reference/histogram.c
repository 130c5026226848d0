/* histogram.c -- counts of each byte's occurrences, in plain C.
 *
 * An addition in memory takes several cycles, and the next addition to the same
 * count waits for it. So a thread has 16 tables: neighbours in x use different
 * ones, and even equal bytes seldom wait. A processor writes to its cache about
 * once per cycle, so a byte takes a cycle. 64 equal bytes, which a test of 8
 * words detects, need only one addition. The counts are the same for any number
 * of threads. */
#include <string.h>

#include "reference.h"

enum {
    BINS = 256,
    TABLES = 16,     // 16 KiB, half of a usual L1 cache
    RUN = 64,        // bytes that are compared at a time
    PIECE = 1 << 17, // bytes after which a thread adds up its tables
};

/* Return whether all bytes of the 8 words equal `byte`. */
static inline int are_equal(const uint64_t words[8], uint8_t byte) {
    const uint64_t want = byte * 0x0101010101010101u;
    uint64_t differs = 0;
    for (int i = 0; i < 8; i++) differs |= words[i] ^ want;
    return !differs;
}

/* Add the bytes of a piece to the tables. */
static void fill_tables(uint32_t tables[TABLES][BINS], const uint8_t *x,
                        size_t count) {
    size_t i = 0;
    for (; i + RUN <= count; i += RUN) {
        uint64_t words[8];
        memcpy(words, x + i, sizeof words);
        if (are_equal(words, x[i])) {
            tables[0][x[i]] += RUN;
            continue;
        }
#pragma GCC unroll 8
        for (int j = 0; j < 8; j++)
#pragma GCC unroll 8
            for (int k = 0; k < 8; k++)
                tables[8 * (j % 2) + k][words[j] >> 8 * k & 255]++;
    }
    for (; i < count; i++) tables[0][x[i]]++;
}

/* Add the bytes of a piece to counts (256). */
static void count_piece(int64_t *counts, const uint8_t *x, size_t count) {
    uint32_t tables[TABLES][BINS] = {{0}};
    fill_tables(tables, x, count);
    for (int table = 0; table < TABLES; table++)
        for (int bin = 0; bin < BINS; bin++) counts[bin] += tables[table][bin];
}

int histogram_reference(int64_t *counts, const uint8_t *x, size_t count) {
    const size_t pieces = (count + PIECE - 1) / PIECE;
    int interrupted = 0;
    memset(counts, 0, BINS * sizeof *counts);
#pragma omp parallel for schedule(static) if (pieces > 1) \
    reduction(+ : counts[ : BINS]) reduction(| : interrupted)
    for (size_t p = 0; p < pieces; p++) {
        const size_t left = count - p * PIECE;
        interrupted |= weft_interrupted();
        if (interrupted) continue;
        count_piece(counts, x + p * PIECE, left < PIECE ? left : PIECE);
    }
    return interrupted ? weft_fail(WEFT_EINTR, "histogram: Ctrl-C") : WEFT_OK;
}
