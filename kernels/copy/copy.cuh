/* copy.cuh -- declares the rungs of copy, and their common code.
 *
 * Loads and stores of 16 bytes require addresses that are multiples of 16. If x
 * and y are equally far from such an address, the copy has a body that begins
 * there. A head and a tail of up to three floats each surround it. Otherwise
 * there is no body, and rung 2 copies everything. */
#ifndef WEFT_COPY_CUH
#define WEFT_COPY_CUH
#include "common/internal.cuh"

#include "common/checks.cuh"

/* The arguments of weft_copy(), which the rungs receive. */
struct duplication {
    float *y;       // (count)
    const float *x; // (count)
    size_t count;
    cudaStream_t stream;
};

/* Queue the work of a rung; each returns a weft_status. */
int copy_byte(const struct duplication *d);
int copy_word(const struct duplication *d);
int copy_vector(const struct duplication *d);
int copy_bulk(const struct duplication *d);

/* The floats of a copy, in order: head, 4 * fours, tail. */
struct parts {
    unsigned head, tail; // 0 to 3
    size_t fours;        // 0: copy word by word
};

static inline struct parts divide(const struct duplication *d) {
    const size_t from = (uintptr_t)d->x % 16, to = (uintptr_t)d->y % 16;
    const size_t head = (16 - from) % 16 / sizeof(float);
    if (from != to || d->count < head + 4) return {0, 0, 0};
    const size_t rest = d->count - head;
    return {(unsigned)head, (unsigned)(rest % 4), rest / 4};
}

/* Copy head and tail, each by the first threads of the grid. */
static __device__ __forceinline__ void copy_ends(float *y, const float *x,
                                                 struct parts p) {
    const size_t end = p.head + 4 * p.fours;
    if (blockIdx.x) return;
    if (threadIdx.x < p.head) y[threadIdx.x] = x[threadIdx.x];
    if (threadIdx.x < p.tail) y[end + threadIdx.x] = x[end + threadIdx.x];
}

#endif
