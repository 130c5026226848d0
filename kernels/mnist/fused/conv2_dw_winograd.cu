/* conv2_dw_winograd.cu -- the gradient of conv2's weights in strict fp32 in
 * Winograd's form.
 *
 * Before:  conv2_dw_fp32.cuh does 36 multiplications for each 2x2 window of dy
 *          and pair of input and output channels.
 * Idea:    the adjoint of winograd.cuh's form needs 16:
 *          dg = G' [sum over windows of V * (A dy A')] G with V = B' x B. Each
 *          position is a matrix product, 32 input x 32 output channels, over
 *          the windows. A thread owns one position of 8 x 8 channels: 64 sums
 *          in registers. While a row of windows is multiplied, the next one is
 *          transformed.
 * Limit:   reads of shared memory, 16 numbers for 64 multiply-adds.
 * Shared:  171 KB: 109 for two images of p1 and dy, 60 for the factors of two
 *          rows of windows, 2 for the numbers of dy.
 * Lesson:  notebooks/15b_mnist_gpu.ipynb. */
/* g++: -O1 */
#include "conv2_dw_fp32.cuh"
#include "element.cuh"
#include "launch.cuh"
#include "winograd.cuh"

enum {
    THREADS = 256,
    SUMS_SIDE = 8, /* channels of a thread, along both sides */
    // A row of windows at one position, (7,32). The next position is 16 banks
    // further, since a warp reads two.
    PLANE = SIDE3 * C1 + 16,
    FACTORS = POSITIONS * PLANE,
    // The sums (position,oc,ci) overwrite the images.
    SUMS_ROW = C1 + 4,
    SUMS_POSITION = DW_OUT * SUMS_ROW,
    IMAGES_AT = DW_NUMBERS + 4 * FACTORS,
    SHARED = IMAGES_AT + 2 * DW_STAGE,
};
static_assert(C1 == 32 && DW_OUT == 32, "a lane transforms one channel");
static_assert((int)POSITIONS * (int)SUMS_POSITION <= 2 * (int)DW_STAGE, "");
typedef dy_builder<DW_OUT, DW_OUT, SIDE2 * DW_OUT, THREADS> builder_t;

/* The first of a thread's sums. For ci and oc alike, the thread has four
 * channels from here on, and the four that are 16 further on. */
struct sums_place {
    int position, ci, oc;
};
static __device__ __forceinline__ struct sums_place sums_place() {
    const int thread = threadIdx.x;
    return {thread / 16, thread / 4 % 4 * 4, thread % 4 * 4};
}

/* Transform the 4x4 pixels of a window of p1: V = B' x B. */
static __device__ __forceinline__ void transform_window(float *v_s,
                                                        const float *image) {
    float t[4][4]; // t[column][row]
#pragma unroll
    for (int x = 0; x < 4; x++) {
        float p[4];
#pragma unroll
        for (int y = 0; y < 4; y++) p[y] = image[y * DW_ROW + x * C1];
        transform_pixels(t[x], p);
    }
#pragma unroll
    for (int y = 0; y < 4; y++) {
        const float row[4] = {t[0][y], t[1][y], t[2][y], t[3][y]};
        float v[4];
        transform_pixels(v, row);
#pragma unroll
        for (int x = 0; x < 4; x++) v_s[(4 * y + x) * PLANE] = v[x];
    }
}

/* Transform the 2x2 values of a window of dy: A dy A'. */
static __device__ __forceinline__ void transform_dy(float *d_s,
                                                    const float *dy) {
    float t[4][2];
#pragma unroll
    for (int x = 0; x < 2; x++) {
        const float upper = dy[x * DW_OUT], lower = dy[(SIDE2 + x) * DW_OUT];
        t[0][x] = upper;
        t[1][x] = upper + lower;
        t[2][x] = upper - lower;
        t[3][x] = -lower;
    }
#pragma unroll
    for (int y = 0; y < 4; y++) {
        d_s[(4 * y + 0) * PLANE] = t[y][0];
        d_s[(4 * y + 1) * PLANE] = t[y][0] + t[y][1];
        d_s[(4 * y + 2) * PLANE] = t[y][0] - t[y][1];
        d_s[(4 * y + 3) * PLANE] = -t[y][1];
    }
}

/* Transform row `row` of windows. A warp has one window, and a lane one channel
 * of p1 and of dy. */
static __device__ __forceinline__ void transform_row(float *factors,
                                                     const float *image_s,
                                                     const float *dy_s,
                                                     int row) {
    const int window = threadIdx.x / 32, channel = threadIdx.x % 32;
    if (window >= SIDE3) return;
    float *to = factors + window * C1 + channel;
    transform_window(to,
                     image_s + 2 * row * DW_ROW + 2 * window * C1 + channel);
    transform_dy(to + FACTORS,
                 dy_s + (2 * row * SIDE2 + 2 * window) * DW_OUT + channel);
}

/* Add the products of a row of windows. */
static __device__ __forceinline__ void
multiply_row(float acc[SUMS_SIDE][SUMS_SIDE], const float *factors,
             const struct sums_place &at) {
    const float *v = factors + at.position * PLANE + at.ci;
    const float *d = factors + FACTORS + at.position * PLANE + at.oc;
#pragma unroll
    for (int window = 0; window < SIDE3; window++) {
        float x[SUMS_SIDE], y[SUMS_SIDE];
#pragma unroll
        for (int half = 0; half < 2; half++) {
            load4(x + 4 * half, v + window * C1 + 16 * half);
            load4(y + 4 * half, d + window * C1 + 16 * half);
        }
#pragma unroll
        for (int oc = 0; oc < SUMS_SIDE; oc++)
#pragma unroll
            for (int ci = 0; ci < SUMS_SIDE; ci++)
                acc[oc][ci] = fmaf(x[ci], y[oc], acc[oc][ci]);
    }
}

