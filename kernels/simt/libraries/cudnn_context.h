/* cudnn_context.h -- descriptors, errors and loops over tensors, which the
 * files of cuDNN share. */
#ifndef WEFT_LIBRARIES_CUDNN_CONTEXT_H
#define WEFT_LIBRARIES_CUDNN_CONTEXT_H
#include <algorithm>
#include <functional>
#include <vector>

#include "api/cuda_library.h"
#include "cudnn.h"
#include "simt_runtime.h"

struct cudnnContext {
    cudaStream_t stream = 0;
};

/* A tensor or a filter with its dimensions n, c, h, w (of a filter: k, c, h,
 * w), and the distances between neighbours, in elements. */
struct cudnnTensorStruct {
    cudnnDataType_t type = CUDNN_DATA_FLOAT;
    int size[4] = {}; /* 0: not set */
    long stride[4] = {};

    long at(long n, long c, long h, long w) const {
        return n * stride[0] + c * stride[1] + h * stride[2] + w * stride[3];
    }
    long count() const { return (long)size[0] * size[1] * size[2] * size[3]; }
    /* The number of elements in memory from the first to the last one. */
    long reach() const {
        return at(size[0] - 1, size[1] - 1, size[2] - 1, size[3] - 1) + 1;
    }
    bool same_size(const cudnnTensorStruct &other) const {
        for (int i = 0; i < 4; i++)
            if (size[i] != other.size[i]) return false;
        return true;
    }
};

struct cudnnFilterStruct : cudnnTensorStruct {
    cudnnTensorFormat_t format = CUDNN_TENSOR_NCHW;
};

struct cudnnConvolutionStruct {
    int pad[2], step[2], dilation[2]; /* vertical, horizontal */
    cudnnConvolutionMode_t mode = CUDNN_CROSS_CORRELATION;
    cudnnDataType_t type = CUDNN_DATA_FLOAT;
    int groups = 1;
    cudnnMathType_t math = CUDNN_DEFAULT_MATH;
    bool set = false;
};

struct cudnnPoolingStruct {
    cudnnPoolingMode_t mode;
    bool propagates_nan;
    int window[2], pad[2], step[2];
    bool set = false;
};

struct cudnnActivationStruct {
    cudnnActivationMode_t mode;
    bool propagates_nan;
    double coef;
    bool set = false;
};

namespace weft_dnn {

typedef cudnnTensorStruct Tensor;
using simt::Argument;

extern simt::Handles<cudnnContext> &contexts;
extern simt::Handles<cudnnTensorStruct> &tensors;
extern simt::Handles<cudnnFilterStruct> &filters;
extern simt::Handles<cudnnConvolutionStruct> &convolutions;
extern simt::Handles<cudnnPoolingStruct> &poolings;
extern simt::Handles<cudnnActivationStruct> &activations;

/* Set the text of cudnnGetLastErrorString(), as printf() does, and return
 * `status`. */
__attribute__((format(printf, 2, 3))) cudnnStatus_t fail(cudnnStatus_t status,
                                                         const char *format,
                                                         ...);

/* Return the error of an invalid descriptor or pointer. */
cudnnStatus_t invalid(const char *function);

/* The tensors, filters and other objects of a call. The first one that is
 * invalid sets `status`. */
struct Call {
    const char *name; /* of the function */
    cudnnStatus_t status = CUDNN_STATUS_SUCCESS;
    cudaStream_t stream = 0;
    std::vector<Argument> arguments;

    Call(const char *name, cudnnHandle_t handle);
    /* Return a copy of the description of float32 data, and add the data to the
     * arguments. */
    Tensor tensor(const char *what, cudnnTensorDescriptor_t descriptor,
                  const void *data, Argument::Access access);
    cudnnFilterStruct filter(const char *what, cudnnFilterDescriptor_t filter,
                             const void *data, Argument::Access access);
    /* Require a condition on the shapes. */
    void require(bool condition, const char *why);
    /* Return the float at alpha or beta. */
    float scalar(const char *what, const void *at);
    /* Do the work, unless there was an error; return the call's status. */
    cudnnStatus_t submit(const std::function<void()> &work);

    /* Return a copy of the object that a program has created and set. */
    template <class T>
    T object(simt::Handles<T> &handles, const char *what, const void *at) {
        const T *value = handles.find(at);
        if (value && value->set) return *value;
        if (!status)
            status = fail(CUDNN_STATUS_BAD_PARAM,
                          "%s: the descriptor %s is not set", name, what);
        return T();
    }
};

/* Write alpha * value + beta * *y, without reading *y if beta is 0. */
inline void blend(float *y, float alpha, float value, float beta) {
    *y = beta == 0 ? alpha * value : alpha * value + beta * *y;
}

/* Call f(n, c, h, w) for each element of t. If `work` or t.count() is large,
 * threads divide the pairs (n,c) among themselves. work: the number of elements
 * that all calls handle together. */
template <class F> void each(const Tensor &t, F f, long work = 0) {
    const long planes = (long)t.size[0] * t.size[1];
#pragma omp parallel for num_threads( \
        simt_threads()) if (std::max(work, t.count()) > 16384)
    for (long plane = 0; plane < planes; plane++)
        for (long h = 0; h < t.size[2]; h++)
            for (long w = 0; w < t.size[3]; w++)
                f(plane / t.size[1], plane % t.size[1], h, w);
}

/* Return f(x), and the derivative of f at x, where y is f(x). */
float activate(const cudnnActivationStruct &f, float x);
float slope(const cudnnActivationStruct &f, float x, float y);

} // namespace weft_dnn
#endif
