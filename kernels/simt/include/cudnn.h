/* cudnn.h -- cuDNN's legacy interface on the CPU: descriptors, convolutions,
 * pooling, activations, batch norm, softmax and sums of tensors. Tensors are
 * float32 and have any strides, so both NCHW and NHWC are supported.
 *
 * Names, parameters and numbers of the constants are cuDNN's
 * (docs.nvidia.com/deeplearning/cudnn), so that the same program can use
 * NVIDIA's library on a GPU. An algorithm of a convolution is accepted and has
 * no effect; each needs a workspace of 0 bytes. The graph API is not
 * supported. */
#ifndef SIMT_CUDNN_H
#define SIMT_CUDNN_H
#define CUDNN_H_ /* programs test for this guard */
#ifdef SIMT_CELL
#error \
    "cudnn.h: a cell contains only device code, and cuDNN is called by the host: write a program, and run it with weft run"
#endif
#include "cuda_runtime.h"
#include "library_types.h"

#define CUDNN_MAJOR 9
#define CUDNN_MINOR 0
#define CUDNN_PATCHLEVEL 0
#define CUDNN_VERSION \
    (CUDNN_MAJOR * 10000 + CUDNN_MINOR * 100 + CUDNN_PATCHLEVEL)
#define CUDNN_DIM_MAX 8
#define CUDNN_BN_MIN_EPSILON 0.0
#define CUDNNWINAPI

typedef enum {
    CUDNN_STATUS_SUCCESS = 0,
    CUDNN_STATUS_NOT_INITIALIZED = 1001,
    CUDNN_STATUS_SUBLIBRARY_VERSION_MISMATCH = 1002,
    CUDNN_STATUS_VERSION_MISMATCH = 1002,
    CUDNN_STATUS_SERIALIZATION_VERSION_MISMATCH = 1003,
    CUDNN_STATUS_DEPRECATED = 1004,
    CUDNN_STATUS_LICENSE_ERROR = 1005,
    CUDNN_STATUS_RUNTIME_IN_PROGRESS = 1006,
    CUDNN_STATUS_RUNTIME_FP_OVERFLOW = 1007,
    CUDNN_STATUS_BAD_PARAM = 2000,
    CUDNN_STATUS_INVALID_VALUE = 2001,
    CUDNN_STATUS_BAD_PARAM_NULL_POINTER = 2002,
    CUDNN_STATUS_BAD_PARAM_MISALIGNED_POINTER = 2003,
    CUDNN_STATUS_BAD_PARAM_NOT_FINALIZED = 2004,
    CUDNN_STATUS_BAD_PARAM_OUT_OF_BOUND = 2005,
    CUDNN_STATUS_BAD_PARAM_SIZE_INSUFFICIENT = 2006,
    CUDNN_STATUS_BAD_PARAM_STREAM_MISMATCH = 2007,
    CUDNN_STATUS_BAD_PARAM_SHAPE_MISMATCH = 2008,
    CUDNN_STATUS_NOT_SUPPORTED = 3000,
    CUDNN_STATUS_NOT_SUPPORTED_GRAPH_PATTERN = 3001,
    CUDNN_STATUS_NOT_SUPPORTED_SHAPE = 3002,
    CUDNN_STATUS_NOT_SUPPORTED_DATA_TYPE = 3003,
    CUDNN_STATUS_NOT_SUPPORTED_LAYOUT = 3004,
    CUDNN_STATUS_NOT_SUPPORTED_ARCH_MISMATCH = 3007,
    CUDNN_STATUS_ARCH_MISMATCH = 3007,
    CUDNN_STATUS_NOT_SUPPORTED_RUNTIME_PREREQUISITE_MISSING = 3008,
    CUDNN_STATUS_RUNTIME_PREREQUISITE_MISSING = 3008,
    CUDNN_STATUS_INTERNAL_ERROR = 4000,
    CUDNN_STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED = 4003,
    CUDNN_STATUS_ALLOC_FAILED = 4003,
    CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED = 4004,
    CUDNN_STATUS_INTERNAL_ERROR_TEXTURE_CREATION_FAILED = 4006,
    CUDNN_STATUS_MAPPING_ERROR = 4006,
    CUDNN_STATUS_EXECUTION_FAILED = 5000
} cudnnStatus_t;

