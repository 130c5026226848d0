/* cudnn_layers.cpp -- pooling, activations, softmax and sums of tensors of
 * cuDNN on the CPU; see cudnn.h. */
#include <math.h>

#include <algorithm>

#include "cudnn_context.h"

using namespace weft_dnn;

namespace weft_dnn {

float activate(const cudnnActivationStruct &f, float x) {
    const float coef = (float)f.coef;
    if (x != x && f.propagates_nan) return x;
    switch (f.mode) {
    case CUDNN_ACTIVATION_SIGMOID: return 1 / (1 + expf(-x));
    case CUDNN_ACTIVATION_RELU: return x > 0 ? x : 0;
    case CUDNN_ACTIVATION_TANH: return tanhf(x);
    case CUDNN_ACTIVATION_CLIPPED_RELU: return x > 0 ? std::min(x, coef) : 0;
    case CUDNN_ACTIVATION_ELU: return x > 0 ? x : coef * expm1f(x);
    case CUDNN_ACTIVATION_IDENTITY: return x;
    case CUDNN_ACTIVATION_SWISH: return x / (1 + expf(-coef * x));
    }
    return x;
}

float slope(const cudnnActivationStruct &f, float x, float y) {
    const float coef = (float)f.coef;
    switch (f.mode) {
    case CUDNN_ACTIVATION_SIGMOID: return y * (1 - y);
    case CUDNN_ACTIVATION_RELU: return x > 0;
    case CUDNN_ACTIVATION_TANH: return (1 - y) * (1 + y);
    case CUDNN_ACTIVATION_CLIPPED_RELU: return x > 0 && x < coef;
    case CUDNN_ACTIVATION_ELU: return x > 0 ? 1 : coef * expf(x);
    case CUDNN_ACTIVATION_IDENTITY: return 1;
    case CUDNN_ACTIVATION_SWISH: {
        const float s = 1 / (1 + expf(-coef * x));
        return s + coef * x * s * (1 - s);
    }
    }
    return 1;
}

} // namespace weft_dnn

/* ---- sums of tensors ----------------------------------------------------- */

cudnnStatus_t cudnnSetTensor(cudnnHandle_t handle,
                             cudnnTensorDescriptor_t yDesc, void *y,
                             const void *value) {
    Call call(__func__, handle);
    const Tensor t = call.tensor("y", yDesc, y, Argument::WRITE);
    const float a = call.scalar("valuePtr", value);
    return call.submit([=] {
        each(t, [&](long n, long c, long h, long w) {
            ((float *)y)[t.at(n, c, h, w)] = a;
        });
    });
}

cudnnStatus_t cudnnScaleTensor(cudnnHandle_t handle,
                               cudnnTensorDescriptor_t yDesc, void *y,
                               const void *alpha) {
    Call call(__func__, handle);
    const Tensor t = call.tensor("y", yDesc, y, Argument::WRITE);
    const float a = call.scalar("alpha", alpha);
    return call.submit([=] {
        each(t, [&](long n, long c, long h, long w) {
            ((float *)y)[t.at(n, c, h, w)] *= a;
        });
    });
}

/* Write alpha * from + beta * to. `repeats`: whether a dimension of `from` may
 * be 1; its element is then repeated. */
static cudnnStatus_t add(Call &call, const void *alpha, const Tensor &from,
                         const void *x, const void *beta, const Tensor &to,
                         void *y, bool repeats) {
    const float a = call.scalar("alpha", alpha), b = call.scalar("beta", beta);
    Tensor wide = from;
    for (int i = 0; i < 4; i++) {
        const bool is_one = repeats && from.size[i] == 1;
        call.require(from.size[i] == to.size[i] || is_one,
                     repeats ? "each dimension of A must be C's or 1"
                             : "x and y have different shapes");
        if (is_one) wide.stride[i] = 0;
    }
    return call.submit([=] {
        each(to, [&](long n, long c, long h, long w) {
            blend((float *)y + to.at(n, c, h, w), a,
                  ((const float *)x)[wide.at(n, c, h, w)], b);
        });
    });
}

