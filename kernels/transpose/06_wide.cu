/* 06_wide.cu -- transpose, rung 6: tiles of 64 x 64, 16 bytes at a time.
 *
 * Before:     rung 5 needs a load and a store for each 4 bytes.
 * Idea:       a thread loads four times four numbers of a row of x, and stores
 *             as many to rows of y: 64 bytes in flight, and rows of 256 bytes.
 *             Eight lanes share 128 bytes of a row, and a warp covers four
 *             rows. With rows of 65 numbers, the lanes of each step then use
 *             all 32 banks, in both directions.
 * Prediction: a quarter of the requests, 16 sectors each. No conflicts.
 * Limit:      the memory, and the threads' instructions: each number takes one
 *             store to shared memory and one load from it. Rung 7 leaves the
 *             transport to the TMA. Rows must begin at multiples of 16 bytes;
 *             otherwise rung 5 runs. */
#include "transpose.cuh"

enum { SIDE = 64, STRIPS = 4, STRIP = SIDE / STRIPS };

/* Do what transpose_strips() does, with loads and stores of four numbers. */
static __global__ void transpose_wide(float *y, const float *x, unsigned rows,
                                      unsigned cols) {
    __shared__ float tile[SIDE][SIDE + 1];
    // A warp covers four rows and 32 columns; a lane has four columns.
    const unsigned lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const unsigned across = warp % 2 * 32 + lane % 8 * 4;
    const unsigned down = warp / 2 * 4 + lane / 8;
    unsigned row = blockIdx.y * SIDE + down, col = blockIdx.x * SIDE + across;
    float4 v[STRIPS] = {};
#pragma unroll
    for (int i = 0; i < STRIPS; i++) // all loads are in flight before a store
        if (row + i * STRIP < rows && col < cols)
            v[i] =
                *(const float4 *)(x + (size_t)(row + i * STRIP) * cols + col);
#pragma unroll
    for (int i = 0; i < STRIPS; i++) {
        float *four = &tile[down + i * STRIP][across];
        four[0] = v[i].x, four[1] = v[i].y, four[2] = v[i].z, four[3] = v[i].w;
    }
    __syncthreads();
    row = blockIdx.x * SIDE + down; // row of y
    col = blockIdx.y * SIDE + across;
#pragma unroll
    for (int i = 0; i < STRIPS; i++) {
        const float *four = &tile[across][down + i * STRIP];
        const int next = SIDE + 1;
        if (row + i * STRIP < cols && col < rows)
            *(float4 *)(y + (size_t)(row + i * STRIP) * rows + col) =
                make_float4(four[0], four[next], four[2 * next],
                            four[3 * next]);
    }
}

int transpose_by_wide(const struct matrix *m) {
    if (!rows_are_aligned(m)) return transpose_by_strips(m);
    return launch_tiles(m, transpose_wide, "transpose_wide", SIDE, 256);
}
