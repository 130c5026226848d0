/* dw_tiles.cuh -- the products of conv2's weight gradient: an inner loop for
 * kernels that have dy and p1 in shared memory.
 *
 * Idea:    dw (oc; tap, ic) = sum over pixels of dy (pixel, oc) times p1 (pixel
 *          + tap, ic): M = output channels, N = taps and input channels, K =
 *          pixels. A warp has all of the block's output channels and 8 input
 *          channels with all 9 taps. Both operands have channels innermost, but
 *          pixels must run along K. ldmatrix transposes 16-bit numbers, whereas
 *          tf32 requires loads of single words. K runs over windows as in
 *          conv_tiles.cuh: the 4x4 pixels around 8 windows are loaded once and
 *          serve 9 taps of 4 pixels.
 * Limit:   tensor cores and, in tf32, the loads of single words. */
#ifndef WEFT_DW_TILES_CUH
#define WEFT_DW_TILES_CUH
#include "lines.cuh"

/* ---- fragments: pixels along K, channels g ------------------------------- */

/* Load fragments b of p1's 8 channels that begin at `channel`, for the 4x4
 * pixels around each of a group's 8 windows. For 16-bit numbers, patch[y][x]
 * has the windows at pixel (y,x) and then at (y,x + 1). For tf32, it has
 * windows 0, 2, 4, 6 and then 1, 3, 5, 7 at pixel (y,x). */
template <class T>
static __device__ __forceinline__ void
load_patch(uint32_t patch[4][sizeof(T) == 2 ? 3 : 4][2], const char *p1,
           int group, int channel, int lane) {
    typedef lines<T, C1> at;
    enum { BELOW = SIDE_LINES * at::PIXEL };
    if (sizeof(T) == 2) {
        const int window = min(group * GROUP + lane % 8, PIXELS3 - 1);
        const int y = window / SIDE3 * 2, x = window % SIDE3 * 2;
        const int odd = lane >> 3 & 1, upper = lane >> 4;
#pragma unroll
        for (int row = 0; row < 4; row += 2) {
            // The matrices are pixels 0 to 3 of a row, then pixels 1 and 2 of
            // two rows.
            const char *wide = p1 + at::at(y + row, x + lane / 8, channel / 8);
            const char *middle =
                p1 + at::at(y + row + upper, x + 1 + odd, channel / 8);
            uint32_t r[3][4];
            ldmatrix_x4_trans(r[0], wide);
            ldmatrix_x4_trans(r[1], wide + BELOW);
            ldmatrix_x4_trans(r[2], middle);
#pragma unroll
            for (int i = 0; i < 4; i++) {
                patch[row][i / 2 * 2][i % 2] = r[0][i];
                patch[row + 1][i / 2 * 2][i % 2] = r[1][i];
                patch[row + i / 2][1][i % 2] = r[2][i];
            }
        }
    } else {
        // Every other window has a different pair of chunks in its line, so
        // that 4 windows of 8 channels cover 32 banks.
        const int c = channel + lane / 4;
#pragma unroll
        for (int half = 0; half < 2; half++) {
            const int window =
                min(group * GROUP + lane % 4 * 2 + half, PIXELS3 - 1);
            const int y = window / SIDE3 * 2, x = window % SIDE3 * 2;
#pragma unroll
            for (int i = 0; i < 4; i++) { // four pixels with the same key
                const int row = i / 2 * 2, column = i % 2 * 2;
                const char *four =
                    p1 + at::at(y + row, x + column, c / 4) + c % 4 * 4;
#pragma unroll
                for (int k = 0; k < 4; k++)
                    patch[row + k / 2][column + k % 2][half] =
                        *(const uint32_t *)(four + k / 2 * BELOW +
                                            k % 2 * at::PIXEL);
            }
        }
    }
}

/* Return the offset in dy of pixel (row,column) of a window. Windows past the
 * last one are on the border, whose zeros add nothing. */
template <class T>
static __device__ __forceinline__ int dy_at(int window, int row, int column,
                                            int chunk) {
    typedef lines<T, C2> at;
    const int real = at::at(window / SIDE3 * 2 + 1 + row,
                            window % SIDE3 * 2 + 1 + column, chunk);
    return window < PIXELS3 ? real : at::at(0, 0, chunk);
}

/* Load fragments a of TILES m-tiles, beginning with dy's chunk `first`. Rows
 * are output channels. For 16-bit numbers, columns are the 8 windows at pixel
 * (row,0) and then at (row,1). For tf32, they are windows 0, 2, 4, 6 and then
 * 1, 3, 5, 7 at pixel (row,column). */
template <class T, int TILES>
static __device__ __forceinline__ void
load_dy(uint32_t a[TILES][4], const char *dy, int first, int group, int row,
        int column, int lane) {
    if (sizeof(T) == 2) {
        const int at = dy_at<T>(group * GROUP + lane % 8, row, lane >> 4,
                                first + (lane >> 3 & 1));
#pragma unroll
        for (int m = 0; m < TILES; m++)
            ldmatrix_x4_trans(a[m], dy + (at ^ m * 2 * CHUNK));
    } else {
        const int word = (lane >> 2) % 4 * 4;
#pragma unroll
        for (int half = 0; half < 2; half++) {
            const int window = group * GROUP + lane % 4 * 2 + half;
            const int at = dy_at<T>(window, row, column, first + (lane >> 4));
#pragma unroll
            for (int i = 0; i < TILES * 2; i++) { // two chunks for each tile
                const int step = i * 2 * CHUNK;
                const int place = (at ^ step % LINE) + step / LINE * LINE;
                a[i / 2][2 * half + i % 2] =
                    *(const uint32_t *)(dy + place + word);
            }
        }
    }
}

/* ---- the products -------------------------------------------------------- */

/* Add a group's products to acc[m-tile][tap]: TILES * 16 channels of dy,
 * beginning with chunk `first`, times 8 of p1, beginning with `channel`. */
template <enum precision P, int TILES>
static __device__ __forceinline__ void
add_group(float acc[TILES][TAPS][4], const char *dy, int first, const char *p1,
          int channel, int group, int lane) {
    typedef typename element<P>::T T;
    // A fragment of dy has both pixels of a row or, in tf32, one of them.
    enum { COLUMNS = sizeof(T) == 2 ? 1 : 2 };
    uint32_t patch[4][2 + COLUMNS][2];
    load_patch<T>(patch, p1, group, channel, lane);
#pragma unroll
    for (int i = 0; i < 2 * COLUMNS; i++) {
        const int row = i / COLUMNS, column = i % COLUMNS;
        uint32_t a[TILES][4];
        load_dy<T, TILES>(a, dy, first, group, row, column, lane);
#pragma unroll
        for (int k = 0; k < TAPS * TILES; k++) {
            const int tap = k / TILES, m = k % TILES;
            mma<P>(acc[m][tap], a[m], patch[row + tap / 3][column + tap % 3]);
        }
    }
}

#endif
