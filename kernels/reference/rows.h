/* rows.h -- the division of work on rows among threads in plain C rungs.
 *
 * Threads share the rows. If rows are fewer than threads, the threads share the
 * pieces of one long row after another. A long row has the same pieces in
 * both cases, so the number of threads does not affect the bits. */
#ifndef WEFT_ROWS_H
#define WEFT_ROWS_H
#include <omp.h>

#include "reference.h"
#include "simd.h"

enum {
    SHORT = 1 << 16, // length of the longest row that is not divided: 256 KiB
    PIECES = 64,     // number of pieces of a longer row
    LINE = 16,       // floats of a cache line
    ALONE = 1 << 13, // with fewer numbers, a second thread costs more than it
                     // saves
    CACHED = 1 << 22 // fewer numbers may stay in the caches: 16 MiB per array
};

/* The rows of a call. */
struct rows {
    const char *op; // for the message after Ctrl-C
    size_t rows, cols;
    int streams;  // whether stores skip the caches
    int together; // whether all threads share each row
};

static inline struct rows make_rows(const char *op, int rows, int cols) {
    const size_t count = (size_t)rows * cols;
    const int few = rows < omp_get_max_threads();
    return (struct rows){op, rows, cols, count >= CACHED, cols > SHORT && few};
}

/* Call work(call, number of the row) for each row, and return a status. */
static inline int for_rows(const struct rows *r,
                           void (*work)(const void *call, size_t row),
                           const void *call) {
    const size_t step = 1 + (1 << 24) / r->cols; // rows between two checks
    const int shared = !r->together && r->rows * r->cols >= ALONE;
    for (size_t first = 0; first < r->rows; first += step) {
        const size_t end = r->rows - first < step ? r->rows : first + step;
        if (weft_interrupted())
            return weft_fail(WEFT_EINTR, "%s: Ctrl-C", r->op);
#pragma omp parallel if (shared)
        {
#pragma omp for schedule(static) nowait
            for (size_t row = first; row < end; row++) work(call, row);
            vstream_end();
        }
    }
    return WEFT_OK;
}

/* Call work(call, number of the piece, its first column, its length) for each
 * piece of a row. */
static inline void for_pieces(const struct rows *r,
                              void (*work)(void *call, int piece, size_t at,
                                           size_t count),
                              void *call) {
    const size_t part = (r->cols + PIECES - 1) / PIECES;
    const size_t length = (part + LINE - 1) / LINE * LINE; // whole cache lines
#pragma omp parallel if (r->together)
    {
#pragma omp for schedule(static) nowait
        for (int piece = 0; piece < PIECES; piece++) {
            const size_t at = piece * length;
            if (at >= r->cols) continue;
            const size_t left = r->cols - at;
            work(call, piece, at, left < length ? left : length);
        }
        vstream_end();
    }
}

/* Return the number of floats before y's next cache line, at most `count`. */
static inline size_t count_head(const float *y, size_t count) {
    const size_t head = (0 - (uintptr_t)y / sizeof *y) % LINE;
    return head < count ? head : count;
}

/* Store `vector` in y[i .. i + VLEN) and `number` in y[i] for the numbers
 * before and after whole vectors; both are expressions of i. */
#define STORE_EACH(y, count, streams, vector, number)                        \
    do {                                                                     \
        size_t i = 0;                                                        \
        const size_t head = (streams) ? count_head(y, count) : 0;            \
        for (; i < head; i++) (y)[i] = number;                               \
        if (streams)                                                         \
            for (; i + VLEN <= (count); i += VLEN) vstream((y) + i, vector); \
        else                                                                 \
            for (; i + VLEN <= (count); i += VLEN) vstore((y) + i, vector);  \
        for (; i < (count); i++) (y)[i] = number;                            \
    } while (0)

#endif
