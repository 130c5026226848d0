/* cudnn.cpp -- handles and descriptors of cuDNN on the CPU; see cudnn.h. */
#include "cudnn.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <algorithm>
#include <new>

#include "cudnn_context.h"

namespace weft_dnn {

/* Create the set of valid handles of one type. It is never destroyed, since a
 * program may still make calls while it exits. */
template <class T> static simt::Handles<T> &create_handles() {
    return *new simt::Handles<T>;
}
simt::Handles<cudnnContext> &contexts = create_handles<cudnnContext>();
simt::Handles<cudnnTensorStruct> &tensors = create_handles<cudnnTensorStruct>();
simt::Handles<cudnnFilterStruct> &filters = create_handles<cudnnFilterStruct>();
simt::Handles<cudnnConvolutionStruct> &convolutions =
    create_handles<cudnnConvolutionStruct>();
simt::Handles<cudnnPoolingStruct> &poolings =
    create_handles<cudnnPoolingStruct>();
simt::Handles<cudnnActivationStruct> &activations =
    create_handles<cudnnActivationStruct>();

static thread_local char last_error[256];

cudnnStatus_t fail(cudnnStatus_t status, const char *format, ...) {
    va_list values;
    va_start(values, format);
    vsnprintf(last_error, sizeof last_error, format, values);
    va_end(values);
    return status;
}

cudnnStatus_t invalid(const char *function) {
    return fail(CUDNN_STATUS_BAD_PARAM, "%s: invalid descriptor or pointer",
                function);
}

/* ---- calls --------------------------------------------------------------- */

Call::Call(const char *name, cudnnHandle_t handle) : name(name) {
    if (const cudnnContext *context = contexts.find(handle))
        stream = context->stream;
    else
        status = fail(CUDNN_STATUS_NOT_INITIALIZED, "%s: invalid handle", name);
}

void Call::require(bool condition, const char *why) {
    if (!condition && !status)
        status = fail(CUDNN_STATUS_BAD_PARAM, "%s: %s", name, why);
}

template <class T>
static T describe(Call &call, const char *what, const T *descriptor,
                  const void *data, Argument::Access access) {
    if (!call.status && (!descriptor || !descriptor->size[0]))
        call.status =
            fail(CUDNN_STATUS_BAD_PARAM, "%s: the descriptor of %s is not set",
                 call.name, what);
    if (!call.status && descriptor->type != CUDNN_DATA_FLOAT)
        call.status = fail(CUDNN_STATUS_NOT_SUPPORTED,
                           "%s: %s has type %d, and the CPU version has only "
                           "CUDNN_DATA_FLOAT",
                           call.name, what, (int)descriptor->type);
    if (!call.status && !data)
        call.status =
            fail(CUDNN_STATUS_BAD_PARAM, "%s: %s is NULL", call.name, what);
    if (call.status) return T();
    call.arguments.push_back(
        {what, access, data, (size_t)descriptor->reach() * sizeof(float)});
    return *descriptor;
}

Tensor Call::tensor(const char *what, cudnnTensorDescriptor_t descriptor,
                    const void *data, Argument::Access access) {
    return describe(*this, what, tensors.find(descriptor), data, access);
}

cudnnFilterStruct Call::filter(const char *what, cudnnFilterDescriptor_t filter,
                               const void *data, Argument::Access access) {
    return describe(*this, what, filters.find(filter), data, access);
}

float Call::scalar(const char *what, const void *at) {
    if (at) return *(const float *)at;
    if (!status)
        status = fail(CUDNN_STATUS_BAD_PARAM, "%s: %s is NULL", name, what);
    return 0;
}

cudnnStatus_t Call::submit(const std::function<void()> &work) {
    if (status) return status;
    try {
        const cudaError_t error = simt::submit(name, stream, arguments, work);
        if (!error) return CUDNN_STATUS_SUCCESS;
        return fail(CUDNN_STATUS_EXECUTION_FAILED, "%s: %s", name,
                    cudaGetErrorString(error));
    } catch (const std::bad_alloc &) {
        return fail(CUDNN_STATUS_ALLOC_FAILED, "%s: no memory", name);
    }
}

} // namespace weft_dnn

