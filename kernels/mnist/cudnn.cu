/* cudnn.cu -- the layers as NVIDIA's libraries have them: convolution, batch
 * norm, ReLU and pool by cuDNN, the linear layers by cuBLAS; strict float32.
 *
 * Idea:    what the vendor's kernels give without PyTorch around them.
 * Limit:   still a kernel or more for each layer.
 *
 * The headers are needed where this is compiled, else the rung is absent. The
 * libraries are opened when a model is made, so that one without them, or with
 * them in an odd place, has all other rungs: PyTorch, which has its own, has
 * usually opened them already.
 * Lesson:  notebooks/15_mnist.ipynb
 */
#include "layer_ops.h"

#if WEFT_HAS_CUDNN
#include <stdlib.h>

#include "cudnn_functions.h"

/* What cuDNN chose for a convolution of this shape. */
struct plan {
    struct shape4 in;
    int oc;
    cudnnConvolutionFwdAlgo_t forward;
    cudnnConvolutionBwdDataAlgo_t data;
    cudnnConvolutionBwdFilterAlgo_t filter;
};

enum { PLANS = 32 }; // two for each batch size
#define WORKSPACE ((size_t)256 << 20)

struct vendor {
    struct functions f;
    cudnnHandle_t cudnn;
    cublasHandle_t cublas;
    cudnnTensorDescriptor_t x, y, channels; // set anew for each call
    cudnnFilterDescriptor_t filter;
    cudnnConvolutionDescriptor_t conv;
    cudnnActivationDescriptor_t relu;
    cudnnPoolingDescriptor_t pool;
    struct plan plans[PLANS];
    int plan_count;
    void *workspace;
};

static const float one = 1.0f, zero = 0.0f;

#define CUDNN(call)                                                           \
    do {                                                                      \
        const cudnnStatus_t status_ = v->f.call;                              \
        if (status_ != CUDNN_STATUS_SUCCESS)                                  \
            return weft_fail(WEFT_ECUDA, "mnist rung 'cudnn': %s: %s", #call, \
                             v->f.cudnnGetErrorString(status_));              \
    } while (0)
#define CUBLAS(call)                                                          \
    do {                                                                      \
        const cublasStatus_t status_ = v->f.call;                             \
        if (status_ != CUBLAS_STATUS_SUCCESS)                                 \
            return weft_fail(WEFT_ECUDA, "mnist rung 'cudnn': %s: %s", #call, \
                             v->f.cublasGetStatusString(status_));            \
    } while (0)

/* ---- opening and closing ------------------------------------------------- */

static int fill(struct vendor *v) {
    WEFT_TRY(find_functions(&v->f));
    CUDNN(cudnnCreate(&v->cudnn));
    CUBLAS(cublasCreate_v2(&v->cublas));
    CUBLAS(cublasSetMathMode(v->cublas, CUBLAS_PEDANTIC_MATH));
    CUDNN(cudnnCreateTensorDescriptor(&v->x));
    CUDNN(cudnnCreateTensorDescriptor(&v->y));
    CUDNN(cudnnCreateTensorDescriptor(&v->channels));
    CUDNN(cudnnCreateFilterDescriptor(&v->filter));
    CUDNN(cudnnCreateConvolutionDescriptor(&v->conv));
    CUDNN(cudnnSetConvolution2dDescriptor(
        v->conv, 1, 1, 1, 1, 1, 1, CUDNN_CROSS_CORRELATION, CUDNN_DATA_FLOAT));
    CUDNN(cudnnSetConvolutionMathType(v->conv, CUDNN_FMA_MATH)); // no TF32
    CUDNN(cudnnCreateActivationDescriptor(&v->relu));
    CUDNN(cudnnSetActivationDescriptor(v->relu, CUDNN_ACTIVATION_RELU,
                                       CUDNN_PROPAGATE_NAN, 0));
    CUDNN(cudnnCreatePoolingDescriptor(&v->pool));
    CUDNN(cudnnSetPooling2dDescriptor(v->pool, CUDNN_POOLING_MAX_DETERMINISTIC,
                                      CUDNN_PROPAGATE_NAN, 2, 2, 0, 0, 2, 2));
    WEFT_CUDA_TRY(cudaMalloc(&v->workspace, WORKSPACE));
    return WEFT_OK;
}

