/* cudnn_convolution.cpp -- the convolutions of cuDNN on the CPU; see cudnn.h.
 *
 * A convolution is a matrix product (Chellapilla, Puri, Simard, "High
 * performance convolutional neural networks for document processing", 2006).
 * The matrix `columns` has a row for each weight of an output channel and a
 * column for each output pixel of some images; it contains the input under that
 * weight. All three products read or write it:
 *
 *     forward            y = weights columns
 *     gradient of x      columns = weights^T dy, whose elements are added to dx
 *     gradient of w      dw = dy columns^T */
/* g++: -O3 */
#include <string.h>

#include <algorithm>
#include <memory>
#include <new>

#include "cudnn_context.h"
#include "gemm.h"

namespace weft_dnn {

enum { CHUNK = 1 << 21 }; /* elements of `columns` */

/* A convolution's shapes. `y` has the shape of the output. */
struct Convolution {
    cudnnConvolutionStruct c;
    Tensor x, y;
    cudnnFilterStruct w;

    int channels() const { return w.size[1]; }           /* of a group */
    int outputs() const { return w.size[0] / c.groups; } /* of a group */
    long weights() const { return (long)w.size[1] * w.size[2] * w.size[3]; }
    long pixels() const { return (long)y.size[2] * y.size[3]; }
    /* The number of images whose columns are computed together. */
    long together() const {
        const long most = CHUNK / (weights() * pixels());
        return std::max(1l, std::min(most, (long)x.size[0]));
    }
};

/* Return the number of outputs along an axis; 0 if the filter does not fit. */
static int outputs(const cudnnConvolutionStruct &c, int axis, int x, int w) {
    const int left = x + 2 * c.pad[axis] - (c.dilation[axis] * (w - 1) + 1);
    return left < 0 ? 0 : 1 + left / c.step[axis];
}

static bool output_size(const cudnnConvolutionStruct &c, const Tensor &x,
                        const Tensor &w, int size[4]) {
    size[0] = x.size[0];
    size[1] = w.size[0];
    size[2] = outputs(c, 0, x.size[2], w.size[2]);
    size[3] = outputs(c, 1, x.size[3], w.size[3]);
    return x.size[1] == w.size[1] * c.groups && w.size[0] % c.groups == 0 &&
           size[2] > 0 && size[3] > 0;
}

/* Require that the shapes fit. */
static void check(Call &call, const Convolution &v) {
    int size[4];
    if (call.status) return;
    call.require(output_size(v.c, v.x, v.w, size),
                 "the filter does not fit the input: its channels times the "
                 "groups must be the input's");
    call.require(std::equal(size, size + 4, v.y.size),
                 "the output's shape is not that of "
                 "cudnnGetConvolution2dForwardOutputDim()");
    if (!call.status && v.c.type != CUDNN_DATA_FLOAT)
        call.status =
            fail(CUDNN_STATUS_NOT_SUPPORTED,
                 "%s: the CPU version computes in CUDNN_DATA_FLOAT", call.name);
}

/* ---- copies -------------------------------------------------------------- */

/* Call f(row, column, c, y, start) for each part of an image's columns: a row
 * of the output's pixels under one weight. `row` and `column` are the place of
 * its first element in the matrix. That element is the input's element (c, y,
 * start), which may lie in the padding. */
template <class F> static void each_part(const Convolution &v, F f) {
    for (int c = 0; c < v.channels(); c++)
        for (int r = 0; r < v.w.size[2]; r++)
            for (int s = 0; s < v.w.size[3]; s++)
                for (int h = 0; h < v.y.size[2]; h++) {
                    const long row =
                        ((long)c * v.w.size[2] + r) * v.w.size[3] + s;
                    const int y =
                        h * v.c.step[0] + r * v.c.dilation[0] - v.c.pad[0];
                    f(row, (long)h * v.y.size[3], c, y,
                      s * v.c.dilation[1] - v.c.pad[1]);
                }
}

/* The columns of a part that lie inside the input, not in its padding. */
struct Range {
    int first, end;