cudnnStatus_t cudnnAddTensor(cudnnHandle_t handle, const void *alpha,
                             cudnnTensorDescriptor_t aDesc, const void *A,
                             const void *beta, cudnnTensorDescriptor_t cDesc,
                             void *C) {
    Call call(__func__, handle);
    const Tensor from = call.tensor("A", aDesc, A, Argument::READ);
    const Tensor to = call.tensor("C", cDesc, C, Argument::WRITE);
    return add(call, alpha, from, A, beta, to, C, true);
}

cudnnStatus_t cudnnTransformTensor(cudnnHandle_t handle, const void *alpha,
                                   cudnnTensorDescriptor_t xDesc, const void *x,
                                   const void *beta,
                                   cudnnTensorDescriptor_t yDesc, void *y) {
    Call call(__func__, handle);
    const Tensor from = call.tensor("x", xDesc, x, Argument::READ);
    const Tensor to = call.tensor("y", yDesc, y, Argument::WRITE);
    return add(call, alpha, from, x, beta, to, y, false);
}

/* ---- activations --------------------------------------------------------- */

/* cuDNN has the identity only in cudnnConvolutionBiasActivationForward(). */
static void check_mode(Call &call, const cudnnActivationStruct &f) {
    call.require(f.mode != CUDNN_ACTIVATION_IDENTITY,
                 "CUDNN_ACTIVATION_IDENTITY is only for "
                 "cudnnConvolutionBiasActivationForward()");
}

cudnnStatus_t cudnnActivationForward(cudnnHandle_t handle,
                                     cudnnActivationDescriptor_t activation,
                                     const void *alpha,
                                     cudnnTensorDescriptor_t xDesc,
                                     const void *x, const void *beta,
                                     cudnnTensorDescriptor_t yDesc, void *y) {
    Call call(__func__, handle);
    const auto f = call.object(activations, "activationDesc", activation);
    const Tensor from = call.tensor("x", xDesc, x, Argument::READ);
    const Tensor to = call.tensor("y", yDesc, y, Argument::WRITE);
    const float a = call.scalar("alpha", alpha), b = call.scalar("beta", beta);
    check_mode(call, f);
    call.require(from.same_size(to), "x and y have different shapes");
    return call.submit([=] {
        each(to, [&](long n, long c, long h, long w) {
            blend((float *)y + to.at(n, c, h, w), a,
                  activate(f, ((const float *)x)[from.at(n, c, h, w)]), b);
        });
    });
}

cudnnStatus_t cudnnActivationBackward(
    cudnnHandle_t handle, cudnnActivationDescriptor_t activation,
    const void *alpha, cudnnTensorDescriptor_t yDesc, const void *y,
    cudnnTensorDescriptor_t dyDesc, const void *dy,
    cudnnTensorDescriptor_t xDesc, const void *x, const void *beta,
    cudnnTensorDescriptor_t dxDesc, void *dx) {
    Call call(__func__, handle);
    const auto f = call.object(activations, "activationDesc", activation);
    const Tensor ty = call.tensor("y", yDesc, y, Argument::READ);
    const Tensor tdy = call.tensor("dy", dyDesc, dy, Argument::READ);
    const Tensor tx = call.tensor("x", xDesc, x, Argument::READ);
    const Tensor to = call.tensor("dx", dxDesc, dx, Argument::WRITE);
    const float a = call.scalar("alpha", alpha), b = call.scalar("beta", beta);
    check_mode(call, f);
    call.require(ty.same_size(to) && tdy.same_size(to) && tx.same_size(to),
                 "y, dy, x and dx have different shapes");
    return call.submit([=] {
        each(to, [&](long n, long c, long h, long w) {
            const float d = slope(f, ((const float *)x)[tx.at(n, c, h, w)],
                                  ((const float *)y)[ty.at(n, c, h, w)]);
            blend((float *)dx + to.at(n, c, h, w), a,
                  d * ((const float *)dy)[tdy.at(n, c, h, w)], b);
        });
    });
}