typedef enum {
    CUDNN_DATA_FLOAT = 0,
    CUDNN_DATA_DOUBLE = 1,
    CUDNN_DATA_HALF = 2,
    CUDNN_DATA_INT8 = 3,
    CUDNN_DATA_INT32 = 4,
    CUDNN_DATA_INT8x4 = 5,
    CUDNN_DATA_UINT8 = 6,
    CUDNN_DATA_UINT8x4 = 7,
    CUDNN_DATA_INT8x32 = 8,
    CUDNN_DATA_BFLOAT16 = 9,
    CUDNN_DATA_INT64 = 10
} cudnnDataType_t;

typedef enum {
    CUDNN_DEFAULT_MATH = 0,
    CUDNN_TENSOR_OP_MATH = 1,
    CUDNN_TENSOR_OP_MATH_ALLOW_CONVERSION = 2,
    CUDNN_FMA_MATH = 3
} cudnnMathType_t;

typedef enum {
    CUDNN_NOT_PROPAGATE_NAN = 0,
    CUDNN_PROPAGATE_NAN = 1
} cudnnNanPropagation_t;

typedef enum {
    CUDNN_NON_DETERMINISTIC = 0,
    CUDNN_DETERMINISTIC = 1
} cudnnDeterminism_t;

typedef enum {
    CUDNN_TENSOR_NCHW = 0,
    CUDNN_TENSOR_NHWC = 1,
    CUDNN_TENSOR_NCHW_VECT_C = 2
} cudnnTensorFormat_t;

typedef enum {
    CUDNN_CONVOLUTION = 0, /* with the filter turned by 180 degrees */
    CUDNN_CROSS_CORRELATION = 1
} cudnnConvolutionMode_t;

typedef enum {
    CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_GEMM = 0,
    CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_PRECOMP_GEMM = 1,
    CUDNN_CONVOLUTION_FWD_ALGO_GEMM = 2,
    CUDNN_CONVOLUTION_FWD_ALGO_DIRECT = 3,
    CUDNN_CONVOLUTION_FWD_ALGO_FFT = 4,
    CUDNN_CONVOLUTION_FWD_ALGO_FFT_TILING = 5,
    CUDNN_CONVOLUTION_FWD_ALGO_WINOGRAD = 6,
    CUDNN_CONVOLUTION_FWD_ALGO_WINOGRAD_NONFUSED = 7,
    CUDNN_CONVOLUTION_FWD_ALGO_COUNT = 8
} cudnnConvolutionFwdAlgo_t;

typedef enum {
    CUDNN_CONVOLUTION_BWD_FILTER_ALGO_0 = 0,
    CUDNN_CONVOLUTION_BWD_FILTER_ALGO_1 = 1,
    CUDNN_CONVOLUTION_BWD_FILTER_ALGO_FFT = 2,
    CUDNN_CONVOLUTION_BWD_FILTER_ALGO_3 = 3,
    CUDNN_CONVOLUTION_BWD_FILTER_ALGO_WINOGRAD = 4,
    CUDNN_CONVOLUTION_BWD_FILTER_ALGO_WINOGRAD_NONFUSED = 5,
    CUDNN_CONVOLUTION_BWD_FILTER_ALGO_FFT_TILING = 6,
    CUDNN_CONVOLUTION_BWD_FILTER_ALGO_COUNT = 7
} cudnnConvolutionBwdFilterAlgo_t;

