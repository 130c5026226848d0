/* conv2_fp32.cuh -- a 3x3 convolution of one 14x14 image on FFMA units, for
 * conv2's forward pass and its data gradient, which differ only in sizes.
 *
 * Idea:    a thread owns 7x7 pixels x 2 output channels: 98 sums in registers.
 *          For two input channels it reads 81 pairs of pixel values and 18
 *          pairs of weights and does 1764 multiply-adds, 18 for each load. The
 *          image keeps its layout, channels innermost, with a border of zeros,
 *          so no load needs a bounds check. Four threads compute the image for
 *          two output channels, and COT / 2 such groups compute the block's
 *          output channels. SPLIT groups of warps each take a part of the input
 *          channels, so that even a small batch fills the GPU.
 * Limit:   the issue of FFMA, one instruction per cycle and quarter of an
 *          SM. */
#ifndef WEFT_CONV2_FP32_CUH
#define WEFT_CONV2_FP32_CUH
#include "common/ptx.cuh"
#include "fused.h"

enum {
    TILE = 7, /* pixels of a thread along each side */
    BORDERED = SIDE2 + 2,
};

/* A bordered image in shared memory. PIXEL and ROW are its pitches in floats. A
 * row takes 15 pixels, since the zeros at its right are also those at the left
 * of the next row. */
template <int CHANNELS, int PAD> struct bordered_image {
    enum {
        PIXEL = CHANNELS + PAD,
        // 8 floats more, so that lanes that own the lower tiles read other
        // banks.
        ROW = (BORDERED - 1) * PIXEL + 8,
        IMAGE = (BORDERED - 1) * (ROW + PIXEL) + PIXEL,
    };
    /* Return the offset of pixel (y,x) of the image, where (0,0) is the first
     * pixel inside its border. */
    static __device__ __forceinline__ int at(int y, int x) {
        return (y + 1) * ROW + (x + 1) * PIXEL;
    }
};

/* The shape of a block. */
template <int CIN, int COT, int SPLIT, int PAD>
struct conv_shape : bordered_image<CIN, PAD> {
    enum {
        IMAGE = bordered_image<CIN, PAD>::IMAGE,
        PAIRS = COT / 2,
        THREADS = 4 * PAIRS * SPLIT,
        CIN_PART = CIN / SPLIT,
        WEIGHTS = CIN * TAPS * COT,
        PART = PIXELS2 * COT,
        PARTS = SPLIT > 1 ? SPLIT / 2 : 1, /* number of arrays in the result of
                                            * reduce_parts() */
        WORK = IMAGE > PARTS *PART ? IMAGE : PARTS * PART,
    };
};

/* The position of a thread in the block's work. */
struct conv_place {
    int pair, tile_y, tile_x, part;
};
template <class S> static __device__ __forceinline__ struct conv_place place() {
    struct conv_place at;
    const int thread = threadIdx.x, tile = thread / S::PAIRS % 4;
    at.pair = thread % S::PAIRS;
    // Neighbouring lanes own an upper and a lower tile, which are in different
    // banks.
    at.tile_y = tile % 2, at.tile_x = tile / 2;
    at.part = thread / (4 * S::PAIRS);
    return at;
}

/* Start copying the weights (CIN,9,all) of COT channels to shared memory. */
template <class S, int COT>
static __device__ __forceinline__ void
copy_weights(float *weights_s, const float *weights, int all) {
    enum { QUADS = COT / 4 };
    for (int i = threadIdx.x; i < S::WEIGHTS / 4; i += S::THREADS)
        copy16_async(weights_s + 4 * i,
                     weights + (size_t)(i / QUADS) * all + 4 * (i % QUADS));
}

/* Zero the border of the image. */
template <class S>
static __device__ __forceinline__ void clear_border(float *image_s) {
    enum {
        TOP = S::ROW + S::PIXEL, /* row 0, and the pixel left of row 1 */
        BOTTOM = (BORDERED - 1) * S::ROW,
        BETWEEN = TOP - (BORDERED - 1) * S::PIXEL, /* from the right of one row
                                                      to the left of the next */
    };
    const float4 zero = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
    for (int i = threadIdx.x; i < TOP / 4; i += S::THREADS)
        ((float4 *)image_s)[i] = zero;
    for (int i = threadIdx.x; i < (S::IMAGE - BOTTOM) / 4; i += S::THREADS)
        ((float4 *)(image_s + BOTTOM))[i] = zero;
    for (int i = threadIdx.x; i < SIDE2 * BETWEEN / 4; i += S::THREADS) {
        const int y = 1 + i / (BETWEEN / 4), at = i % (BETWEEN / 4) * 4;
        *(float4 *)(image_s + (y + 1) * S::ROW + S::PIXEL - BETWEEN + at) =
            zero;
    }
}

/* Add the contribution of two input channels to acc. `image` points at the
 * thread's first pixel, and `weights` at its pair of output channels. */
