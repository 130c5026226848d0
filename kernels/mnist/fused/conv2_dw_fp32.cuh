/* conv2_dw_fp32.cuh -- the gradient of conv2's weights in strict fp32.
 *
 * Idea:    dw[tap][oc][ic] is the sum of p1 (moved by the tap) times dy over
 *          all pixels of all images. A thread owns all 9 taps of 2 ic x 4 oc,
 *          72 sums in registers. It walks along rows of pixels with a 3x3
 *          window of p1 in registers. Each step reads 3 pairs of p1 and 4
 *          values of dy for 72 multiply-adds. 128 threads cover 32 x 32
 *          channels. Two such groups take half of the rows each, and their sums
 *          are added at the end.
 * Limit:   each block stores 36 KB of sums that update() must add, which at
 *          batch 64 is as much work as a few images.
 * Shared:  56.6 KB: 30 for an image of p1 with its border and 24.5 for dy of 32
 *          channels; 111.3 KB with room for two of each.
 * Lesson:  notebooks/15b_mnist_gpu.ipynb. */
#ifndef WEFT_CONV2_DW_FP32_CUH
#define WEFT_CONV2_DW_FP32_CUH
#include "common/ptx.cuh"
#include "dy_fp32.cuh"

enum {
    DW_OUT = 32,               /* output channels per block */
    DW_CUTS = C2 / DW_OUT,     /* blocks that share an image */
    DW_GROUP = 4 * DW_OUT,     /* threads: 16 pairs of ic x 8 quads of oc */
    DW_ROW = (SIDE2 + 1) * C1, /* a row's right border is the next row's left
                                * border */
    DW_IMAGE = (SIDE2 + 2) * DW_ROW + C1,
    DW_DY = PIXELS2 * DW_OUT,
    DW_NUMBERS = 2 * dy_scratch<DW_GROUP>::DOUBLES,
    DW_STAGE = DW_IMAGE + DW_DY,
};
static_assert(18 * 4 * DW_GROUP <= DW_IMAGE + DW_DY, "no room for the sums");

/* The arrays that the kernel reads and writes; see fused.h. */
struct conv2_dw_arrays {
    struct dy_sources dy;
    const float *p1, *c2, *dp2;
    const uint8_t *code2;
    float *dw2;
    int batch;
};

static inline struct conv2_dw_arrays conv2_dw_arrays_of(const struct fused *f,
                                                        int batch) {
    struct conv2_dw_arrays a;
    a.dy = dy_from(f, batch);
    a.p1 = (const float *)f->p1;
    a.c2 = (const float *)f->c2;
    a.dp2 = (const float *)f->dp2;
    a.code2 = f->code2;
    a.dw2 = f->dw2.data;
    a.batch = batch;
    return a;
}

/* Zero an image's border: rows 0 and 15, and the pixels to the left of the rows
 * between them. */
static __device__ __forceinline__ void dw_clear_border(float *image_s,
                                                       int threads) {
    const float4 zero = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
    float4 *bottom = (float4 *)(image_s + (SIDE2 + 1) * DW_ROW);
    for (int i = threadIdx.x; i < (DW_ROW + C1) / 4; i += threads)
        ((float4 *)image_s)[i] = bottom[i] = zero;
    for (int i = threadIdx.x; i < SIDE2 * C1 / 4; i += threads) {
        const int y = i / (C1 / 4) + 1, quad = i % (C1 / 4);
        *(float4 *)(image_s + y * DW_ROW + 4 * quad) = zero;
    }
}

/* Start copying an image (196,32) to the inside of its border. */
static __device__ __forceinline__ void
dw_copy_image(float *image_s, const float *p1, int threads) {
    for (int i = threadIdx.x; i < PIXELS2 * C1 / 4; i += threads) {
        const int pixel = i / (C1 / 4), quad = i % (C1 / 4);
        copy16_async(image_s + (pixel / SIDE2 + 1) * DW_ROW +
                         (pixel % SIDE2 + 1) * C1 + 4 * quad,
                     p1 + 4 * i);
    }
}

/* Add one pixel's contribution to the sums; window[ky][(x + kx) % 3] is p1
 * around the pixel. */
