/* simt.cu -- three kernels that measure the cost of the CPU target. */
#include <cuda_runtime.h>

#define EXPORT extern "C" __attribute__((visibility("default")))

enum { TILE = 16, THREADS = 256 };

/* c = a + b, n elements: threads that never wait. */
static __global__ void add(float *c, const float *a, const float *b, int n) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) c[i] = a[i] + b[i];
}

EXPORT int simt_add(float *c, const float *a, const float *b, int n) {
    add<<<(n + THREADS - 1) / THREADS, THREADS>>>(c, a, b, n);
    return cudaGetLastError();
}

/* c (n,n) = a @ b, n a multiple of TILE: two barriers per tile. */
static __global__ void matmul_tiled(float *c, const float *a, const float *b,
                                    int n) {
    __shared__ float a_s[TILE][TILE], b_s[TILE][TILE];
    const int tx = threadIdx.x, ty = threadIdx.y;
    const int row = blockIdx.y * TILE + ty, col = blockIdx.x * TILE + tx;
    float acc = 0.0f;
    for (int k0 = 0; k0 < n; k0 += TILE) {
        a_s[ty][tx] = a[row * n + k0 + tx];
        b_s[ty][tx] = b[(k0 + ty) * n + col];
        __syncthreads();
        for (int i = 0; i < TILE; i++) acc += a_s[ty][i] * b_s[i][tx];
        __syncthreads();
    }
    c[row * n + col] = acc;
}

EXPORT int simt_matmul_tiled(float *c, const float *a, const float *b, int n) {
    const dim3 grid(n / TILE, n / TILE), block(TILE, TILE);
    matmul_tiled<<<grid, block>>>(c, a, b, n);
    return cudaGetLastError();
}

/* out[warp] = the sum of its 32 elements of x: five shuffles per thread. */
static __global__ void warp_sum(float *out, const float *x, int n) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    float v = i < n ? x[i] : 0.0f;
    for (int step = 16; step; step /= 2)
        v += __shfl_down_sync(0xffffffffu, v, step);
    if (threadIdx.x % 32 == 0) out[i / 32] = v;
}

EXPORT int simt_warp_sum(float *out, const float *x, int n) {
    warp_sum<<<(n + THREADS - 1) / THREADS, THREADS>>>(out, x, n);
    return cudaGetLastError();
}
