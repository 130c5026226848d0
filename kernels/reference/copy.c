/* copy.c -- the copy of an array in plain C.
 *
 * An ordinary store first reads its cache line from memory. So a copy of n
 * bytes moves 3 n. Stores that skip the caches (simd.h) write whole lines
 * without that read, and move 2 n. They pay off only if the arrays exceed the
 * caches; otherwise ordinary stores leave y there for its next reader. */
#include <string.h>

#include "reference.h"
#include "simd.h"

enum {
    ALONE = 1 << 15,  // with fewer floats, a second thread costs more than it
                      // saves
    CACHED = 1 << 22, // fewer floats may stay in the caches: 16 MiB per array
    PIECE = 1 << 12,  // floats that a thread copies at a time: 16 KiB
    CHUNK = 1 << 24,  // floats between interrupt checks: 64 MiB
    LINE = 16         // floats in a cache line
};

/* Copy whole lines, bypassing the caches; y is aligned to a line. */
static void stream_lines(float *y, const float *x, size_t count) {
    for (size_t i = 0; i < count; i += LINE)
#pragma GCC unroll 4
        for (int v = 0; v < LINE; v += VLEN)
            vstream(y + i + v, vload(x + i + v));
}

static void copy_piece(float *y, const float *x, size_t count, int streams) {
    if (streams)
        stream_lines(y, x, count);
    else
        memcpy(y, x, count * sizeof *y);
}

/* Copy with all threads. Returns whether Ctrl-C has been pressed. */
static int copy_pieces(float *y, const float *x, size_t count, int streams) {
    for (size_t start = 0; start < count; start += CHUNK) {
        const size_t end = count - start < CHUNK ? count : start + CHUNK;
        if (weft_interrupted()) return 1;
#pragma omp parallel if (count >= ALONE)
        {
#pragma omp for schedule(static) nowait
            for (size_t i = start; i < end; i += PIECE)
                copy_piece(y + i, x + i, end - i < PIECE ? end - i : PIECE,
                           streams);
            vstream_end();
        }
    }
    return 0;
}

int copy_reference(float *y, const float *x, size_t count) {
    const int streams = count >= CACHED;
    size_t head = (0 - (uintptr_t)y / sizeof *y) % LINE;
    if (head > count) head = count;
    const size_t lines = (count - head) / LINE * LINE, end = head + lines;
    memcpy(y, x, head * sizeof *y);
    memcpy(y + end, x + end, (count - end) * sizeof *y);
    if (copy_pieces(y + head, x + head, lines, streams))
        return weft_fail(WEFT_EINTR, "copy: Ctrl-C");
    return WEFT_OK;
}