static __device__ __forceinline__ void dw_multiply(float acc[TAPS][2][4],
                                                   const float2 window[3][3],
                                                   int x, float4 dy) {
#pragma unroll
    for (int tap = 0; tap < TAPS; tap++) {
        const float2 v = window[tap / 3][(x + tap % 3) % 3];
        acc[tap][0][0] = fmaf(v.x, dy.x, acc[tap][0][0]);
        acc[tap][0][1] = fmaf(v.x, dy.y, acc[tap][0][1]);
        acc[tap][0][2] = fmaf(v.x, dy.z, acc[tap][0][2]);
        acc[tap][0][3] = fmaf(v.x, dy.w, acc[tap][0][3]);
        acc[tap][1][0] = fmaf(v.y, dy.x, acc[tap][1][0]);
        acc[tap][1][1] = fmaf(v.y, dy.y, acc[tap][1][1]);
        acc[tap][1][2] = fmaf(v.y, dy.z, acc[tap][1][2]);
        acc[tap][1][3] = fmaf(v.y, dy.w, acc[tap][1][3]);
    }
}

/* Process RUN pixels of a row; `image` is the row above them in the bordered
 * image. */
template <int RUN>
static __device__ __forceinline__ void
dw_row(float acc[TAPS][2][4], const float *image, const float *dy) {
    float2 window[3][3];
#pragma unroll
    for (int ky = 0; ky < 3; ky++)
#pragma unroll
        for (int kx = 0; kx < 2; kx++)
            window[ky][kx] = *(const float2 *)(image + ky * DW_ROW + kx * C1);
#pragma unroll
    for (int x = 0; x < RUN; x++) {
#pragma unroll
        for (int ky = 0; ky < 3; ky++) // load the next column
            window[ky][(x + 2) % 3] =
                *(const float2 *)(image + ky * DW_ROW + (x + 2) * C1);
        dw_multiply(acc, window, x, *(const float4 *)(dy + x * DW_OUT));
    }
}

/* Process seven rows, in runs of RUN pixels. */
template <int RUN>
static __device__ __forceinline__ void
dw_half(float acc[TAPS][2][4], const float *pixels, const float *dy, int half) {
    enum { RUNS = SIDE2 / RUN };
#pragma unroll 1
    for (int i = 0; i < SIDE2 / 2 * RUNS; i++) {
        const int y = half * (SIDE2 / 2) + i / RUNS, x = i % RUNS * RUN;
        dw_row<RUN>(acc, pixels + y * DW_ROW + x * C1,
                    dy + (y * SIDE2 + x) * DW_OUT);
    }
}

/* Process all rows, one half of the image after the other. With dw and dx
 * merged in one launch, a loop of 504 multiply-adds was faster than a loop of
 * 1008: 32.9 us instead of 35.2 (H200, 64 images; with PDL, too). Perhaps the
 * reason is that both loops share the instruction cache. Each half has separate
 * sums, as if a group had computed it, since a single chain of 196 additions
 * would round more. */
static __device__ __forceinline__ void
dw_both_halves(float acc[TAPS][2][4], const float *pixels, const float *dy) {
#pragma unroll 1
    for (int half = 0; half < 2; half++) {
        float part[TAPS][2][4];
#pragma unroll
        for (int i = 0; i < TAPS * 8; i++) part[i / 8][i / 4 % 2][i % 4] = 0.0f;
        dw_half<SIDE2 / 2>(part, pixels, dy, half);
#pragma unroll
        for (int i = 0; i < TAPS * 8; i++)
            acc[i / 8][i / 4 % 2][i % 4] += part[i / 8][i / 4 % 2][i % 4];
    }
}

/* Store the groups' sums in the slot; the first group adds those of the
 * second. */
