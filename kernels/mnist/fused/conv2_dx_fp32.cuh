/* conv2_dx_fp32.cuh -- the gradient of conv2's input in strict fp32, reduced to
 * the sums that conv1 needs (winners.cuh).
 *
 * Idea:    use the same convolution as in the forward pass (conv2_fp32.cuh),
 *          from 64 channels of dy to 32 of p1, with the taps reversed. With a
 *          small batch, two blocks share an image and take 16 channels each.
 *          Both build all of its dy, which costs less than idle SMs.
 * Limit:   between the products of two images, no thread multiplies while the
 *          block builds dy, reduces the result and adds the winners.
 * Shared:  98.7 KB: 36 for the weights and 60.7 for the image of dy, later for
 *          its result; 195.4 KB with all 32 channels and room for two images.
 * Lesson:  notebooks/15b_mnist_gpu.ipynb. */
#ifndef WEFT_CONV2_DX_FP32_CUH
#define WEFT_CONV2_DX_FP32_CUH
#include "conv2_fp32.cuh"
#include "dy_fp32.cuh"
#include "winners.cuh"

/* The arrays that the kernel reads and writes; see fused.h. */
struct conv2_dx_arrays {
    struct dy_sources dy;
    const float *c2, *dp2, *weights;
    const uint8_t *code2, *code1;
    const struct fused_run *run;
    float mean, std;
    float *winners;
    int batch;
};

static inline struct conv2_dx_arrays conv2_dx_arrays_of(const struct fused *f,
                                                        int batch) {
    struct conv2_dx_arrays a;
    a.dy = dy_from(f, batch);
    a.c2 = (const float *)f->c2;
    a.dp2 = (const float *)f->dp2;
    a.weights = (const float *)f->conv2_b;
    a.code2 = f->code2;
    a.code1 = f->code1;
    a.run = f->run;
    a.mean = f->mean;
    a.std = f->std;
    a.winners = f->winners.data;
    a.batch = batch;
    return a;
}

/* Add an image's winner sums for COT channels, beginning with `first`. A thread
 * has one channel, and pixels at a fixed distance. */
template <class S, int COT>
static __device__ __forceinline__ void
add_winners(float sums[SUMS], const float *parts, const uint8_t *codes_s,
            const float *image_s) {
    const int c = threadIdx.x % COT;
#pragma unroll 4
    for (int pixel = threadIdx.x / COT; pixel < PIXELS2;
         pixel += S::THREADS / COT)
        winner_add(sums, read_parts<S>(parts, pixel * COT + c),
                   codes_s[pixel * COT + c], image_s, pixel / SIDE2,
                   pixel % SIDE2);
}

/* Store the block's sums in its slot (10,32), of which it writes COT
 * channels. */
template <class S, int COT>
static __device__ __forceinline__ void
write_winners(float *slot, float *scratch, const float sums[SUMS]) {
    enum { GROUPS = S::THREADS / COT };
    __syncthreads(); // the parts have been read
    const int c = threadIdx.x % COT, group = threadIdx.x / COT;
    for (int i = 0; i < SUMS; i++)
        scratch[(group * SUMS + i) * COT + c] = sums[i];
    __syncthreads();
    for (int i = threadIdx.x; i < SUMS * COT; i += S::THREADS) {
        float sum = 0.0f;
        for (int g = 0; g < GROUPS; g++) sum += scratch[g * SUMS * COT + i];
        slot[i / COT * C1 + i % COT] = sum;
    }
}

template <int COT, int SPLIT> struct dx_shape : conv_shape<C2, COT, SPLIT, 0> {
    typedef conv_shape<C2, COT, SPLIT, 0> S;
    enum {
        // The parts, the bordered input image and the codes of its winners
        // overwrite dy.
        IMAGE_AT = S::PARTS * S::PART,
        CODES_AT = IMAGE_AT + IMAGE_SIZE,
        CODES = PIXELS2 * COT / 4, /* size in floats */
        NUMBERS = 2 * dy_scratch<S::THREADS>::DOUBLES,
        FIXED = S::WEIGHTS + NUMBERS, /* size before the images */
    };
    static_assert(CODES_AT + CODES <= S::WORK, "no room for image and codes");
    typedef dy_builder<C2, S::PIXEL, S::ROW, S::THREADS> builder;
};

