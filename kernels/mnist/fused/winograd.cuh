/* winograd.cuh -- a 3x3 convolution of one 14x14 image in Winograd's form, for
 * conv2's forward pass and its data gradient.
 *
 * Before:  conv2_fp32.cuh does 36 multiplications for each 2x2 output window
 *          and pair of input and output channels, and FFMA's issue limits it.
 * Idea:    Winograd's F(2x2, 3x3) needs 16: the window is A' [U * V] A, with
 *          V = B' x B of the 4x4 pixels around the window, and U = G g G' of
 *          the weights (mnist/reference/cnn_winograd.h has the matrices, the
 *          source and the rounding errors). The sum over input channels comes
 *          before A. So each of the 16 positions is a matrix product: 49
 *          windows x COT output channels, over the input channels. A thread
 *          owns one position of 7 windows (a row) x 16 output channels: 112
 *          sums in registers. For an input channel it reads 7 numbers of V and
 *          16 of U.
 * Limit:   between the products, no thread multiplies: all of them transform
 *          pixels and results in shared memory. */
#ifndef WEFT_WINOGRAD_CUH
#define WEFT_WINOGRAD_CUH
#include "conv2_fp32.cuh"
#include "element.cuh"

enum {
    POSITIONS = 16,  /* 4 * row + column of a transformed 4x4 tile */
    WINDOWS = SIDE3, /* windows of a thread: a row of them */
    COLUMNS = 16,    /* output channels of a thread */
    // A channel's windows at one position: the first four of each row, then the
    // last three and a gap. With this pitch, eight lanes that store float4 of
    // neighbouring channels use all banks.
    V_ROW = 4,
    V_HALF = SIDE3 * V_ROW,
    V_CHANNEL = 2 * V_HALF + 4,
};

/* The sizes of a block's arrays in floats. The block has CIN input and COT
 * output channels and transforms CHUNK input channels at a time. SPLIT groups
 * of warps each multiply a part of a chunk. */
template <int CIN, int COT, int CHUNK>
struct winograd_shape : bordered_image<CIN, 0> {
    enum {
        THREADS = 256,
        SPLIT = 32 / COT,
        CHUNKS = CIN / CHUNK,
        U_POSITION = CIN * COT + 4,
        U = POSITIONS * U_POSITION,
        V_POSITION = CHUNK * V_CHANNEL,
        V = POSITIONS * V_POSITION,
        // The products overwrite V. The distance of seven windows, in banks, is
        // a multiple of four but not of 32.
        M_WINDOW = COT + 4,
        M_POSITION = PIXELS3 * M_WINDOW,
        M = POSITIONS * M_POSITION,
        WORK = (int)V > (int)M ? (int)V : (int)M,
    };
};

/* The position of a thread in the product. In each warp 28 lanes work; the
 * others repeat the work of the last one. */
struct winograd_place {
    int position, row, column, split, works;
};
template <class S, int COT>
static __device__ __forceinline__ struct winograd_place winograd_place() {
    enum {
        COLUMN_GROUPS = COT / COLUMNS,
        LANES = SIDE3 * COLUMN_GROUPS, /* of a position */
        PER_WARP = 28 / LANES,
        WARPS = POSITIONS / PER_WARP, /* of a split */
    };
    static_assert((int)WARPS * 32 * (int)S::SPLIT == (int)S::THREADS, "");
    const int warp = threadIdx.x / 32;
    const int lane = threadIdx.x % 32 < 28 ? threadIdx.x % 32 : 27;
    struct winograd_place at;
    at.works = threadIdx.x % 32 < 28;
    at.split = warp / WARPS;
    at.position = warp % WARPS * PER_WARP + lane / LANES;
    at.row = lane % LANES / COLUMN_GROUPS;
    at.column = lane % COLUMN_GROUPS * COLUMNS;
    return at;
}

/* Transform a column or a row of three weights: G g. */
static __device__ __forceinline__ void
transform_weights(float u[4], float first, float middle, float last) {
    const float even = 0.5f * (first + last), odd = 0.5f * middle;
    u[0] = first, u[1] = even + odd, u[2] = even - odd, u[3] = last;
}

/* Transform a column or a row of four pixels: B' p. */
static __device__ __forceinline__ void transform_pixels(float v[4],
                                                        const float p[4]) {
    v[0] = p[0] - p[2], v[1] = p[1] + p[2];
    v[2] = p[2] - p[1], v[3] = p[1] - p[3];
}

