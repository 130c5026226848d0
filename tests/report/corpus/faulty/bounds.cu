/* bounds.cu -- kernels that leave their arrays in global memory. */
#include "../cases.h"
#include <cuda_pipeline.h>

__global__ void no_guard(float *x) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    x[i] = 1; // FAULT: bounds, block 3, x
}
CASE(no_guard_in_the_last_block) {
    no_guard<<<4, 32>>>(unwritten<float>(100));
    return launched();
}

__global__ void before(float *out, const float *x, int n) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        out[i] = x[i] - x[i - 1]; // FAULT: bounds, block 0, thread 0, x[-1]
}
CASE(before_the_start) {
    before<<<4, 32>>>(unwritten<float>(100), values<float>(100), 100);
    return launched();
}

__global__ void after(float *out, const float *x, int n) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    out[i] = x[i] + x[i + 1]; // FAULT: bounds, block 3, thread 3, x[100]
}
CASE(stencil_off_by_one) {
    after<<<4, 32>>>(unwritten<float>(99 + 1), values<float>(99 + 1), 100);
    return launched();
}

__global__ void far_away(int *x) {
    const int t = threadIdx.x, i = t == 5 ? 123456789 : t;
    x[i] = t; // FAULT: bounds, thread 5, x[123456789]
}
CASE(far_away) {
    far_away<<<1, 32>>>(unwritten<int>(32));
    return launched();
}

__global__ void overflow(const int *x, int *out, int pitch) {
    const int t = threadIdx.x, row = t == 3 ? 50000 : 0;
    const int i = (int)((unsigned)row * pitch); // the wrapped row * pitch
    out[t] = x[i]; // FAULT: bounds|host-pointer, thread 3
}
CASE(an_index_that_overflows) {
    overflow<<<1, 8>>>(values<int>(8), unwritten<int>(8), 50000);
    return launched();
}

__global__ void underflow(const int *x, int *out, unsigned n) {
    const unsigned t = threadIdx.x;
    if (t - 1 < n || t == 0) out[t] = x[t - 1]; // FAULT: bounds, thread 0
}
CASE(an_unsigned_index_below_zero) {
    underflow<<<1, 8>>>(values<int>(8), unwritten<int>(8), 8);
    return launched();
}

__global__ void row_overflow(float *a, int rows, int cols) {
    const int row = threadIdx.y, col = threadIdx.x;
    if (row < rows && col <= cols) {
        if (col == cols && row < rows - 1) return; // the start of the next row
        a[row * cols + col] = 0; // FAULT: bounds, thread (5,5), a[30]
    }
}
CASE(a_row_too_long) {
    row_overflow<<<1, dim3(8, 8)>>>(unwritten<float>(30), 6, 5);
    return launched();
}

__global__ void wrong_pitch(float *out, const float *a, int m, int n) {
    const int col = blockIdx.x * blockDim.x + threadIdx.x;
    const int row = blockIdx.y * blockDim.y + threadIdx.y;
    if (row < m && col < n)
        out[col * n + row] = a[row * n + col]; // FAULT: bounds, out
}
CASE(leading_dimension_swapped) {
    const dim3 grid(2, 1), block(8, 8);
    wrong_pitch<<<grid, block>>>(unwritten<float>(45), values<float>(45), 5, 9);
    return launched();
}

__global__ void swapped_guard(float *out, const float *a, int rows, int cols) {
    const int x = threadIdx.x, y = threadIdx.y;
    if (x < rows && y < cols)
        out[y * cols + x] = 2 * a[y * cols + x]; // FAULT: bounds
}
CASE(rows_for_columns) {
    swapped_guard<<<1, dim3(8, 8)>>>(zeros<float>(18), values<float>(18), 3, 6);
    return launched();
}

__global__ void too_few_bins(unsigned *bins, const int *x) {
    const int bin = x[threadIdx.x] == 31 ? 31 : 0;
    atomicAdd(&bins[bin], 1u); // FAULT: bounds, block 0, thread 22, bins[31]
}
CASE(an_atomic_beyond_the_bins) {
    too_few_bins<<<1, 32>>>(zeros<unsigned>(31), values<int>(32));
    return launched();
}

__global__ void fill(float *x, int n) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) x[i] = 1; // FAULT: bounds, x
}
CASE(elements_for_bytes) {
    float *x;
    cudaMalloc(&x, 64); // meant: 64 * sizeof(float)
    fill<<<2, 32>>>(x, 64);
    return launched();
}

