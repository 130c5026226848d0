/* cudnn_norm.cpp -- batch norm of cuDNN on the CPU; see cudnn.h. */
#include <math.h>

#include "cudnn_context.h"

using namespace weft_dnn;

/* The shapes of a batch norm. Sums and statistics are doubles. */
struct Norm {
    Tensor x, bn; /* bn: (1,c,1,1) or (1,c,h,w) */

    /* The number of elements that share a mean. */
    double count() const { return (double)x.count() / (double)bn.count(); }

    /* Call f(n, i, j) for the elements (n,c,i,j) that share the mean
     * (0,c,h,w). */
    template <class F> void each(long h, long w, F f) const {
        const bool one = bn.size[2] == x.size[2] && bn.size[3] == x.size[3];
        const long first[] = {one ? h : 0, one ? w : 0};
        const long end[] = {one ? h + 1 : x.size[2], one ? w + 1 : x.size[3]};
        for (long n = 0; n < x.size[0]; n++)
            for (long i = first[0]; i < end[0]; i++)
                for (long j = first[1]; j < end[1]; j++) f(n, i, j);
    }
};

static void set_shape(const Tensor &x, cudnnBatchNormMode_t mode, Tensor *bn) {
    const bool each = mode == CUDNN_BATCHNORM_PER_ACTIVATION;
    bn->type = CUDNN_DATA_FLOAT;
    bn->size[0] = 1, bn->size[1] = x.size[1];
    bn->size[2] = each ? x.size[2] : 1, bn->size[3] = each ? x.size[3] : 1;
    bn->stride[3] = 1;
    for (int i = 2; i >= 0; i--)
        bn->stride[i] = bn->stride[i + 1] * bn->size[i + 1];
}

static void check(Call &call, cudnnBatchNormMode_t mode, const Norm &norm,
                  double epsilon) {
    Tensor expected;
    if (call.status) return;
    set_shape(norm.x, mode, &expected);
    call.require((unsigned)mode <= CUDNN_BATCHNORM_SPATIAL_PERSISTENT &&
                     norm.bn.same_size(expected),
                 "the parameters' shape is not that of "
                 "cudnnDeriveBNTensorDescriptor()");
    call.require(epsilon >= CUDNN_BN_MIN_EPSILON, "epsilon is negative");
}

cudnnStatus_t cudnnDeriveBNTensorDescriptor(cudnnTensorDescriptor_t derived,
                                            cudnnTensorDescriptor_t xDesc,
                                            cudnnBatchNormMode_t mode) {
    Tensor *to = tensors.find(derived);
    const Tensor *x = tensors.find(xDesc);
    if (!to || !x || !x->size[0] ||
        (unsigned)mode > CUDNN_BATCHNORM_SPATIAL_PERSISTENT)
        return fail(CUDNN_STATUS_BAD_PARAM, "%s: invalid descriptor or mode",
                    __func__);
    set_shape(*x, mode, to);
    return CUDNN_STATUS_SUCCESS;
}

/* Write (x - mean) * factor + bias. find(norm, c, h, w, &mean) computes the
 * mean (0,c,h,w), and returns its factor. */
template <class F>
static cudnnStatus_t
forward(Call &call, cudnnBatchNormMode_t mode, const void *alpha,
        const void *beta, cudnnTensorDescriptor_t xDesc, const void *x,
        cudnnTensorDescriptor_t yDesc, void *y, cudnnTensorDescriptor_t bnDesc,
        const void *bnScale, const void *bnBias, double epsilon, F find) {
    Norm norm;
    norm.x = call.tensor("x", xDesc, x, Argument::READ);
    const Tensor to = call.tensor("y", yDesc, y, Argument::WRITE);
    norm.bn = call.tensor("bnScale", bnDesc, bnScale, Argument::READ);
    call.tensor("bnBias", bnDesc, bnBias, Argument::READ);
    const float a = call.scalar("alpha", alpha), b = call.scalar("beta", beta);
    check(call, mode, norm, epsilon);
    call.require(to.same_size(norm.x), "x and y have different shapes");
    return call.submit([=] {
        each(
            norm.bn,
            [&](long, long c, long h, long w) {
                double mean;
                const double factor = find(norm, c, h, w, &mean);
                const double shift =
                    ((const float *)bnBias)[norm.bn.at(0, c, h, w)];
                norm.each(h, w, [&](long n, long i, long j) {
                    const double d =
                        ((const float *)x)[norm.x.at(n, c, i, j)] - mean;
                    blend((float *)y + to.at(n, c, i, j), a,
                          (float)(d * factor + shift), b);
                });
            },
            norm.x.count());
    });
}