using namespace weft_dnn;

/* ---- handles ------------------------------------------------------------- */

size_t cudnnGetVersion(void) { return CUDNN_VERSION; }
size_t cudnnGetCudartVersion(void) {
    int version = 0;
    cudaRuntimeGetVersion(&version);
    return (size_t)version;
}

cudnnStatus_t cudnnGetProperty(libraryPropertyType type, int *value) {
    static const int version[] = {CUDNN_MAJOR, CUDNN_MINOR, CUDNN_PATCHLEVEL};
    if (!value || (unsigned)type > 2)
        return fail(CUDNN_STATUS_BAD_PARAM, "cudnnGetProperty: invalid type");
    *value = version[type];
    return CUDNN_STATUS_SUCCESS;
}

const char *cudnnGetErrorString(cudnnStatus_t status) {
#define NAME(name) \
    case CUDNN_STATUS_##name: return "CUDNN_STATUS_" #name;
    switch (status) {
        NAME(SUCCESS)
        NAME(NOT_INITIALIZED)
        NAME(BAD_PARAM)
        NAME(NOT_SUPPORTED)
        NAME(ALLOC_FAILED)
        NAME(EXECUTION_FAILED)
    default: return "an unknown status of cuDNN";
    }
#undef NAME
}

void cudnnGetLastErrorString(char *message, size_t max_size) {
    if (message && max_size) snprintf(message, max_size, "%s", last_error);
}

template <class T, class Handle>
static cudnnStatus_t create(const char *function, simt::Handles<T> &handles,
                            Handle *handle) {
    if (!handle)
        return fail(CUDNN_STATUS_BAD_PARAM,
                    "%s: the address of the handle is NULL", function);
    *handle = (Handle)handles.create();
    return CUDNN_STATUS_SUCCESS;
}

template <class T>
static cudnnStatus_t destroy(const char *function, simt::Handles<T> &handles,
                             const void *handle) {
    if (handles.destroy(handle)) return CUDNN_STATUS_SUCCESS;
    return fail(CUDNN_STATUS_BAD_PARAM, "%s: invalid handle", function);
}

#define CREATE(Name, Handle, handles)                 \
    cudnnStatus_t cudnnCreate##Name(Handle *handle) { \
        return create(__func__, handles, handle);     \
    }                                                 \
    cudnnStatus_t cudnnDestroy##Name(Handle handle) { \
        return destroy(__func__, handles, handle);    \
    }
CREATE(, cudnnHandle_t, contexts)
CREATE(TensorDescriptor, cudnnTensorDescriptor_t, tensors)
CREATE(FilterDescriptor, cudnnFilterDescriptor_t, filters)
CREATE(ConvolutionDescriptor, cudnnConvolutionDescriptor_t, convolutions)
CREATE(PoolingDescriptor, cudnnPoolingDescriptor_t, poolings)
CREATE(ActivationDescriptor, cudnnActivationDescriptor_t, activations)
#undef CREATE

