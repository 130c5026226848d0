/* memory.cu -- kernels that use freed memory, or elements that have never been
 * written. */
#include "../cases.h"

enum { N = 64 };

__global__ void twice(float *x) {
    x[threadIdx.x] *= 2; // FAULT: use-after-free, block 0
}
CASE(freed_before_the_launch) {
    float *x = values<float>(N);
    cudaFree(x);
    twice<<<1, N>>>(x);
    return launched();
}

__global__ void add(float *c, const float *a, const float *b) {
    const int i = threadIdx.x;
    c[i] = a[i] + b[i]; // FAULT: use-after-free
}
CASE(freed_and_its_place_given_away) {
    float *a = values<float>(N), *b = values<float>(N),
          *c = unwritten<float>(N);
    cudaFree(b);
    unwritten<float>(N);
    add<<<1, N>>>(c, a, b);
    return launched();
}

__global__ void heap(int *out) {
    int *p = (int *)malloc(sizeof(int));
    *p = threadIdx.x;
    free(p);
    out[threadIdx.x] = *p; // FAULT: use-after-free, block 0, thread 0
}
CASE(freed_on_the_device) {
    heap<<<1, 1>>>(unwritten<int>(1));
    return launched();
}

struct Node {
    int value;
    Node *next;
};
__device__ Node *list;
__global__ void push() {
    for (int i = 0; i < 3; i++) {
        Node *node = new Node;
        node->value = i;
        node->next = list;
        list = node;
    }
}
__global__ void drop() {
    for (Node *node = list; node;) {
        Node *next = node->next;
        delete node;
        node = next;
    }
}
__global__ void sum_list(int *out) {
    int sum = 0;
    for (Node *node = list; node; node = node->next) // OTHER
        sum += node->value;                          // FAULT: use-after-free
    *out = sum;
}
CASE(a_list_that_was_deleted) {
    push<<<1, 1>>>();
    drop<<<1, 1>>>();
    sum_list<<<1, 1>>>(unwritten<int>(1));
    return launched();
}

__global__ void scale(float *x) {
    x[threadIdx.x] *= 3; // FAULT: use-after-free
}
CASE(freed_in_the_stream_before) {
    cudaStream_t stream;
    cudaStreamCreate(&stream);
    float *x;
    cudaMallocAsync((void **)&x, N * sizeof(float), stream);
    cudaMemsetAsync(x, 0, N * sizeof(float), stream);
    cudaFreeAsync(x, stream);
    scale<<<1, N, 0, stream>>>(x);
    cudaStreamSynchronize(stream);
    return launched();
}

struct Matrix {
    int rows, cols;
    float *data;
};
__global__ void clear(Matrix a) {
    a.data[threadIdx.x] = 0; // FAULT: use-after-free
}
CASE(a_freed_pointer_in_a_struct) {
    Matrix a = {8, 8, unwritten<float>(N)};
    cudaFree(a.data);
    clear<<<1, N>>>(a);
    return launched();
}

__global__ void inner_pointer(float *x) {
    x[threadIdx.x] = 1; // FAULT: use-after-free
}
CASE(freed_and_used_from_its_middle) {
    float *x = values<float>(4 * N);
    cudaFree(x);
    inner_pointer<<<1, N>>>(x + 2 * N);
    return launched();
}

// ---- elements that have never been written ----

__global__ void no_left_halo(float *out, const float *x) {
    __shared__ float s[N + 2];
    const int t = threadIdx.x;
    s[t + 1] = x[t + 1];
    if (t == N - 1) s[N + 1] = x[N + 1]; // thread 0 must write s[0]
    __syncthreads();
    out[t] = s[t] + s[t + 1] + s[t + 2]; // FAULT: uninitialised, thread 0, s[0]
}
CASE(a_halo_not_loaded) {
    no_left_halo<<<1, N>>>(unwritten<float>(N), values<float>(N + 2));
    return launched();
}

__global__ void partial(float *out, const float *x, int n) {
    __shared__ float s[N];
    const int t = threadIdx.x, i = blockIdx.x * N + t;
    if (i < n) s[t] = x[i]; // else s[t] = 0 is missing
    __syncthreads();
    for (int step = N / 2; step; step /= 2) {
        if (t < step) s[t] += s[t + step]; // FAULT: uninitialised, block 1, s
        __syncthreads();
    }
    if (t == 0) out[blockIdx.x] = s[0];
}
CASE(a_partial_tile) {
    partial<<<2, N>>>(unwritten<float>(2), values<float>(100), 100);
    return launched();
}

__global__ void accumulate(float *c, const float *a) {
    c[threadIdx.x] += a[threadIdx.x]; // FAULT: uninitialised, block 0, c
}
CASE(an_output_not_cleared) {
    accumulate<<<1, N>>>(unwritten<float>(N), values<float>(N));
    return launched();
}

__global__ void total(int *sum, const int *x) {
    atomicAdd(sum, x[threadIdx.x]); // FAULT: uninitialised, sum[0]
}
CASE(a_total_not_cleared) {
    total<<<1, N>>>(unwritten<int>(1), values<int>(N));
    return launched();
}