/* Start copying code1 (196,32) of COT channels. */
template <class S, int COT>
static __device__ __forceinline__ void copy_codes(uint8_t *codes_s,
                                                  const uint8_t *code1) {
    for (int i = threadIdx.x; i < PIXELS2 * COT / 16; i += S::THREADS)
        copy16_async(codes_s + 16 * i,
                     code1 + i / (COT / 16) * C1 + i % (COT / 16) * 16);
}

/* Do the work of block `block` of `blocks`. 32 / COT consecutive blocks share
 * an image and a slot. */
template <int COT, int SPLIT, int STAGES, enum dy_role ROLE>
static __device__ __forceinline__ void
conv2_dx_block(float *shared, const struct conv2_dx_arrays &a, int block,
               int blocks) {
    typedef dx_shape<COT, SPLIT> S;
    enum { CUTS = C1 / COT };
    float *weights_s = shared, *images_s = shared + S::FIXED;
    double *totals = (double *)(shared + S::WEIGHTS);
    struct dy_numbers *numbers = (struct dy_numbers *)totals;
    const int first = block % CUTS * COT, slot = block / CUTS;
    const int step = blocks / CUTS;
    const struct conv_place at = place<S>();
    // Of these inputs, only dp2 and its sums come from the previous kernel.
    typename S::builder builder;
    struct dy_image from = dy_image_of(a.c2, a.dp2, a.code2, slot);
    builder.copy_c2(images_s + S::at(0, 0), from, 0);
    copy_weights<S, COT>(weights_s, a.weights + first, C1);
    copy_commit();
    dy_add_early(totals, a.dy);
    pdl_wait();
    pdl_trigger();
    builder.load_dp2(from, 0);
    dy_add_late<S::THREADS>(totals, a.dy);
    dy_finish<ROLE>(numbers, totals, a.dy);

    float sums[SUMS];
    for (int i = 0; i < SUMS; i++) sums[i] = 0.0f;
    int stage = 0;
    for (int image = slot; image < a.batch; image += step) {
        float *work = images_s + stage * S::WORK;
        if (STAGES == 1 && image != slot) {
            __syncthreads(); // the previous image's parts have been read
            builder.copy_c2(work + S::at(0, 0), from, 0);
            copy_commit();
        }
        clear_border<S>(work);
        builder.build(work + S::at(0, 0), numbers, 0);
        const uint8_t *pixels = image_of(a.run, image);
        const uint8_t *codes = a.code1 + (size_t)image * PIXELS2 * C1 + first;
        __syncthreads();
        const int next = image + step;
        if (next < a.batch) from = dy_image_of(a.c2, a.dp2, a.code2, next);
        if (STAGES == 2) {
            stage ^= 1; // that stage's parts were read before this barrier
            if (next < a.batch)
                builder.copy_c2(images_s + stage * S::WORK + S::at(0, 0), from,
                                0);
            copy_commit();
        }
        float acc[TILE][TILE][2];
        convolve<S, COT>(acc, work, weights_s, at);
        __syncthreads(); // dy has been read
        uint8_t *codes_s = (uint8_t *)(work + S::CODES_AT);
        copy_codes<S, COT>(codes_s, codes);
        copy_commit();
        load_image(work + S::IMAGE_AT, pixels, a.mean, a.std, threadIdx.x,
                   S::THREADS);
        copy_wait<0>();
        reduce_parts<S, COT, SPLIT>(work, acc, at);
        if (next < a.batch) builder.load_dp2(from, 0);
        add_winners<S, COT>(sums, work, codes_s, work + S::IMAGE_AT);
    }
    write_winners<S, COT>(a.winners + slot * WINNERS + first, images_s, sums);
}

#endif
