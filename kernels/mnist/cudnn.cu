/* cudnn.cu -- the layers from NVIDIA's libraries: convolution, batch norm, ReLU
 * and pool by cuDNN, the linear layers by cuBLAS; strict float32.
 *
 * Idea: the vendor's kernels, without the overhead of PyTorch. Limit: one or
 * more kernels for each layer, as before.
 *
 * At the first step of each batch size, a search chooses the algorithm of a
 * convolution and the kernels of a batch norm (cudnn_plans.cuh). It times all
 * of them on the step's own arrays and keeps the fastest, as PyTorch does with
 * cudnn.benchmark. The choice may vary between runs, and with it the order of
 * sums and the last bits of a result. The fastest kernel need not be
 * deterministic, either.
 *
 * Compiling this file requires NVIDIA's headers. Without them the rung is
 * absent. The libraries are opened when a model is created. So a machine where
 * they are missing or not found still has all other rungs. PyTorch, which
 * includes copies of them, has usually opened them already.
 *
 * Lesson:  notebooks/15b_mnist_gpu.ipynb */
#include "layer_ops.h"

#if WEFT_HAS_CUDNN
#include <stdlib.h>

#include "cudnn_plans.cuh"

/* ---- opening and closing ------------------------------------------------- */

static int fill(struct vendor *v) {
    WEFT_TRY(find_functions(&v->f));
    CUDNN(cudnnCreate(&v->cudnn));
    CUBLAS(cublasCreate_v2(&v->cublas));
    CUBLAS(cublasSetMathMode(v->cublas, CUBLAS_DEFAULT_MATH)); // no TF32
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
    size_t left, all;
    WEFT_CUDA_TRY(cudaMemGetInfo(&left, &all));
    const size_t bytes = left / 4 < WORKSPACE ? left / 4 : WORKSPACE;
    WEFT_CUDA_TRY(cudaMalloc(&v->workspace, bytes));
    v->workspace_bytes = bytes;
    WEFT_CUDA_TRY(cudaMalloc((void **)&v->ones, ONES * sizeof *v->ones));
    WEFT_TRY(describe(v, v->x, {1, 1, 1, ONES}));
    CUDNN(cudnnSetTensor(v->cudnn, v->x, v->ones, &one));
    WEFT_CUDA_TRY(cudaDeviceSynchronize()); // the steps use other streams
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
    if (v->ones) cudaFree(v->ones);
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

size_t vendor_bytes(const struct vendor *v) {
    return v ? v->workspace_bytes + ONES * sizeof *v->ones : 0;
}

/* Describe the two arrays of a layer, both (n,c,h,w), and set the layer's
 * stream. */
static int begin(struct vendor *v, struct shape4 x, struct shape4 y,
                 weft_stream stream) {
    v->stream = weft_cuda_stream(stream);
    CUDNN(cudnnSetStream(v->cudnn, v->stream));
    CUBLAS(cublasSetStream_v2(v->cublas, v->stream));
    WEFT_TRY(describe(v, v->x, x));
    return describe(v, v->y, y);
}

/* ---- gradients of biases ------------------------------------------------- */

/* Compute sums (cols) = the sums of the columns of a (rows,cols), row-major.
 * cuBLAS uses about one thread per sum, and these arrays have few columns and
 * many rows. So `folds` rows are first treated as one row of folds * cols
 * columns, and the resulting sums are then added. `scratch` has folds * cols
 * floats. */
static int column_sums(struct vendor *v, float *sums, const float *a, int rows,
                       int cols, float *scratch) {
    int folds = 1;
    if (rows > 128) // otherwise a second launch costs more
        while (rows % (2 * folds) == 0 && 16 * folds * folds <= rows)
            folds *= 2;
    WEFT_REQUIRE(rows <= ONES, "mnist rung 'cudnn': %d rows, at most %d", rows,
                 ONES);
    CUBLAS(cublasSgemv_v2(v->cublas, CUBLAS_OP_N, folds * cols, rows / folds,
                          &one, a, folds * cols, v->ones, 1, &zero,
                          folds == 1 ? sums : scratch, 1));
    if (folds > 1)
        CUBLAS(cublasSgemv_v2(v->cublas, CUBLAS_OP_N, cols, folds, &one,
                              scratch, cols, v->ones, 1, &zero, sums, 1));
    return WEFT_OK;
}

/* Compute dbias (c) of a convolution: sum dy (n,c,h,w) over everything but
 * channels, first within each image. (cudnnConvolutionBackwardBias is slow if n
 * is large.) */
static int channel_sums(struct vendor *v, float *sums, const float *dy,
                        struct shape4 s) {
    const int pictures = s.n * s.c, pixels = s.h * s.w;
    float *each = (float *)v->workspace, *scratch = each + pictures;
    WEFT_REQUIRE(2 * pictures * sizeof *each <= v->workspace_bytes,
                 "mnist rung 'cudnn': no room for the sums of %d images",
                 pictures);
    CUBLAS(cublasSgemv_v2(v->cublas, CUBLAS_OP_T, pixels, pictures, &one, dy,
                          pixels, v->ones, 1, &zero, each, 1));
    return column_sums(v, sums, each, s.n, s.c, scratch);
}

/* ---- convolution --------------------------------------------------------- */

/* Describe the convolution's arrays, and find its plan or create one. */
static int begin_conv(struct vendor *v, struct shape4 in, int oc,
                      struct plan **plan, weft_stream stream) {
    WEFT_TRY(begin(v, in, {in.n, oc, in.h, in.w}, stream));
    WEFT_TRY(describe(v, v->channels, {1, oc, 1, 1}));
    CUDNN(cudnnSetFilter4dDescriptor(v->filter, CUDNN_DATA_FLOAT,
                                     CUDNN_TENSOR_NCHW, oc, in.c, 3, 3));
    *plan = find_plan(v, in, oc);
    return WEFT_OK;
}

int vendor_conv2d(struct vendor *v, float *y, const float *x,
                  const float *weight, const float *bias, struct shape4 in,
                  int oc, weft_stream stream) {
    struct plan *plan = NULL;
    WEFT_TRY(begin_conv(v, in, oc, &plan, stream));
    if (plan->forward == UNKNOWN)
        WEFT_TRY(search_forward(v, plan, y, x, weight));
    CUDNN(cudnnConvolutionForward(
        v->cudnn, &one, v->x, x, v->filter, weight, v->conv,
        (cudnnConvolutionFwdAlgo_t)plan->forward, v->workspace,
        v->workspace_bytes, &zero, v->y, y));
    CUDNN(cudnnAddTensor(v->cudnn, &one, v->channels, bias, &one, v->y, y));
    return WEFT_OK;
}

int vendor_conv2d_backward(struct vendor *v, float *dx, float *dweight,
                           float *dbias, const float *dy, const float *x,
                           const float *weight, struct shape4 in, int oc,
                           weft_stream stream) {
    struct plan *plan = NULL;
    WEFT_TRY(begin_conv(v, in, oc, &plan, stream));
    if (dx && plan->data == UNKNOWN)
        WEFT_TRY(search_data(v, plan, dx, dy, weight));
    if (dx)
        CUDNN(cudnnConvolutionBackwardData(
            v->cudnn, &one, v->filter, weight, v->y, dy, v->conv,
            (cudnnConvolutionBwdDataAlgo_t)plan->data, v->workspace,
            v->workspace_bytes, &zero, v->x, dx));
    if (plan->filter == UNKNOWN)
        WEFT_TRY(search_filter(v, plan, dweight, dy, x));
    CUDNN(cudnnConvolutionBackwardFilter(
        v->cudnn, &one, v->x, x, v->y, dy, v->conv,
        (cudnnConvolutionBwdFilterAlgo_t)plan->filter, v->workspace,
        v->workspace_bytes, &zero, v->filter, dweight));
    WEFT_TRY(channel_sums(v, dbias, dy, {in.n, oc, in.h, in.w}));
    return WEFT_OK;
}

/* ---- batch norm, ReLU, pool ---------------------------------------------- */

int vendor_batchnorm2d(struct vendor *v, float *y, float *mean, float *rstd,
                       const float *x, const float *weight, const float *bias,
                       struct shape4 in, float eps, weft_stream stream) {
    WEFT_TRY(begin(v, in, in, stream));
    WEFT_TRY(describe(v, v->channels, {1, in.c, 1, 1}));
    const auto run = [&](cudnnBatchNormMode_t mode) {
        return v->f.cudnnBatchNormalizationForwardTraining(
            v->cudnn, mode, &one, &zero, v->x, x, v->y, y, v->channels, weight,
            bias, 1.0, NULL, NULL, eps, mean, rstd);
    };
    return run_fastest(v, &find_plan(v, in, BATCH_NORM)->forward, run);
}

int vendor_batchnorm2d_backward(struct vendor *v, float *dx, float *dweight,
                                float *dbias, const float *dy, const float *x,
                                const float *weight, const float *mean,
                                const float *rstd, struct shape4 in, float eps,
                                weft_stream stream) {
    WEFT_TRY(begin(v, in, in, stream));
    WEFT_TRY(describe(v, v->channels, {1, in.c, 1, 1}));
    const auto run = [&](cudnnBatchNormMode_t mode) {
        return v->f.cudnnBatchNormalizationBackward(
            v->cudnn, mode, &one, &zero, &one, &zero, v->x, x, v->y, dy, v->y,
            dx, v->channels, weight, dweight, dbias, eps, mean, rstd);
    };
    return run_fastest(v, &find_plan(v, in, BATCH_NORM)->data, run);
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

/* Compute c (rows,cols) = a @ b, all row-major. cuBLAS stores columns
 * contiguously, so it reads these arrays as their transposes and computes c^T =
 * b^T a^T. `a_turned`, `b_turned`: whether the array holds the factor's
 * transpose. */
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
    WEFT_TRY(begin(v, {1, out, 1, 1}, {n, out, 1, 1}, stream));
    WEFT_TRY(product(v, y, x, false, weight, true, n, out, in));
    CUDNN(cudnnAddTensor(v->cudnn, &one, v->x, bias, &one, v->y, y));
    return WEFT_OK;
}

int vendor_linear_backward(struct vendor *v, float *dx, float *dweight,
                           float *dbias, const float *dy, const float *x,
                           const float *weight, int n, int in, int out,
                           weft_stream stream) {
    WEFT_TRY(begin(v, {1, out, 1, 1}, {n, out, 1, 1}, stream));
    WEFT_TRY(product(v, dx, dy, false, weight, false, n, in, out));
    WEFT_TRY(product(v, dweight, dy, true, x, false, out, in, n));
    return column_sums(v, dbias, dy, n, out, (float *)v->workspace);
}
#endif
