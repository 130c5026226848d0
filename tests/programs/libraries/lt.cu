// A layer relu(W x + b) by cuBLASLt, for matrices stored by rows.
#include <cublasLt.h>
#include <cuda_runtime.h>

#include <cmath>
#include <cstdio>
#include <vector>

int main() {
    const int outputs = 6, inputs = 5, batch = 4;
    std::vector<float> w(outputs * inputs), x(inputs * batch), b(outputs);
    for (size_t i = 0; i < w.size(); i++) w[i] = (int)(i * 5 % 7) - 3;
    for (size_t i = 0; i < x.size(); i++) x[i] = (int)(i * 3 % 5) - 2;
    for (size_t i = 0; i < b.size(); i++) b[i] = i - 2.5f;
    float *d_w, *d_x, *d_b, *d_y;
    cudaMalloc(&d_w, w.size() * 4);
    cudaMalloc(&d_x, x.size() * 4);
    cudaMalloc(&d_b, b.size() * 4);
    cudaMalloc(&d_y, outputs * batch * 4);
    cudaMemcpy(d_w, w.data(), w.size() * 4, cudaMemcpyHostToDevice);
    cudaMemcpy(d_x, x.data(), x.size() * 4, cudaMemcpyHostToDevice);
    cudaMemcpy(d_b, b.data(), b.size() * 4, cudaMemcpyHostToDevice);

    cublasLtHandle_t handle;
    cublasLtCreate(&handle);
    cublasLtMatmulDesc_t operation;
    cublasLtMatmulDescCreate(&operation, CUBLAS_COMPUTE_32F, CUDA_R_32F);
    cublasLtEpilogue_t epilogue = CUBLASLT_EPILOGUE_RELU_BIAS;
    cublasLtMatmulDescSetAttribute(operation, CUBLASLT_MATMUL_DESC_EPILOGUE,
                                   &epilogue, sizeof(epilogue));
    cublasLtMatmulDescSetAttribute(operation, CUBLASLT_MATMUL_DESC_BIAS_POINTER,
                                   &d_b, sizeof(d_b));
    cublasLtMatrixLayout_t layout_w, layout_x, layout_y;
    cublasLtMatrixLayoutCreate(&layout_w, CUDA_R_32F, outputs, inputs, inputs);
    cublasLtMatrixLayoutCreate(&layout_x, CUDA_R_32F, inputs, batch, batch);
    cublasLtMatrixLayoutCreate(&layout_y, CUDA_R_32F, outputs, batch, batch);
    cublasLtOrder_t order = CUBLASLT_ORDER_ROW;
    for (cublasLtMatrixLayout_t layout : {layout_w, layout_x, layout_y})
        cublasLtMatrixLayoutSetAttribute(layout, CUBLASLT_MATRIX_LAYOUT_ORDER,
                                         &order, sizeof(order));
    cublasLtMatmulPreference_t preference;
    cublasLtMatmulPreferenceCreate(&preference);
    size_t most = 1 << 20;
    cublasLtMatmulPreferenceSetAttribute(
        preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &most,
        sizeof(most));
    cublasLtMatmulHeuristicResult_t results[8];
    int count = 0;
    cublasLtMatmulAlgoGetHeuristic(handle, operation, layout_w, layout_x,
                                   layout_y, layout_y, preference, 8, results,
                                   &count);
    if (!count) return 1;
    void *workspace = nullptr;
    cudaMalloc(&workspace, results[0].workspaceSize);
    const float one = 1, zero = 0;
    cublasStatus_t status =
        cublasLtMatmul(handle, operation, &one, d_w, layout_w, d_x, layout_x,
                       &zero, d_y, layout_y, d_y, layout_y, &results[0].algo,
                       workspace, results[0].workspaceSize, 0);
    std::vector<float> y(outputs * batch);
    cudaMemcpy(y.data(), d_y, y.size() * 4, cudaMemcpyDeviceToHost);
    int wrong = 0;
    for (int i = 0; i < outputs; i++)
        for (int j = 0; j < batch; j++) {
            float sum = b[i];
            for (int k = 0; k < inputs; k++)
                sum += w[i * inputs + k] * x[k * batch + j];
            wrong += y[i * batch + j] != fmaxf(sum, 0);
        }
    printf("%s %d\n", cublasLtGetStatusName(status), wrong);
    cublasLtMatmulPreferenceDestroy(preference);
    cublasLtMatrixLayoutDestroy(layout_w);
    cublasLtMatrixLayoutDestroy(layout_x);
    cublasLtMatrixLayoutDestroy(layout_y);
    cublasLtMatmulDescDestroy(operation);
    return cublasLtDestroy(handle);
}