cudnnStatus_t cudnnSetStream(cudnnHandle_t handle, cudaStream_t stream) {
    cudnnContext *context = contexts.find(handle);
    if (!context)
        return fail(CUDNN_STATUS_NOT_INITIALIZED,
                    "cudnnSetStream: invalid handle");
    context->stream = stream;
    return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnGetStream(cudnnHandle_t handle, cudaStream_t *stream) {
    const cudnnContext *context = contexts.find(handle);
    if (!context)
        return fail(CUDNN_STATUS_NOT_INITIALIZED,
                    "cudnnGetStream: invalid handle");
    if (!stream)
        return fail(CUDNN_STATUS_BAD_PARAM, "cudnnGetStream: stream is NULL");
    *stream = context->stream;
    return CUDNN_STATUS_SUCCESS;
}

/* ---- tensors and filters ------------------------------------------------- */

/* Set the sizes, and the strides of the format. */
static cudnnStatus_t shape(const char *function, Tensor *t,
                           cudnnTensorFormat_t format, cudnnDataType_t type,
                           int n, int c, int h, int w) {
    if (!t) return invalid(function);
    if (n < 1 || c < 1 || h < 1 || w < 1)
        return fail(CUDNN_STATUS_BAD_PARAM,
                    "%s: dimensions (%d,%d,%d,%d), expected at least 1",
                    function, n, c, h, w);
    if (format != CUDNN_TENSOR_NCHW && format != CUDNN_TENSOR_NHWC)
        return fail(CUDNN_STATUS_NOT_SUPPORTED,
                    "%s: format %d, and the CPU version has NCHW and NHWC",
                    function, (int)format);
    t->type = type;
    const int size[] = {n, c, h, w};
    std::copy(size, size + 4, t->size);
    const bool last = format == CUDNN_TENSOR_NHWC; // channels
    t->stride[1] = last ? 1 : (long)h * w;
    t->stride[3] = last ? c : 1;
    t->stride[2] = w * t->stride[3];
    t->stride[0] = (long)c * h * w;
    return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnSetTensor4dDescriptor(cudnnTensorDescriptor_t tensor,
                                         cudnnTensorFormat_t format,
                                         cudnnDataType_t type, int n, int c,
                                         int h, int w) {
    return shape(__func__, tensors.find(tensor), format, type, n, c, h, w);
}

cudnnStatus_t cudnnSetTensor4dDescriptorEx(cudnnTensorDescriptor_t tensor,
                                           cudnnDataType_t type, int n, int c,
                                           int h, int w, int nStride,
                                           int cStride, int hStride,
                                           int wStride) {
    const int size[] = {n, c, h, w};
    const int stride[] = {nStride, cStride, hStride, wStride};
    return cudnnSetTensorNdDescriptor(tensor, type, 4, size, stride);
}

cudnnStatus_t cudnnSetTensorNdDescriptor(cudnnTensorDescriptor_t tensor,
                                         cudnnDataType_t type, int nbDims,
                                         const int dimA[],
                                         const int strideA[]) {
    Tensor *t = tensors.find(tensor);
    if (!t || !dimA || !strideA) return invalid(__func__);
    if (nbDims != 4)
        return fail(CUDNN_STATUS_NOT_SUPPORTED,
                    "%s: %d dimensions, and the CPU version has 4", __func__,
                    nbDims);
    for (int i = 0; i < 4; i++)
        if (strideA[i] < 1)
            return fail(CUDNN_STATUS_BAD_PARAM, "%s: stride %d is %d, below 1",
                        __func__, i, strideA[i]);
    const cudnnStatus_t status = shape(__func__, t, CUDNN_TENSOR_NCHW, type,
                                       dimA[0], dimA[1], dimA[2], dimA[3]);
    if (!status) std::copy(strideA, strideA + 4, t->stride);
    return status;
}

cudnnStatus_t cudnnGetTensor4dDescriptor(cudnnTensorDescriptor_t tensor,
                                         cudnnDataType_t *type, int *n, int *c,
                                         int *h, int *w, int *nStride,
                                         int *cStride, int *hStride,
                                         int *wStride) {
    const Tensor *t = tensors.find(tensor);
    if (!t || !t->size[0]) return invalid(__func__);
    int *const sizes[] = {n, c, h, w};
    int *const strides[] = {nStride, cStride, hStride, wStride};
    if (type) *type = t->type;
    for (int i = 0; i < 4; i++) {
        if (sizes[i]) *sizes[i] = t->size[i];
        if (strides[i]) *strides[i] = (int)t->stride[i];
    }
    return CUDNN_STATUS_SUCCESS;
}

static cudnnStatus_t bytes(const char *function, const Tensor *t,
                           size_t *size) {
    static const int sizes[] = {4, 8, 2, 1, 4, 4, 1, 4, 32, 2, 8};
    if (!t || !t->size[0] || !size) return invalid(function);
    *size = (size_t)t->reach() * (t->type <= 10 ? sizes[t->type] : 0);
    return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnGetTensorSizeInBytes(cudnnTensorDescriptor_t tensor,
                                        size_t *size) {
    return bytes(__func__, tensors.find(tensor), size);
}

cudnnStatus_t cudnnGetFilterSizeInBytes(cudnnFilterDescriptor_t filter,
                                        size_t *size) {
    return bytes(__func__, filters.find(filter), size);
}

cudnnStatus_t cudnnSetFilter4dDescriptor(cudnnFilterDescriptor_t filter,
                                         cudnnDataType_t type,
                                         cudnnTensorFormat_t format, int k,
                                         int c, int h, int w) {
    cudnnFilterStruct *f = filters.find(filter);
    const cudnnStatus_t status = shape(__func__, f, format, type, k, c, h, w);
    if (!status) f->format = format;
    return status;
}

cudnnStatus_t cudnnGetFilter4dDescriptor(cudnnFilterDescriptor_t filter,
                                         cudnnDataType_t *type,
                                         cudnnTensorFormat_t *format, int *k,
                                         int *c, int *h, int *w) {
    const cudnnFilterStruct *f = filters.find(filter);
    if (!f || !f->size[0]) return invalid(__func__);
    int *const sizes[] = {k, c, h, w};
    if (type) *type = f->type;
    if (format) *format = f->format;
    for (int i = 0; i < 4; i++)
        if (sizes[i]) *sizes[i] = f->size[i];
    return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnSetFilterNdDescriptor(cudnnFilterDescriptor_t filter,
                                         cudnnDataType_t type,
                                         cudnnTensorFormat_t format, int nbDims,
                                         const int filterDimA[]) {
    if (!filterDimA) return invalid(__func__);
    if (nbDims != 4)
        return fail(CUDNN_STATUS_NOT_SUPPORTED,
                    "%s: %d dimensions, and the CPU version has 4", __func__,
                    nbDims);
    return cudnnSetFilter4dDescriptor(filter, type, format, filterDimA[0],
                                      filterDimA[1], filterDimA[2],
                                      filterDimA[3]);
}

/* ---- the other descriptors ----------------------------------------------- */

cudnnStatus_t cudnnSetConvolution2dDescriptor(cudnnConvolutionDescriptor_t conv,
                                              int pad_h, int pad_w, int u,
                                              int v, int dilation_h,
                                              int dilation_w,
                                              cudnnConvolutionMode_t mode,
                                              cudnnDataType_t computeType) {
    cudnnConvolutionStruct *c = convolutions.find(conv);
    if (!c) return invalid(__func__);
    if (pad_h < 0 || pad_w < 0 || u < 1 || v < 1 || dilation_h < 1 ||
        dilation_w < 1)
        return fail(CUDNN_STATUS_BAD_PARAM,
                    "%s: padding %d, %d, strides %d, %d, dilations %d, %d: "
                    "expected padding of 0 or more, and the others above 0",
                    __func__, pad_h, pad_w, u, v, dilation_h, dilation_w);
    if ((unsigned)mode > 1) return invalid(__func__);
    c->pad[0] = pad_h, c->pad[1] = pad_w;
    c->step[0] = u, c->step[1] = v;
    c->dilation[0] = dilation_h, c->dilation[1] = dilation_w;
    c->mode = mode;
    c->type = computeType;
    c->set = true;
    return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnSetConvolutionNdDescriptor(cudnnConvolutionDescriptor_t conv,
                                              int arrayLength, const int padA[],
                                              const int filterStrideA[],
                                              const int dilationA[],
                                              cudnnConvolutionMode_t mode,
                                              cudnnDataType_t computeType) {
    if (!padA || !filterStrideA || !dilationA) return invalid(__func__);
    if (arrayLength != 2)
        return fail(CUDNN_STATUS_NOT_SUPPORTED,
                    "%s: %d dimensions, and the CPU version has 2", __func__,
                    arrayLength);
    return cudnnSetConvolution2dDescriptor(
        conv, padA[0], padA[1], filterStrideA[0], filterStrideA[1],
        dilationA[0], dilationA[1], mode, computeType);
}

cudnnStatus_t cudnnGetConvolution2dDescriptor(cudnnConvolutionDescriptor_t conv,
                                              int *pad_h, int *pad_w, int *u,
                                              int *v, int *dilation_h,
                                              int *dilation_w,
                                              cudnnConvolutionMode_t *mode,
                                              cudnnDataType_t *computeType) {
    const cudnnConvolutionStruct *c = convolutions.find(conv);
    if (!c || !c->set) return invalid(__func__);
    int *const to[] = {pad_h, pad_w, u, v, dilation_h, dilation_w};
    const int from[] = {c->pad[0],  c->pad[1],      c->step[0],
                        c->step[1], c->dilation[0], c->dilation[1]};
    for (int i = 0; i < 6; i++)
        if (to[i]) *to[i] = from[i];
    if (mode) *mode = c->mode;
    if (computeType) *computeType = c->type;
    return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnSetConvolutionGroupCount(cudnnConvolutionDescriptor_t conv,
                                            int groupCount) {
    cudnnConvolutionStruct *c = convolutions.find(conv);
    if (!c || groupCount < 1) return invalid(__func__);
    c->groups = groupCount;
    return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnGetConvolutionGroupCount(cudnnConvolutionDescriptor_t conv,
                                            int *groupCount) {
    const cudnnConvolutionStruct *c = convolutions.find(conv);
    if (!c || !groupCount) return invalid(__func__);
    *groupCount = c->groups;
    return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnSetConvolutionMathType(cudnnConvolutionDescriptor_t conv,
                                          cudnnMathType_t mathType) {
    cudnnConvolutionStruct *c = convolutions.find(conv);
    if (!c || (unsigned)mathType > CUDNN_FMA_MATH) return invalid(__func__);
    c->math = mathType;
    return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnGetConvolutionMathType(cudnnConvolutionDescriptor_t conv,
                                          cudnnMathType_t *mathType) {
    const cudnnConvolutionStruct *c = convolutions.find(conv);
    if (!c || !mathType) return invalid(__func__);
    *mathType = c->math;
    return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnSetPooling2dDescriptor(
    cudnnPoolingDescriptor_t pooling, cudnnPoolingMode_t mode,
    cudnnNanPropagation_t maxpoolingNanOpt, int windowHeight, int windowWidth,
    int verticalPadding, int horizontalPadding, int verticalStride,
    int horizontalStride) {
    cudnnPoolingStruct *p = poolings.find(pooling);
    if (!p || (unsigned)mode > 3) return invalid(__func__);
    const int least =
        std::min({windowHeight, windowWidth, verticalStride, horizontalStride,
                  verticalPadding + 1, horizontalPadding + 1});
    if (least < 1 || verticalPadding >= windowHeight ||
        horizontalPadding >= windowWidth)
        return fail(CUDNN_STATUS_BAD_PARAM,
                    "%s: window %d x %d, padding %d, %d, strides %d, %d: "
                    "expected padding from 0 to below the window, and the "
                    "others above 0",
                    __func__, windowHeight, windowWidth, verticalPadding,
                    horizontalPadding, verticalStride, horizontalStride);
    *p = {mode,
          maxpoolingNanOpt == CUDNN_PROPAGATE_NAN,
          {windowHeight, windowWidth},
          {verticalPadding, horizontalPadding},
          {verticalStride, horizontalStride},
          true};
    return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t
cudnnSetActivationDescriptor(cudnnActivationDescriptor_t activation,
                             cudnnActivationMode_t mode,
                             cudnnNanPropagation_t reluNanOpt, double coef) {
    cudnnActivationStruct *a = activations.find(activation);
    if (!a || (unsigned)mode > CUDNN_ACTIVATION_SWISH) return invalid(__func__);
    *a = {mode, reluNanOpt == CUDNN_PROPAGATE_NAN, coef, true};
    if (mode == CUDNN_ACTIVATION_SWISH && coef == 0) a->coef = 1;
    return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t
cudnnSetActivationDescriptorSwishBeta(cudnnActivationDescriptor_t activation,
                                      double swish_beta) {
    cudnnActivationStruct *a = activations.find(activation);
    if (!a || !a->set) return invalid(__func__);
    a->coef = swish_beta;
    return CUDNN_STATUS_SUCCESS;
}