int vendor_create(struct vendor **vendor) {
    struct vendor *v = (struct vendor *)calloc(1, sizeof *v);
    *vendor = NULL;
    if (!v) return weft_fail(WEFT_ENOMEM, "mnist rung 'cudnn': no memory");
    const int status = fill(v);
    if (status)
        vendor_destroy(v);
    else
        *vendor = v;
    return status;
}

void vendor_destroy(struct vendor *v) {
    if (!v) return;
    if (v->workspace) cudaFree(v->workspace);
    if (v->pool) v->f.cudnnDestroyPoolingDescriptor(v->pool);
    if (v->relu) v->f.cudnnDestroyActivationDescriptor(v->relu);
    if (v->conv) v->f.cudnnDestroyConvolutionDescriptor(v->conv);
    if (v->filter) v->f.cudnnDestroyFilterDescriptor(v->filter);
    cudnnTensorDescriptor_t tensors[] = {v->x, v->y, v->channels};
    for (int i = 0; i < COUNT_OF(tensors); i++)
        if (tensors[i]) v->f.cudnnDestroyTensorDescriptor(tensors[i]);
    if (v->cublas) v->f.cublasDestroy_v2(v->cublas);
    if (v->cudnn) v->f.cudnnDestroy(v->cudnn);
    free(v);
}

size_t vendor_bytes(const struct vendor *v) { return v ? WORKSPACE : 0; }

static int describe(struct vendor *v, cudnnTensorDescriptor_t tensor,
                    struct shape4 s) {
    CUDNN(cudnnSetTensor4dDescriptor(tensor, CUDNN_TENSOR_NCHW,
                                     CUDNN_DATA_FLOAT, s.n, s.c, s.h, s.w));
    return WEFT_OK;
}

/* The two arrays of a layer, (n,c,h,w) both, and the stream it goes to. */
static int begin(struct vendor *v, struct shape4 x, struct shape4 y,
                 weft_stream stream) {
    CUDNN(cudnnSetStream(v->cudnn, weft_cuda_stream(stream)));
    WEFT_TRY(describe(v, v->x, x));
    return describe(v, v->y, y);
}

/* ---- convolution --------------------------------------------------------- */

/* The first algorithm cuDNN recommends that fits, and has always one order. */
template <class Found>
static int choose(const Found *found, int count, Found *chosen) {
    for (int i = 0; i < count; i++)
        if (found[i].status == CUDNN_STATUS_SUCCESS &&
            found[i].memory <= WORKSPACE &&
            found[i].determinism == CUDNN_DETERMINISTIC) {
            *chosen = found[i];
            return WEFT_OK;
        }
    return weft_fail(WEFT_ECUDA,
                     "mnist rung 'cudnn': no algorithm for a "
                     "convolution among %d",
                     count);
}

static int make_plan(struct vendor *v, struct plan *plan) {
    enum { MOST = 16 };
    int count;
    cudnnConvolutionFwdAlgoPerf_t forward[MOST], best_forward = {};
    CUDNN(cudnnGetConvolutionForwardAlgorithm_v7(
        v->cudnn, v->x, v->filter, v->conv, v->y, MOST, &count, forward));
    WEFT_TRY(choose(forward, count, &best_forward));
    cudnnConvolutionBwdDataAlgoPerf_t data[MOST], best_data = {};
    CUDNN(cudnnGetConvolutionBackwardDataAlgorithm_v7(
        v->cudnn, v->filter, v->y, v->conv, v->x, MOST, &count, data));
    WEFT_TRY(choose(data, count, &best_data));
    cudnnConvolutionBwdFilterAlgoPerf_t filter[MOST], best_filter = {};
    CUDNN(cudnnGetConvolutionBackwardFilterAlgorithm_v7(
        v->cudnn, v->x, v->y, v->conv, v->filter, MOST, &count, filter));
    WEFT_TRY(choose(filter, count, &best_filter));
    plan->forward = best_forward.algo;
    plan->data = best_data.algo;
    plan->filter = best_filter.algo;
    return WEFT_OK;
}