/* ---- pooling ------------------------------------------------------------- */

static bool output_size(const cudnnPoolingStruct &p, const Tensor &x,
                        int size[4]) {
    size[0] = x.size[0], size[1] = x.size[1];
    for (int i = 0; i < 2; i++) {
        const int left = x.size[2 + i] + 2 * p.pad[i] - p.window[i];
        size[2 + i] = left < 0 ? 0 : 1 + left / p.step[i];
    }
    return size[2] > 0 && size[3] > 0;
}

static void check(Call &call, const cudnnPoolingStruct &p, const Tensor &x,
                  const Tensor &y) {
    int size[4];
    if (call.status) return;
    call.require(output_size(p, x, size), "the window does not fit the input");
    call.require(std::equal(size, size + 4, y.size),
                 "the output's shape is not that of "
                 "cudnnGetPooling2dForwardOutputDim()");
}

static bool is_max(const cudnnPoolingStruct &p) {
    return p.mode == CUDNN_POOLING_MAX ||
           p.mode == CUDNN_POOLING_MAX_DETERMINISTIC;
}

/* The part of a window that lies inside the input. */
struct Window {
    int first[2], end[2];
    int counted; /* number of elements in an average */

    Window(const cudnnPoolingStruct &p, const Tensor &x, long h, long w) {
        const long at[] = {h, w};
        for (int i = 0; i < 2; i++) {
            const int start = (int)at[i] * p.step[i] - p.pad[i];
            first[i] = std::max(start, 0);
            end[i] = std::min(start + p.window[i], x.size[2 + i]);
        }
        counted = p.mode == CUDNN_POOLING_AVERAGE_COUNT_INCLUDE_PADDING
                      ? p.window[0] * p.window[1]
                      : std::max(1, (end[0] - first[0]) * (end[1] - first[1]));
    }
    template <class F> void each(F f) const {
        for (int h = first[0]; h < end[0]; h++)
            for (int w = first[1]; w < end[1]; w++) f(h, w);
    }
};

/* Find the maximum of a window, and its place. */
static float find_max(const cudnnPoolingStruct &p, const Window &window,
                      const Tensor &t, const float *x, long n, long c, int *row,
                      int *column) {
    float most = -INFINITY;
    *row = -1;
    window.each([&](int h, int w) {
        const float value = x[t.at(n, c, h, w)];
        const bool is_nan = value != value;
        if (*row >= 0 && most != most && p.propagates_nan) return;
        if (is_nan ? p.propagates_nan || *row < 0
                   : value > most || *row < 0 || most != most) {
            most = value;
            *row = h, *column = w;
        }
    });
    return most;
}

cudnnStatus_t cudnnPoolingForward(cudnnHandle_t handle,
                                  cudnnPoolingDescriptor_t pooling,
                                  const void *alpha,
                                  cudnnTensorDescriptor_t xDesc, const void *x,
                                  const void *beta,
                                  cudnnTensorDescriptor_t yDesc, void *y) {
    Call call(__func__, handle);
    const auto p = call.object(poolings, "poolingDesc", pooling);
    const Tensor from = call.tensor("x", xDesc, x, Argument::READ);
    const Tensor to = call.tensor("y", yDesc, y, Argument::WRITE);
    const float a = call.scalar("alpha", alpha), b = call.scalar("beta", beta);
    check(call, p, from, to);
    return call.submit([=] {
        each(to, [&](long n, long c, long h, long w) {
            const Window window(p, from, h, w);
            float value;
            int row, column;
            if (is_max(p)) {
                value = find_max(p, window, from, (const float *)x, n, c, &row,
                                 &column);
            } else {
                double sum = 0;
                window.each([&](int i, int j) {
                    sum += ((const float *)x)[from.at(n, c, i, j)];
                });
                value = (float)(sum / window.counted);
            }
            blend((float *)y + to.at(n, c, h, w), a, value, b);
        });
    });
}