    Range(const Convolution &v, int start) {
        const int step = v.c.step[1], all = v.y.size[3];
        first = start < 0 ? std::min(all, (-start + step - 1) / step) : 0;
        const int left = v.x.size[3] - start;
        end = left > 0 ? std::min(all, (left + step - 1) / step) : 0;
        end = std::max(end, first);
    }
};

/* Write the columns of `count` images, from image `first` on. */
static void gather_columns(const Convolution &v, const float *x, int group,
                           long first, long count, float *columns) {
    const long width = count * v.pixels();
#pragma omp parallel for num_threads(simt_threads())
    for (long i = 0; i < count; i++)
        each_part(v, [&](long row, long column, int c, int y, int start) {
            float *to = columns + row * width + i * v.pixels() + column;
            const int end = v.y.size[3], step = v.c.step[1];
            const long stride = v.x.stride[3];
            if (y < 0 || y >= v.x.size[2]) {
                memset(to, 0, (size_t)end * sizeof *to);
                return;
            }
            const float *from =
                x + v.x.at(first + i, group * v.channels() + c, y, 0);
            const Range inside(v, start);
            std::fill(to, to + inside.first, 0.0f);
            std::fill(to + inside.end, to + end, 0.0f);
            for (int j = inside.first; j < inside.end; j++)
                to[j] = from[(start + j * step) * stride];
        });
}

/* Add the columns of one image to its part of dx (c,h,w), without gaps. */
static void add_columns(const Convolution &v, const float *columns, long width,
                        float *dx) {
    memset(dx, 0, sizeof *dx * v.channels() * v.x.size[2] * v.x.size[3]);
    each_part(v, [&](long row, long column, int c, int y, int start) {
        if (y < 0 || y >= v.x.size[2]) return;
        const float *from = columns + row * width + column;
        float *to = dx + ((long)c * v.x.size[2] + y) * v.x.size[3];
        const Range inside(v, start);
        const int step = v.c.step[1];
        for (int j = inside.first; j < inside.end; j++)
            to[start + j * step] += from[j];
    });
}

/* Call f(offset) for each weight of the group in the order (outputs,weights),
 * with the filter turned for a convolution. */
template <class F>
static void each_weight(const Convolution &v, int group, F f) {
    const bool turned = v.c.mode == CUDNN_CONVOLUTION;
    const int height = v.w.size[2], width = v.w.size[3];
    for (int k = 0; k < v.outputs(); k++)
        for (int c = 0; c < v.channels(); c++)
            for (int r = 0; r < height; r++)
                for (int s = 0; s < width; s++)
                    f(v.w.at(group * v.outputs() + k, c,
                             turned ? height - 1 - r : r,
                             turned ? width - 1 - s : s));
}

static void pack_weights(const Convolution &v, const float *w, int group,
                         float *to) {
    each_weight(v, group, [&](long at) { *to++ = w[at]; });
}

/* Call f(k, i, h, w, address) for the outputs of `count` images, which are in
 * a matrix (outputs, count * pixels). */
template <class F>
static void each_output(const Convolution &v, long count, float *matrix, F f) {
    const long width = count * v.pixels();
#pragma omp parallel for num_threads(simt_threads()) collapse(2)
    for (int k = 0; k < v.outputs(); k++)
        for (long i = 0; i < count; i++) {
            float *at = matrix + k * width + i * v.pixels();
            for (int h = 0; h < v.y.size[2]; h++)
                for (int w = 0; w < v.y.size[3]; w++) f(k, i, h, w, at++);
        }
}

/* ---- products ------------------------------------------------------------ */

/* Compute c (m,n) = a b + beta c, all row-major. `a_turned`, `b_turned`:
 * whether the array holds the factor's transpose. */
static void multiply(float *c, const float *a, const float *b, long m, long n,
                     long k, bool a_turned, bool b_turned, float beta) {
    struct gemm g = {};
    g.m = (int)m, g.n = (int)n, g.k = (int)k;
    g.alpha = 1, g.beta = beta;
    g.a = {(void *)a, GEMM_F32, a_turned ? 1 : k, a_turned ? m : 1};
    g.b = {(void *)b, GEMM_F32, b_turned ? 1 : n, b_turned ? k : 1};
    g.c = g.d = {c, GEMM_F32, n, 1};
    g.threads = simt_threads();
    if (weft_gemm(&g)) throw std::bad_alloc(); // Call::submit() catches it
}

typedef std::unique_ptr<float[]> Floats;
static Floats floats(long count) { return Floats(new float[count]); }

/* Call f(k, n, h, w, value) for each element of the output. */
template <class F>
static void forward(const Convolution &v, const float *x, const float *w, F f) {
    const long most = v.together();
    Floats columns = floats(v.weights() * most * v.pixels());
    Floats packed = floats(v.outputs() * v.weights());
    Floats out = floats(v.outputs() * most * v.pixels());
    for (int group = 0; group < v.c.groups; group++) {
        pack_weights(v, w, group, packed.get());
        for (long i = 0; i < v.x.size[0]; i += most) {
            const long count = std::min(most, v.x.size[0] - i);
            gather_columns(v, x, group, i, count, columns.get());
            multiply(out.get(), packed.get(), columns.get(), v.outputs(),
                     count * v.pixels(), v.weights(), false, false, 0);
            each_output(v, count, out.get(),
                        [&](int k, long j, int h, int u, const float *at) {
                            f(group * v.outputs() + k, i + j, h, u, *at);
                        });
        }
    }
}

static void gather_outputs(const Convolution &v, const float *dy, int group,
                           long first, long count, float *to) {
    each_output(v, count, to, [&](int k, long j, int h, int u, float *at) {
        *at = dy[v.y.at(first + j, group * v.outputs() + k, h, u)];
    });
}

static void backward_data(const Convolution &v, const float *w, const float *dy,
                          float *dx, float alpha, float beta) {
    const long most = v.together();
    const long image = (long)v.channels() * v.x.size[2] * v.x.size[3];
    Floats columns = floats(v.weights() * most * v.pixels());
    Floats packed = floats(v.outputs() * v.weights());
    Floats out = floats(v.outputs() * most * v.pixels());
    Floats sums = floats(most * image);
    for (int group = 0; group < v.c.groups; group++) {
        pack_weights(v, w, group, packed.get());
        for (long i = 0; i < v.x.size[0]; i += most) {
            const long count = std::min(most, v.x.size[0] - i);
            const long width = count * v.pixels();
            gather_outputs(v, dy, group, i, count, out.get());
            multiply(columns.get(), packed.get(), out.get(), v.weights(), width,
                     v.outputs(), true, false, 0);
#pragma omp parallel for num_threads(simt_threads())
            for (long j = 0; j < count; j++) {
                float *sum = sums.get() + j * image;
                add_columns(v, columns.get() + j * v.pixels(), width, sum);
                for (int c = 0; c < v.channels(); c++)
                    for (int h = 0; h < v.x.size[2]; h++)
                        for (int u = 0; u < v.x.size[3]; u++)
                            blend(dx + v.x.at(i + j, group * v.channels() + c,
                                              h, u),
                                  alpha, *sum++, beta);
            }
        }
    }
}

static void backward_filter(const Convolution &v, const float *x,
                            const float *dy, float *dw, float alpha,
                            float beta) {
    const long most = v.together();
    Floats columns = floats(v.weights() * most * v.pixels());
    Floats out = floats(v.outputs() * most * v.pixels());
    Floats sums = floats(v.outputs() * v.weights());
    for (int group = 0; group < v.c.groups; group++) {
        for (long i = 0; i < v.x.size[0]; i += most) {
            const long count = std::min(most, v.x.size[0] - i);
            gather_columns(v, x, group, i, count, columns.get());
            gather_outputs(v, dy, group, i, count, out.get());
            multiply(sums.get(), out.get(), columns.get(), v.outputs(),
                     v.weights(), count * v.pixels(), false, true, i > 0);
        }
        const float *sum = sums.get();
        each_weight(v, group,
                    [&](long at) { blend(dw + at, alpha, *sum++, beta); });
    }
}

} // namespace weft_dnn