cudnnStatus_t cudnnBatchNormalizationForwardTraining(
    cudnnHandle_t handle, cudnnBatchNormMode_t mode, const void *alpha,
    const void *beta, cudnnTensorDescriptor_t xDesc, const void *x,
    cudnnTensorDescriptor_t yDesc, void *y, cudnnTensorDescriptor_t bnDesc,
    const void *bnScale, const void *bnBias, double exponentialAverageFactor,
    void *resultRunningMean, void *resultRunningVariance, double epsilon,
    void *resultSaveMean, void *resultSaveInvVariance) {
    Call call(__func__, handle);
    const char *const names[] = {"resultRunningMean", "resultRunningVariance",
                                 "resultSaveMean", "resultSaveInvVariance"};
    void *const results[] = {resultRunningMean, resultRunningVariance,
                             resultSaveMean, resultSaveInvVariance};
    for (int i = 0; i < 4; i++)
        if (results[i])
            call.tensor(names[i], bnDesc, results[i], Argument::WRITE);
    call.require(!resultRunningMean == !resultRunningVariance &&
                     !resultSaveMean == !resultSaveInvVariance,
                 "only one of two statistics is NULL");
    const double share = exponentialAverageFactor;
    const auto find = [=](const Norm &norm, long c, long h, long w,
                          double *mean) {
        const double count = norm.count();
        const long at = norm.bn.at(0, c, h, w);
        double sum = 0, squares = 0;
        norm.each(h, w, [&](long n, long i, long j) {
            sum += ((const float *)x)[norm.x.at(n, c, i, j)];
        });
        *mean = sum / count;
        norm.each(h, w, [&](long n, long i, long j) {
            const double d = ((const float *)x)[norm.x.at(n, c, i, j)] - *mean;
            squares += d * d;
        });
        const double inverse = 1 / sqrt(squares / count + epsilon);
        const auto average = [&](void *averages, double value) {
            float *old = (float *)averages + at; // not read if the share is 1
            *old = (float)(share == 1 ? value
                                      : (1 - share) * *old + share * value);
        };
        if (resultRunningMean) {
            average(resultRunningMean, *mean);
            average(resultRunningVariance,
                    squares / (count > 1 ? count - 1 : 1));
        }
        if (resultSaveMean) {
            ((float *)resultSaveMean)[at] = (float)*mean;
            ((float *)resultSaveInvVariance)[at] = (float)inverse;
        }
        return ((const float *)bnScale)[at] * inverse;
    };
    return forward(call, mode, alpha, beta, xDesc, x, yDesc, y, bnDesc, bnScale,
                   bnBias, epsilon, find);
}

cudnnStatus_t cudnnBatchNormalizationForwardInference(
    cudnnHandle_t handle, cudnnBatchNormMode_t mode, const void *alpha,
    const void *beta, cudnnTensorDescriptor_t xDesc, const void *x,
    cudnnTensorDescriptor_t yDesc, void *y, cudnnTensorDescriptor_t bnDesc,
    const void *bnScale, const void *bnBias, const void *estimatedMean,
    const void *estimatedVariance, double epsilon) {
    Call call(__func__, handle);
    call.tensor("estimatedMean", bnDesc, estimatedMean, Argument::READ);
    call.tensor("estimatedVariance", bnDesc, estimatedVariance, Argument::READ);
    const auto find = [=](const Norm &norm, long c, long h, long w,
                          double *mean) {
        const long at = norm.bn.at(0, c, h, w);
        const double variance = ((const float *)estimatedVariance)[at];
        *mean = ((const float *)estimatedMean)[at];
        return ((const float *)bnScale)[at] / sqrt(variance + epsilon);
    };
    return forward(call, mode, alpha, beta, xDesc, x, yDesc, y, bnDesc, bnScale,
                   bnBias, epsilon, find);
}