cudnnStatus_t
cudnnPoolingBackward(cudnnHandle_t handle, cudnnPoolingDescriptor_t pooling,
                     const void *alpha, cudnnTensorDescriptor_t yDesc,
                     const void *y, cudnnTensorDescriptor_t dyDesc,
                     const void *dy, cudnnTensorDescriptor_t xDesc,
                     const void *x, const void *beta,
                     cudnnTensorDescriptor_t dxDesc, void *dx) {
    Call call(__func__, handle);
    const auto p = call.object(poolings, "poolingDesc", pooling);
    const Tensor ty = call.tensor("y", yDesc, y, Argument::READ);
    const Tensor tdy = call.tensor("dy", dyDesc, dy, Argument::READ);
    const Tensor tx = call.tensor("x", xDesc, x, Argument::READ);
    const Tensor to = call.tensor("dx", dxDesc, dx, Argument::WRITE);
    const float a = call.scalar("alpha", alpha), b = call.scalar("beta", beta);
    check(call, p, tx, ty);
    call.require(tdy.same_size(ty) && to.same_size(tx),
                 "dy and y, or dx and x, have different shapes");
    return call.submit([=] {
        const long planes = (long)tx.size[0] * tx.size[1];
        const long width = tx.size[3], count = tx.size[2] * width;
#pragma omp parallel for num_threads(simt_threads())
        for (long plane = 0; plane < planes; plane++) {
            const long n = plane / tx.size[1], c = plane % tx.size[1];
            std::vector<float> sums(count);
            for (int h = 0; h < ty.size[2]; h++)
                for (int w = 0; w < ty.size[3]; w++) {
                    const float g = ((const float *)dy)[tdy.at(n, c, h, w)];
                    const Window window(p, tx, h, w);
                    int row, column;
                    if (!is_max(p))
                        window.each([&](int i, int j) {
                            sums[i * width + j] += g / (float)window.counted;
                        });
                    else if (find_max(p, window, tx, (const float *)x, n, c,
                                      &row, &column),
                             row >= 0)
                        sums[row * width + column] += g;
                }
            for (int h = 0; h < tx.size[2]; h++)
                for (int w = 0; w < width; w++)
                    blend((float *)dx + to.at(n, c, h, w), a,
                          sums[h * width + w], b);
        }
    });
}

cudnnStatus_t
cudnnGetPooling2dForwardOutputDim(cudnnPoolingDescriptor_t pooling,
                                  cudnnTensorDescriptor_t x, int *n, int *c,
                                  int *h, int *w) {
    const cudnnPoolingStruct *p = poolings.find(pooling);
    const Tensor *t = tensors.find(x);
    int size[4];
    if (!p || !p->set || !t || !t->size[0] || !n || !c || !h || !w)
        return invalid(__func__);
    if (!output_size(*p, *t, size))
        return fail(CUDNN_STATUS_BAD_PARAM,
                    "%s: a window of %d x %d does not fit an input of %d x %d",
                    __func__, p->window[0], p->window[1], t->size[2],
                    t->size[3]);
    *n = size[0], *c = size[1], *h = size[2], *w = size[3];
    return CUDNN_STATUS_SUCCESS;
}

/* ---- softmax ------------------------------------------------------------- */

/* Call f(count, at) for each group of `count` numbers whose softmax is
 * computed. at(of, i) is the offset of the group's number i in the tensor `of`.
 */
