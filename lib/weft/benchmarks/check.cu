/* check.cu -- kernels that measure the cost of the watch build. */
#include <cuda_runtime.h>

#define EXPORT extern "C" __attribute__((visibility("default")))

enum { TILE = 16, THREADS = 256, BINS = 256 };

/* Return device memory with a copy of the host's bytes; NULL if out of memory.
 */
EXPORT void *bench_upload(const void *host, size_t bytes) {
    void *made = 0;
    if (cudaMalloc(&made, bytes)) return 0;
    cudaMemcpy(made, host, bytes, cudaMemcpyHostToDevice);
    return made;
}

EXPORT void bench_download(void *host, const void *device, size_t bytes) {
    cudaMemcpy(host, device, bytes, cudaMemcpyDeviceToHost);
}

EXPORT void bench_release(void *device) { cudaFree(device); }

static int finished() {
    const cudaError_t launched = cudaGetLastError();
    return launched ? launched : cudaDeviceSynchronize();
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

EXPORT int bench_matmul_tiled(float *c, const float *a, const float *b, int n) {
    const dim3 grid(n / TILE, n / TILE), block(TILE, TILE);
    matmul_tiled<<<grid, block>>>(c, a, b, n);
    return finished();
}

/* The same product without tiles: all reads are from global memory. */
static __global__ void matmul_naive(float *c, const float *a, const float *b,
                                    int n) {
    const int row = blockIdx.y * blockDim.y + threadIdx.y;
    const int col = blockIdx.x * blockDim.x + threadIdx.x;
    float acc = 0.0f;
    for (int k = 0; k < n; k++) acc += a[row * n + k] * b[k * n + col];
    c[row * n + col] = acc;
}

EXPORT int bench_matmul_naive(float *c, const float *a, const float *b, int n) {
    const dim3 grid(n / TILE, n / TILE), block(TILE, TILE);
    matmul_naive<<<grid, block>>>(c, a, b, n);
    return finished();
}

/* c = a + b, n elements. */
static __global__ void add(float *c, const float *a, const float *b, int n) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) c[i] = a[i] + b[i];
}

EXPORT int bench_add(float *c, const float *a, const float *b, int n) {
    add<<<(n + THREADS - 1) / THREADS, THREADS>>>(c, a, b, n);
    return finished();
}

/* out[block] = the sum of its THREADS elements of x, in a tree. */
static __global__ void reduction(float *out, const float *x) {
    __shared__ float part[THREADS];
    const int t = threadIdx.x;
    part[t] = x[blockIdx.x * THREADS + t];
    __syncthreads();
    for (int half = THREADS / 2; half > 0; half /= 2) {
        if (t < half) part[t] += part[t + half];
        __syncthreads();
    }
    if (t == 0) out[blockIdx.x] = part[0];
}

EXPORT int bench_reduction(float *out, const float *x, const float *, int n) {
    reduction<<<n / THREADS, THREADS>>>(out, x);
    return finished();
}

/* out (n,n) = x transposed, tile by tile. */
static __global__ void transpose(float *out, const float *x, int n) {
    __shared__ float tile[TILE][TILE + 1];
    const int tx = threadIdx.x, ty = threadIdx.y;
    const int row = blockIdx.y * TILE, col = blockIdx.x * TILE;
    tile[ty][tx] = x[(row + ty) * n + col + tx];
    __syncthreads();
    out[(col + ty) * n + row + tx] = tile[tx][ty];
}

EXPORT int bench_transpose(float *out, const float *x, const float *, int n) {
    const dim3 grid(n / TILE, n / TILE), block(TILE, TILE);
    transpose<<<grid, block>>>(out, x, n);
    return finished();
}

/* Count the numbers in each bin; x has n, all in [0, 1). Blocks first count in
 * shared memory. */
static __global__ void histogram(float *bins, const float *x, int n) {
    __shared__ unsigned count[BINS];
    for (int i = threadIdx.x; i < BINS; i += blockDim.x) count[i] = 0;
    __syncthreads();
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n;
         i += gridDim.x * blockDim.x)
        atomicAdd(&count[(int)(x[i] * BINS)], 1u);
    __syncthreads();
    for (int i = threadIdx.x; i < BINS; i += blockDim.x)
        atomicAdd(&bins[i], (float)count[i]);
}

EXPORT int bench_histogram(float *bins, const float *x, const float *, int n) {
    cudaMemset(bins, 0, BINS * sizeof(float));
    histogram<<<64, THREADS>>>(bins, x, n);
    return finished();
}
