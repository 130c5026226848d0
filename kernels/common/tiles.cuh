/* tiles.cuh -- what the tiled rungs share: a small product whose factors lie in
 * shared memory and whose result lies in registers, and sums over a block.
 *
 * A block makes TILE_ROWS x TILE_COLS of the result, a thread 4 x 4 of it. For
 * each step along the sum's depth a thread reads 4 + 4 floats and does 16
 * multiply-adds: half a load for each, where the naive rungs need two. */
#ifndef WEFT_TILES_CUH
#define WEFT_TILES_CUH
#include "internal.cuh"

enum {
    TILE_ROWS = 32,
    TILE_COLS = 64,
    TILE_DEPTH = 32,
    TILE_THREADS = TILE_ROWS * TILE_COLS / 16,
    ACROSS = TILE_COLS / 4, // threads side by side
    // A step of depth starts 4 banks after the one before: where lanes store
    // 8 steps of 4 neighbours each, all 32 banks take one.
    LEFT_PITCH = TILE_ROWS + 4,
    RIGHT_PITCH = TILE_COLS + 4,
};

/* Where the calling thread's 4 x 4 results start in the block's tile. */
static __device__ __forceinline__ int own_row(void) {
    return threadIdx.x / ACROSS * 4;
}

static __device__ __forceinline__ int own_col(void) {
    return threadIdx.x % ACROSS * 4;
}

/* sums[i][j] += sum over k < depth of left_s[k][row + i] * right_s[k][col + j],
 * for the thread's own row and col. Both arrays start at 16 bytes. */
static __device__ __forceinline__ void
multiply_tiles(float sums[4][4], const float (*left_s)[LEFT_PITCH],
               const float (*right_s)[RIGHT_PITCH], int depth) {
    const int row = own_row(), col = own_col();
#pragma unroll 8
    for (int k = 0; k < depth; k++) {
        const float4 left = *(const float4 *)&left_s[k][row];
        const float4 right = *(const float4 *)&right_s[k][col];
        const float l[4] = {left.x, left.y, left.z, left.w};
        const float r[4] = {right.x, right.y, right.z, right.w};
        for (int i = 0; i < 4; i++)
            for (int j = 0; j < 4; j++) sums[i][j] += l[i] * r[j];
    }
}

/* The sum over the warp's lanes, in a tree; every lane has it. */
static __device__ __forceinline__ float warp_sum(float value) {
    for (int distance = 16; distance > 0; distance /= 2)
        value += __shfl_xor_sync(0xffffffff, value, distance);
    return value;
}

/* The sum over all threads of the block, in an order that is always the same;
 * every thread has it. All threads call it; partial_s: a float for each of up
 * to 32 warps, which no thread may be using. */
static __device__ __forceinline__ float block_total(float value,
                                                    float *partial_s) {
    const int lane = threadIdx.x % 32, warps = blockDim.x / 32;
    const float sum = warp_sum(value);
    if (lane == 0) partial_s[threadIdx.x / 32] = sum;
    __syncthreads(); // the sums of all warps are there
    return warp_sum(lane < warps ? partial_s[lane] : 0.0f);
}

/* The same for many values at once: thread i < COUNT has the i-th sum. 5
 * shuffles for each would be too many, so the warps take turns to add theirs to
 * one row per value; a pitch of 33 keeps 32 rows in 32 banks. */
template <int COUNT>
static __device__ __forceinline__ float block_totals(const float values[COUNT],
                                                     float (*sums_s)[33]) {
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    for (int turn = 0; turn < (int)blockDim.x / 32; turn++) {
        if (warp == turn)
#pragma unroll
            for (int i = 0; i < COUNT; i++)
                sums_s[i][lane] = values[i] + (turn ? sums_s[i][lane] : 0.0f);
        __syncthreads(); // before the next warp adds to these
    }
    float sum = 0.0f;
    if (threadIdx.x < COUNT)
        for (int i = 0; i < 32; i++) sum += sums_s[threadIdx.x][i];
    return sum;
}

#endif
