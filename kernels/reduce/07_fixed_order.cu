/* 07_fixed_order.cu -- reduce, rung 7: the same bits for every grid.
 *
 * Before:     the order of rung 6's additions depends on its grid.
 * Idea:       x is divided into pieces of 2048 numbers. Any warp may add a
 *             piece, but it always adds in the same order, and stores the sum
 *             under the piece's number. 2048 sums are again a piece, and so on
 *             until one is left. So the order depends only on `count`. The warp
 *             that completes a piece of sums adds it, while other warps still
 *             add x.
 * Prediction: the speed of rung 6: the pieces' sums are a 2048th of the bytes.
 *             A block adds neighbouring pieces, so its sums are in few pieces
 *             of sums. There are 16 times as many blocks as run at the same
 *             time: where blocks are fast, more of them run.
 * Measured:   240.5 us for 2^28 numbers, and 235.0 us with CUB. In a program of
 *             its own, it took 267 us while the last block alone added all
 *             sums, and took 246 us without additional blocks (NVIDIA H200,
 *             2026-11-30).
 * Limit:      the last pieces of sums: three dependent steps for 2^28 numbers.
 *             Plain C adds in the same order (reference/reduce.c), so a CPU
 *             gives the same bits. */
#include "reduce.cuh"

enum { PIECE = 2048, FOURS = PIECE / 4 / WARP };

/* The number of blocks that must fit on a multiprocessor: a thread has 16 loads
 * in flight, and up to 80 registers. TIMES: blocks for each that can run at the
 * same time. */
enum { RESIDENT_IN_ORDER = 3, TIMES = 16 };

static __device__ __forceinline__ float4 shuffle_four(float4 a, int distance) {
    return make_float4(__shfl_xor_sync(0xffffffff, a.x, distance),
                       __shfl_xor_sync(0xffffffff, a.y, distance),
                       __shfl_xor_sync(0xffffffff, a.z, distance),
                       __shfl_xor_sync(0xffffffff, a.w, distance));
}

/* Return the sum of a piece of x to every lane of the warp. The lanes first add
 * four sums each, by columns of 128 numbers. Then one half of the columns is
 * added to the other, until one is left. */
static __device__ float add_piece(const float *x, size_t count, size_t piece) {
    const size_t first = piece * (PIECE / 4) + threadIdx.x % WARP;
    const bool aligned = is_aligned(x);
    float4 sums;
    if (aligned && (piece + 1) * PIECE <= count) {
        const float4 *fours = (const float4 *)x + first;
        float4 own[FOURS];
#pragma unroll
        for (int j = 0; j < FOURS; j++) own[j] = fours[j * WARP];
        sums = own[0];
#pragma unroll
        for (int j = 1; j < FOURS; j++) sums = add_fours(sums, own[j]);
    } else {
        sums = four_at(x, first, count, aligned);
        for (int j = 1; j < FOURS; j++)
            sums =
                add_fours(sums, four_at(x, first + j * WARP, count, aligned));
    }
    for (int distance = WARP / 2; distance > 0; distance /= 2)
        sums = add_fours(sums, shuffle_four(sums, distance));
    return (sums.x + sums.z) + (sums.y + sums.w);
}

/* Count `own` more sums of a piece that has `size` sums. Return to every lane
 * of the warp whether the piece is complete. */
static __device__ __forceinline__ bool complete(unsigned *counted, unsigned own,
                                                unsigned size) {
    unsigned before = 0;
    if (threadIdx.x % WARP == 0) {
        __threadfence(); // the own sums are visible before the count
        before = atomicAdd(counted, own);
        __threadfence(); // the count is read before the sums
    }
    before = __shfl_sync(0xffffffff, before, 0);
    __syncwarp(); // the other lanes also read after the count
    return before + own == size;
}

/* Count `own` of the `left` sums of a level, which are in piece `piece`. If
 * that piece is complete, add it and go on with its sum on the next level. */
static __device__ void add_levels(float *sum, float *sums, unsigned *counts,
                                  size_t left, size_t piece, unsigned own) {
    while (complete(counts + piece, own,
                    (unsigned)min((size_t)PIECE, left - piece * PIECE))) {
        const float total = add_piece(sums, left, piece);
        const size_t pieces = CEIL_DIV(left, PIECE);
        float *const to = pieces == 1 ? sum : sums + left + piece;
        if (threadIdx.x % WARP == 0) *to = total;
        if (pieces == 1) return;
        sums += left, counts += pieces;
        left = pieces, piece /= PIECE, own = 1;
    }
}

/* Each block adds neighbouring pieces. `levels` has room for the sums of the
 * pieces, of the pieces of these sums, and so on. `counts` has a 0 for each
 * piece of sums. */
static __global__ void __launch_bounds__(THREADS, RESIDENT_IN_ORDER)
    add_in_order(float *sum, float *levels, unsigned *counts, const float *x,
                 size_t count) {
    const size_t pieces = CEIL_DIV(count, PIECE), warp = threadIdx.x / WARP;
    const size_t first = pieces * blockIdx.x / gridDim.x;
    const size_t end = pieces * (blockIdx.x + 1) / gridDim.x;
    for (size_t piece = first + warp; piece < end; piece += WARPS) {
        const float total = add_piece(x, count, piece);
        if (threadIdx.x % WARP == 0) levels[piece] = total;
    }
    __syncthreads(); // the block has stored its sums
    // Each warp counts the block's sums in a different piece of sums.
    for (size_t i = first / PIECE + warp; i * PIECE < end; i += WARPS) {
        const size_t low = max(first, i * PIECE);
        const size_t high = min(end, (i + 1) * PIECE);
        add_levels(sum, levels, counts, pieces, i, (unsigned)(high - low));
    }
}

int reduce_fixed_order(const struct reduction *r) {
    const size_t pieces = CEIL_DIV(r->count, PIECE);
    const unsigned blocks =
        reduce_grid(r, add_in_order, CEIL_DIV(pieces, WARPS), TIMES);
    size_t sums = pieces, counts = 0;
    for (size_t left = pieces; counts == 0 || left > 1;) {
        left = CEIL_DIV(left, PIECE);
        sums += left, counts += left;
    }
    scratch levels(r->stream);
    WEFT_TRY(levels.claim("reduce", (sums + counts) * sizeof(float)));
    unsigned *zeros = (unsigned *)levels.memory + sums;
    WEFT_CUDA_TRY(cudaMemsetAsync(zeros, 0, counts * sizeof *zeros, r->stream));
    add_in_order<<<blocks, THREADS, 0, r->stream>>>(
        r->sum, (float *)levels.memory, zeros, r->x, r->count);
    WEFT_LAUNCHED(add_in_order);
    return WEFT_OK;
}
