/* fc1_back_product.cuh -- the two products of fc1's backward pass
 * (fc1_back.cu), from a block's shared memory.
 *
 * FP32:    4 x 4 numbers of dp2 and 8 x 4 of dfc1 per thread; small blocks
 *          split both sums into SLICES.
 * Others:  mma.sync. In three of the four operands the summed index runs down
 *          the rows; for these, fragments.cuh reads across rows. */
#ifndef WEFT_FC1_BACK_PRODUCT_CUH
#define WEFT_FC1_BACK_PRODUCT_CUH
#include "fc1_back_tile.cuh"

/* ---- FP32: multiply-adds ------------------------------------------------- */

/* The products, computed by 16 x QUADS threads (down x across) for each of
 * SLICES slices of the summed index. */
template <class TILE> struct back_ffma {
    enum { SLICES = TILE::SLICES, DOWN = 16, WARPS_ACROSS = TILE::QUADS / 8 };
    float sum[2][4][4]; /* dfc1 of rows 4 row + (0..3), and of the rows 64
                         * below, for a quad of k */
    int row, k, slice;

    __device__ __forceinline__ explicit back_ffma() {
        const int warp = threadIdx.x % (DOWN * TILE::QUADS) / 32;
        slice = threadIdx.x / (DOWN * TILE::QUADS);
        k = (lane_column() + 8 * (warp % WARPS_ACROSS)) * 4;
        row = lane_row() + 4 * (warp / WARPS_ACROSS);
        for (int h = 0; h < 2; h++)
            for (int i = 0; i < 4; i++)
                for (int j = 0; j < 4; j++) sum[h][i][j] = 0.0f;
    }
    /* Compute images row, row + 16, ... of dp2: one slice of the sum over o. */
    __device__ __forceinline__ void dp2(const struct back_block<TILE> &block) {
        enum { STEPS = HIDDEN / SLICES };
        const float *dh = block.dh + row * TILE::DH_PITCH + slice * STEPS;
        const float *w = block.weights + slice * STEPS * TILE::PITCH + k;
        float out[4][4] = {};
#pragma unroll 2
        for (int o = 0; o < STEPS; o += 4) {
            float left[4][4], right[4][4];
#pragma unroll
            for (int i = 0; i < 4; i++) {
                load4(left[i], dh + i * DOWN * TILE::DH_PITCH + o);
                load4(right[i], w + (o + i) * TILE::PITCH);
            }
#pragma unroll
            for (int e = 0; e < 4; e++)
#pragma unroll
                for (int i = 0; i < 4; i++)
#pragma unroll
                    for (int j = 0; j < 4; j++)
                        out[i][j] = fmaf(left[i][e], right[e][j], out[i][j]);
        }
        float *to = block.out + slice * TILE::ROWS * TILE::OUT_PITCH;
        for (int i = 0; i < 4; i++)
            put4(to + (row + i * DOWN) * TILE::OUT_PITCH + k, out[i]);
    }

    /* Add these images' slice of the sum to dfc1. */
    __device__ __forceinline__ void dfc1(const struct back_block<TILE> &block) {
        enum { STEPS = TILE::ROWS / SLICES };
        const float *dh = block.dh + slice * STEPS * TILE::DH_PITCH + 4 * row;
        const float *a = block.a + slice * STEPS * TILE::PITCH + k;
#pragma unroll 4
        for (int b = 0; b < STEPS; b++) {
            float left[2][4], right[4];
            load4(left[0], dh + b * TILE::DH_PITCH);
            load4(left[1], dh + b * TILE::DH_PITCH + 64);
            load4(right, a + b * TILE::PITCH);
#pragma unroll
            for (int h = 0; h < 2; h++)
#pragma unroll
                for (int i = 0; i < 4; i++)
#pragma unroll
                    for (int j = 0; j < 4; j++)
                        sum[h][i][j] = fmaf(left[h][i], right[j], sum[h][i][j]);
        }
    }

    /* Store this slice of dfc1 in the stage. */
    __device__ __forceinline__ void put(float *stage) {
        stage += (slice * HIDDEN + 4 * row) * TILE::PITCH + k;
#pragma unroll
        for (int h = 0; h < 2; h++)
#pragma unroll
            for (int i = 0; i < 4; i++)
                put4(stage + (64 * h + i) * TILE::PITCH, sum[h][i]);
    }
};