/* Transform the weights (CIN,9,all) of COT channels: U = G g G'. A thread has
 * four output channels of one input channel. */
template <class S, int CIN, int COT>
static __device__ __forceinline__ void
winograd_weights(float *u_s, const float *weights, int all) {
    enum { QUADS = COT / 4 };
    for (int i = threadIdx.x; i < CIN * QUADS; i += S::THREADS) {
        const int ci = i / QUADS, co = i % QUADS * 4;
        float g[TAPS][4], t[3][4][4]; // t[column][channel][row]
#pragma unroll
        for (int tap = 0; tap < TAPS; tap++)
            load4(g[tap], weights + (size_t)(ci * TAPS + tap) * all + co);
#pragma unroll
        for (int x = 0; x < 3; x++)
#pragma unroll
            for (int k = 0; k < 4; k++)
                transform_weights(t[x][k], g[x][k], g[3 + x][k], g[6 + x][k]);
        float *out = u_s + ci * COT + co;
#pragma unroll
        for (int y = 0; y < 4; y++) {
            float u[4][4]; // u[channel][column]
#pragma unroll
            for (int k = 0; k < 4; k++)
                transform_weights(u[k], t[0][k][y], t[1][k][y], t[2][k][y]);
#pragma unroll
            for (int x = 0; x < 4; x++) {
                const float four[4] = {u[0][x], u[1][x], u[2][x], u[3][x]};
                put4(out + (4 * y + x) * S::U_POSITION, four);
            }
        }
    }
}

/* Transform COUNT neighbouring windows of one channel: V = B' x B. `image`
 * points at the pixel above and to the left of the first window. */
template <class S, int COUNT>
static __device__ __forceinline__ void winograd_pixels(float *v_s,
                                                       const float *image) {
    enum { PIXELS = 2 * COUNT + 2 };
    float x[4][PIXELS];
#pragma unroll
    for (int row = 0; row < 4; row++)
#pragma unroll
        for (int i = 0; i < PIXELS; i++)
            x[row][i] = image[row * S::ROW + i * S::PIXEL];
#pragma unroll
    for (int row = 0; row < 4; row++) {
        float t[PIXELS], v[4][4] = {}; // v[window][column]
#pragma unroll
        for (int i = 0; i < PIXELS; i++)
            t[i] = row == 0   ? x[0][i] - x[2][i]
                   : row == 1 ? x[1][i] + x[2][i]
                   : row == 2 ? x[2][i] - x[1][i]
                              : x[1][i] - x[3][i];
#pragma unroll
        for (int i = 0; i < COUNT; i++) transform_pixels(v[i], t + 2 * i);
#pragma unroll
        for (int x = 0; x < 4; x++) {
            const float four[4] = {v[0][x], v[1][x], v[2][x], v[3][x]};
            put4(v_s + (4 * row + x) * S::V_POSITION, four);
        }
    }
}

/* Transform CHUNK channels of an image from its first bordered pixel. An item
 * is the first four or the last three windows of a row, of one channel. */
template <class S, int CHUNK>
static __device__ __forceinline__ void winograd_image(float *v_s,
                                                      const float *image) {
    for (int i = threadIdx.x; i < 2 * SIDE3 * CHUNK; i += S::THREADS) {
        const int ci = i % CHUNK, row = i / CHUNK % SIDE3;
        float *to = v_s + ci * V_CHANNEL + row * V_ROW;
        const float *from = image + ci + 2 * row * S::ROW;
        if (i < SIDE3 * CHUNK)
            winograd_pixels<S, 4>(to, from);
        else
            winograd_pixels<S, 3>(to + V_HALF, from + 8 * S::PIXEL);
    }
}

/* A thread's factors for one input channel. */
struct winograd_factors {
    float windows[8], columns[COLUMNS];
};
static __device__ __forceinline__ void
winograd_load(struct winograd_factors *to, const float *v, const float *u) {
    load4(to->windows, v);
    load4(to->windows + 4, v + V_HALF);
#pragma unroll
    for (int i = 0; i < COLUMNS; i += 4) load4(to->columns + i, u + i);
}
static __device__ __forceinline__ void
winograd_multiply(float acc[WINDOWS][COLUMNS],
                  const struct winograd_factors &from) {
#pragma unroll
    for (int i = 0; i < WINDOWS; i++)
#pragma unroll
        for (int j = 0; j < COLUMNS; j++)
            acc[i][j] = fmaf(from.windows[i], from.columns[j], acc[i][j]);
}