using namespace weft_dnn;

/* ---- calls --------------------------------------------------------------- */

cudnnStatus_t cudnnConvolutionForward(
    cudnnHandle_t handle, const void *alpha, cudnnTensorDescriptor_t xDesc,
    const void *x, cudnnFilterDescriptor_t wDesc, const void *w,
    cudnnConvolutionDescriptor_t conv, cudnnConvolutionFwdAlgo_t, void *,
    size_t, const void *beta, cudnnTensorDescriptor_t yDesc, void *y) {
    Call call(__func__, handle);
    Convolution v;
    v.c = call.object(convolutions, "convDesc", conv);
    v.x = call.tensor("x", xDesc, x, Argument::READ);
    v.w = call.filter("w", wDesc, w, Argument::READ);
    v.y = call.tensor("y", yDesc, y, Argument::WRITE);
    const float a = call.scalar("alpha", alpha), b = call.scalar("beta", beta);
    check(call, v);
    return call.submit([=] {
        forward(v, (const float *)x, (const float *)w,
                [&](long k, long n, long h, long u, float value) {
                    blend((float *)y + v.y.at(n, k, h, u), a, value, b);
                });
    });
}

cudnnStatus_t cudnnConvolutionBiasActivationForward(
    cudnnHandle_t handle, const void *alpha1, cudnnTensorDescriptor_t xDesc,
    const void *x, cudnnFilterDescriptor_t wDesc, const void *w,
    cudnnConvolutionDescriptor_t conv, cudnnConvolutionFwdAlgo_t, void *,
    size_t, const void *alpha2, cudnnTensorDescriptor_t zDesc, const void *z,
    cudnnTensorDescriptor_t biasDesc, const void *bias,
    cudnnActivationDescriptor_t activation, cudnnTensorDescriptor_t yDesc,
    void *y) {
    Call call(__func__, handle);
    Convolution v;
    v.c = call.object(convolutions, "convDesc", conv);
    v.x = call.tensor("x", xDesc, x, Argument::READ);
    v.w = call.filter("w", wDesc, w, Argument::READ);
    v.y = call.tensor("y", yDesc, y, Argument::WRITE);
    const float a = call.scalar("alpha1", alpha1);
    const float b = call.scalar("alpha2", alpha2);
    const Tensor added = call.tensor("z", zDesc, z, Argument::READ);
    const Tensor biases = call.tensor("bias", biasDesc, bias, Argument::READ);
    const auto f = call.object(activations, "activationDesc", activation);
    check(call, v);
    call.require(added.same_size(v.y), "z and y have different shapes");
    call.require(biases.count() == v.y.size[1] && biases.size[1] == v.y.size[1],
                 "the bias is not (1,c,1,1)");
    return call.submit([=] {
        forward(v, (const float *)x, (const float *)w,
                [&](long k, long n, long h, long u, float value) {
                    float sum = a * value;
                    if (b != 0)
                        sum += b * ((const float *)z)[added.at(n, k, h, u)];
                    sum += ((const float *)bias)[biases.at(0, k, 0, 0)];
                    ((float *)y)[v.y.at(n, k, h, u)] = activate(f, sum);
                });
    });
}