__global__ void grid_stride(float *x, int n) {
    const int stride = gridDim.x * blockDim.x;
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i <= n; i += stride)
        x[i] *= 2; // FAULT: bounds, block 1, thread 4, x[100]
}
CASE(one_turn_too_many) {
    grid_stride<<<2, 32>>>(values<float>(100), 100);
    return launched();
}

__global__ void vector_tail(float4 *out, const float4 *x, int n) {
    const int i = threadIdx.x;
    if (4 * i < n) out[i] = x[i]; // FAULT: bounds, thread 2, x
}
CASE(a_vector_beyond_the_tail) {
    vector_tail<<<1, 32>>>(unwritten<float4>(3), (float4 *)values<float>(10),
                           10);
    return launched();
}

__device__ int table[16];
__global__ void fill_table() {
    table[threadIdx.x] = 1; // FAULT: bounds, block 0
}
CASE(beyond_a_device_array) {
    fill_table<<<1, 20>>>();
    return launched();
}

__constant__ float weights[5];
__global__ void convolve(float *out, const float *x, int radius) {
    const int i = threadIdx.x + radius;
    float sum = 0;
    for (int k = 0; k <= 2 * radius + (threadIdx.x == 7); k++)
        sum += x[i - radius + k] * weights[k]; // FAULT: bounds, thread 7, [5]
    out[threadIdx.x] = sum;
}
CASE(beyond_a_constant_array) {
    float h[5] = {1, 2, 3, 2, 1};
    cudaMemcpyToSymbol(weights, h, sizeof h);
    convolve<<<1, 8>>>(unwritten<float>(8), values<float>(16), 2);
    return launched();
}

struct Particle {
    float position[3];
    float mass;
};
__global__ void move(Particle *p, int axes) {
    for (int k = 0; k < axes; k++)
        p[threadIdx.x].position[k] += 1; // FAULT: bounds
}
CASE(beyond_an_array_in_a_struct) {
    move<<<1, 4>>>((Particle *)values<float>(16), 4);
    return launched();
}

__global__ void negative_stride(int *x, int n) {
    if (threadIdx.x == 0)
        for (int i = n - 1; i >= -1; i--)
            x[i] = i; // FAULT: bounds, block 0, thread 0, x[-1]
}
CASE(down_to_minus_one) {
    negative_stride<<<1, 32>>>(unwritten<int>(32), 32);
    return launched();
}

__global__ void pitched(char *base, size_t pitch, int height) {
    const int y = threadIdx.y;
    float *row = (float *)(base + (y + 1) * pitch); // meant: y * pitch
    if (y < height) row[threadIdx.x] = 1;           // FAULT: bounds, base
}
CASE(one_row_too_far) {
    char *base;
    size_t pitch;
    cudaMallocPitch((void **)&base, &pitch, 8 * sizeof(float), 4);
    pitched<<<1, dim3(8, 4)>>>(base, pitch, 4);
    return launched();
}

__global__ void small_heap(int *out) {
    int *mine = (int *)malloc(4 * sizeof(int));
    for (int i = 0; i < 5; i++) mine[i] = i; // FAULT: bounds
    out[threadIdx.x] = mine[3];
    free(mine);
}
CASE(beyond_the_devices_heap) {
    small_heap<<<1, 1>>>(unwritten<int>(1));
    return launched();
}

__global__ void copies(float *to, const float *from, int bytes) {
    if (threadIdx.x == 0) memcpy(to, from, bytes); // FAULT: bounds, thread 0
}
CASE(memcpy_in_a_kernel) {
    copies<<<1, 32>>>(unwritten<float>(8), values<float>(8), 40);
    return launched();
}

__global__ void copies_ahead(int *out, const int *x) {
    __shared__ __align__(16) int s[128];
    const int t = threadIdx.x, at = 4 * t;
    __pipeline_memcpy_async(&s[at], &x[at], 16); // FAULT: bounds, thread 31
    __pipeline_commit();
    __pipeline_wait_prior(0);
    __syncthreads();
    out[t] = s[127 - t];
}
CASE(a_copy_of_four_where_there_are_three) {
    copies_ahead<<<1, 32>>>(unwritten<int>(32), values<int>(127));
    return launched();
}

__global__ void copies_between(int *out, const int *x) {
    __shared__ __align__(16) int s[64];
    const int t = threadIdx.x;
    __pipeline_memcpy_async(&s[2 * t], &x[2 * t + 1], 8); // FAULT: misaligned
    __pipeline_commit();
    __pipeline_wait_prior(0);
    __syncthreads();
    out[t] = s[63 - t];
}
CASE(a_copy_of_eight_from_an_odd_place) {
    copies_between<<<1, 32>>>(unwritten<int>(32), values<int>(65));
    return launched();
}
