/* conv2_fp32.cu -- conv2 in strict fp32, with BN2's sums and the raw pool.
 *
 * Idea:    see conv2_fp32.cuh. While an image's result is in shared memory, the
 *          block also selects each window's winner and adds up the sums for
 *          BN2's mean and variance. Since batch norm is monotone for each
 *          channel, the winner is the largest value if batch norm's weight is
 *          positive and the smallest if it is negative.
 * Limit:   the reduction and the epilogue, which take a tenth of the
 *          instructions.
 * Shared:  36 KB for the weights, 34 for an image or 49 for its four parts.
 *          That is 85 KB up to a batch of half as many images as the GPU has
 *          SMs, and 70 KB beyond, or 105 KB with room for two images.
 * Lesson:  notebooks/15b_mnist_gpu.ipynb. */
/* g++: -O1 */
#include "conv2_fp32.cuh"
#include "element.cuh"
#include "launch.cuh"

/* The arrays that the kernel reads and writes; see fused.h. */
struct conv2_arrays {
    const float *p1, *weights, *gamma;
    float *c2, *m2, *sum2;
    uint8_t *code2;
    int batch;
};

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

/* Store one image's result, from `parts`, in global memory. A thread has four
 * channels, with their signs, and every few windows. */
template <class S, int COT>
static __device__ __forceinline__ void
write_image(const struct conv2_arrays &to, const float *parts, int image,
            int first, const float sign[4], struct four_sums *total) {
    enum { QUADS = COT / 4 };
    const int c = threadIdx.x % QUADS * 4;
    // Sums within an image are floats; sums over images are doubles, since the
    // variance is a small difference of these.
    float values[4] = {}, squares[4] = {};
    for (int window = threadIdx.x / QUADS; window < PIXELS3;
         window += S::THREADS / QUADS) {
        const int corner = window / SIDE3 * 2 * SIDE2 + window % SIDE3 * 2;
        float best[4] = {};
        unsigned code[4] = {};
#pragma unroll
        for (int q = 0; q < 4; q++) {
            const int pixel = corner + q / 2 * SIDE2 + q % 2;
            float v[4];
            read_parts<S>(v, parts, pixel * COT + c);
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
    __syncthreads(); // the parts have been read
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

/* Compute COT channels of each image. 64 / COT consecutive blocks share an
 * image and a slot of sum2. With two STAGES, an image is loaded while the
 * previous one is processed. */
template <int COT, int SPLIT, int BLOCKS, int STAGES>
static __global__ void __launch_bounds__(conv_shape<C1, COT, SPLIT, 4>::THREADS,
                                         BLOCKS)
    conv2_fp32(struct conv2_arrays a) {
    typedef conv_shape<C1, COT, SPLIT, 4> S;
    enum { CUTS = C2 / COT };
    extern __shared__ __align__(16) float shared[];
    float *weights_s = shared, *images_s = shared + S::WEIGHTS;
    const int first = blockIdx.x % CUTS * COT, slot = blockIdx.x / CUTS;
    const int step = gridDim.x / CUTS;
    const struct conv_place at = place<S>();
    float sign[4];
    load4(sign, a.gamma + first + threadIdx.x % (COT / 4) * 4);
    // After a multiplication by this sign, the winner is the largest. With sign
    // zero, no value beats the first.
    for (int i = 0; i < 4; i++)
        sign[i] = sign[i] > 0.0f ? 1.0f : sign[i] < 0.0f ? -1.0f : 0.0f;
    copy_weights<S, COT>(weights_s, a.weights + first, C2);
    copy_commit();
    pdl_wait();
    pdl_trigger();

    struct four_sums total = {};
    copy_image<S>(images_s, a.p1 + (size_t)slot * PIXELS2 * C1);
    copy_commit();
    int stage = 0;
    for (int image = slot; image < a.batch; image += step) {
        float *work = images_s + stage * S::WORK;
        if (STAGES == 1 && image != slot) {
            __syncthreads(); // the last image's parts have been read
            copy_image<S>(work, a.p1 + (size_t)image * PIXELS2 * C1);
            copy_commit();
        }
        clear_border<S>(work);
        copy_wait<0>();
        __syncthreads();
        if (STAGES == 2) {
            stage ^= 1; // its parts were read before this barrier
            const int next = image + step;
            if (next < a.batch)
                copy_image<S>(images_s + stage * S::WORK,
                              a.p1 + (size_t)next * PIXELS2 * C1);
            copy_commit();
        }
        float acc[TILE][TILE][2];
        convolve<S, COT>(acc, work, weights_s, at);
        reduce_parts<S, COT, SPLIT>(work, acc, at);
        write_image<S, COT>(a, work, image, first, sign, &total);
    }
    write_sums<S, COT>(a.sum2 + slot * 2 * C2 + first, (double *)images_s,
                       total);
}

template <int COT, int SPLIT, int BLOCKS, int STAGES>
static int launch_conv2(struct fused *f, int batch, cudaStream_t stream) {
    typedef conv_shape<C1, COT, SPLIT, 4> S;
    enum { CUTS = C2 / COT };
    int slots = f->blocks * BLOCKS / CUTS;
    if (slots > batch) slots = batch;
    if (slots > SUM2_SLOTS) slots = SUM2_SLOTS;
    f->sum2.count = slots;
    struct conv2_arrays a;
    a.p1 = (const float *)f->p1;
    a.weights = (const float *)f->conv2_f;
    a.gamma = f->params + BN2_W;
    a.c2 = (float *)f->c2;
    a.m2 = (float *)f->m2;
    a.sum2 = f->sum2.data;
    a.code2 = f->code2;
    a.batch = batch;
    LAUNCH(f, (conv2_fp32<COT, SPLIT, BLOCKS, STAGES>), slots * CUTS,
           S::THREADS, (S::WEIGHTS + STAGES * S::WORK) * sizeof(float), stream,
           a);
    return WEFT_OK;
}

int fused_conv2(struct fused *f, int batch, cudaStream_t stream) {
    if (f->precision != FP32) return fused_conv2_mma(f, batch, stream);
    if (2 * batch <= f->blocks)
        return launch_conv2<32, 4, 1, 1>(f, batch, stream);
    if (has_large_blocks()) return launch_conv2<32, 2, 2, 2>(f, batch, stream);
    return launch_conv2<32, 2, 2, 1>(f, batch, stream);
}