__global__ void square(float *out, const float *x) {
    const float v = x[threadIdx.x]; // FAULT: uninitialised, x
    out[threadIdx.x] = v * v;
}
CASE(too_few_bytes_copied) {
    float h[N] = {1, 2, 3}, *x = unwritten<float>(N);
    cudaMemcpy(x, h, N, cudaMemcpyHostToDevice); // meant: N * sizeof(float)
    square<<<1, N>>>(unwritten<float>(N), x);
    return launched();
}

__global__ void lower(float *a, int n) {
    const int row = threadIdx.y, col = threadIdx.x;
    if (col <= row) a[row * n + col] = 1;
}
__global__ void symmetric(float *out, const float *a, int n) {
    const int row = threadIdx.y, col = threadIdx.x;
    if (row == 0 && col == 7)
        out[0] = a[row * n + col]; // FAULT: uninitialised, thread (7,0), a[7]
}
CASE(the_upper_triangle) {
    float *a = unwritten<float>(64);
    lower<<<1, dim3(8, 8)>>>(a, 8);
    symmetric<<<1, dim3(8, 8)>>>(unwritten<float>(1), a, 8);
    return launched();
}

__global__ void partials(float *part, const float *x, int n) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n && threadIdx.x == 0) part[blockIdx.x] = x[i];
}
__global__ void sum_partials(float *out, const float *part, int blocks) {
    float sum = 0;
    for (int b = 0; b < blocks; b++)
        sum += part[b]; // FAULT: uninitialised, thread 0, part[3]
    *out = sum;
}
CASE(a_block_without_a_part) {
    float *part = unwritten<float>(4);
    partials<<<4, 32>>>(part, values<float>(96), 96);
    sum_partials<<<1, 1>>>(unwritten<float>(1), part, 4);
    return launched();
}

__global__ void dynamic(int *out, int n) {
    extern __shared__ int counts[];
    atomicAdd(&counts[threadIdx.x % n], 1); // FAULT: uninitialised, counts
    __syncthreads();
    if (threadIdx.x < n) out[threadIdx.x] = counts[threadIdx.x];
}
CASE(a_histogram_not_cleared) {
    dynamic<<<1, N, 8 * sizeof(int)>>>(unwritten<int>(8), 8);
    return launched();
}

__global__ void on_the_heap(int *out) {
    int *p = new int[4];
    p[0] = p[1] = p[2] = 1;
    out[threadIdx.x] = p[0] + p[3]; // FAULT: uninitialised
    delete[] p;
}
CASE(new_without_a_value) {
    on_the_heap<<<1, 2>>>(unwritten<int>(2));
    return launched();
}

struct Sample {
    float x, y;
    int label;
};
__global__ void place(Sample *s) {
    s[threadIdx.x].x = threadIdx.x;
    s[threadIdx.x].y = 0;
}
__global__ void labels(int *out, const Sample *s) {
    out[threadIdx.x] = s[threadIdx.x].label; // FAULT: uninitialised
}
CASE(a_member_not_written) {
    Sample *s = unwritten<Sample>(8);
    place<<<1, 8>>>(s);
    labels<<<1, 8>>>(unwritten<int>(8), s);
    return launched();
}

__global__ void last_blocks_memory(int *out) {
    __shared__ int flag;
    if (blockIdx.x == 0) flag = 5;
    __syncthreads();
    out[blockIdx.x] = flag; // FAULT: uninitialised, block 1, thread 0
}
CASE(shared_memory_of_the_block_before) {
    last_blocks_memory<<<2, 1>>>(unwritten<int>(2));
    return launched();
}

__global__ void halve(float *x) {
    x[threadIdx.x] /= 2; // FAULT: uninitialised, x
}
CASE(a_copy_of_what_nobody_wrote) {
    float *x = values<float>(N);
    cudaMemcpy(x, unwritten<float>(N), N * sizeof(float),
               cudaMemcpyDeviceToDevice);
    halve<<<1, N>>>(x);
    return launched();
}

__global__ void next_step(float *x, const float *velocity) {
    x[threadIdx.x] += velocity[threadIdx.x]; // FAULT: uninitialised, velocity
}
CASE(only_half_cleared) {
    float *velocity = unwritten<float>(N);
    cudaMemset(velocity, 0, N * sizeof(float) / 2);
    next_step<<<1, N>>>(values<float>(N), velocity);
    return launched();
}

__global__ void two_warps(int *out) {
    __shared__ volatile int ready[2];
    const int warp = threadIdx.x / 32;
    if (threadIdx.x % 32 == 0) {
        ready[warp] = 1;
        while (!ready[1 - warp]); // FAULT: uninitialised
    }
    __syncthreads();
    out[threadIdx.x] = ready[warp];
}
CASE(flags_that_nobody_has_cleared) {
    two_warps<<<1, 64>>>(unwritten<int>(64));
    return launched();
}

__global__ void one_sums_up(int *out, const int *x) {
    int sum = 0;
    for (int i = 99; i >= 0; i--) sum += x[i]; // FAULT: uninitialised, x[40]
    *out = sum;
}
CASE(the_first_element_of_many_is_told) {
    int *x = unwritten<int>(100);
    cudaMemset(x, 0, 40 * sizeof(int));
    one_sums_up<<<1, 1>>>(unwritten<int>(1), x);
    return launched();
}
