/* random.cu -- estimates pi with cuRAND's uniform numbers, and the mean and
 * variance of its normal numbers. */
#include <cstdio>
#include <cstdlib>
#include <vector>

#include <cuda_runtime.h>
#include <curand.h>

#define CUDA_CALL(x)                                        \
    do {                                                    \
        if ((x) != cudaSuccess) {                           \
            printf("Error at %s:%d\n", __FILE__, __LINE__); \
            return EXIT_FAILURE;                            \
        }                                                   \
    } while (0)
#define CURAND_CALL(x)                                      \
    do {                                                    \
        if ((x) != CURAND_STATUS_SUCCESS) {                 \
            printf("Error at %s:%d\n", __FILE__, __LINE__); \
            return EXIT_FAILURE;                            \
        }                                                   \
    } while (0)

__global__ void count_inside(const float *x, const float *y, int n,
                             int *inside) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n && x[i] * x[i] + y[i] * y[i] <= 1.0f) atomicAdd(inside, 1);
}

int main() {
    const int n = 100000;
    float *x, *y;
    int *inside, count;
    CUDA_CALL(cudaMalloc(&x, n * sizeof(float)));
    CUDA_CALL(cudaMalloc(&y, n * sizeof(float)));
    CUDA_CALL(cudaMalloc(&inside, sizeof(int)));
    CUDA_CALL(cudaMemset(inside, 0, sizeof(int)));

    curandGenerator_t generator;
    CURAND_CALL(curandCreateGenerator(&generator, CURAND_RNG_PSEUDO_DEFAULT));
    CURAND_CALL(curandSetPseudoRandomGeneratorSeed(generator, 1234ULL));
    CURAND_CALL(curandGenerateUniform(generator, x, n));
    CURAND_CALL(curandGenerateUniform(generator, y, n));
    count_inside<<<(n + 255) / 256, 256>>>(x, y, n, inside);
    CUDA_CALL(cudaMemcpy(&count, inside, sizeof(int), cudaMemcpyDeviceToHost));
    printf("pi is about %.4f\n", 4.0 * count / n);

    CURAND_CALL(curandGenerateNormal(generator, x, n, 10.0f, 2.0f));
    std::vector<float> host(n);
    CUDA_CALL(
        cudaMemcpy(host.data(), x, n * sizeof(float), cudaMemcpyDeviceToHost));
    double sum = 0, squares = 0;
    for (float v : host) sum += v, squares += v * v;
    const double mean = sum / n;
    printf("mean %.2f, variance %.2f\n", mean, squares / n - mean * mean);

    // The same numbers on the host
    curandGenerator_t on_host;
    std::vector<unsigned> first(4);
    CURAND_CALL(
        curandCreateGeneratorHost(&on_host, CURAND_RNG_PSEUDO_PHILOX4_32_10));
    CURAND_CALL(curandSetPseudoRandomGeneratorSeed(on_host, 1234ULL));
    CURAND_CALL(curandGenerate(on_host, first.data(), first.size()));
    printf("%u %u %u %u\n", first[0], first[1], first[2], first[3]);

    CURAND_CALL(curandDestroyGenerator(on_host));
    CURAND_CALL(curandDestroyGenerator(generator));
    CUDA_CALL(cudaFree(x));
    CUDA_CALL(cudaFree(y));
    CUDA_CALL(cudaFree(inside));
    return EXIT_SUCCESS;
}
