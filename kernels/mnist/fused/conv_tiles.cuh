/* conv_tiles.cuh -- a 3x3 convolution of an image in shared memory as matrix
 * products: the inner loop of conv2's forward pass and of its data gradient.
 *
 * Idea:    "implicit GEMM": out (pixel, channel) = sum over taps of in (pixel +
 *          tap, :) @ weights (tap, channel, :)^T. No matrix of patches is
 *          built, since the rows of a fragment may be at any 8 addresses. A
 *          warp owns groups of 8 windows (2x2 pixels). For all 9 taps of its 4
 *          pixels, a window needs only the 4x4 pixels around it. The fragment
 *          of pixels (y,0) and (y,1) at tap (ky,kx) depends only on y + ky and
 *          kx. So 12 fragments serve 18 products.
 * Limit:   each warp reads the weights again. More groups per warp would share
 *          them, but need more registers. */
#ifndef WEFT_CONV_TILES_CUH
#define WEFT_CONV_TILES_CUH
#include "lines.cuh"

/* The offsets at which a lane's loads of a group's pixels start: for pixels
 * (0,0) and (0,1) of each window, and for (0,1) and (0,2). */
struct group_offsets {
    int even[3]; /* for the window's key - 1, key, and key + 1 */
    int odd[2];  /* for the window's key - 1, and key */
};

/* Return the offsets of lane `lane`. The rows of its matrices are the 8 windows
 * of `group`. In matrices 1 and 3 its pixel is one further right; in matrices 2
 * and 3 its chunk is the next one. */
template <class T, int CHANNELS>
static __device__ __forceinline__ struct group_offsets offsets_of(int group,
                                                                  int lane) {
    enum { PIXEL = lines<T, CHANNELS>::PIXEL };
    int window = group * GROUP + lane % 8;
    if (window >= PIXELS3) window = PIXELS3 - 1; // this result is not used
    const int y = window / SIDE3 * 2, x = window % SIDE3 * 2;
    const int right = lane >> 3 & 1;
    const int at = (y * SIDE_LINES + x + right) * PIXEL + (lane >> 4) * CHUNK;
    const int key = window % SIDE3 - window / SIDE3;
    struct group_offsets offsets;
    // Moving two pixels right or up changes the key by one. The code that uses
    // an offset adds the effect on the other bits of the address.
    for (int d = 0; d < 3; d++)
        offsets.even[d] = at ^ ((key + d - 1) & 7) * CHUNK;
    for (int d = 0; d < 2; d++) // for the right pixel of each pair
        offsets.odd[d] = (at + PIXEL) ^ ((key + right + d - 1) & 7) * CHUNK;
    return offsets;
}

/* Load fragment a for the channels that start at byte `step`. Of the 4x4 pixels
 * around each window of a group, its rows 0 to 7 are pixel (y,x). Its rows 8 to
 * 15 are pixel (y,x + 1). */
template <class T, int CHANNELS>
static __device__ __forceinline__ void
load_pixels(uint32_t a[4], const char *image,
            const struct group_offsets &offsets, int y, int x, int step) {
    enum { PIXEL = lines<T, CHANNELS>::PIXEL };
    const int at =
        x % 2 ? offsets.odd[1 - y / 2] : offsets.even[1 + x / 2 - y / 2];
    const int there = (y * SIDE_LINES + x / 2 * 2) * PIXEL;
    ldmatrix_x4(a, image + (at ^ step % LINE) + there + step / LINE * LINE);
}

/* Compute acc[group][row of the window][tile][2 * column + i] for each window
 * of the warp's groups [first,first + MINE). This is pixel (row,column) in
 * output channel 2t + i of n-tile `tile`. `rows` are the weights
 * (9,ROWS,CHANNELS), of which the warp uses rows [row,row + 8 TILES). */
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
    // Matrices 0 and 1 are the two halves of a tile's K; matrices 2 and 3 are
    // those of the next tile.
    const int own =
        weights::at(row + (lane >> 4) * 8 + lane % 8, lane >> 3 & 1);

#pragma unroll 1
    for (int k = 0; k < STEPS; k++) {
        const int step = k * 2 * CHUNK;
        // A fragment is four neighbouring registers. The middle one of three
        // could be assembled from its neighbours' registers, but loading it
        // costs less.
        uint32_t patch[MINE][4][3][4];
#pragma unroll
        for (int i = 0; i < MINE * 12; i++)
            load_pixels<T, CHANNELS>(patch[i / 12][i / 3 % 4][i % 3], image,
                                     offsets[i / 12], i / 3 % 4, i % 3, step);
        const char *rows_k = rows + (own ^ step % LINE) + step / LINE * LINE;
#pragma unroll
        for (int tap = 0; tap < TAPS; tap++) {
            uint32_t b[TILES / 2][4];
#pragma unroll
            for (int j = 0; j < TILES / 2; j++)
                ldmatrix_x4(b[j],
                            rows_k + (tap * ROWS + j * 16) * weights::ROW);
#pragma unroll
            for (int i = 0; i < MINE * 2 * TILES; i++) {
                const int m = i / TILES / 2, y = i / TILES % 2, j = i % TILES;
                mma<P>(acc[m][y][j], patch[m][y + tap / 3][tap % 3],
                       &b[j / 2][j % 2 * 2]);
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