cudnnStatus_t cudnnConvolutionBackwardData(
    cudnnHandle_t handle, const void *alpha, cudnnFilterDescriptor_t wDesc,
    const void *w, cudnnTensorDescriptor_t dyDesc, const void *dy,
    cudnnConvolutionDescriptor_t conv, cudnnConvolutionBwdDataAlgo_t, void *,
    size_t, const void *beta, cudnnTensorDescriptor_t dxDesc, void *dx) {
    Call call(__func__, handle);
    Convolution v;
    v.c = call.object(convolutions, "convDesc", conv);
    v.w = call.filter("w", wDesc, w, Argument::READ);
    v.y = call.tensor("dy", dyDesc, dy, Argument::READ);
    v.x = call.tensor("dx", dxDesc, dx, Argument::WRITE);
    const float a = call.scalar("alpha", alpha), b = call.scalar("beta", beta);
    check(call, v);
    return call.submit([=] {
        backward_data(v, (const float *)w, (const float *)dy, (float *)dx, a,
                      b);
    });
}

cudnnStatus_t cudnnConvolutionBackwardFilter(
    cudnnHandle_t handle, const void *alpha, cudnnTensorDescriptor_t xDesc,
    const void *x, cudnnTensorDescriptor_t dyDesc, const void *dy,
    cudnnConvolutionDescriptor_t conv, cudnnConvolutionBwdFilterAlgo_t, void *,
    size_t, const void *beta, cudnnFilterDescriptor_t dwDesc, void *dw) {
    Call call(__func__, handle);
    Convolution v;
    v.c = call.object(convolutions, "convDesc", conv);
    v.x = call.tensor("x", xDesc, x, Argument::READ);
    v.y = call.tensor("dy", dyDesc, dy, Argument::READ);
    v.w = call.filter("dw", dwDesc, dw, Argument::WRITE);
    const float a = call.scalar("alpha", alpha), b = call.scalar("beta", beta);
    check(call, v);
    return call.submit([=] {
        backward_filter(v, (const float *)x, (const float *)dy, (float *)dw, a,
                        b);
    });
}