/* ---- TF32, BF16, FP16: tensor cores -------------------------------------- */

/* The products, computed by a grid of 4 x 2 warps. A warp has 16 images of dp2,
 * 32 rows of dfc1, and half of the features, in TILES of 8. */
template <class TILE> struct back_mma {
    typedef typename TILE::T T;
    enum { TILES = TILE::WIDTH / 16, K = k_step<T>::K };
    static_assert(TILES % 2 == 0, "fragments of weights come in pairs");
    float sum[2][TILES][4];
    int down, k;

    __device__ __forceinline__ explicit back_mma() {
        const int warp = threadIdx.x / 32;
        down = warp / 2;
        k = warp % 2 * TILE::WIDTH / 2;
        for (int i = 0; i < 2; i++)
            for (int j = 0; j < TILES; j++)
                for (int e = 0; e < 4; e++) sum[i][j][e] = 0.0f;
    }
    /* Return the row and the column of this lane's numbers e = 2 half + (0,
     * 1). */
    __device__ __forceinline__ int row_of(int i, int half) const {
        return down * 32 + i * 16 + half * 8 + threadIdx.x % 32 / 4;
    }
    __device__ __forceinline__ int column_of(int j) const {
        return k + j * 8 + threadIdx.x % 4 * 2;
    }

    __device__ __forceinline__ void dp2(const struct back_block<TILE> &block) {
        const T *dh = block.dh + down * 16 * TILE::DH_PITCH;
        float out[TILES][4] = {};
#pragma unroll 8
        for (int o = 0; o < HIDDEN; o += K) {
            uint32_t left[4], right[TILES / 2][4];
            fragment_rows(left, dh + o, TILE::DH_PITCH);
#pragma unroll
            for (int j = 0; j < TILES / 2; j++)
                fragment_columns_across(
                    right[j], block.weights + o * TILE::PITCH + k + j * 16,
                    TILE::PITCH);
#pragma unroll
            for (int j = 0; j < TILES; j++)
                mma<TILE::P>(out[j], left, right[j / 2] + j % 2 * 2);
        }
        const int row = down * 16 + threadIdx.x % 32 / 4;
#pragma unroll
        for (int j = 0; j < TILES; j++)
            for (int half = 0; half < 2; half++)
                *(float2 *)(block.out + (row + half * 8) * TILE::OUT_PITCH +
                            column_of(j)) =
                    make_float2(out[j][2 * half], out[j][2 * half + 1]);
    }

    __device__ __forceinline__ void dfc1(const struct back_block<TILE> &block) {
        const T *dh = block.dh + down * 32;
#pragma unroll 4
        for (int b = 0; b < TILE::ROWS; b += K) {
            uint32_t left[2][4], right[TILES / 2][4];
#pragma unroll
            for (int i = 0; i < 2; i++)
                fragment_rows_across(left[i], dh + b * TILE::DH_PITCH + i * 16,
                                     TILE::DH_PITCH);
#pragma unroll
            for (int j = 0; j < TILES / 2; j++)
                fragment_columns_across(right[j],
                                        block.a + b * TILE::PITCH + k + j * 16,
                                        TILE::PITCH);
#pragma unroll
            for (int i = 0; i < 2; i++)
#pragma unroll
                for (int j = 0; j < TILES; j++)
                    mma<TILE::P>(sum[i][j], left[i], right[j / 2] + j % 2 * 2);
        }
    }

    /* Store dfc1 in the stage. */
    __device__ __forceinline__ void put(float *stage) {
#pragma unroll
        for (int i = 0; i < 2; i++)
#pragma unroll
            for (int j = 0; j < TILES; j++)
                for (int half = 0; half < 2; half++)
                    *(float2 *)(stage + row_of(i, half) * TILE::PITCH +
                                column_of(j)) =
                        make_float2(sum[i][j][2 * half],
                                    sum[i][j][2 * half + 1]);
    }
};

#endif