typedef enum {
    CUDNN_CONVOLUTION_BWD_DATA_ALGO_0 = 0,
    CUDNN_CONVOLUTION_BWD_DATA_ALGO_1 = 1,
    CUDNN_CONVOLUTION_BWD_DATA_ALGO_FFT = 2,
    CUDNN_CONVOLUTION_BWD_DATA_ALGO_FFT_TILING = 3,
    CUDNN_CONVOLUTION_BWD_DATA_ALGO_WINOGRAD = 4,
    CUDNN_CONVOLUTION_BWD_DATA_ALGO_WINOGRAD_NONFUSED = 5,
    CUDNN_CONVOLUTION_BWD_DATA_ALGO_COUNT = 6
} cudnnConvolutionBwdDataAlgo_t;

typedef enum {
    CUDNN_POOLING_MAX = 0,
    CUDNN_POOLING_AVERAGE_COUNT_INCLUDE_PADDING = 1,
    CUDNN_POOLING_AVERAGE_COUNT_EXCLUDE_PADDING = 2,
    CUDNN_POOLING_MAX_DETERMINISTIC = 3
} cudnnPoolingMode_t;

typedef enum {
    CUDNN_ACTIVATION_SIGMOID = 0,
    CUDNN_ACTIVATION_RELU = 1,
    CUDNN_ACTIVATION_TANH = 2,
    CUDNN_ACTIVATION_CLIPPED_RELU = 3,
    CUDNN_ACTIVATION_ELU = 4,
    CUDNN_ACTIVATION_IDENTITY = 5,
    CUDNN_ACTIVATION_SWISH = 6
} cudnnActivationMode_t;

typedef enum {
    CUDNN_SOFTMAX_FAST = 0,
    CUDNN_SOFTMAX_ACCURATE = 1,
    CUDNN_SOFTMAX_LOG = 2
} cudnnSoftmaxAlgorithm_t;

typedef enum {
    CUDNN_SOFTMAX_MODE_INSTANCE = 0, /* over channels and pixels */
    CUDNN_SOFTMAX_MODE_CHANNEL = 1   /* over channels */
} cudnnSoftmaxMode_t;

typedef enum {
    CUDNN_BATCHNORM_PER_ACTIVATION = 0,
    CUDNN_BATCHNORM_SPATIAL = 1,
    CUDNN_BATCHNORM_SPATIAL_PERSISTENT = 2
} cudnnBatchNormMode_t;

typedef struct cudnnContext *cudnnHandle_t;
typedef struct cudnnTensorStruct *cudnnTensorDescriptor_t;
typedef struct cudnnFilterStruct *cudnnFilterDescriptor_t;
typedef struct cudnnConvolutionStruct *cudnnConvolutionDescriptor_t;
typedef struct cudnnPoolingStruct *cudnnPoolingDescriptor_t;
typedef struct cudnnActivationStruct *cudnnActivationDescriptor_t;

/* The result of a search for an algorithm. `time` is in milliseconds, and -1
 * without a measurement. */
#define SIMT_PERF(name, algorithm)      \
    typedef struct {                    \
        algorithm algo;                 \
        cudnnStatus_t status;           \
        float time;                     \
        size_t memory;                  \
        cudnnDeterminism_t determinism; \
        cudnnMathType_t mathType;       \
        int reserved[3];                \
    } name;
SIMT_PERF(cudnnConvolutionFwdAlgoPerf_t, cudnnConvolutionFwdAlgo_t)
SIMT_PERF(cudnnConvolutionBwdDataAlgoPerf_t, cudnnConvolutionBwdDataAlgo_t)
SIMT_PERF(cudnnConvolutionBwdFilterAlgoPerf_t, cudnnConvolutionBwdFilterAlgo_t)
#undef SIMT_PERF

