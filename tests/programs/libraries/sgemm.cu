// A product of matrices stored by rows, by cuBLAS and by a kernel.
#include <cublas_v2.h>
#include <cuda_runtime.h>

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <vector>

#define CHECK_CUDA(call)                                       \
    do {                                                       \
        cudaError_t error = call;                              \
        if (error != cudaSuccess) {                            \
            fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, \
                    cudaGetErrorString(error));                \
            exit(EXIT_FAILURE);                                \
        }                                                      \
    } while (0)
#define CHECK_CUBLAS(call)                                     \
    do {                                                       \
        cublasStatus_t status = call;                          \
        if (status != CUBLAS_STATUS_SUCCESS) {                 \
            fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, \
                    cublasGetStatusName(status));              \
            exit(EXIT_FAILURE);                                \
        }                                                      \
    } while (0)

__global__ void multiply(const float *a, const float *b, float *c, int m, int n,
                         int k) {
    int row = blockIdx.y * blockDim.y + threadIdx.y;
    int col = blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= m || col >= n) return;
    float sum = 0.0f;
    for (int i = 0; i < k; i++) sum += a[row * k + i] * b[i * n + col];
    c[row * n + col] = sum;
}

int main() {
    const int m = 100, n = 75, k = 50;
    std::vector<float> a(m * k), b(k * n), ours(m * n), theirs(m * n);
    srand(1);
    for (float &x : a) x = rand() / (float)RAND_MAX - 0.5f;
    for (float &x : b) x = rand() / (float)RAND_MAX - 0.5f;

    float *d_a, *d_b, *d_c;
    CHECK_CUDA(cudaMalloc(&d_a, a.size() * sizeof(float)));
    CHECK_CUDA(cudaMalloc(&d_b, b.size() * sizeof(float)));
    CHECK_CUDA(cudaMalloc(&d_c, ours.size() * sizeof(float)));
    CHECK_CUDA(cudaMemcpy(d_a, a.data(), a.size() * sizeof(float),
                          cudaMemcpyHostToDevice));
    CHECK_CUDA(cudaMemcpy(d_b, b.data(), b.size() * sizeof(float),
                          cudaMemcpyHostToDevice));

    dim3 block(16, 16), grid((n + 15) / 16, (m + 15) / 16);
    multiply<<<grid, block>>>(d_a, d_b, d_c, m, n, k);
    CHECK_CUDA(cudaGetLastError());
    CHECK_CUDA(cudaMemcpy(ours.data(), d_c, ours.size() * sizeof(float),
                          cudaMemcpyDeviceToHost));

    cublasHandle_t handle;
    CHECK_CUBLAS(cublasCreate(&handle));
    CHECK_CUBLAS(cublasSetMathMode(handle, CUBLAS_TF32_TENSOR_OP_MATH));
    cudaStream_t stream;
    CHECK_CUDA(cudaStreamCreate(&stream));
    CHECK_CUBLAS(cublasSetStream(handle, stream));
    CHECK_CUDA(cudaMemset(d_c, 0xff, ours.size() * sizeof(float))); // NaN
    // By columns, the arrays hold the transposes: (A B)^T = B^T A^T.
    const float alpha = 1.0f, beta = 0.0f;
    CHECK_CUBLAS(cublasSgemm(handle, CUBLAS_OP_N, CUBLAS_OP_N, n, m, k, &alpha,
                             d_b, n, d_a, k, &beta, d_c, n));
    CHECK_CUDA(cudaStreamSynchronize(stream));
    CHECK_CUDA(cudaMemcpy(theirs.data(), d_c, theirs.size() * sizeof(float),
                          cudaMemcpyDeviceToHost));

    float worst = 0.0f;
    for (int i = 0; i < m * n; i++)
        worst = fmaxf(worst, fabsf(ours[i] - theirs[i]));
    printf("%s\n", worst < 1e-5f ? "equal" : "different");
    printf("%s\n", cublasGetStatusString(
                       cublasSgemm(handle, CUBLAS_OP_N, CUBLAS_OP_N, n, m, k,
                                   &alpha, d_b, n - 1, d_a, k, &beta, d_c, n)));
    CHECK_CUBLAS(cublasDestroy(handle));
    CHECK_CUDA(cudaFree(d_a));
    CHECK_CUDA(cudaFree(d_b));
    CHECK_CUDA(cudaFree(d_c));
    return 0;
}