/* Store the block's gradients G' u G in its slot (9,64,32). */
static __device__ __forceinline__ void
write_gradients(float *slot, float *sums_s,
                const float acc[SUMS_SIDE][SUMS_SIDE],
                const struct sums_place &at) {
#pragma unroll
    for (int oc = 0; oc < SUMS_SIDE; oc++)
#pragma unroll
        for (int half = 0; half < 2; half++)
            put4(sums_s + at.position * SUMS_POSITION +
                     (at.oc + oc % 4 + oc / 4 * 16) * SUMS_ROW + at.ci +
                     16 * half,
                 acc[oc] + 4 * half);
    __syncthreads();
    for (int i = threadIdx.x; i < DW_OUT * C1; i += THREADS) {
        const int ci = i % C1, oc = i / C1;
        const float *u = sums_s + oc * SUMS_ROW + ci;
        float t[3][4];
#pragma unroll
        for (int x = 0; x < 4; x++) {
            float p[4];
#pragma unroll
            for (int y = 0; y < 4; y++) p[y] = u[(4 * y + x) * SUMS_POSITION];
            const float even = 0.5f * (p[1] + p[2]);
            t[0][x] = p[0] + even;
            t[1][x] = 0.5f * (p[1] - p[2]);
            t[2][x] = even + p[3];
        }
#pragma unroll
        for (int y = 0; y < 3; y++) {
            const float even = 0.5f * (t[y][1] + t[y][2]);
            const float g[3] = {t[y][0] + even, 0.5f * (t[y][1] - t[y][2]),
                                even + t[y][3]};
#pragma unroll
            for (int x = 0; x < 3; x++)
                slot[((3 * y + x) * C2 + oc) * C1 + ci] = g[x];
        }
    }
}

/* Compute DW_OUT output channels from the block's images. DW_CUTS consecutive
 * blocks share these images and a slot. An image is loaded while the previous
 * one is processed. */
static __global__ void __launch_bounds__(THREADS, 1)
    conv2_dw_winograd(struct conv2_dw_arrays a) {
    extern __shared__ __align__(16) float shared[];
    struct dy_numbers *numbers = (struct dy_numbers *)shared;
    float *factors_s = shared + DW_NUMBERS, *images_s = shared + IMAGES_AT;
    const int first = blockIdx.x % DW_CUTS * DW_OUT;
    const int slot = blockIdx.x / DW_CUTS, step = gridDim.x / DW_CUTS;
    const struct sums_place at = sums_place();
    for (int i = 0; i < 2; i++)
        dw_clear_border(images_s + i * DW_STAGE, THREADS);
    // conv2_dx stores the numbers of dy. Everything else is older.
    builder_t builder;
    struct dy_image from = dy_image_of(a.c2, a.dp2, a.code2, slot);
    builder.copy_c2(images_s + DW_IMAGE, from, first);
    dw_copy_image(images_s, a.p1 + (size_t)slot * PIXELS2 * C1, THREADS);
    copy_commit();
    pdl_wait();
    pdl_trigger();
    builder.load_dp2(from, first);
    dy_finish<DY_LOAD>(numbers, NULL, a.dy);

    float acc[SUMS_SIDE][SUMS_SIDE];
#pragma unroll
    for (int i = 0; i < SUMS_SIDE * SUMS_SIDE; i++)
        acc[i / SUMS_SIDE][i % SUMS_SIDE] = 0.0f;
    int stage = 0;
    for (int image = slot; image < a.batch; image += step) {
        float *image_s = images_s + stage * DW_STAGE;
        const float *dy_s = image_s + DW_IMAGE;
        builder.build(image_s + DW_IMAGE, numbers, first);
        __syncthreads();
        stage ^= 1; // that stage was read before this barrier
        const int next = image + step;
        if (next < a.batch) {
            float *next_s = images_s + stage * DW_STAGE;
            from = dy_image_of(a.c2, a.dp2, a.code2, next);
            builder.copy_c2(next_s + DW_IMAGE, from, first);
            dw_copy_image(next_s, a.p1 + (size_t)next * PIXELS2 * C1, THREADS);
            builder.load_dp2(from, first);
        }
        copy_commit();
        transform_row(factors_s, image_s, dy_s, 0);
        __syncthreads();
#pragma unroll 1
        for (int row = 0; row < SIDE3; row++) {
            float *other = factors_s + (row + 1) % 2 * 2 * FACTORS;
            if (row + 1 < SIDE3) transform_row(other, image_s, dy_s, row + 1);
            multiply_row(acc, factors_s + row % 2 * 2 * FACTORS, at);
            __syncthreads();
        }
    }
    write_gradients(a.dw2 + (size_t)slot * TAPS * C2 * C1 + first * C1,
                    images_s, acc, at);
}

int fused_conv2_dw_winograd(struct fused *f, int batch, cudaStream_t stream) {
    const int slots = smallest(f->blocks / DW_CUTS, batch, DW2_SLOTS);
    f->dw2.count = slots;
    LAUNCH(f, conv2_dw_winograd, slots * DW_CUTS, THREADS,
           SHARED * sizeof(float), stream, conv2_dw_arrays_of(f, batch));
    return WEFT_OK;
}
