/* image.cuh -- an image of the batch, normalised, in shared memory.
 *
 * Pixels are stored as the uint8 they came as and become x = (p/255 - mean)/std
 * where they are used: a byte to read instead of four. Around the image lies
 * the convolution's border of zeros (zeros of x, not of p), so that no tap asks
 * whether it is inside. */
#ifndef WEFT_IMAGE_H
#define WEFT_IMAGE_H
#include "fused.h"

enum {
    IMAGE_ROWS = SIDE1 + 2,
    // Even, so that two pixels are one load of 8 bytes; and not a multiple of
    // 32, so that lanes which read neighbouring rows read different banks.
    IMAGE_PITCH = 34,
    IMAGE_SIZE = IMAGE_ROWS * IMAGE_PITCH, /* floats */
};

/* x = scale * p + shift; everybody rounds these two alike. */
static __host__ __device__ __forceinline__ float pixel_scale(float std) {
    return 1.0f / (255.0f * std);
}
static __host__ __device__ __forceinline__ float pixel_shift(float mean,
                                                             float std) {
    return -mean / std;
}

/* Pixels (28,28) of the batch's image `index`. */
static __device__ __forceinline__ const uint8_t *
image_of(const struct fused_run *run, int index) {
    return run->images + (size_t)run->order[run->first + index] * PIXELS1;
}

/* Rows [top, top + rows) of the bordered image to image_s (rows,IMAGE_PITCH);
 * row 0 and row 29 are border. All `threads` threads of the block call it; the
 * caller synchronises. */
static __device__ __forceinline__ void
load_rows(float *image_s, const uint8_t *image, int top, int rows, float mean,
          float std, int thread, int threads) {
    const float scale = pixel_scale(std), shift = pixel_shift(mean, std);
    const unsigned *words = (const unsigned *)image; // 784 divides by 4
    for (int i = thread; i < rows * 8; i += threads) {
        const int row = i / 8, word = i % 8;
        const int y = top + row - 1; // in the image
        float *out = image_s + row * IMAGE_PITCH + 4 * word;
        if (word == 7) { // the columns left and right of the image
            out -= 28;
            out[0] = out[29] = 0.0f;
            continue;
        }
        const bool inside = y >= 0 && y < SIDE1;
        const unsigned four = inside ? words[y * 7 + word] : 0;
        for (int k = 0; k < 4; k++) {
            const float p = (float)(four >> (8 * k) & 255);
            out[1 + k] = inside ? fmaf(p, scale, shift) : 0.0f;
        }
    }
}

/* The whole image with its border to image_s (30,IMAGE_PITCH). */
static __device__ __forceinline__ void load_image(float *image_s,
                                                  const uint8_t *image,
                                                  float mean, float std,
                                                  int thread, int threads) {
    load_rows(image_s, image, 0, IMAGE_ROWS, mean, std, thread, threads);
}

#endif
