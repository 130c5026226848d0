/* lines.cuh -- the layout of images and weights in shared memory for conv2's
 * kernels on tensor cores.
 *
 * ldmatrix reads 8 rows of 16 bytes at a time. There is no conflict if the rows
 * are in 8 different groups of 4 banks. Shared memory is treated as lines of
 * 128 bytes (all 32 banks), each of 8 chunks of 16 bytes. The position of a
 * chunk in its line is the exclusive or of its number with a key, so no byte is
 * spent on padding:
 *
 * images   16 x 16 pixels, NHWC; the outermost are the border of zeros. The 8
 *          rows of a matrix are the same pixel of 8 neighbouring windows (2x2,
 *          as pool 2 has them), shifted by the same tap. The key is x/2 - y/2:
 *          from one window to the next it grows by one; from the end of a row
 *          of windows to the next row it changes by -6 - 1 = -7, which is one
 *          modulo 8. So 8 windows in order have 8 keys.
 * weights  rows of one output channel; 8 neighbouring rows have 8 keys.
 *
 * The windows' order has another benefit. The four pixels of a window are in
 * the same rows of different fragments, so one thread gets all four results. */
#ifndef WEFT_LINES_CUH
#define WEFT_LINES_CUH
#include "common/ptx.cuh"
#include "element.cuh"

enum {
    LINE = 128,                 /* in bytes */
    CHUNK = 16,                 /* in bytes */
    SIDE_LINES = SIDE2 + 2,     /* pixels in a row, with the border */
    GROUP = 8,                  /* number of windows processed together */
    GROUPS = (PIXELS3 + 7) / 8, /* 7; the last group has only one window */
};

/* ---- positions ----------------------------------------------------------- */

/* An image with CHANNELS numbers of type T per pixel. */
template <class T, int CHANNELS> struct lines {
    enum {
        PIXEL = CHANNELS * (int)sizeof(T), /* in bytes: 64, 128 or 256 */
        CHUNKS = PIXEL / CHUNK,            /* chunks of a pixel */
        BYTES = SIDE_LINES * SIDE_LINES * PIXEL,
    };
    /* Return the offset of a pixel's chunk; (1,1) is the image's upper left
     * pixel. */
    static __device__ __forceinline__ int at(int y, int x, int chunk) {
        const int key = ((x >> 1) - (y >> 1)) & 7;
        return ((y * SIDE_LINES + x) * PIXEL + chunk * CHUNK) ^ (key * CHUNK);
    }
};

/* The layout of rows of K weights. */
template <class T, int K> struct weight_rows {
    enum { ROW = K * (int)sizeof(T), CHUNKS = ROW / CHUNK };
    static __device__ __forceinline__ int at(int row, int chunk) {
        // Two rows of 64 bytes share a line, so their places already differ.
        const int key = (int)ROW < (int)LINE ? row >> 1 & 3 : row & 7;
        return (row * ROW + chunk * CHUNK) ^ (key * CHUNK);
    }
};

/* Return the output channel that is row `row` of the weights, and so column row
 * % 8 of n-tile row / 8. A thread has columns 2t and 2t + 1 of each tile. With
 * this order, its columns of neighbouring tiles are neighbouring channels. One
 * store then covers 16 bytes: 4 floats of 2 tiles, or 8 16-bit numbers of 4
 * tiles. T: the type of the stored results. */
template <class T> static __device__ __forceinline__ int channel_of(int row) {
    enum { TILES = 8 / (int)sizeof(T), SPAN = 8 * TILES };
    const int tile = row / 8 % TILES, t = row % 8 / 2;
    return row / SPAN * SPAN + 2 * TILES * t + 2 * tile + row % 2;
}

/* ---- filling ------------------------------------------------------------- */

// Index arithmetic takes the larger part of a small kernel's time. So each
// thread copies the same chunk of successive rows, which needs little
// arithmetic per copy.

/* Zero the border's pixels. Zeroing them once is enough, since images only fill
 * the inside. */
template <class T, int CHANNELS, int THREADS>
static __device__ __forceinline__ void zero_border(char *image) {
    typedef lines<T, CHANNELS> at;
    enum { ROW = SIDE_LINES * at::PIXEL, SIDES = 2 * SIDE2 * at::CHUNKS };
    const float4 zero = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
    for (int i = threadIdx.x * CHUNK; i < ROW; i += THREADS * CHUNK) {
        *(float4 *)(image + i) = zero; // a chunk never crosses the end of its
                                       // row
        *(float4 *)(image + (SIDE_LINES - 1) * ROW + i) = zero;
    }
    for (int i = threadIdx.x; i < SIDES; i += THREADS) {
        const int y = i / at::CHUNKS / 2 + 1, right = i / at::CHUNKS % 2;
        *(float4 *)(image +
                    at::at(y, right * (SIDE_LINES - 1), i % at::CHUNKS)) = zero;
    }
}

/* Start copying an image of 14 x 14 pixels; the caller commits and waits. */
template <class T, int CHANNELS, int THREADS>
static __device__ __forceinline__ void copy_image(char *image, const T *from) {
    typedef lines<T, CHANNELS> at;
    enum { ACROSS = SIDE2 * at::CHUNKS, ROWS = THREADS / ACROSS };
    static_assert(ROWS > 0, "a row needs one thread per chunk");
    const int column = threadIdx.x % ACROSS, first = threadIdx.x / ACROSS;
    const int x = column / at::CHUNKS, chunk = column % at::CHUNKS;
    if (first >= ROWS) return;
    from += x * CHANNELS + chunk * (CHUNK / (int)sizeof(T));
#pragma unroll 4
    for (int y = first; y < SIDE2; y += ROWS)
        copy16_async(image + at::at(y + 1, x + 1, chunk),
                     from + y * SIDE2 * CHANNELS);
}

/* Start copying rows first .. first + ROWS of each tap of the weights
 * (9,ALL,K), in the order of channel_of<OUT>(). */
template <class T, class OUT, int K, int ROWS, int ALL, int THREADS>
static __device__ __forceinline__ void copy_weights(char *rows, const T *from,
                                                    int first) {
    typedef weight_rows<T, K> at;
    enum { STEP = THREADS / at::CHUNKS };
    static_assert(THREADS % at::CHUNKS == 0, "a thread keeps its chunk");
    const int chunk = threadIdx.x % at::CHUNKS;
    from += first * K + chunk * (CHUNK / (int)sizeof(T));
#pragma unroll 4
    for (int row = threadIdx.x / at::CHUNKS; row < TAPS * ROWS; row += STEP)
        copy16_async(rows + at::at(row, chunk),
                     from +
                         (row / ROWS * ALL + channel_of<OUT>(row % ROWS)) * K);
}

/* ---- the numbers of a chunk ---------------------------------------------- */

/* Load the numbers of a chunk as floats, or store them. */
template <class T>
static __device__ __forceinline__ void load_chunk(float *v, const T *from) {
    for (int i = 0; i < CHUNK / (int)sizeof(T); i += 4) load4(v + i, from + i);
}
static __device__ __forceinline__ void store_chunk(float *to, const float *v) {
    put4(to, v);
}
template <class T>
static __device__ __forceinline__ void store_chunk(T *to, const T *v) {
    uint4 four;
    four.x = bits_of(v[0]) | bits_of(v[1]) << 16;
    four.y = bits_of(v[2]) | bits_of(v[3]) << 16;
    four.z = bits_of(v[4]) | bits_of(v[5]) << 16;
    four.w = bits_of(v[6]) | bits_of(v[7]) << 16;
    *(uint4 *)to = four;
}

#endif
