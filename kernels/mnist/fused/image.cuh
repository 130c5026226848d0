/* image.cuh -- an image of the batch, normalised, in shared memory.
 *
 * Pixels are stored as the original uint8: one byte to read, not four. A kernel
 * turns them into x = (p/255 - mean)/std when it uses them. The image has the
 * convolution's border of zeros (zeros of x, not of p), so no tap needs a
 * bounds check. */
#ifndef WEFT_IMAGE_H
#define WEFT_IMAGE_H
#include "fused.h"

enum {
    IMAGE_ROWS = SIDE1 + 2,
    // The pitch is even because conv1 reads two pixels with one load of 8
    // bytes. It is not a multiple of 32 so that lanes that read neighbouring
    // rows read different banks.
    IMAGE_PITCH = 34,
    IMAGE_SIZE = IMAGE_ROWS * IMAGE_PITCH, /* size in floats */
};

/* Return scale or shift of x = scale * p + shift. All users call these two
 * functions, so all round in the same way. */
static __host__ __device__ __forceinline__ float pixel_scale(float std) {
    return 1.0f / (255.0f * std);
}
static __host__ __device__ __forceinline__ float pixel_shift(float mean,
                                                             float std) {
    return -mean / std;
}

/* Return the pixels (28,28) of the run's image `index`. */
static __device__ __forceinline__ const uint8_t *
image_at(const struct fused_run *run, int index) {
    return run->images + (size_t)run->order[index] * PIXELS1;
}

/* Return the pixels (28,28) of the batch's image `index`. */
static __device__ __forceinline__ const uint8_t *
image_of(const struct fused_run *run, int index) {
    return image_at(run, run->first + index);
}

/* Items in a row of the bordered image: seven words of four pixels, and the two
 * columns of the border. */
enum { ROW_ITEMS = 8 };

/* Return the pixels of item `item` in row `row` of the bordered image. */
static __device__ __forceinline__ unsigned fetch_item(const uint8_t *image,
                                                      int row, int item) {
    const bool inside = row >= 1 && row <= SIDE1 && item < ROW_ITEMS - 1;
    return inside ? ((const unsigned *)image)[(row - 1) * 7 + item] : 0;
}

/* Store the pixels, normalised, in row_s, which is row `row` of the bordered
 * image. */
static __device__ __forceinline__ void put_item(float *row_s, unsigned pixels,
                                                int row, int item, float mean,
                                                float std) {
    const float scale = pixel_scale(std), shift = pixel_shift(mean, std);
    const bool inside = row >= 1 && row <= SIDE1;
    if (item == ROW_ITEMS - 1) {
        row_s[0] = row_s[1 + SIDE1] = 0.0f;
        return;
    }
#pragma unroll
    for (int k = 0; k < 4; k++) {
        const float p = (float)(pixels >> (8 * k) & 255);
        row_s[1 + 4 * item + k] = inside ? fmaf(p, scale, shift) : 0.0f;
    }
}

/* Load the whole image with its border into image_s (30,IMAGE_PITCH). All
 * `threads` threads of the block call this function, and the caller
 * synchronises. */
static __device__ __forceinline__ void load_image(float *image_s,
                                                  const uint8_t *image,
                                                  float mean, float std,
                                                  int thread, int threads) {
    for (int i = thread; i < IMAGE_ROWS * ROW_ITEMS; i += threads) {
        const int row = i / ROW_ITEMS, item = i % ROW_ITEMS;
        put_item(image_s + row * IMAGE_PITCH, fetch_item(image, row, item), row,
                 item, mean, std);
    }
}

#endif
