/* fft_filter.cu -- smooths a signal with cuFFT on a stream: transform, multiply
 * in a kernel, transform back; and compares with the sum over the window. */
#include <cufft.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmath>
#include <vector>

#define CHECK(call)                                                      \
    do {                                                                 \
        int status_ = (int)(call);                                       \
        if (status_ != 0) {                                              \
            fprintf(stderr, "%s:%d: %d\n", __FILE__, __LINE__, status_); \
            exit(1);                                                     \
        }                                                                \
    } while (0)

static __device__ __host__ inline cufftComplex scaled(cufftComplex a, float s) {
    return make_cuComplex(s * a.x, s * a.y);
}

static __global__ void multiply(cufftComplex *a, const cufftComplex *b, int n,
                                float scale) {
    const int stride = blockDim.x * gridDim.x;
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += stride)
        a[i] = scaled(cuCmulf(a[i], b[i]), scale);
}

int main() {
    const int n = 1000, half = n / 2 + 1, window = 9;
    std::vector<float> signal(n), kernel(n, 0.0f), smooth(n);
    for (int i = 0; i < n; i++) signal[i] = std::sin(i * 0.1f) + i % 7;
    for (int i = 0; i < window; i++) kernel[i] = 1.0f / window;

    float *dev_signal, *dev_kernel;
    cufftComplex *dev_a, *dev_b;
    CHECK(cudaMalloc((void **)&dev_signal, n * sizeof(float)));
    CHECK(cudaMalloc((void **)&dev_kernel, n * sizeof(float)));
    CHECK(cudaMalloc((void **)&dev_a, half * sizeof(cufftComplex)));
    CHECK(cudaMalloc((void **)&dev_b, half * sizeof(cufftComplex)));
    CHECK(cudaMemcpy(dev_signal, signal.data(), n * sizeof(float),
                     cudaMemcpyHostToDevice));
    CHECK(cudaMemcpy(dev_kernel, kernel.data(), n * sizeof(float),
                     cudaMemcpyHostToDevice));

    cudaStream_t stream;
    cufftHandle forward, inverse;
    CHECK(cudaStreamCreate(&stream));
    CHECK(cufftPlan1d(&forward, n, CUFFT_R2C, 1));
    CHECK(cufftPlan1d(&inverse, n, CUFFT_C2R, 1));
    CHECK(cufftSetStream(forward, stream));
    CHECK(cufftSetStream(inverse, stream));
    CHECK(cufftExecR2C(forward, dev_signal, dev_a));
    CHECK(cufftExecR2C(forward, dev_kernel, dev_b));
    multiply<<<4, 128, 0, stream>>>(dev_a, dev_b, half, 1.0f / n);
    CHECK(cufftExecC2R(inverse, dev_a, dev_signal));
    CHECK(cudaMemcpyAsync(smooth.data(), dev_signal, n * sizeof(float),
                          cudaMemcpyDeviceToHost, stream));
    CHECK(cudaStreamSynchronize(stream));

    double worst = 0;
    for (int i = 0; i < n; i++) {
        double sum = 0;
        for (int j = 0; j < window; j++) sum += signal[(i - j + n) % n];
        worst = std::max(worst, std::fabs(sum / window - smooth[i]));
    }
    printf(worst < 1e-5 ? "right\n" : "wrong by %g\n", worst);
    CHECK(cufftDestroy(forward));
    CHECK(cufftDestroy(inverse));
    CHECK(cudaStreamDestroy(stream));
    cudaFree(dev_signal), cudaFree(dev_kernel), cudaFree(dev_a),
        cudaFree(dev_b);
    return 0;
}