#pragma GCC visibility push(default)
extern "C" {

/* ---- handles ------------------------------------------------------------- */

size_t cudnnGetVersion(void);
size_t cudnnGetCudartVersion(void);
cudnnStatus_t cudnnGetProperty(libraryPropertyType type, int *value);
const char *cudnnGetErrorString(cudnnStatus_t status);
/* Write the reason for this thread's last error, up to `max_size` bytes. */
void cudnnGetLastErrorString(char *message, size_t max_size);
cudnnStatus_t cudnnCreate(cudnnHandle_t *handle);
cudnnStatus_t cudnnDestroy(cudnnHandle_t handle);
cudnnStatus_t cudnnSetStream(cudnnHandle_t handle, cudaStream_t stream);
cudnnStatus_t cudnnGetStream(cudnnHandle_t handle, cudaStream_t *stream);

/* ---- descriptors --------------------------------------------------------- */

/* Every dimension and stride is in elements and at least 1.
 * CUDNN_STATUS_BAD_PARAM: one is below 1, or a pointer or descriptor is
 * invalid. CUDNN_STATUS_NOT_SUPPORTED: the CPU version lacks a feature. */
cudnnStatus_t cudnnCreateTensorDescriptor(cudnnTensorDescriptor_t *tensor);
cudnnStatus_t cudnnDestroyTensorDescriptor(cudnnTensorDescriptor_t tensor);
cudnnStatus_t cudnnSetTensor4dDescriptor(cudnnTensorDescriptor_t tensor,
                                         cudnnTensorFormat_t format,
                                         cudnnDataType_t type, int n, int c,
                                         int h, int w);
cudnnStatus_t cudnnSetTensor4dDescriptorEx(cudnnTensorDescriptor_t tensor,
                                           cudnnDataType_t type, int n, int c,
                                           int h, int w, int nStride,
                                           int cStride, int hStride,
                                           int wStride);
cudnnStatus_t cudnnGetTensor4dDescriptor(cudnnTensorDescriptor_t tensor,
                                         cudnnDataType_t *type, int *n, int *c,
                                         int *h, int *w, int *nStride,
                                         int *cStride, int *hStride,
                                         int *wStride);
/* nbDims: 4 */
cudnnStatus_t cudnnSetTensorNdDescriptor(cudnnTensorDescriptor_t tensor,
                                         cudnnDataType_t type, int nbDims,
                                         const int dimA[], const int strideA[]);
cudnnStatus_t cudnnGetTensorSizeInBytes(cudnnTensorDescriptor_t tensor,
                                        size_t *size);

/* A filter is (k,c,h,w): k output channels, c input channels of a group. NHWC
 * means (k,h,w,c). */
cudnnStatus_t cudnnCreateFilterDescriptor(cudnnFilterDescriptor_t *filter);
cudnnStatus_t cudnnDestroyFilterDescriptor(cudnnFilterDescriptor_t filter);
cudnnStatus_t cudnnSetFilter4dDescriptor(cudnnFilterDescriptor_t filter,
                                         cudnnDataType_t type,
                                         cudnnTensorFormat_t format, int k,
                                         int c, int h, int w);
cudnnStatus_t cudnnGetFilter4dDescriptor(cudnnFilterDescriptor_t filter,
                                         cudnnDataType_t *type,
                                         cudnnTensorFormat_t *format, int *k,
                                         int *c, int *h, int *w);
/* nbDims: 4 */
cudnnStatus_t cudnnSetFilterNdDescriptor(cudnnFilterDescriptor_t filter,
                                         cudnnDataType_t type,
                                         cudnnTensorFormat_t format, int nbDims,
                                         const int filterDimA[]);
cudnnStatus_t cudnnGetFilterSizeInBytes(cudnnFilterDescriptor_t filter,
                                        size_t *size);

/* u, v: vertical and horizontal stride */
cudnnStatus_t
cudnnCreateConvolutionDescriptor(cudnnConvolutionDescriptor_t *conv);
cudnnStatus_t
cudnnDestroyConvolutionDescriptor(cudnnConvolutionDescriptor_t conv);
cudnnStatus_t cudnnSetConvolution2dDescriptor(cudnnConvolutionDescriptor_t conv,
                                              int pad_h, int pad_w, int u,
                                              int v, int dilation_h,
                                              int dilation_w,
                                              cudnnConvolutionMode_t mode,
                                              cudnnDataType_t computeType);
cudnnStatus_t cudnnGetConvolution2dDescriptor(cudnnConvolutionDescriptor_t conv,
                                              int *pad_h, int *pad_w, int *u,
                                              int *v, int *dilation_h,
                                              int *dilation_w,
                                              cudnnConvolutionMode_t *mode,
                                              cudnnDataType_t *computeType);
/* arrayLength: 2 */
cudnnStatus_t cudnnSetConvolutionNdDescriptor(cudnnConvolutionDescriptor_t conv,
                                              int arrayLength, const int padA[],
                                              const int filterStrideA[],
                                              const int dilationA[],
                                              cudnnConvolutionMode_t mode,
                                              cudnnDataType_t computeType);
cudnnStatus_t cudnnSetConvolutionGroupCount(cudnnConvolutionDescriptor_t conv,
                                            int groupCount);
cudnnStatus_t cudnnGetConvolutionGroupCount(cudnnConvolutionDescriptor_t conv,
                                            int *groupCount);
cudnnStatus_t cudnnSetConvolutionMathType(cudnnConvolutionDescriptor_t conv,
                                          cudnnMathType_t mathType);
cudnnStatus_t cudnnGetConvolutionMathType(cudnnConvolutionDescriptor_t conv,
                                          cudnnMathType_t *mathType);
/* Height: 1 + (h + 2 pad_h - (dilation_h (filter's h - 1) + 1)) / u, and so on.
 */
cudnnStatus_t cudnnGetConvolution2dForwardOutputDim(
    cudnnConvolutionDescriptor_t conv, cudnnTensorDescriptor_t x,
    cudnnFilterDescriptor_t filter, int *n, int *c, int *h, int *w);
cudnnStatus_t cudnnGetConvolutionNdForwardOutputDim(
    cudnnConvolutionDescriptor_t conv, cudnnTensorDescriptor_t x,
    cudnnFilterDescriptor_t filter, int nbDims, int tensorOuputDimA[]);

cudnnStatus_t cudnnCreatePoolingDescriptor(cudnnPoolingDescriptor_t *pooling);
cudnnStatus_t cudnnDestroyPoolingDescriptor(cudnnPoolingDescriptor_t pooling);
cudnnStatus_t cudnnSetPooling2dDescriptor(
    cudnnPoolingDescriptor_t pooling, cudnnPoolingMode_t mode,
    cudnnNanPropagation_t maxpoolingNanOpt, int windowHeight, int windowWidth,
    int verticalPadding, int horizontalPadding, int verticalStride,
    int horizontalStride);
/* Height: 1 + (h + 2 padding - window) / stride. */
cudnnStatus_t
cudnnGetPooling2dForwardOutputDim(cudnnPoolingDescriptor_t pooling,
                                  cudnnTensorDescriptor_t x, int *n, int *c,
                                  int *h, int *w);

/* coef: the bound of CLIPPED_RELU, the alpha of ELU, or the beta of SWISH */
cudnnStatus_t
cudnnCreateActivationDescriptor(cudnnActivationDescriptor_t *activation);
cudnnStatus_t
cudnnDestroyActivationDescriptor(cudnnActivationDescriptor_t activation);
cudnnStatus_t
cudnnSetActivationDescriptor(cudnnActivationDescriptor_t activation,
                             cudnnActivationMode_t mode,
                             cudnnNanPropagation_t reluNanOpt, double coef);
cudnnStatus_t
cudnnSetActivationDescriptorSwishBeta(cudnnActivationDescriptor_t activation,
                                      double swish_beta);

/* ---- work ---------------------------------------------------------------- */

/* Each function writes alpha * result + beta * output, in the order of the
 * handle's stream. alpha and beta are addresses of floats in host memory. If
 * *beta is 0, the output is not read.
 *
 * CUDNN_STATUS_BAD_PARAM: shapes do not fit, or a pointer is NULL;
 * CUDNN_STATUS_NOT_SUPPORTED: not float32; CUDNN_STATUS_EXECUTION_FAILED: the
 * arrays are not where a GPU could access them. */
cudnnStatus_t cudnnSetTensor(cudnnHandle_t handle,
                             cudnnTensorDescriptor_t yDesc, void *y,
                             const void *value);
cudnnStatus_t cudnnScaleTensor(cudnnHandle_t handle,
                               cudnnTensorDescriptor_t yDesc, void *y,
                               const void *alpha);
cudnnStatus_t cudnnTransformTensor(cudnnHandle_t handle, const void *alpha,
                                   cudnnTensorDescriptor_t xDesc, const void *x,
                                   const void *beta,
                                   cudnnTensorDescriptor_t yDesc, void *y);
/* C = alpha A + beta C; each dimension of A is C's or 1. */
cudnnStatus_t cudnnAddTensor(cudnnHandle_t handle, const void *alpha,
                             cudnnTensorDescriptor_t aDesc, const void *A,
                             const void *beta, cudnnTensorDescriptor_t cDesc,
                             void *C);

/* The error of an element is at most (c h w of the filter + 6) 2^-24 times the
 * sum of the absolute values of its products, plus O(2^-48); for the gradient
 * of the filter, c h w is replaced by n times the output's pixels. */
cudnnStatus_t cudnnConvolutionForward(
    cudnnHandle_t handle, const void *alpha, cudnnTensorDescriptor_t xDesc,
    const void *x, cudnnFilterDescriptor_t wDesc, const void *w,
    cudnnConvolutionDescriptor_t conv, cudnnConvolutionFwdAlgo_t algo,
    void *workSpace, size_t workSpaceSizeInBytes, const void *beta,
    cudnnTensorDescriptor_t yDesc, void *y);
cudnnStatus_t cudnnConvolutionBackwardData(
    cudnnHandle_t handle, const void *alpha, cudnnFilterDescriptor_t wDesc,
    const void *w, cudnnTensorDescriptor_t dyDesc, const void *dy,
    cudnnConvolutionDescriptor_t conv, cudnnConvolutionBwdDataAlgo_t algo,
    void *workSpace, size_t workSpaceSizeInBytes, const void *beta,
    cudnnTensorDescriptor_t dxDesc, void *dx);
cudnnStatus_t cudnnConvolutionBackwardFilter(
    cudnnHandle_t handle, const void *alpha, cudnnTensorDescriptor_t xDesc,
    const void *x, cudnnTensorDescriptor_t dyDesc, const void *dy,
    cudnnConvolutionDescriptor_t conv, cudnnConvolutionBwdFilterAlgo_t algo,
    void *workSpace, size_t workSpaceSizeInBytes, const void *beta,
    cudnnFilterDescriptor_t dwDesc, void *dw);
cudnnStatus_t cudnnConvolutionBackwardBias(
    cudnnHandle_t handle, const void *alpha, cudnnTensorDescriptor_t dyDesc,
    const void *dy, const void *beta, cudnnTensorDescriptor_t dbDesc, void *db);
/* y = f(alpha1 conv(x, w) + alpha2 z + bias) */
cudnnStatus_t cudnnConvolutionBiasActivationForward(
    cudnnHandle_t handle, const void *alpha1, cudnnTensorDescriptor_t xDesc,
    const void *x, cudnnFilterDescriptor_t wDesc, const void *w,
    cudnnConvolutionDescriptor_t conv, cudnnConvolutionFwdAlgo_t algo,
    void *workSpace, size_t workSpaceSizeInBytes, const void *alpha2,
    cudnnTensorDescriptor_t zDesc, const void *z,
    cudnnTensorDescriptor_t biasDesc, const void *bias,
    cudnnActivationDescriptor_t activation, cudnnTensorDescriptor_t yDesc,
    void *y);

cudnnStatus_t cudnnPoolingForward(cudnnHandle_t handle,
                                  cudnnPoolingDescriptor_t pooling,
                                  const void *alpha,
                                  cudnnTensorDescriptor_t xDesc, const void *x,
                                  const void *beta,
                                  cudnnTensorDescriptor_t yDesc, void *y);
/* Of equal maxima, the first one in row-major order receives the gradient. */
cudnnStatus_t
cudnnPoolingBackward(cudnnHandle_t handle, cudnnPoolingDescriptor_t pooling,
                     const void *alpha, cudnnTensorDescriptor_t yDesc,
                     const void *y, cudnnTensorDescriptor_t dyDesc,
                     const void *dy, cudnnTensorDescriptor_t xDesc,
                     const void *x, const void *beta,
                     cudnnTensorDescriptor_t dxDesc, void *dx);

cudnnStatus_t cudnnActivationForward(cudnnHandle_t handle,
                                     cudnnActivationDescriptor_t activation,
                                     const void *alpha,
                                     cudnnTensorDescriptor_t xDesc,
                                     const void *x, const void *beta,
                                     cudnnTensorDescriptor_t yDesc, void *y);
cudnnStatus_t cudnnActivationBackward(
    cudnnHandle_t handle, cudnnActivationDescriptor_t activation,
    const void *alpha, cudnnTensorDescriptor_t yDesc, const void *y,
    cudnnTensorDescriptor_t dyDesc, const void *dy,
    cudnnTensorDescriptor_t xDesc, const void *x, const void *beta,
    cudnnTensorDescriptor_t dxDesc, void *dx);

cudnnStatus_t cudnnSoftmaxForward(cudnnHandle_t handle,
                                  cudnnSoftmaxAlgorithm_t algo,
                                  cudnnSoftmaxMode_t mode, const void *alpha,
                                  cudnnTensorDescriptor_t xDesc, const void *x,
                                  const void *beta,
                                  cudnnTensorDescriptor_t yDesc, void *y);
cudnnStatus_t cudnnSoftmaxBackward(cudnnHandle_t handle,
                                   cudnnSoftmaxAlgorithm_t algo,
                                   cudnnSoftmaxMode_t mode, const void *alpha,
                                   cudnnTensorDescriptor_t yDesc, const void *y,
                                   cudnnTensorDescriptor_t dyDesc,
                                   const void *dy, const void *beta,
                                   cudnnTensorDescriptor_t dxDesc, void *dx);

/* Batch norm with the statistics of the batch, or with estimated ones. SPATIAL
 * has one mean per channel, and PER_ACTIVATION one per channel and pixel;
 * cudnnDeriveBNTensorDescriptor() returns the shape of all statistics and
 * parameters. The running statistics become (1 - factor) old + factor new,
 * where the variance is unbiased; they may be NULL, and so may both saved
 * arrays. The saved ones are the means and 1 / sqrt(biased variance +
 * epsilon). */
cudnnStatus_t cudnnDeriveBNTensorDescriptor(cudnnTensorDescriptor_t derived,
                                            cudnnTensorDescriptor_t xDesc,
                                            cudnnBatchNormMode_t mode);
cudnnStatus_t cudnnBatchNormalizationForwardTraining(
    cudnnHandle_t handle, cudnnBatchNormMode_t mode, const void *alpha,
    const void *beta, cudnnTensorDescriptor_t xDesc, const void *x,
    cudnnTensorDescriptor_t yDesc, void *y, cudnnTensorDescriptor_t bnDesc,
    const void *bnScale, const void *bnBias, double exponentialAverageFactor,
    void *resultRunningMean, void *resultRunningVariance, double epsilon,
    void *resultSaveMean, void *resultSaveInvVariance);
cudnnStatus_t cudnnBatchNormalizationForwardInference(
    cudnnHandle_t handle, cudnnBatchNormMode_t mode, const void *alpha,
    const void *beta, cudnnTensorDescriptor_t xDesc, const void *x,
    cudnnTensorDescriptor_t yDesc, void *y, cudnnTensorDescriptor_t bnDesc,
    const void *bnScale, const void *bnBias, const void *estimatedMean,
    const void *estimatedVariance, double epsilon);
cudnnStatus_t cudnnBatchNormalizationBackward(
    cudnnHandle_t handle, cudnnBatchNormMode_t mode, const void *alphaDataDiff,
    const void *betaDataDiff, const void *alphaParamDiff,
    const void *betaParamDiff, cudnnTensorDescriptor_t xDesc, const void *x,
    cudnnTensorDescriptor_t dyDesc, const void *dy,
    cudnnTensorDescriptor_t dxDesc, void *dx, cudnnTensorDescriptor_t bnDesc,
    const void *bnScale, void *dBnScaleResult, void *dBnBiasResult,
    double epsilon, const void *savedMean, const void *savedInvVariance);

/* ---- choosing an algorithm ----------------------------------------------- */

/* There is one result: IMPLICIT_GEMM or ALGO_0, without workspace. A search is
 * not a measurement, since there is nothing to choose. A and B are the inputs'
 * descriptors, and C is the output's. */
#define SIMT_SEARCHES(Direction, Perf, Algo, A, B, C)                         \
    cudnnStatus_t cudnnGetConvolution##Direction##Algorithm_v7(               \
        cudnnHandle_t handle, A aDesc, B bDesc,                               \
        cudnnConvolutionDescriptor_t conv, C cDesc, int requestedAlgoCount,   \
        int *returnedAlgoCount, Perf *perfResults);                           \
    cudnnStatus_t cudnnFindConvolution##Direction##Algorithm(                 \
        cudnnHandle_t handle, A aDesc, B bDesc,                               \
        cudnnConvolutionDescriptor_t conv, C cDesc, int requestedAlgoCount,   \
        int *returnedAlgoCount, Perf *perfResults);                           \
    cudnnStatus_t cudnnFindConvolution##Direction##AlgorithmEx(               \
        cudnnHandle_t handle, A aDesc, const void *a, B bDesc, const void *b, \
        cudnnConvolutionDescriptor_t conv, C cDesc, void *c,                  \
        int requestedAlgoCount, int *returnedAlgoCount, Perf *perfResults,    \
        void *workSpace, size_t workSpaceSizeInBytes);                        \
    cudnnStatus_t cudnnGetConvolution##Direction##AlgorithmMaxCount(          \
        cudnnHandle_t handle, int *count);                                    \
    cudnnStatus_t cudnnGetConvolution##Direction##WorkspaceSize(              \
        cudnnHandle_t handle, A aDesc, B bDesc,                               \
        cudnnConvolutionDescriptor_t conv, C cDesc, Algo algo,                \
        size_t *sizeInBytes);
SIMT_SEARCHES(Forward, cudnnConvolutionFwdAlgoPerf_t, cudnnConvolutionFwdAlgo_t,
              cudnnTensorDescriptor_t, cudnnFilterDescriptor_t,
              cudnnTensorDescriptor_t)
SIMT_SEARCHES(BackwardData, cudnnConvolutionBwdDataAlgoPerf_t,
              cudnnConvolutionBwdDataAlgo_t, cudnnFilterDescriptor_t,
              cudnnTensorDescriptor_t, cudnnTensorDescriptor_t)
SIMT_SEARCHES(BackwardFilter, cudnnConvolutionBwdFilterAlgoPerf_t,
              cudnnConvolutionBwdFilterAlgo_t, cudnnTensorDescriptor_t,
              cudnnTensorDescriptor_t, cudnnFilterDescriptor_t)
#undef SIMT_SEARCHES

} // extern "C"
#pragma GCC visibility pop
#endif
