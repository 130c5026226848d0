// cuBLAS's functions of vectors, with scalars on the host and on the device.
#include <cublas_v2.h>
#include <stdio.h>

int main() {
    const int n = 8;
    float x[n], y[n], *d_x, *d_y, *d_result, result, alpha = 2.0f;
    for (int i = 0; i < n; i++) x[i] = i - 5, y[i] = 10 * i;
    cudaMalloc((void **)&d_x, sizeof(x));
    cudaMalloc((void **)&d_y, sizeof(y));
    cudaMalloc((void **)&d_result, sizeof(float));
    cublasHandle_t handle;
    cublasCreate(&handle);
    cublasSetVector(n, sizeof(float), x, 1, d_x, 1);
    cublasSetVector(n, sizeof(float), y, 1, d_y, 1);
    cublasSaxpy(handle, n, &alpha, d_x, 1, d_y, 1);
    cublasGetVector(n, sizeof(float), d_y, 1, y, 1);
    for (int i = 0; i < n; i++) printf("%g ", y[i]);
    int largest;
    cublasIsamax(handle, n, d_x, 1, &largest);
    cublasSnrm2(handle, 3, d_x + 5, 1, &result);
    printf("\n%d %.4f", largest, result);
    cublasSetPointerMode(handle, CUBLAS_POINTER_MODE_DEVICE);
    cublasSdot(handle, n, d_x, 1, d_x, 1, d_result);
    cublasSscal(handle, 1, d_result, d_result, 1);
    cudaMemcpy(&result, d_result, sizeof(float), cudaMemcpyDeviceToHost);
    printf(" %g\n", result);
    return cublasDestroy(handle);
}
