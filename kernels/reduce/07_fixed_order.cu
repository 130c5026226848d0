/* 07_fixed_order.cu -- reduce, rung 7: the same bits for every grid.
 *
 * Before:     the order of rung 6's additions depends on its grid.
 * Idea:       x is divided into pieces of 2048 numbers. Any warp may add a
 *             piece, but it always adds in the same order, and stores the sum
 *             under the piece's number. The last block adds these sums in the
 *             same way: in pieces of 2048, until one is left. So the order
 *             depends only on `count`.
 * Prediction: the speed of rung 6: the pieces' sums are a 2048th of the bytes.
 * Limit:      the last block adds count / 2048 sums alone. Plain C adds in the
 *             same order (reference/reduce.c), so a CPU gives the same bits. */
#include "reduce.cuh"

enum { PIECE = 2048, FOURS = PIECE / 4 / WARP };

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
    float4 sums = four_at(x, first, count, aligned);
    if (aligned && (piece + 1) * PIECE <= count) {
        const float4 *fours = (const float4 *)x + first;
#pragma unroll
        for (int j = 1; j < FOURS; j++) sums = add_fours(sums, fours[j * WARP]);
    } else {
        for (int j = 1; j < FOURS; j++)
            sums =
                add_fours(sums, four_at(x, first + j * WARP, count, aligned));
    }
    for (int distance = WARP / 2; distance > 0; distance /= 2)
        sums = add_fours(sums, shuffle_four(sums, distance));
    return (sums.x + sums.z) + (sums.y + sums.w);
}

/* Store the sums of x's pieces. Warps number `first`, first + step, ... add
 * them. */
static __device__ void add_pieces(float *sums, const float *x, size_t count,
                                  size_t first, size_t step) {
    for (size_t piece = first; piece * PIECE < count; piece += step) {
        const float sum = add_piece(x, count, piece);
        if (threadIdx.x % WARP == 0) sums[piece] = sum;
    }
}

/* Each warp of the grid adds one piece or several. `levels` has room for the
 * sums of the pieces, of the pieces of these sums, and so on. */
static __global__ void __launch_bounds__(THREADS, RESIDENT)
    add_in_order(float *sum, float *levels, unsigned *arrived, const float *x,
                 size_t count) {
    __shared__ bool last_s;
    const size_t warp = threadIdx.x / WARP;
    add_pieces(levels, x, count, (size_t)blockIdx.x * WARPS + warp,
               (size_t)gridDim.x * WARPS);
    __threadfence(); // the sums of all warps are visible before the count
    __syncthreads(); // all warps have stored their sums
    if (!arrive_last(arrived, &last_s)) return;
    size_t left = CEIL_DIV(count, PIECE);
    while (left > 1) {
        float *next = levels + left;
        add_pieces(next, levels, left, warp, WARPS);
        __syncthreads(); // this level is complete
        levels = next;
        left = CEIL_DIV(left, PIECE);
    }
    if (threadIdx.x == 0) *sum = *levels;
}

int reduce_fixed_order(const struct reduction *r) {
    const size_t pieces = CEIL_DIV(r->count, PIECE);
    const unsigned blocks =
        reduce_grid(r, add_in_order, CEIL_DIV(pieces, WARPS));
    size_t sums = 1;
    for (size_t left = pieces; left > 1; left = CEIL_DIV(left, PIECE))
        sums += left;
    scratch levels(r->stream);
    WEFT_TRY(levels.claim("reduce", (sums + 1) * sizeof(float)));
    unsigned *arrived = (unsigned *)levels.memory + sums;
    WEFT_CUDA_TRY(cudaMemsetAsync(arrived, 0, sizeof *arrived, r->stream));
    add_in_order<<<blocks, THREADS, 0, r->stream>>>(
        r->sum, (float *)levels.memory, arrived, r->x, r->count);
    WEFT_LAUNCHED(add_in_order);
    return WEFT_OK;
}
