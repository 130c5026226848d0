/* split.cuh -- a row shared by several blocks, each of which keeps a part. */
#ifndef WEFT_SPLIT_CUH
#define WEFT_SPLIT_CUH
#include "rows.cuh"
#include "scratch.cuh"

enum { LEAST = 4 * THREADS }; // numbers of a part that keep a block busy

/* A GPU runs all blocks at the same time only if the launch requires it. The
 * CPU target starts more blocks when all started blocks are waiting. */
#ifdef __CUDACC__
enum { TOGETHER = 1 };
#else
enum { TOGETHER = 0 };
#endif

/* The division of rows among the blocks of a grid: each group of `parts` blocks
 * takes one row after another. */
struct division {
    unsigned parts;  // blocks that share a row
    unsigned length; // numbers of a part; the last part may be shorter
    unsigned kept;   // groups of four of a part that a thread keeps
    unsigned groups; // groups of blocks
};

/* Return whether there are too few long rows for all multiprocessors. */
static inline bool are_few(unsigned rows, unsigned cols) {
#ifdef __CUDACC__
    const unsigned enough = device_has(cudaDevAttrMultiProcessorCount);
#else
    const unsigned enough = 2; // the same on every machine
#endif
    return rows < enough && cols >= 8192;
}

/* Return whether a row needs several blocks if `arrays` of its arrays are kept:
 * it exceeds the shared memory of one block, or there are too few rows. */
static inline bool must_split(unsigned rows, unsigned cols, unsigned arrays) {
    return are_few(rows, cols) || cols > count_room() / arrays;
}

/* Store `own` in *value, count this block, and wait until all `parts` blocks of
 * the row have done the same. The lanes of one warp call this, and may then
 * read all values. Other warps wait at the block's next barrier, so the values
 * are read once per block. `arrived` is 0 before the launch. */
template <class T>
static __device__ __forceinline__ void
exchange(T *value, T own, unsigned *arrived, unsigned parts) {
    if (threadIdx.x % WARP == 0) {
        *value = own;
        __threadfence(); // the value is visible before the count
        atomicAdd(arrived, 1u);
        while (*(volatile unsigned *)arrived < parts) __nanosleep(100);
        __threadfence(); // the count is read before the values
    }
    __syncwarp(); // all parts of the row have arrived
}

/* Return how many blocks of the kernel run simultaneously if each uses the
 * maximum shared memory. */
template <class Kernel> static unsigned count_resident(Kernel kernel) {
    const size_t bytes = count_room() * sizeof(float);
    const struct launch l = {"a part", 1, THREADS, bytes, 0, 0};
    if (claim_shared(l, (const void *)kernel)) return 1;
    return count_resident(kernel, THREADS, bytes, 32);
}

/* Divide rows of which `arrays` arrays must be kept. A row has enough parts to
 * fit in its blocks' shared memory. If rows are few, it has more, so that all
 * blocks work. */
static inline division divide(unsigned rows, unsigned cols, unsigned resident,
                              unsigned arrays) {
    const unsigned room = count_room() / arrays / LEAST * LEAST;
    const unsigned spread = min(resident / rows, CEIL_DIV(cols, LEAST));
    const unsigned wanted = max(CEIL_DIV(cols, room), max(spread, 1u));
    const unsigned blocks = min(wanted, resident);
    division d;
    d.length = CEIL_DIV(CEIL_DIV(cols, blocks), WARP) * WARP;
    d.parts = CEIL_DIV(cols, d.length);
    d.kept = min(CEIL_DIV(d.length, LEAST), room / LEAST);
    d.groups = min(max(resident / d.parts, 1u), rows);
    return d;
}

/* Claim memory for a value of `bytes` bytes per part, and the zeroed counts of
 * blocks that have arrived at each row. */
static inline int claim_parts(const char *op, scratch *memory, unsigned rows,
                              unsigned parts, size_t bytes,
                              unsigned **arrived) {
    const size_t values = (size_t)rows * parts * bytes;
    const size_t counts = rows * sizeof(unsigned);
    WEFT_TRY(memory->claim(op, values + counts));
    *arrived = (unsigned *)((char *)memory->memory + values);
    WEFT_CUDA_TRY(cudaMemsetAsync(*arrived, 0, counts, memory->stream));
    return WEFT_OK;
}

#endif
