// Many small products in one call, inside larger matrices and in a graph.
#include <cublas_v2.h>
#include <cuda_fp16.h>
#include <stdio.h>

enum { N = 3, LD = 5, COUNT = 4 };

__global__ void fill(float *a, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) a[i] = i % LD < N ? (i * 7 % 11) - 5 : nanf("");
}

int main() {
    const int size = LD * N, all = size * COUNT;
    float *a, *b, *c, *d;
    cudaMallocManaged(&a, all * sizeof(float));
    cudaMallocManaged(&b, all * sizeof(float));
    cudaMallocManaged(&c, all * sizeof(float));
    cudaMallocManaged(&d, all * sizeof(float));
    fill<<<2, 64>>>(a, all);
    fill<<<2, 64>>>(b, all);
    cudaDeviceSynchronize();
    cublasHandle_t handle;
    cublasCreate(&handle);
    float one = 1, zero = 0;
    for (int i = 0; i < all; i++) c[i] = d[i] = -1;
    cublasSgemmStridedBatched(handle, CUBLAS_OP_N, CUBLAS_OP_T, N, N, N, &one,
                              a, LD, size, b, LD, size, &zero, c, LD, size,
                              COUNT);
    float **places;
    cudaMallocManaged(&places, 3 * COUNT * sizeof(float *));
    for (int i = 0; i < COUNT; i++) {
        places[i] = a + i * size;
        places[COUNT + i] = b + i * size;
        places[2 * COUNT + i] = d + i * size;
    }
    // A captured call does its work when the graph is launched.
    cudaStream_t stream;
    cudaGraph_t graph;
    cudaGraphExec_t steps;
    cudaStreamCreate(&stream);
    cublasSetStream(handle, stream);
    cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal);
    cublasSgemmBatched(handle, CUBLAS_OP_N, CUBLAS_OP_T, N, N, N, &one, places,
                       LD, places + COUNT, LD, &zero, places + 2 * COUNT, LD,
                       COUNT);
    cudaStreamEndCapture(stream, &graph);
    cudaGraphInstantiate(&steps, graph, 0);
    printf("%g ", d[0]);
    for (int launch = 0; launch < 2; launch++) {
        d[0] = -1;
        cudaGraphLaunch(steps, stream);
        cudaStreamSynchronize(stream);
    }
    cudaGraphExecDestroy(steps);
    cudaGraphDestroy(graph);
    int wrong = 0, spoilt = 0;
    for (int z = 0; z < COUNT; z++)
        for (int j = 0; j < N; j++)
            for (int i = 0; i < LD; i++) {
                const int at = z * size + j * LD + i;
                float sum = 0;
                for (int k = 0; i < N && k < N; k++)
                    sum += a[z * size + k * LD + i] * b[z * size + k * LD + j];
                wrong += i < N && (c[at] != sum || d[at] != sum);
                spoilt += i >= N && (c[at] != -1 || d[at] != -1);
            }
    __half *h;
    cudaMallocManaged(&h, 2 * sizeof(__half));
    h[0] = __float2half(3.0f), h[1] = __float2half(4.0f);
    float *product = d;
    cublasGemmEx(handle, CUBLAS_OP_T, CUBLAS_OP_N, 1, 1, 2, &one, h, CUDA_R_16F,
                 2, h, CUDA_R_16F, 2, &zero, product, CUDA_R_32F, 1,
                 CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT_TENSOR_OP);
    cudaDeviceSynchronize();
    printf("%d %d %g\n", wrong, spoilt, *product);
    return cublasDestroy(handle);
}