template <class F>
static void each_group(const Tensor &t, cudnnSoftmaxMode_t mode, F f) {
    const bool whole = mode == CUDNN_SOFTMAX_MODE_INSTANCE;
    const long pixels = whole ? 1 : (long)t.size[2] * t.size[3];
    const long count = whole ? t.count() / t.size[0] : t.size[1];
#pragma omp parallel for num_threads(simt_threads()) \
    collapse(2) if (t.count() > 16384)
    for (long n = 0; n < t.size[0]; n++)
        for (long pixel = 0; pixel < pixels; pixel++)
            f(count, [=](const Tensor &of, long i) {
                const long w = t.size[3], area = t.size[2] * w;
                return whole ? of.at(n, i / area, i % area / w, i % w)
                             : of.at(n, i, pixel / w, pixel % w);
            });
}

cudnnStatus_t cudnnSoftmaxForward(cudnnHandle_t handle,
                                  cudnnSoftmaxAlgorithm_t algo,
                                  cudnnSoftmaxMode_t mode, const void *alpha,
                                  cudnnTensorDescriptor_t xDesc, const void *x,
                                  const void *beta,
                                  cudnnTensorDescriptor_t yDesc, void *y) {
    Call call(__func__, handle);
    const Tensor from = call.tensor("x", xDesc, x, Argument::READ);
    const Tensor to = call.tensor("y", yDesc, y, Argument::WRITE);
    const float a = call.scalar("alpha", alpha), b = call.scalar("beta", beta);
    call.require((unsigned)algo <= 2 && (unsigned)mode <= 1,
                 "invalid algorithm or mode");
    call.require(from.same_size(to), "x and y have different shapes");
    const bool log = algo == CUDNN_SOFTMAX_LOG;
    return call.submit([=] {
        each_group(to, mode, [&](long count, auto at) {
            const float *in = (const float *)x;
            float most = -INFINITY;
            double sum = 0;
            for (long i = 0; i < count; i++)
                most = std::max(most, in[at(from, i)]);
            for (long i = 0; i < count; i++)
                sum += exp((double)in[at(from, i)] - most);
            for (long i = 0; i < count; i++) {
                const double over = (double)in[at(from, i)] - most;
                const double value = log ? over - ::log(sum) : exp(over) / sum;
                blend((float *)y + at(to, i), a, (float)value, b);
            }
        });
    });
}

cudnnStatus_t cudnnSoftmaxBackward(cudnnHandle_t handle,
                                   cudnnSoftmaxAlgorithm_t algo,
                                   cudnnSoftmaxMode_t mode, const void *alpha,
                                   cudnnTensorDescriptor_t yDesc, const void *y,
                                   cudnnTensorDescriptor_t dyDesc,
                                   const void *dy, const void *beta,
                                   cudnnTensorDescriptor_t dxDesc, void *dx) {
    Call call(__func__, handle);
    const Tensor ty = call.tensor("y", yDesc, y, Argument::READ);
    const Tensor tdy = call.tensor("dy", dyDesc, dy, Argument::READ);
    const Tensor to = call.tensor("dx", dxDesc, dx, Argument::WRITE);
    const float a = call.scalar("alpha", alpha), b = call.scalar("beta", beta);
    call.require((unsigned)algo <= 2 && (unsigned)mode <= 1,
                 "invalid algorithm or mode");
    call.require(ty.same_size(to) && tdy.same_size(to),
                 "y, dy and dx have different shapes");
    const bool log = algo == CUDNN_SOFTMAX_LOG;
    return call.submit([=] {
        each_group(to, mode, [&](long count, auto at) {
            const float *out = (const float *)y, *grad = (const float *)dy;
            double sum = 0;
            for (long i = 0; i < count; i++)
                sum += grad[at(tdy, i)] * (log ? 1.0 : out[at(ty, i)]);
            for (long i = 0; i < count; i++) {
                const double g = grad[at(tdy, i)], o = out[at(ty, i)];
                const double value = log ? g - exp(o) * sum : o * (g - sum);
                blend((float *)dx + at(to, i), a, (float)value, b);
            }
        });
    });
}