cudnnStatus_t cudnnConvolutionBackwardBias(cudnnHandle_t handle,
                                           const void *alpha,
                                           cudnnTensorDescriptor_t dyDesc,
                                           const void *dy, const void *beta,
                                           cudnnTensorDescriptor_t dbDesc,
                                           void *db) {
    Call call(__func__, handle);
    const Tensor t = call.tensor("dy", dyDesc, dy, Argument::READ);
    const Tensor sums = call.tensor("db", dbDesc, db, Argument::WRITE);
    const float a = call.scalar("alpha", alpha), b = call.scalar("beta", beta);
    call.require(sums.count() == t.size[1] && sums.size[1] == t.size[1],
                 "db is not (1,c,1,1)");
    return call.submit([=] {
#pragma omp parallel for num_threads(simt_threads())
        for (int c = 0; c < t.size[1]; c++) {
            double sum = 0;
            for (int n = 0; n < t.size[0]; n++)
                for (int h = 0; h < t.size[2]; h++)
                    for (int w = 0; w < t.size[3]; w++)
                        sum += ((const float *)dy)[t.at(n, c, h, w)];
            blend((float *)db + sums.at(0, c, 0, 0), a, (float)sum, b);
        }
    });
}

cudnnStatus_t cudnnGetConvolution2dForwardOutputDim(
    cudnnConvolutionDescriptor_t conv, cudnnTensorDescriptor_t x,
    cudnnFilterDescriptor_t filter, int *n, int *c, int *h, int *w) {
    const cudnnConvolutionStruct *convolution = convolutions.find(conv);
    const Tensor *t = tensors.find(x), *f = filters.find(filter);
    int size[4];
    if (!convolution || !convolution->set || !t || !f || !n || !c || !h || !w)
        return invalid(__func__);
    if (!output_size(*convolution, *t, *f, size))
        return fail(CUDNN_STATUS_BAD_PARAM,
                    "%s: a filter (%d,%d,%d,%d) in %d groups does not fit an "
                    "input (%d,%d,%d,%d)",
                    __func__, f->size[0], f->size[1], f->size[2], f->size[3],
                    convolution->groups, t->size[0], t->size[1], t->size[2],
                    t->size[3]);
    *n = size[0], *c = size[1], *h = size[2], *w = size[3];
    return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnGetConvolutionNdForwardOutputDim(
    cudnnConvolutionDescriptor_t conv, cudnnTensorDescriptor_t x,
    cudnnFilterDescriptor_t filter, int nbDims, int tensorOuputDimA[]) {
    if (nbDims != 4 || !tensorOuputDimA)
        return fail(CUDNN_STATUS_BAD_PARAM, "%s: %d dimensions, expected 4",
                    __func__, nbDims);
    return cudnnGetConvolution2dForwardOutputDim(
        conv, x, filter, tensorOuputDimA, tensorOuputDimA + 1,
        tensorOuputDimA + 2, tensorOuputDimA + 3);
}

/* ---- choosing an algorithm ----------------------------------------------- */

template <class Perf>
static cudnnStatus_t choose(const char *name, cudnnHandle_t handle,
                            int requested, int *returned, Perf *results) {
    Call call(name, handle);
    call.require(requested > 0 && returned && results, "no room for a result");
    if (call.status) return call.status;
    *returned = 1;
    *results = Perf();
    results->time = -1;
    results->determinism = CUDNN_DETERMINISTIC;
    results->mathType = CUDNN_FMA_MATH;
    return CUDNN_STATUS_SUCCESS;
}

static cudnnStatus_t report_no_workspace(const char *name, cudnnHandle_t handle,
                                         size_t *size) {
    Call call(name, handle);
    call.require(size, "sizeInBytes is NULL");
    if (!call.status) *size = 0;
    return call.status;
}

/* The functions of one direction: A and B are the inputs, C is the output. */
#define SEARCHES(Direction, Perf, Algo, A, B, C)                               \
    cudnnStatus_t cudnnGetConvolution##Direction##Algorithm_v7(                \
        cudnnHandle_t handle, A, B, cudnnConvolutionDescriptor_t, C,           \
        int requested, int *returned, Perf *results) {                         \
        return choose(__func__, handle, requested, returned, results);         \
    }                                                                          \
    cudnnStatus_t cudnnFindConvolution##Direction##Algorithm(                  \
        cudnnHandle_t handle, A, B, cudnnConvolutionDescriptor_t, C,           \
        int requested, int *returned, Perf *results) {                         \
        return choose(__func__, handle, requested, returned, results);         \
    }                                                                          \
    cudnnStatus_t cudnnFindConvolution##Direction##AlgorithmEx(                \
        cudnnHandle_t handle, A, const void *, B, const void *,                \
        cudnnConvolutionDescriptor_t, C, void *, int requested, int *returned, \
        Perf *results, void *, size_t) {                                       \
        return choose(__func__, handle, requested, returned, results);         \
    }                                                                          \
    cudnnStatus_t cudnnGetConvolution##Direction##AlgorithmMaxCount(           \
        cudnnHandle_t handle, int *count) {                                    \
        Call call(__func__, handle);                                           \
        call.require(count, "count is NULL");                                  \
        if (!call.status) *count = 1;                                          \
        return call.status;                                                    \
    }                                                                          \
    cudnnStatus_t cudnnGetConvolution##Direction##WorkspaceSize(               \
        cudnnHandle_t handle, A, B, cudnnConvolutionDescriptor_t, C, Algo,     \
        size_t *size) {                                                        \
        return report_no_workspace(__func__, handle, size);                    \
    }
SEARCHES(Forward, cudnnConvolutionFwdAlgoPerf_t, cudnnConvolutionFwdAlgo_t,
         cudnnTensorDescriptor_t, cudnnFilterDescriptor_t,
         cudnnTensorDescriptor_t)
SEARCHES(BackwardData, cudnnConvolutionBwdDataAlgoPerf_t,
         cudnnConvolutionBwdDataAlgo_t, cudnnFilterDescriptor_t,
         cudnnTensorDescriptor_t, cudnnTensorDescriptor_t)
SEARCHES(BackwardFilter, cudnnConvolutionBwdFilterAlgoPerf_t,
         cudnnConvolutionBwdFilterAlgo_t, cudnnTensorDescriptor_t,
         cudnnTensorDescriptor_t, cudnnFilterDescriptor_t)
#undef SEARCHES
