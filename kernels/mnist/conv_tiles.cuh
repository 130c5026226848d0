/* conv_tiles.cuh -- a 3x3 convolution of an image in shared memory as matrix
 * products: the inner loop of conv2's forward pass and of its data gradient.
 *
 * Idea:    "implicit GEMM": out (pixel, channel) = sum over taps of
 *          in (pixel + tap, :) @ weights (tap, channel, :)^T. No matrix of
 *          patches is built: the rows of a fragment are any 8 addresses.
 *          A warp owns groups of 8 windows (2x2 pixels). For all 9 taps of its
 *          4 pixels a window needs only the 4x4 pixels around it, so these are
 *          loaded once and serve 36 products: of the fragment of pixel (y,x)
 *          at tap (ky,kx) nothing matters but y + ky and x + kx.
 * Limit:   each warp reads the weights anew; more groups a warp (registers!)
 *          would share them. */
#ifndef WEFT_CONV_TILES_CUH
#define WEFT_CONV_TILES_CUH
#include "lines.cuh"

/* The offsets from which a lane's loads of a group's pixels start. */
struct group_offsets {
    int at[3]; /* key one less, as it is, one more than the window's */
};

/* Of lane `lane`: its matrices' rows are the 8 windows of `group`; its pixel is
 * one further right for odd matrices, its chunk the next for the upper two. */
template <class T, int CHANNELS>
static __device__ __forceinline__ struct group_offsets offsets_of(int group,
                                                                  int lane) {
    typedef lines<T, CHANNELS> image;
    int window = group * GROUP + lane % 8;
    if (window >= PIXELS3) window = PIXELS3 - 1; // computed, but not used
    const int y = window / SIDE3 * 2, x = window % SIDE3 * 2;
    const int right = lane >> 3 & 1, chunk = lane >> 4;
    struct group_offsets offsets;
    // A step of two pixels right or up turns the key by one; what it does to
    // the rest of the address is added where it is used.
    for (int d = 0; d < 3; d++) {
        const int key = (x / 2 - y / 2 + d - 1) & 7;
        offsets.at[d] =
            ((y * SIDE_LINES + x + right) * image::PIXEL + chunk * CHUNK) ^
            (key * CHUNK);
    }
    return offsets;
}

/* The fragments of the 4x4 pixels around each window of a group, for the K
 * channels of step `k`: patch[row][column][half of K]. */
template <class T, int CHANNELS>
static __device__ __forceinline__ void
load_patch(uint32_t patch[4][4][2], const char *image,
           const struct group_offsets &offsets, int k) {
    enum { PIXEL = lines<T, CHANNELS>::PIXEL };
    const int step = k * 2 * CHUNK;
#pragma unroll
    for (int y = 0; y < 4; y++)
#pragma unroll
        for (int x = 0; x < 4; x += 2) {
            const int at = offsets.at[1 + x / 2 - y / 2] ^ (step % LINE);
            const int there = (y * SIDE_LINES + x) * PIXEL + step / LINE * LINE;
            uint32_t r[4];
            ldmatrix_x4(r, image + at + there);
            patch[y][x][0] = r[0], patch[y][x + 1][0] = r[1];
            patch[y][x][1] = r[2], patch[y][x + 1][1] = r[3];
        }
}

/* acc[group][row of the window][tile][2 * column + i]: of each window of the
 * warp's `MINE` groups (from `first` on) the pixel (row,column) in output
 * channel 2t + i of n-tile `tile`.
 *
 * rows: weights (9,ROWS,CHANNELS), of which the warp takes TILES * 8 rows from
 * `row` on. */
template <enum precision P, int CHANNELS, int MINE, int TILES, int ROWS>
static __device__ __forceinline__ void
conv_tiles(float acc[MINE][2][TILES][4], const char *image, int first,
           const char *rows, int row, int lane) {
    typedef typename element<P>::T T;
    typedef weight_rows<T, CHANNELS> weights;
    enum { STEPS = weights::CHUNKS / 2 };
    struct group_offsets offsets[MINE];
#pragma unroll
    for (int m = 0; m < MINE; m++)
        offsets[m] = offsets_of<T, CHANNELS>(first + m, lane);
    // Matrices 0 and 1 are the two halves of a tile's K, 2 and 3 of the next.
    const int own =
        weights::at(row + (lane >> 4) * 8 + lane % 8, lane >> 3 & 1);

#pragma unroll 1
    for (int k = 0; k < STEPS; k++) {
        uint32_t patch[MINE][4][4][2];
#pragma unroll
        for (int m = 0; m < MINE; m++)
            load_patch<T, CHANNELS>(patch[m], image, offsets[m], k);
        const int step = k * 2 * CHUNK;
        const char *rows_k = rows + (own ^ (step % LINE)) + step / LINE * LINE;
#pragma unroll
        for (int tap = 0; tap < TAPS; tap++) {
            uint32_t b[TILES / 2][4];
#pragma unroll
            for (int j = 0; j < TILES / 2; j++)
                ldmatrix_x4(b[j],
                            rows_k + (tap * ROWS + j * 16) * weights::ROW);
#pragma unroll
            for (int m = 0; m < MINE; m++) {
#pragma unroll
                for (int y = 0; y < 2; y++) {
                    const uint32_t (*line)[2] = patch[m][y + tap / 3];
                    const int x = tap % 3;
                    const uint32_t a[4] = {line[x][0], line[x + 1][0],
                                           line[x][1], line[x + 1][1]};
#pragma unroll
                    for (int j = 0; j < TILES; j++)
                        mma<P>(acc[m][y][j], a, &b[j / 2][j % 2 * 2]);
                }
            }
        }
    }
}

template <int MINE, int TILES>
static __device__ __forceinline__ void zero(float acc[MINE][2][TILES][4]) {
#pragma unroll
    for (int i = 0; i < MINE * 2 * TILES * 4; i++) (&acc[0][0][0][0])[i] = 0;
}

#endif
