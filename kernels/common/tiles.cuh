/* tiles.cuh -- code shared by the tiled rungs: a small product with factors in
 * shared memory and results in registers, and sums over a block.
 *
 * A block computes TILE_ROWS x TILE_COLS elements of the result, and each
 * thread 4 x 4 of these. For each step along the depth of the sum, a thread
 * reads 4 + 4 floats and does 16 multiply-adds. That is half a load for each
 * multiply-add, whereas the naive rungs need two. */
#ifndef WEFT_TILES_CUH
#define WEFT_TILES_CUH
#include "internal.cuh"

enum {
    TILE_ROWS = 32,
    TILE_COLS = 64,
    TILE_DEPTH = 32,
    TILE_THREADS = TILE_ROWS * TILE_COLS / 16,
    ACROSS = TILE_COLS / 4, // number of threads across a tile
    // Consecutive steps of depth start 4 banks apart. So when lanes store 8
    // steps of 4 neighbours each, each of the 32 banks receives one value.
    LEFT_PITCH = TILE_ROWS + 4,
    RIGHT_PITCH = TILE_COLS + 4,
};

/* Return the first row or column of the calling thread's 4 x 4 results in the
 * block's tile. */
static __device__ __forceinline__ int own_row(void) {
    return threadIdx.x / ACROSS * 4;
}

static __device__ __forceinline__ int own_col(void) {
    return threadIdx.x % ACROSS * 4;
}

/* Add to sums[i][j] the sum over k < depth of left_s[k][row + i] *
 * right_s[k][col + j], for the calling thread's row and col. Both arrays must
 * be 16-byte aligned. */
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

/* Return to every lane the sum over the warp's lanes, added in a tree. */
static __device__ __forceinline__ float warp_sum(float value) {
    for (int distance = 16; distance > 0; distance /= 2)
        value += __shfl_xor_sync(0xffffffff, value, distance);
    return value;
}

/* Return to every thread the sum over all threads of the block, always added in
 * the same order. All threads must call it. partial_s has one float for each
 * of up to 32 warps, and no thread may be using it. */
static __device__ __forceinline__ float block_total(float value,
                                                    float *partial_s) {
    const int lane = threadIdx.x % 32, warps = blockDim.x / 32;
    const float sum = warp_sum(value);
    if (lane == 0) partial_s[threadIdx.x / 32] = sum;
    __syncthreads(); // the sums of all warps are stored
    return warp_sum(lane < warps ? partial_s[lane] : 0.0f);
}

/* Sum COUNT values per thread over the block; thread i < COUNT returns the i-th
 * sum. Five shuffles per value would be too many. Instead, one warp after
 * another adds its values to one row per value. A pitch of 33 spreads 32 rows
 * over 32 banks. */
template <int COUNT>
static __device__ __forceinline__ float block_totals(const float values[COUNT],
                                                     float (*sums_s)[33]) {
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    for (int turn = 0; turn < (int)blockDim.x / 32; turn++) {
        if (warp == turn)
#pragma unroll
            for (int i = 0; i < COUNT; i++)
                sums_s[i][lane] = values[i] + (turn ? sums_s[i][lane] : 0.0f);
        __syncthreads(); // this warp has added to the rows
    }
    float sum = 0.0f;
    if (threadIdx.x < COUNT)
        for (int i = 0; i < 32; i++) sum += sums_s[threadIdx.x][i];
    return sum;
}

#endif