template <int GROUPS>
static __device__ __forceinline__ void dw_write(float *slot, float *scratch,
                                                float acc[TAPS][2][4],
                                                int group, int thread) {
    const int quad = thread % 8, pair = thread / 8;
    float4 *other = (float4 *)scratch;
    if (GROUPS == 2) {
        __syncthreads(); // the last image has been read
        if (group == 1)
#pragma unroll
            for (int i = 0; i < 2 * TAPS; i++) {
                const float *v = acc[i / 2][i % 2];
                other[i * DW_GROUP + thread] =
                    make_float4(v[0], v[1], v[2], v[3]);
            }
        __syncthreads();
        if (group == 1) return;
#pragma unroll
        for (int i = 0; i < 2 * TAPS; i++) {
            const float4 v = other[i * DW_GROUP + thread];
            float *sum = acc[i / 2][i % 2];
            sum[0] += v.x, sum[1] += v.y, sum[2] += v.z, sum[3] += v.w;
        }
    }
#pragma unroll
    for (int tap = 0; tap < TAPS; tap++) {
        float2 *out = (float2 *)(slot + (tap * C2 + 4 * quad) * C1 + 2 * pair);
        const float (*v)[4] = acc[tap];
#pragma unroll
        for (int oc = 0; oc < 4; oc++)
            out[oc * C1 / 2] = make_float2(v[0][oc], v[1][oc]);
    }
}

/* Do the work of block `block` of `blocks`, with GROUPS * DW_GROUP threads.
 * With two STAGES, an image is loaded while the previous one is processed. */
template <int GROUPS, int STAGES, enum dy_role ROLE>
static __device__ __forceinline__ void
conv2_dw_block(float *shared, const struct conv2_dw_arrays &a, int block,
               int blocks) {
    enum { THREADS = GROUPS * DW_GROUP };
    typedef dy_builder<DW_OUT, DW_OUT, SIDE2 * DW_OUT, THREADS> builder_t;
    float *images_s = shared + DW_NUMBERS;
    double *totals = (double *)shared;
    struct dy_numbers *numbers = (struct dy_numbers *)totals;
    const int first = block % DW_CUTS * DW_OUT;
    const int slot = block / DW_CUTS, step = blocks / DW_CUTS;
    const int group = threadIdx.x / DW_GROUP, thread = threadIdx.x % DW_GROUP;
    for (int i = 0; i < STAGES; i++)
        dw_clear_border(images_s + i * DW_STAGE, THREADS);
    // Of these inputs, only dp2 and its sums come from the previous kernel.
    builder_t builder;
    struct dy_image from = dy_image_of(a.c2, a.dp2, a.code2, slot);
    builder.copy_c2(images_s + DW_IMAGE, from, first);
    dw_copy_image(images_s, a.p1 + (size_t)slot * PIXELS2 * C1, THREADS);
    copy_commit();
    if (ROLE != DY_LOAD) dy_add_early(totals, a.dy);
    pdl_wait();
    pdl_trigger();
    builder.load_dp2(from, first);
    if (ROLE != DY_LOAD) dy_add_late<THREADS>(totals, a.dy);
    dy_finish<ROLE>(numbers, totals, a.dy);

    float acc[TAPS][2][4];
#pragma unroll
    for (int i = 0; i < TAPS * 8; i++) acc[i / 8][i / 4 % 2][i % 4] = 0.0f;
    int stage = 0;
    for (int image = slot; image < a.batch; image += step) {
        float *image_s = images_s + stage * DW_STAGE;
        float *dy_s = image_s + DW_IMAGE;
        if (STAGES == 1 && image != slot) {
            __syncthreads(); // the previous image has been read
            builder.copy_c2(dy_s, from, first);
            dw_copy_image(image_s, a.p1 + (size_t)image * PIXELS2 * C1,
                          THREADS);
            copy_commit();
            builder.load_dp2(from, first);
        }
        builder.build(dy_s, numbers, first);
        __syncthreads();
        const int next = image + step;
        if (next < a.batch) from = dy_image_of(a.c2, a.dp2, a.code2, next);
        if (STAGES == 2) {
            stage ^= 1; // that stage was read before this barrier
            float *next_s = images_s + stage * DW_STAGE;
            if (next < a.batch) {
                builder.copy_c2(next_s + DW_IMAGE, from, first);
                dw_copy_image(next_s, a.p1 + (size_t)next * PIXELS2 * C1,
                              THREADS);
                builder.load_dp2(from, first);
            }
            copy_commit();
        }
        const float *pixels = image_s + 2 * (thread / 8);
        const float *dy = dy_s + 4 * (thread % 8);
        if (GROUPS == 2)
            dw_half<SIDE2>(acc, pixels, dy, group);
        else
            dw_both_halves(acc, pixels, dy);
    }
    dw_write<GROUPS>(a.dw2 + (size_t)slot * TAPS * C2 * C1 + first * C1,
                     images_s, acc, group, thread);
}

#endif