template <class S, int COT>
static __device__ __forceinline__ void multiply_tile(float acc[TILE][TILE][2],
                                                     const float *image,
                                                     const float *weights) {
    float2 weight[2][TAPS];
#pragma unroll
    for (int ci = 0; ci < 2; ci++)
#pragma unroll
        for (int tap = 0; tap < TAPS; tap++)
            weight[ci][tap] =
                *(const float2 *)(weights + (ci * TAPS + tap) * COT);
#pragma unroll
    for (int row = 0; row < TILE + 2; row++) {
        float2 line[TILE + 2];
#pragma unroll
        for (int x = 0; x < TILE + 2; x++)
            line[x] = *(const float2 *)(image + row * S::ROW + x * S::PIXEL);
#pragma unroll
        for (int ci = 0; ci < 2; ci++)
#pragma unroll
            for (int tap = 0; tap < TAPS; tap++) {
                const int y = row - tap / 3;
                if (y < 0 || y >= TILE) continue;
                const float2 w = weight[ci][tap];
#pragma unroll
                for (int x = 0; x < TILE; x++) {
                    const float2 both = line[x + tap % 3];
                    const float v = ci ? both.y : both.x;
                    acc[y][x][0] = fmaf(v, w.x, acc[y][x][0]);
                    acc[y][x][1] = fmaf(v, w.y, acc[y][x][1]);
                }
            }
    }
}

/* Compute the thread's tile over its part of the input channels. */
template <class S, int COT>
static __device__ __forceinline__ void
convolve(float acc[TILE][TILE][2], const float *image_s, const float *weights_s,
         const struct conv_place &at) {
#pragma unroll
    for (int y = 0; y < TILE; y++)
#pragma unroll
        for (int x = 0; x < TILE; x++) acc[y][x][0] = acc[y][x][1] = 0.0f;
    const float *image = image_s + at.part * S::CIN_PART +
                         TILE * (at.tile_y * S::ROW + at.tile_x * S::PIXEL);
    const float *weights =
        weights_s + at.part * S::CIN_PART * TAPS * COT + 2 * at.pair;
#pragma unroll 1 // one copy of 1764 multiply-adds fits the instruction cache
    for (int ci = 0; ci < S::CIN_PART; ci += 2) {
        multiply_tile<S, COT>(acc, image, weights);
        image += 2;
        weights += 2 * TAPS * COT;
    }
}

/* Write a tile to part (196,COT), or add it to the present contents. */
template <int COT, int ADD>
static __device__ __forceinline__ void
leave_tile(float *part, const float acc[TILE][TILE][2],
           const struct conv_place &at) {
    float *out =
        part + 2 * at.pair + TILE * (at.tile_y * SIDE2 + at.tile_x) * COT;
#pragma unroll
    for (int y = 0; y < TILE; y++)
#pragma unroll
        for (int x = 0; x < TILE; x++) {
            float2 *to = (float2 *)(out + (y * SIDE2 + x) * COT);
            float2 sum = make_float2(acc[y][x][0], acc[y][x][1]);
            if (ADD) sum.x += to->x, sum.y += to->y;
            *to = sum;
        }
}

/* Reduce SPLIT tiles per place to PARTS arrays (196,COT) in shared memory,
 * which overwrite the image; read_parts() adds these arrays. The function ends
 * with a barrier. */
template <class S, int COT, int SPLIT>
static __device__ __forceinline__ void
reduce_parts(float *parts, const float acc[TILE][TILE][2],
             const struct conv_place &at) {
    __syncthreads(); // all threads have read the image
    float *part = parts + at.part % S::PARTS * S::PART;
    if (at.part >= S::PARTS || SPLIT == 1) leave_tile<COT, 0>(part, acc, at);
    __syncthreads();
    if (SPLIT == 1) return;
    if (at.part < S::PARTS) leave_tile<COT, 1>(part, acc, at);
    __syncthreads();
}

/* Return element i of the result. */
template <class S>
static __device__ __forceinline__ float read_parts(const float *parts, int i) {
    float sum = parts[i];
#pragma unroll
    for (int part = 1; part < S::PARTS; part++)
        sum += parts[part * S::PART + i];
    return sum;
}

/* Read elements i .. i + 3 of the result into v[0..4). */
template <class S>
static __device__ __forceinline__ void read_parts(float v[4],
                                                  const float *parts, int i) {
    float4 sum = *(const float4 *)(parts + i);
#pragma unroll
    for (int part = 1; part < S::PARTS; part++) {
        const float4 more = *(const float4 *)(parts + part * S::PART + i);
        sum.x += more.x, sum.y += more.y, sum.z += more.z, sum.w += more.w;
    }
    v[0] = sum.x, v[1] = sum.y, v[2] = sum.z, v[3] = sum.w;
}

/* Read four channels of a 2x2 window's pixels into v[pixel]; `parts` points at
 * the first channel. */
template <class S, int COT>
static __device__ __forceinline__ void
read_window(float v[4][4], const float *parts, int window) {
    const int corner = window / SIDE3 * 2 * SIDE2 + window % SIDE3 * 2;
#pragma unroll
    for (int q = 0; q < 4; q++)
        read_parts<S>(v[q], parts, (corner + q / 2 * SIDE2 + q % 2) * COT);
}

#endif