/* Describes the convolution's arrays, and finds or makes its plan. */
static int begin_conv(struct vendor *v, struct shape4 in, int oc,
                      const struct plan **plan, weft_stream stream) {
    WEFT_TRY(begin(v, in, {in.n, oc, in.h, in.w}, stream));
    WEFT_TRY(describe(v, v->channels, {1, oc, 1, 1}));
    CUDNN(cudnnSetFilter4dDescriptor(v->filter, CUDNN_DATA_FLOAT,
                                     CUDNN_TENSOR_NCHW, oc, in.c, 3, 3));
    for (int i = 0; i < v->plan_count; i++) {
        const struct plan *p = &v->plans[i];
        *plan = p;
        if (p->in.n == in.n && p->in.c == in.c && p->in.h == in.h &&
            p->in.w == in.w && p->oc == oc)
            return WEFT_OK;
    }
    if (v->plan_count == PLANS) v->plan_count = 0; // forget them all
    struct plan *made = &v->plans[v->plan_count];
    made->in = in;
    made->oc = oc;
    WEFT_TRY(make_plan(v, made));
    v->plan_count++;
    *plan = made;
    return WEFT_OK;
}

int vendor_conv2d(struct vendor *v, float *y, const float *x,
                  const float *weight, const float *bias, struct shape4 in,
                  int oc, weft_stream stream) {
    const struct plan *plan = NULL;
    WEFT_TRY(begin_conv(v, in, oc, &plan, stream));
    CUDNN(cudnnConvolutionForward(v->cudnn, &one, v->x, x, v->filter, weight,
                                  v->conv, plan->forward, v->workspace,
                                  WORKSPACE, &zero, v->y, y));
    CUDNN(cudnnAddTensor(v->cudnn, &one, v->channels, bias, &one, v->y, y));
    return WEFT_OK;
}

int vendor_conv2d_backward(struct vendor *v, float *dx, float *dweight,
                           float *dbias, const float *dy, const float *x,
                           const float *weight, struct shape4 in, int oc,
                           weft_stream stream) {
    const struct plan *plan = NULL;
    WEFT_TRY(begin_conv(v, in, oc, &plan, stream));
    if (dx)
        CUDNN(cudnnConvolutionBackwardData(
            v->cudnn, &one, v->filter, weight, v->y, dy, v->conv, plan->data,
            v->workspace, WORKSPACE, &zero, v->x, dx));
    CUDNN(cudnnConvolutionBackwardFilter(v->cudnn, &one, v->x, x, v->y, dy,
                                         v->conv, plan->filter, v->workspace,
                                         WORKSPACE, &zero, v->filter, dweight));
    CUDNN(cudnnConvolutionBackwardBias(v->cudnn, &one, v->y, dy, &zero,
                                       v->channels, dbias));
    return WEFT_OK;
}

/* ---- batch norm, ReLU, pool ---------------------------------------------- */

int vendor_batchnorm2d(struct vendor *v, float *y, float *mean, float *rstd,
                       const float *x, const float *weight, const float *bias,
                       struct shape4 in, float eps, weft_stream stream) {
    WEFT_TRY(begin(v, in, in, stream));
    WEFT_TRY(describe(v, v->channels, {1, in.c, 1, 1}));
    CUDNN(cudnnBatchNormalizationForwardTraining(
        v->cudnn, CUDNN_BATCHNORM_SPATIAL, &one, &zero, v->x, x, v->y, y,
        v->channels, weight, bias, 1.0, NULL, NULL, eps, mean, rstd));
    return WEFT_OK;
}

int vendor_batchnorm2d_backward(struct vendor *v, float *dx, float *dweight,
                                float *dbias, const float *dy, const float *x,
                                const float *weight, const float *mean,
                                const float *rstd, struct shape4 in, float eps,
                                weft_stream stream) {
    WEFT_TRY(begin(v, in, in, stream));
    WEFT_TRY(describe(v, v->channels, {1, in.c, 1, 1}));
    CUDNN(cudnnBatchNormalizationBackward(
        v->cudnn, CUDNN_BATCHNORM_SPATIAL, &one, &zero, &one, &zero, v->x, x,
        v->y, dy, v->y, dx, v->channels, weight, dweight, dbias, eps, mean,
        rstd));
    return WEFT_OK;
}

