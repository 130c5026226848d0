/* conv2_fp32.cu -- conv2 in strict fp32, with BN2's sums and the raw pool.
 *
 * Idea:    see conv2_fp32.cuh. While an image's result is at hand the block
 *          also picks each window's winner (batch norm is monotone per channel:
 *          the largest where its weight is positive, the smallest where it is
 *          negative) and adds up what BN2's mean and variance need.
 * Limit:   the image is loaded while nobody computes; a second block on the SM
 *          fills the gap.
 * Shared:  max(image, parts) + weights: see conv_shape.
 * Lesson:  notebooks/15_mnist.ipynb. */
#include "conv2_fp32.cuh"
#include "launch.cuh"

/* What the kernel reads and writes, see fused.h. */
struct conv2_arrays {
    const float *p1, *weights, *gamma;
    float *c2, *m2, *sum2;
    uint8_t *code2;
    int batch;
};

/* Starts to copy an image (196,32) into its border. */
template <class S>
static __device__ __forceinline__ void copy_image(float *image_s,
                                                  const float *p1) {
    for (int i = threadIdx.x; i < PIXELS2 * C1 / 4; i += S::THREADS) {
        const int pixel = i / (C1 / 4), quad = i % (C1 / 4);
        copy16_async(image_s + S::at(pixel / SIDE2, pixel % SIDE2) + 4 * quad,
                     p1 + 4 * i);
    }
}

/* One image's result, from `parts`, to global memory. A thread has one channel
 * and every few windows; sums receives its values and their squares. */
template <class S, int COT>
static __device__ __forceinline__ void
write_image(const struct conv2_arrays &to, const float *parts, int image,
            int first, float gamma, float sums[2]) {
    const int c = threadIdx.x % COT;
    sums[0] = sums[1] = 0.0f;
    for (int window = threadIdx.x / COT; window < PIXELS3;
         window += S::THREADS / COT) {
        const int corner = window / SIDE3 * 2 * SIDE2 + window % SIDE3 * 2;
        float v[4];
#pragma unroll
        for (int q = 0; q < 4; q++) {
            const int pixel = corner + q / 2 * SIDE2 + q % 2;
            v[q] = read_parts<S>(parts, pixel * COT + c);
            to.c2[((size_t)image * PIXELS2 + pixel) * C2 + first + c] = v[q];
            sums[0] += v[q];
            sums[1] = fmaf(v[q], v[q], sums[1]);
        }
        float best = v[0];
        int code = 0;
#pragma unroll
        for (int q = 1; q < 4; q++)
            if (gamma > 0.0f ? v[q] > best : gamma < 0.0f && v[q] < best)
                best = v[q], code = q;
        const size_t out = ((size_t)image * PIXELS3 + window) * C2 + first + c;
        to.m2[out] = best;
        to.code2[out] = (uint8_t)code;
    }
}

/* The block's sums, of its COT channels, to its slot. */
template <class S, int COT>
static __device__ __forceinline__ void write_sums(float *slot, double *scratch,
                                                  const double total[2]) {
    enum { GROUPS = S::THREADS / COT };
    __syncthreads(); // the parts have been read
    const int c = threadIdx.x % COT, group = threadIdx.x / COT;
    for (int i = 0; i < 2; i++) scratch[(group * 2 + i) * COT + c] = total[i];
    __syncthreads();
    for (int i = threadIdx.x; i < 2 * COT; i += S::THREADS) {
        double sum = 0.0;
        for (int g = 0; g < GROUPS; g++) sum += scratch[g * 2 * COT + i];
        slot[i / COT * C2 + i % COT] = (float)sum;
    }
}

/* Blocks n, n + 1, .. n + 64 / COT - 1 share an image and a slot of sum2. */
template <int COT, int SPLIT, int BLOCKS>
static __global__ void __launch_bounds__(conv_shape<C1, COT, SPLIT, 4>::THREADS,
                                         BLOCKS)
    conv2_fp32(struct conv2_arrays a) {
    typedef conv_shape<C1, COT, SPLIT, 4> S;
    enum { CUTS = C2 / COT };
    extern __shared__ __align__(16) float shared[];
    float *weights_s = shared, *work = shared + S::WEIGHTS;
    const int first = blockIdx.x % CUTS * COT, slot = blockIdx.x / CUTS;
    const struct conv_place at = place<S>();
    const float gamma = a.gamma[first + threadIdx.x % COT];
    copy_weights<S, COT>(weights_s, a.weights + first, C2);
    copy_commit();
    pdl_wait();
    pdl_trigger();

    double total[2] = {0.0, 0.0};
    for (int image = slot; image < a.batch; image += gridDim.x / CUTS) {
        __syncthreads(); // the last image's parts have been read
        clear_border<S>(work);
        copy_image<S>(work, a.p1 + (size_t)image * PIXELS2 * C1);
        copy_commit();
        copy_wait<0>();
        __syncthreads();
        float acc[TILE][TILE][2];
        convolve<S, COT>(acc, work, weights_s, at);
        reduce_parts<S, COT, SPLIT>(work, acc, at);
        // Floats within an image, doubles over the images: the variance is
        // a small difference of these.
        float sums[2];
        write_image<S, COT>(a, work, image, first, gamma, sums);
        total[0] += sums[0];
        total[1] += sums[1];
    }
    write_sums<S, COT>(a.sum2 + slot * 2 * C2 + first, (double *)work, total);
}

template <int COT, int SPLIT, int BLOCKS>
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
    LAUNCH(f, (conv2_fp32<COT, SPLIT, BLOCKS>), slots * CUTS, S::THREADS,
           (S::WEIGHTS + S::WORK) * sizeof(float), stream, a);
    return WEFT_OK;
}

int fused_conv2(struct fused *f, int batch, cudaStream_t stream) {
    if (f->precision != FP32) return fused_conv2_mma(f, batch, stream);
    if (2 * batch <= f->blocks) return launch_conv2<32, 4, 1>(f, batch, stream);
    return launch_conv2<32, 2, 2>(f, batch, stream);
}