/* Add the products of the thread's part of a chunk, whose first channel of U is
 * at u_s. While a channel is multiplied, the next one is loaded. */
template <class S, int COT, int CHUNK>
static __device__ __forceinline__ void
winograd_product(float acc[WINDOWS][COLUMNS], const float *v_s,
                 const float *u_s, const struct winograd_place &at) {
    enum { PART = CHUNK / S::SPLIT };
    static_assert(PART % 2 == 0, "channels are processed in pairs");
    const float *v = v_s + at.position * S::V_POSITION +
                     at.split * PART * V_CHANNEL + at.row * V_ROW;
    const float *u =
        u_s + at.position * S::U_POSITION + at.split * PART * COT + at.column;
    struct winograd_factors even, odd;
    winograd_load(&even, v, u);
#pragma unroll 1
    for (int ci = 0; ci < PART; ci += 2) {
        winograd_load(&odd, v + V_CHANNEL, u + COT);
        winograd_multiply(acc, even);
        if (ci + 2 < PART) v += 2 * V_CHANNEL, u += 2 * COT;
        winograd_load(&even, v, u); // after the last pair, this is not used
        winograd_multiply(acc, odd);
    }
}

static __device__ __forceinline__ void
winograd_clear(float acc[WINDOWS][COLUMNS]) {
#pragma unroll
    for (int i = 0; i < WINDOWS; i++)
#pragma unroll
        for (int j = 0; j < COLUMNS; j++) acc[i][j] = 0.0f;
}

/* Store the products of the threads of one split, or add them to those in
 * m_s. */
template <class S, int ADD>
static __device__ __forceinline__ void
winograd_leave(float *m_s, const float acc[WINDOWS][COLUMNS],
               const struct winograd_place &at) {
    if (!at.works) return;
    float *out = m_s + at.position * S::M_POSITION +
                 at.row * WINDOWS * S::M_WINDOW + at.column;
#pragma unroll
    for (int i = 0; i < WINDOWS; i++)
#pragma unroll
        for (int j = 0; j < COLUMNS; j += 4) {
            float four[4] = {};
            if (ADD) load4(four, out + i * S::M_WINDOW + j);
            for (int k = 0; k < 4; k++) four[k] += acc[i][j + k];
            put4(out + i * S::M_WINDOW + j, four);
        }
}

/* Store the products of all threads in m_s, which no thread reads any more. The
 * function ends with a barrier. */
template <class S>
static __device__ __forceinline__ void
winograd_reduce(float *m_s, const float acc[WINDOWS][COLUMNS],
                const struct winograd_place &at) {
    if (at.split == S::SPLIT - 1) winograd_leave<S, 0>(m_s, acc, at);
    __syncthreads();
    if (S::SPLIT == 1) return;
    if (at.split == 0) winograd_leave<S, 1>(m_s, acc, at);
    __syncthreads();
}

/* Compute a window's four pixels of N channels, A' m A, from the products of
 * the window's first channel at m. */
template <class S, int N>
static __device__ __forceinline__ void winograd_window(float y[4][N],
                                                       const float *m) {
    float t[2][4][N];
#pragma unroll
    for (int column = 0; column < 4; column++) {
        float p[4][N];
#pragma unroll
        for (int row = 0; row < 4; row++) {
            const float *from = m + (4 * row + column) * S::M_POSITION;
            if (N == 4)
                load4(p[row], from);
            else
                p[row][0] = *from;
        }
#pragma unroll
        for (int k = 0; k < N; k++) {
            t[0][column][k] = p[0][k] + p[1][k] + p[2][k];
            t[1][column][k] = p[1][k] - p[2][k] - p[3][k];
        }
    }
#pragma unroll
    for (int i = 0; i < 2; i++)
#pragma unroll
        for (int k = 0; k < N; k++) {
            y[2 * i][k] = t[i][0][k] + t[i][1][k] + t[i][2][k];
            y[2 * i + 1][k] = t[i][1][k] - t[i][2][k] - t[i][3][k];
        }
}

#endif
