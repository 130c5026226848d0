/* dx_tiles.cuh -- the path of dp1, the result of conv2's data gradient, from
 * the products' registers through shared memory into conv1's winner sums. */
#ifndef WEFT_DX_TILES_CUH
#define WEFT_DX_TILES_CUH
#include "lines.cuh"
#include "winners.cuh"

/* Store a warp's part of dp1 in shared memory (196,PITCH): groups group ..
 * group + MINE of windows, and channels row .. row + 8 TILES. */
template <int MINE, int TILES, int PITCH>
static __device__ __forceinline__ void store_dp1(float *dp1,
                                                 float acc[MINE][2][TILES][4],
                                                 int group, int row, int lane) {
#pragma unroll
    for (int m = 0; m < MINE; m++) {
        const int window = (group + m) * GROUP + lane / 4;
        if (window >= PIXELS3) continue;
        const int y = window / SIDE3 * 2, x = window % SIDE3 * 2;
#pragma unroll
        for (int pixel = 0; pixel < 4; pixel++)
#pragma unroll
            for (int j = 0; j < TILES; j += 2) {
                const float *v = &acc[m][pixel / 2][j][pixel % 2 * 2];
                const float four[4] = {v[0], v[1], v[4], v[5]};
                const int at = (y + pixel / 2) * SIDE2 + x + pixel % 2;
                put4(dp1 + at * PITCH +
                         channel_of<float>(row + 8 * j + lane % 4 * 2),
                     four);
            }
    }
}

/* Add an image's winner sums with WARPS warps. The channel is lane % CHANNELS.
 * With 16 channels, a warp processes two pixels at a time. */
template <int CHANNELS, int PITCH, int WARPS>
static __device__ __forceinline__ void
add_winners(float sums[SUMS], const float *dp1, const uint8_t *codes,
            int code_pitch, const float *image, int lane, int warp) {
    enum { AT_ONCE = 32 / CHANNELS, STRIDE = WARPS * AT_ONCE };
    static_assert(SIDE2 % STRIDE == 0 || STRIDE % SIDE2 == 0,
                  "the place after a step does not depend on the lane");
    static_assert(PIXELS2 % STRIDE == 0, "all warps have equally many");
    const int channel = lane % CHANNELS;
    const int start = warp * AT_ONCE + lane / CHANNELS;
    // Start many loads together, since winners may come from global memory and
    // take long.
#pragma unroll 14
    for (int i = 0; i < PIXELS2 / STRIDE; i++) {
        const int y = i * STRIDE / SIDE2 + start / SIDE2;
        const int x = i * STRIDE % SIDE2 + start % SIDE2;
        const int pixel = y * SIDE2 + x;
        winner_add(sums, dp1[pixel * PITCH + channel],
                   codes[pixel * code_pitch + channel], image, y, x);
    }
}

#endif
