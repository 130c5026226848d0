/* bounds_shared.cu -- kernels that leave their arrays in shared memory, and the
 * local arrays of a thread. */
#include "../cases.h"

enum { N = 64, TILE = 8 };

__global__ void beyond(float *out, const float *x) {
    __shared__ float s[N];
    const int t = threadIdx.x;
    s[t] = x[t];
    __syncthreads();
    out[t] = s[t + 1] - s[t]; // FAULT: bounds, block 0, thread 63, [64]
}
CASE(beyond_the_tile) {
    beyond<<<1, N>>>(unwritten<float>(N), values<float>(N));
    return launched();
}

__global__ void in_front(float *out, const float *x) {
    __shared__ float s[N];
    const int t = threadIdx.x;
    s[t] = x[t];
    __syncthreads();
    out[t] = s[t - 1] + s[t]; // FAULT: bounds, block 0, thread 0, [-1]
}
CASE(in_front_of_the_tile) {
    in_front<<<1, N>>>(unwritten<float>(N), values<float>(N));
    return launched();
}

__global__ void next_row(float *out, const float *x) {
    __shared__ float s[TILE][TILE];
    const int tx = threadIdx.x, ty = threadIdx.y;
    s[ty][tx] = x[ty * TILE + tx];
    __syncthreads();
    if (ty == 2)
        out[tx] = s[ty][tx + 1]; // FAULT: bounds, block 0, thread (7,2)
}
CASE(beyond_the_row_of_a_tile) {
    next_row<<<1, dim3(TILE, TILE)>>>(unwritten<float>(N), values<float>(N));
    return launched();
}

__global__ void halo(float *out, const float *x) {
    __shared__ float s[N + 1]; // meant: N + 2
    const int t = threadIdx.x;
    s[t + 1] = x[t + 1];
    if (t == 0) s[0] = x[0];
    if (t == N - 1)
        s[N + 1] = x[N + 1]; // FAULT: bounds, block 0, thread 63, [65]
    __syncthreads();
    out[t] = s[t] + s[t + 1];
}
CASE(a_halo_without_room) {
    halo<<<1, N>>>(unwritten<float>(N), values<float>(N + 2));
    return launched();
}

__global__ void dynamic(float *out, const float *x) {
    extern __shared__ float dyn[];
    const int t = threadIdx.x;
    dyn[t] = x[t];
    __syncthreads();
    out[t] = dyn[t + 1]; // FAULT: bounds, thread 31
}
CASE(beyond_dynamic_shared_memory) {
    dynamic<<<1, 32, 32 * sizeof(float)>>>(unwritten<float>(32),
                                           values<float>(32));
    return launched();
}

__global__ void forgotten(float *out, const float *x) {
    extern __shared__ float none[];
    none[threadIdx.x] = x[threadIdx.x]; // FAULT: bounds, block 0
    __syncthreads();
    out[threadIdx.x] = none[31 - threadIdx.x];
}
CASE(dynamic_shared_memory_not_asked_for) {
    forgotten<<<1, 32>>>(unwritten<float>(32), values<float>(32));
    return launched();
}

__global__ void carved(double *out, const float *x, int n) {
    extern __shared__ char memory[];
    float *a = (float *)memory;
    double *b = (double *)(a + n);
    const int t = threadIdx.x;
    a[t] = x[t];
    b[t] = x[t]; // FAULT: bounds
    __syncthreads();
    out[t] = a[n - 1 - t] + b[t];
}
CASE(two_arrays_in_the_space_of_one_and_a_half) {
    const int n = 32, bytes = n * (sizeof(float) + sizeof(float));
    carved<<<1, n, bytes>>>(unwritten<double>(n), values<float>(n), n);
    return launched();
}

__global__ void local_array(float *out, const float *x, int n) {
    float window[4];
    float sum = 0;
    for (int k = 0; k < 4; k++) window[k] = x[threadIdx.x + k];
    for (int k = 0; k < n; k++)
        sum += window[(k * 5 + threadIdx.x) % n]; // FAULT: bounds
    out[threadIdx.x] = sum;
}
CASE(beyond_a_local_array) {
    local_array<<<1, 32>>>(unwritten<float>(32), values<float>(64), 5);
    return launched();
}

__global__ void digits(int *out, const int *x) {
    int count[10] = {};
    for (int k = 0; k < 8; k++)
        count[x[threadIdx.x * 8 + k]]++; // FAULT: bounds
    out[threadIdx.x] = count[1];
}
CASE(a_local_histogram_too_small) {
    digits<<<1, 4>>>(unwritten<int>(4), values<int>(32));
    return launched();
}

__device__ float last(const float *p, int n) {
    return p[n]; // FAULT: bounds
}
__global__ void by_pointer(float *out, const float *x) {
    __shared__ float s[N];
    s[threadIdx.x] = x[threadIdx.x];
    __syncthreads();
    if (threadIdx.x == 9) out[0] = last(s, N);
}
CASE(beyond_a_tile_through_a_pointer) {
    by_pointer<<<1, N>>>(unwritten<float>(1), values<float>(N));
    return launched();
}

__global__ void count(int *out, const int *x) {
    __shared__ int bins[16];
    const int t = threadIdx.x;
    if (t < 16) bins[t] = 0;
    __syncthreads();
    atomicAdd(bins + x[t] % 17, 1); // FAULT: bounds, bins[16]
    __syncthreads();
    if (t < 16) out[t] = bins[t];
}
CASE(an_atomic_beyond_shared_bins) {
    count<<<1, N>>>(unwritten<int>(16), values<int>(N));
    return launched();
}