cudnnStatus_t cudnnBatchNormalizationBackward(
    cudnnHandle_t handle, cudnnBatchNormMode_t mode, const void *alphaDataDiff,
    const void *betaDataDiff, const void *alphaParamDiff,
    const void *betaParamDiff, cudnnTensorDescriptor_t xDesc, const void *x,
    cudnnTensorDescriptor_t dyDesc, const void *dy,
    cudnnTensorDescriptor_t dxDesc, void *dx, cudnnTensorDescriptor_t bnDesc,
    const void *bnScale, void *dBnScaleResult, void *dBnBiasResult,
    double epsilon, const void *savedMean, const void *savedInvVariance) {
    Call call(__func__, handle);
    Norm norm;
    norm.x = call.tensor("x", xDesc, x, Argument::READ);
    const Tensor tdy = call.tensor("dy", dyDesc, dy, Argument::READ);
    const Tensor to = call.tensor("dx", dxDesc, dx, Argument::WRITE);
    norm.bn = call.tensor("bnScale", bnDesc, bnScale, Argument::READ);
    call.tensor("dBnScaleResult", bnDesc, dBnScaleResult, Argument::WRITE);
    call.tensor("dBnBiasResult", bnDesc, dBnBiasResult, Argument::WRITE);
    if (savedMean) call.tensor("savedMean", bnDesc, savedMean, Argument::READ);
    if (savedInvVariance)
        call.tensor("savedInvVariance", bnDesc, savedInvVariance,
                    Argument::READ);
    const float a = call.scalar("alphaDataDiff", alphaDataDiff);
    const float b = call.scalar("betaDataDiff", betaDataDiff);
    const float pa = call.scalar("alphaParamDiff", alphaParamDiff);
    const float pb = call.scalar("betaParamDiff", betaParamDiff);
    check(call, mode, norm, epsilon);
    call.require(to.same_size(norm.x) && tdy.same_size(norm.x),
                 "x, dy and dx have different shapes");
    call.require(!savedMean == !savedInvVariance,
                 "only one of two statistics is NULL");
    return call.submit([=] {
        const double count = norm.count();
        each(
            norm.bn,
            [&](long, long c, long h, long w) {
                const long at = norm.bn.at(0, c, h, w);
                const auto value = [&](long n, long i, long j) {
                    return (double)((const float *)x)[norm.x.at(n, c, i, j)];
                };
                const auto gradient = [&](long n, long i, long j) {
                    return (double)((const float *)dy)[tdy.at(n, c, i, j)];
                };
                double mean = 0, inverse = 0, sum = 0, products = 0;
                if (savedMean) {
                    mean = ((const float *)savedMean)[at];
                    inverse = ((const float *)savedInvVariance)[at];
                } else {
                    norm.each(h, w, [&](long n, long i, long j) {
                        mean += value(n, i, j) / count;
                    });
                    norm.each(h, w, [&](long n, long i, long j) {
                        const double d = value(n, i, j) - mean;
                        inverse += d * d / count;
                    });
                    inverse = 1 / sqrt(inverse + epsilon);
                }
                norm.each(h, w, [&](long n, long i, long j) {
                    const double g = gradient(n, i, j);
                    sum += g;
                    products += g * (value(n, i, j) - mean) * inverse;
                });
                const double scale = ((const float *)bnScale)[at] * inverse;
                norm.each(h, w, [&](long n, long i, long j) {
                    const double hat = (value(n, i, j) - mean) * inverse;
                    const double d =
                        gradient(n, i, j) - (sum + hat * products) / count;
                    blend((float *)dx + to.at(n, c, i, j), a,
                          (float)(scale * d), b);
                });
                blend((float *)dBnScaleResult + at, pa, (float)products, pb);
                blend((float *)dBnBiasResult + at, pa, (float)sum, pb);
            },
            norm.x.count());
    });
}
