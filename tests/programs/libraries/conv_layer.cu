/* conv_layer.cu -- a layer by cuDNN: convolution, bias, ReLU, max pooling and
 * softmax, compared with loops on the host. */
#include <cudnn.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <vector>

#define CUDNN_CHECK(call)                                         \
    {                                                             \
        cudnnStatus_t status = (call);                            \
        if (status != CUDNN_STATUS_SUCCESS) {                     \
            std::printf("cuDNN error at line %d: %s\n", __LINE__, \
                        cudnnGetErrorString(status));             \
            std::exit(EXIT_FAILURE);                              \
        }                                                         \
    }

static float *to_device(const std::vector<float> &host) {
    float *device;
    cudaMalloc(&device, host.size() * sizeof(float));
    cudaMemcpy(device, host.data(), host.size() * sizeof(float),
               cudaMemcpyHostToDevice);
    return device;
}

int main() {
    const int n = 2, c = 3, h = 8, w = 8, k = 4;
    std::vector<float> x(n * c * h * w), filter(k * c * 3 * 3), bias(k);
    for (size_t i = 0; i < x.size(); i++) x[i] = (int)(i * 7 % 13) - 6;
    for (size_t i = 0; i < filter.size(); i++)
        filter[i] = 0.25f * ((int)(i * 5 % 9) - 4);
    for (int i = 0; i < k; i++) bias[i] = i - 1;

    cudnnHandle_t cudnn;
    CUDNN_CHECK(cudnnCreate(&cudnn));
    cudnnTensorDescriptor_t in, out, pooled, bias_shape;
    cudnnFilterDescriptor_t weights;
    cudnnConvolutionDescriptor_t convolution;
    cudnnActivationDescriptor_t relu;
    cudnnPoolingDescriptor_t pool;
    CUDNN_CHECK(cudnnCreateTensorDescriptor(&in));
    CUDNN_CHECK(cudnnCreateTensorDescriptor(&out));
    CUDNN_CHECK(cudnnCreateTensorDescriptor(&pooled));
    CUDNN_CHECK(cudnnCreateTensorDescriptor(&bias_shape));
    CUDNN_CHECK(cudnnCreateFilterDescriptor(&weights));
    CUDNN_CHECK(cudnnCreateConvolutionDescriptor(&convolution));
    CUDNN_CHECK(cudnnCreateActivationDescriptor(&relu));
    CUDNN_CHECK(cudnnCreatePoolingDescriptor(&pool));
    CUDNN_CHECK(cudnnSetTensor4dDescriptor(in, CUDNN_TENSOR_NCHW,
                                           CUDNN_DATA_FLOAT, n, c, h, w));
    CUDNN_CHECK(cudnnSetTensor4dDescriptor(bias_shape, CUDNN_TENSOR_NCHW,
                                           CUDNN_DATA_FLOAT, 1, k, 1, 1));
    CUDNN_CHECK(cudnnSetFilter4dDescriptor(weights, CUDNN_DATA_FLOAT,
                                           CUDNN_TENSOR_NCHW, k, c, 3, 3));
    CUDNN_CHECK(cudnnSetConvolution2dDescriptor(convolution, 1, 1, 1, 1, 1, 1,
                                                CUDNN_CROSS_CORRELATION,
                                                CUDNN_DATA_FLOAT));
    CUDNN_CHECK(cudnnSetActivationDescriptor(relu, CUDNN_ACTIVATION_RELU,
                                             CUDNN_PROPAGATE_NAN, 0));
    CUDNN_CHECK(cudnnSetPooling2dDescriptor(
        pool, CUDNN_POOLING_MAX, CUDNN_PROPAGATE_NAN, 2, 2, 0, 0, 2, 2));
    int on, oc, oh, ow;
    CUDNN_CHECK(cudnnGetConvolution2dForwardOutputDim(convolution, in, weights,
                                                      &on, &oc, &oh, &ow));
    CUDNN_CHECK(cudnnSetTensor4dDescriptor(out, CUDNN_TENSOR_NCHW,
                                           CUDNN_DATA_FLOAT, on, oc, oh, ow));
    CUDNN_CHECK(cudnnSetTensor4dDescriptor(
        pooled, CUDNN_TENSOR_NCHW, CUDNN_DATA_FLOAT, on, oc, oh / 2, ow / 2));

    cudnnConvolutionFwdAlgoPerf_t found;
    int count;
    CUDNN_CHECK(cudnnGetConvolutionForwardAlgorithm_v7(
        cudnn, in, weights, convolution, out, 1, &count, &found));
    size_t bytes;
    CUDNN_CHECK(cudnnGetConvolutionForwardWorkspaceSize(
        cudnn, in, weights, convolution, out, found.algo, &bytes));
    void *workspace = nullptr;
    if (bytes) cudaMalloc(&workspace, bytes);

    const int size = on * oc * oh * ow;
    float *dev_x = to_device(x), *dev_w = to_device(filter),
          *dev_b = to_device(bias);
    float *dev_y = to_device(std::vector<float>(size)),
          *dev_p = to_device(std::vector<float>(size / 4));
    const float one = 1, zero = 0;
    CUDNN_CHECK(cudnnConvolutionForward(cudnn, &one, in, dev_x, weights, dev_w,
                                        convolution, found.algo, workspace,
                                        bytes, &zero, out, dev_y));
    CUDNN_CHECK(
        cudnnAddTensor(cudnn, &one, bias_shape, dev_b, &one, out, dev_y));
    CUDNN_CHECK(cudnnActivationForward(cudnn, relu, &one, out, dev_y, &zero,
                                       out, dev_y));
    CUDNN_CHECK(cudnnPoolingForward(cudnn, pool, &one, out, dev_y, &zero,
                                    pooled, dev_p));
    CUDNN_CHECK(cudnnSoftmaxForward(cudnn, CUDNN_SOFTMAX_ACCURATE,
                                    CUDNN_SOFTMAX_MODE_CHANNEL, &one, pooled,
                                    dev_p, &zero, pooled, dev_p));
    std::vector<float> y(size / 4);
    cudaMemcpy(y.data(), dev_p, y.size() * sizeof(float),
               cudaMemcpyDeviceToHost);

    double worst = 0;
    for (int image = 0; image < n; image++)
        for (int i = 0; i < oh / 2; i++)
            for (int j = 0; j < ow / 2; j++) {
                double best[k], sum = 0;
                for (int o = 0; o < k; o++) {
                    best[o] = 0; // after ReLU
                    for (int a = 2 * i; a < 2 * i + 2; a++)
                        for (int b = 2 * j; b < 2 * j + 2; b++) {
                            double value = bias[o];
                            for (int q = 0; q < c; q++)
                                for (int r = 0; r < 3; r++)
                                    for (int s = 0; s < 3; s++) {
                                        const int u = a + r - 1, v = b + s - 1;
                                        if (u < 0 || v < 0 || u >= h || v >= w)
                                            continue;
                                        value +=
                                            x[((image * c + q) * h + u) * w +
                                              v] *
                                            filter[((o * c + q) * 3 + r) * 3 +
                                                   s];
                                    }
                            best[o] = std::max(best[o], value);
                        }
                }
                for (double v : best) sum += std::exp(v);
                for (int o = 0; o < k; o++) {
                    const double got =
                        y[((image * k + o) * (oh / 2) + i) * (ow / 2) + j];
                    worst = std::max(worst,
                                     std::fabs(std::exp(best[o]) / sum - got));
                }
            }
    std::printf("%d x %d x %d x %d, %s\n", on, oc, oh, ow,
                worst < 1e-5 ? "right" : "wrong");
    cudnnDestroyPoolingDescriptor(pool);
    cudnnDestroyActivationDescriptor(relu);
    cudnnDestroyConvolutionDescriptor(convolution);
    cudnnDestroyFilterDescriptor(weights);
    for (cudnnTensorDescriptor_t t : {in, out, pooled, bias_shape})
        cudnnDestroyTensorDescriptor(t);
    CUDNN_CHECK(cudnnDestroy(cudnn));
    for (float *p : {dev_x, dev_w, dev_b, dev_y, dev_p}) cudaFree(p);
    return 0;
}
