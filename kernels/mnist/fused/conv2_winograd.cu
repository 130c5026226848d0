/* conv2_winograd.cu -- conv2 in strict fp32 in Winograd's form.
 *
 * Idea:    see winograd.cuh. A 2x2 window of Winograd's form is also one of the
 *          pool, so the thread that computes its pixels selects the winner. The
 *          weights are transformed while the previous kernel ends.
 * Limit:   barriers between transforms and product, with one block per SM.
 * Shared:  215 KB: U 64, V and later the products 120, the next image 31.
 * Lesson:  notebooks/15b_mnist_gpu.ipynb. */
/* g++: -O1 */
#include "conv2_output.cuh"
#include "launch.cuh"
#include "winograd.cuh"

enum { OUT = 32 /* output channels per block */, CUTS = C2 / OUT };
typedef winograd_shape<C1, OUT, C1> shape;

/* Compute a window from the products. */
struct window_reader {
    const float *m_s;
    __device__ __forceinline__ void operator()(float v[4][4], int window,
                                               int c) const {
        winograd_window<shape, 4>(v, m_s + window * shape::M_WINDOW + c);
    }
};

/* Compute OUT channels of each image. CUTS consecutive blocks share an image
 * and a slot of sum2. */
static __global__ void __launch_bounds__(shape::THREADS, 1)
    conv2_winograd(struct conv2_arrays a) {
    typedef shape S;
    extern __shared__ __align__(16) float shared[];
    float *u_s = shared, *work_s = u_s + S::U, *image_s = work_s + S::WORK;
    const int first = blockIdx.x % CUTS * OUT, slot = blockIdx.x / CUTS;
    const int step = gridDim.x / CUTS;
    const struct winograd_place at = winograd_place<S, OUT>();
    float sign[4];
    load_signs<OUT>(sign, a.gamma + first);
    winograd_weights<S, C1, OUT>(u_s, a.weights + first, C2);
    clear_border<S>(image_s);
    pdl_wait();
    pdl_trigger();

    struct four_sums total = {};
    copy_image<S>(image_s, a.p1 + (size_t)slot * PIXELS2 * C1);
    copy_commit();
    for (int image = slot; image < a.batch; image += step) {
        copy_wait<0>();
        __syncthreads(); // the image is loaded; the products have been read
        winograd_image<S, C1>(work_s, image_s);
        __syncthreads();
        const int next = image + step;
        if (next < a.batch)
            copy_image<S>(image_s, a.p1 + (size_t)next * PIXELS2 * C1);
        copy_commit();
        float acc[WINDOWS][COLUMNS];
        winograd_clear(acc);
        winograd_product<S, OUT, C1>(acc, work_s, u_s, at);
        __syncthreads(); // V has been read
        winograd_reduce<S>(work_s, acc, at);
        write_image<S, OUT>(a, window_reader{work_s}, image, first, sign,
                            &total);
    }
    write_sums<S, OUT>(a.sum2 + slot * 2 * C2 + first, (double *)work_s, total);
}

int fused_conv2_winograd(struct fused *f, int batch, cudaStream_t stream) {
    typedef shape S;
    int slots = f->blocks / CUTS;
    if (slots > batch) slots = batch;
    if (slots > SUM2_SLOTS) slots = SUM2_SLOTS;
    f->sum2.count = slots;
    LAUNCH(f, conv2_winograd, slots * CUTS, S::THREADS,
           (S::U + S::WORK + S::IMAGE) * sizeof(float), stream,
           conv2_arrays_of(f, batch));
    return WEFT_OK;
}
