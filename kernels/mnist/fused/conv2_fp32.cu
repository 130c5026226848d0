/* conv2_fp32.cu -- conv2 in strict fp32, with BN2's sums and the raw pool.
 *
 * Idea:    see conv2_fp32.cuh. While an image's result is in shared memory, the
 *          block also selects each window's winner and adds up the sums for
 *          BN2's mean and variance. Since batch norm is monotone for each
 *          channel, the winner is the largest value if batch norm's weight is
 *          positive. It is the smallest if the weight is negative.
 * Limit:   the reduction and the epilogue, which take a tenth of the
 *          instructions.
 * Shared:  36 KB for the weights, 34 for an image or 49 for its four parts.
 *          That is 85 KB if the batch has at most half as many images as the
 *          GPU has SMs, else 70 KB, or 105 KB with room for two images.
 * Lesson:  notebooks/15b_mnist_gpu.ipynb. */
/* g++: -O1 */
#include "conv2_output.cuh"
#include "launch.cuh"

/* Read the sum of the parts that reduce_parts() stored. */
template <class S, int COT> struct parts_reader {
    const float *parts;
    __device__ __forceinline__ void operator()(float v[4][4], int window,
                                               int c) const {
        read_window<S, COT>(v, parts + c, window);
    }
};

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
    load_signs<COT>(sign, a.gamma + first);
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
            __syncthreads(); // the previous image's parts have been read
            copy_image<S>(work, a.p1 + (size_t)image * PIXELS2 * C1);
            copy_commit();
        }
        clear_border<S>(work);
        copy_wait<0>();
        __syncthreads();
        if (STAGES == 2) {
            stage ^= 1; // that stage's parts were read before this barrier
            const int next = image + step;
            if (next < a.batch)
                copy_image<S>(images_s + stage * S::WORK,
                              a.p1 + (size_t)next * PIXELS2 * C1);
            copy_commit();
        }
        float acc[TILE][TILE][2];
        convolve<S, COT>(acc, work, weights_s, at);
        reduce_parts<S, COT, SPLIT>(work, acc, at);
        write_image<S, COT>(a, parts_reader<S, COT>{work}, image, first, sign,
                            &total);
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
    LAUNCH(f, (conv2_fp32<COT, SPLIT, BLOCKS, STAGES>), slots * CUTS,
           S::THREADS, (S::WEIGHTS + STAGES * S::WORK) * sizeof(float), stream,
           conv2_arrays_of(f, batch));
    return WEFT_OK;
}

int fused_conv2(struct fused *f, int batch, cudaStream_t stream) {
    if (f->precision != FP32) return fused_conv2_mma(f, batch, stream);
    if (f->winograd) return fused_conv2_winograd(f, batch, stream);
    if (2 * batch <= f->blocks)
        return launch_conv2<32, 4, 1, 1>(f, batch, stream);
    if (has_large_blocks()) return launch_conv2<32, 2, 2, 2>(f, batch, stream);
    return launch_conv2<32, 2, 2, 1>(f, batch, stream);
}
