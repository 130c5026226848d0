/* conv2_output.cuh -- the arrays that conv2's kernels in strict fp32 use: an
 * image of p1, c2, the raw pool and BN2's sums. */
#ifndef WEFT_CONV2_OUTPUT_CUH
#define WEFT_CONV2_OUTPUT_CUH
#include "conv2_fp32.cuh"
#include "element.cuh"

/* The arrays that the kernel reads and writes; see fused.h. */
struct conv2_arrays {
    const float *p1, *weights, *gamma;
    float *c2, *m2, *sum2;
    uint8_t *code2;
    int batch;
};

static inline struct conv2_arrays conv2_arrays_of(const struct fused *f,
                                                  int batch) {
    struct conv2_arrays a;
    a.p1 = (const float *)f->p1;
    a.weights = (const float *)f->conv2_f;
    a.gamma = f->params + BN2_W;
    a.c2 = (float *)f->c2;
    a.m2 = (float *)f->m2;
    a.sum2 = f->sum2.data;
    a.code2 = f->code2;
    a.batch = batch;
    return a;
}

/* Start copying an image (196,32) to the inside of its border. */
template <class S>
static __device__ __forceinline__ void copy_image(float *image_s,
                                                  const float *p1) {
    for (int i = threadIdx.x; i < PIXELS2 * C1 / 4; i += S::THREADS) {
        const int pixel = i / (C1 / 4), quad = i % (C1 / 4);
        copy16_async(image_s + S::at(pixel / SIDE2, pixel % SIDE2) + 4 * quad,
                     p1 + 4 * i);
    }
}

/* The sums that BN2 needs, for a thread's four channels. */
struct four_sums {
    double values[4], squares[4];
};

/* Return the signs of batch norm's weights for the thread's four channels.
 * After a multiplication by its sign, a window's winner is the largest value.
 * With sign zero, no value beats the first. */
template <int COT>
static __device__ __forceinline__ void load_signs(float sign[4],
                                                  const float *gamma) {
    load4(sign, gamma + threadIdx.x % (COT / 4) * 4);
    for (int i = 0; i < 4; i++)
        sign[i] = sign[i] > 0.0f ? 1.0f : sign[i] < 0.0f ? -1.0f : 0.0f;
}

/* Store one image's result in global memory. READ(v, window, c) reads channels
 * c .. c + 3 of a window's four pixels into v[4][4]. A thread has four
 * channels, with their signs, and windows at a fixed distance. */
template <class S, int COT, class READ>
static __device__ __forceinline__ void
write_image(const struct conv2_arrays &to, const READ &read, int image,
            int first, const float sign[4], struct four_sums *total) {
    enum { QUADS = COT / 4 };
    const int c = threadIdx.x % QUADS * 4;
    // Sums within an image are floats; sums over images are doubles, since the
    // variance is a small difference of these.
    float values[4] = {}, squares[4] = {};
    for (int window = threadIdx.x / QUADS; window < PIXELS3;
         window += S::THREADS / QUADS) {
        const int corner = window / SIDE3 * 2 * SIDE2 + window % SIDE3 * 2;
        float pixels[4][4], best[4] = {};
        unsigned code[4] = {};
        read(pixels, window, c);
#pragma unroll
        for (int q = 0; q < 4; q++) {
            const int pixel = corner + q / 2 * SIDE2 + q % 2;
            const float *v = pixels[q];
            put4(to.c2 + ((size_t)image * PIXELS2 + pixel) * C2 + first + c, v);
#pragma unroll
            for (int i = 0; i < 4; i++) {
                values[i] += v[i];
                squares[i] = fmaf(v[i], v[i], squares[i]);
                const bool more = q > 0 && sign[i] * v[i] > sign[i] * best[i];
                best[i] = q == 0 || more ? v[i] : best[i];
                code[i] = more ? q : code[i];
            }
        }
        const size_t out = ((size_t)image * PIXELS3 + window) * C2 + first + c;
        put4(to.m2 + out, best);
        *(unsigned *)(to.code2 + out) =
            code[0] | code[1] << 8 | code[2] << 16 | code[3] << 24;
    }
    for (int i = 0; i < 4; i++) {
        total->values[i] += values[i];
        total->squares[i] += squares[i];
    }
}

/* Store the sums of the block's COT channels in its slot. */
template <class S, int COT>
static __device__ __forceinline__ void
write_sums(float *slot, double *scratch, const struct four_sums &total) {
    enum { QUADS = COT / 4, GROUPS = S::THREADS / QUADS };
    __syncthreads(); // the last result has been read
    const int c = threadIdx.x % QUADS * 4, group = threadIdx.x / QUADS;
    for (int i = 0; i < 4; i++) {
        scratch[group * 2 * COT + c + i] = total.values[i];
        scratch[group * 2 * COT + COT + c + i] = total.squares[i];
    }
    __syncthreads();
    for (int i = threadIdx.x; i < 2 * COT; i += S::THREADS) {
        double sum = 0.0;
        for (int g = 0; g < GROUPS; g++) sum += scratch[g * 2 * COT + i];
        slot[i / COT * C2 + i % COT] = (float)sum;
    }
}

#endif