int vendor_relu(struct vendor *v, float *y, const float *x, struct shape4 in,
                weft_stream stream) {
    WEFT_TRY(begin(v, in, in, stream));
    CUDNN(cudnnActivationForward(v->cudnn, v->relu, &one, v->x, x, &zero, v->y,
                                 y));
    return WEFT_OK;
}

int vendor_relu_backward(struct vendor *v, float *dx, const float *dy,
                         const float *y, const float *x, struct shape4 in,
                         weft_stream stream) {
    WEFT_TRY(begin(v, in, in, stream));
    CUDNN(cudnnActivationBackward(v->cudnn, v->relu, &one, v->y, y, v->y, dy,
                                  v->x, x, &zero, v->x, dx));
    return WEFT_OK;
}

int vendor_maxpool2d(struct vendor *v, float *y, const float *x,
                     struct shape4 in, weft_stream stream) {
    WEFT_TRY(begin(v, in, {in.n, in.c, in.h / 2, in.w / 2}, stream));
    CUDNN(
        cudnnPoolingForward(v->cudnn, v->pool, &one, v->x, x, &zero, v->y, y));
    return WEFT_OK;
}

int vendor_maxpool2d_backward(struct vendor *v, float *dx, const float *dy,
                              const float *y, const float *x, struct shape4 in,
                              weft_stream stream) {
    WEFT_TRY(begin(v, in, {in.n, in.c, in.h / 2, in.w / 2}, stream));
    CUDNN(cudnnPoolingBackward(v->cudnn, v->pool, &one, v->y, y, v->y, dy, v->x,
                               x, &zero, v->x, dx));
    return WEFT_OK;
}

/* ---- linear -------------------------------------------------------------- */

/* c (rows,cols) = a @ b, all row-major: to cuBLAS, which keeps columns
 * together, these arrays are the transposed ones, and c^T = b^T a^T. `a_turned`
 * and `b_turned`: the array holds the factor's transpose. */
static int product(struct vendor *v, float *c, const float *a, bool a_turned,
                   const float *b, bool b_turned, int rows, int cols,
                   int depth) {
    CUBLAS(cublasSgemm_v2(v->cublas, b_turned ? CUBLAS_OP_T : CUBLAS_OP_N,
                          a_turned ? CUBLAS_OP_T : CUBLAS_OP_N, cols, rows,
                          depth, &one, b, b_turned ? depth : cols, a,
                          a_turned ? rows : depth, &zero, c, cols));
    return WEFT_OK;
}

int vendor_linear(struct vendor *v, float *y, const float *x,
                  const float *weight, const float *bias, int n, int in,
                  int out, weft_stream stream) {
    CUBLAS(cublasSetStream_v2(v->cublas, weft_cuda_stream(stream)));
    WEFT_TRY(product(v, y, x, false, weight, true, n, out, in));
    WEFT_TRY(begin(v, {1, out, 1, 1}, {n, out, 1, 1}, stream));
    CUDNN(cudnnAddTensor(v->cudnn, &one, v->x, bias, &one, v->y, y));
    return WEFT_OK;
}

int vendor_linear_backward(struct vendor *v, float *dx, float *dweight,
                           float *dbias, const float *dy, const float *x,
                           const float *weight, int n, int in, int out,
                           weft_stream stream) {
    CUBLAS(cublasSetStream_v2(v->cublas, weft_cuda_stream(stream)));
    WEFT_TRY(product(v, dx, dy, false, weight, false, n, in, out));
    WEFT_TRY(product(v, dweight, dy, true, x, false, out, in, n));
    WEFT_TRY(begin(v, {1, out, 1, 1}, {n, out, 1, 1}, stream));
    CUDNN(cudnnConvolutionBackwardBias(v->cudnn, &one, v->y, dy, &zero, v->x,
                                       dbias));
    return WEFT_OK;
}
#endif
