/* host.cu -- a host's work with memory, streams, graphs and several kernels. */
#include <atomic>
#include <string>
#include <thread>
#include <vector>

#include "../cases.h"

enum { N = 64 };

__global__ void iota(int *x, int n, int first) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) x[i] = first + i;
}
__global__ void add_to(int *out, const int *x, int n) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] += x[n - 1 - i];
}

CASE(kernels_that_share_a_buffer) {
    int *a = unwritten<int>(100), *b = unwritten<int>(100);
    iota<<<2, N>>>(a, 100, 0);
    iota<<<2, N>>>(b, 100, 5);
    for (int i = 0; i < 3; i++) add_to<<<2, N>>>(a, b, 100);
    return equal(a, 100, [](int i) { return i + 3 * (5 + 99 - i); });
}

CASE(streams_and_events) {
    cudaStream_t one, two;
    cudaEvent_t ready;
    cudaStreamCreate(&one);
    cudaStreamCreate(&two);
    cudaEventCreate(&ready);
    int *a = unwritten<int>(N), *b = unwritten<int>(N);
    iota<<<1, N, 0, one>>>(a, N, 0);
    cudaEventRecord(ready, one);
    iota<<<1, N, 0, two>>>(b, N, 1);
    cudaStreamWaitEvent(two, ready, 0);
    add_to<<<1, N, 0, two>>>(b, a, N);
    cudaStreamSynchronize(two);
    cudaStreamDestroy(one);
    cudaStreamDestroy(two);
    cudaEventDestroy(ready);
    return equal(b, N, [](int) { return N; });
}

CASE(a_captured_graph) {
    cudaStream_t stream;
    cudaGraph_t graph;
    cudaGraphExec_t exec;
    int *a = unwritten<int>(N), *b = unwritten<int>(N);
    cudaStreamCreate(&stream);
    cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal);
    cudaMemsetAsync(b, 0, N * sizeof(int), stream);
    iota<<<1, N, 0, stream>>>(a, N, 2);
    add_to<<<1, N, 0, stream>>>(b, a, N);
    cudaStreamEndCapture(stream, &graph);
    cudaGraphInstantiate(&exec, graph, 0);
    for (int i = 0; i < 3; i++) cudaGraphLaunch(exec, stream);
    cudaStreamSynchronize(stream);
    return equal(b, N, [](int i) { return 2 + N - 1 - i; });
}

CASE(memory_given_back_and_taken_again) {
    for (int round = 0; round < 4; round++) {
        int *x = unwritten<int>(1000 + round);
        iota<<<16, N>>>(x, 1000 + round, round);
        if (!equal(x, 1000 + round, [=](int i) { return i + round; }))
            return false;
        cudaFree(x);
    }
    return true;
}

CASE(memory_of_a_stream) {
    cudaStream_t stream;
    cudaStreamCreate(&stream);
    int *x, h[N];
    cudaMallocAsync((void **)&x, sizeof h, stream);
    iota<<<1, N, 0, stream>>>(x, N, 7);
    cudaMemcpyAsync(h, x, sizeof h, cudaMemcpyDeviceToHost, stream);
    cudaFreeAsync(x, stream);
    cudaStreamSynchronize(stream);
    return h[N - 1] == 7 + N - 1;
}

CASE(managed_and_pinned_memory) {
    int *managed, *pinned, *mapped, *alias, sum = 0;
    cudaMallocManaged(&managed, N * sizeof(int));
    cudaMallocHost((void **)&pinned, N * sizeof(int));
    cudaHostAlloc((void **)&mapped, N * sizeof(int), cudaHostAllocMapped);
    cudaHostGetDevicePointer((void **)&alias, mapped, 0);
    for (int i = 0; i < N; i++)
        managed[i] = i, pinned[i] = 2 * i, mapped[i] = 1;
    add_to<<<1, N>>>(managed, alias,
                     N); // the host writes it, the device reads it
    cudaDeviceSynchronize();
    int *x = unwritten<int>(N);
    cudaMemcpy(x, pinned, N * sizeof(int), cudaMemcpyHostToDevice);
    add_to<<<1, N>>>(managed, x, N);
    cudaDeviceSynchronize();
    for (int i = 0; i < N; i++) sum += managed[i];
    cudaFree(managed);
    cudaFreeHost(pinned);
    cudaFreeHost(mapped);
    return sum == 3 * N * (N - 1) / 2 + N;
}

__global__ void double_rows(char *base, size_t pitch, int width, int height) {
    const int x = threadIdx.x, y = threadIdx.y;
    if (x < width && y < height) ((float *)(base + y * pitch))[x] *= 2;
}
CASE(pitched_memory_and_2d_copies) {
    char *base;
    size_t pitch;
    float h[5][7];
    for (int i = 0; i < 35; i++) h[i / 7][i % 7] = i;
    cudaMallocPitch((void **)&base, &pitch, sizeof h[0], 5);
    cudaMemcpy2D(base, pitch, h, sizeof h[0], sizeof h[0], 5,
                 cudaMemcpyHostToDevice);
    double_rows<<<1, dim3(8, 8)>>>(base, pitch, 7, 5);
    cudaMemcpy2D(h, sizeof h[0], base, pitch, sizeof h[0], 5,
                 cudaMemcpyDeviceToHost);
    return h[4][6] == 68 && h[0][1] == 2;
}

CASE(copies_between_devices_arrays) {
    int *a = values<int>(N), *b = unwritten<int>(N), *c = unwritten<int>(N);
    cudaMemcpy(b, a, N / 2 * sizeof(int), cudaMemcpyDeviceToDevice);
    cudaMemcpy(b + N / 2, a + N / 2, N / 2 * sizeof(int), cudaMemcpyDefault);
    cudaMemset(c, 0, N * sizeof(int));
    add_to<<<1, N>>>(c, b, N);
    return equal(c, N, [](int i) { return value_at(N - 1 - i); });
}

CASE(part_of_an_array_is_copied_and_used) {
    int *x = unwritten<int>(1000),
        *out = zeros<int>(10); // the rest of x stays unset
    int h[10] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9};
    cudaMemcpy(x + 500, h, sizeof h, cudaMemcpyHostToDevice);
    add_to<<<1, 32>>>(out, x + 500, 10);
    return equal(out, 10, [](int i) { return 9 - i; });
}

CASE(a_copy_of_a_partly_written_array) {
    int *x = unwritten<int>(N), *y = unwritten<int>(N),
        *out = zeros<int>(N / 2);
    iota<<<1, N>>>(x, N / 2, 3);
    cudaMemcpy(y, x, N * sizeof(int), cudaMemcpyDeviceToDevice);
    add_to<<<1, N>>>(out, y, N / 2);
    return equal(out, N / 2, [](int i) { return 3 + N / 2 - 1 - i; });
}

CASE(registered_memory_of_the_host) {
    std::vector<int> h(N, 4);
    int *alias, *out = zeros<int>(N);
    cudaHostRegister(h.data(), N * sizeof(int), cudaHostRegisterMapped);
    cudaHostGetDevicePointer((void **)&alias, h.data(), 0);
    add_to<<<1, N>>>(out, alias, N);
    iota<<<1, N>>>(alias, N, 0);
    cudaDeviceSynchronize();
    cudaHostUnregister(h.data());
    return h[N - 1] == N - 1 && equal(out, N, [](int) { return 4; });
}

static std::atomic<int> launches_done;
static const std::string &name_of_program() {
    static const std::string name = "a static with a guard";
    return name;
}
CASE(a_host_with_threads_and_atomics) {
    std::vector<std::thread> threads;
    for (int k = 0; k < 3; k++)
        threads.emplace_back([k] {
            int *x = unwritten<int>(N);
            iota<<<1, N, 0, cudaStreamPerThread>>>(x, N, k);
            cudaStreamSynchronize(cudaStreamPerThread);
            if (equal(x, 1, [k](int) { return k; })) launches_done++;
            cudaFree(x);
        });
    for (std::thread &thread : threads) thread.join();
    return name_of_program().size() == 21 && launches_done == 3;
}

// ---- algorithms of several passes ----

__global__ void count_digits(int *counts, const unsigned *keys, int n,
                             int shift) {
    __shared__ int s[4];
    if (threadIdx.x < 4) s[threadIdx.x] = 0;
    __syncthreads();
    const int i = blockIdx.x * N + threadIdx.x;
    if (i < n) atomicAdd(&s[keys[i] >> shift & 3], 1);
    __syncthreads();
    if (threadIdx.x < 4)
        counts[threadIdx.x * gridDim.x + blockIdx.x] = s[threadIdx.x];
}
__global__ void exclusive_scan(int *x, int n) {
    int sum = 0;
    for (int i = 0; i < n; i++) {
        const int v = x[i];
        x[i] = sum;
        sum += v;
    }
}
__global__ void scatter(unsigned *out, const unsigned *keys, const int *starts,
                        int n, int shift) {
    __shared__ unsigned char digits[N];
    const int t = threadIdx.x, i = blockIdx.x * N + t;
    if (i < n) digits[t] = keys[i] >> shift & 3;
    __syncthreads();
    if (i >= n) return;
    int rank = 0;
    for (int k = 0; k < t; k++) rank += digits[k] == digits[t];
    out[starts[digits[t] * gridDim.x + blockIdx.x] + rank] = keys[i];
}
CASE(radix_sort) {
    const int n = 186, blocks = 3;
    unsigned *a = values<unsigned>(n), *b = unwritten<unsigned>(n);
    int *counts = unwritten<int>(4 * blocks);
    for (int shift = 0; shift < 6; shift += 2) {
        count_digits<<<blocks, N>>>(counts, a, n, shift);
        exclusive_scan<<<1, 1>>>(counts, 4 * blocks);
        scatter<<<blocks, N>>>(b, a, counts, n, shift);
        unsigned *c = a;
        a = b, b = c;
    }
    return equal(a, n, [](int i) { return i / 6 + 1; });
}

__global__ void jacobi(float *out, const float *in, int side) {
    const int x = blockIdx.x * 8 + threadIdx.x,
              y = blockIdx.y * 8 + threadIdx.y;
    if (x > 0 && y > 0 && x < side - 1 && y < side - 1)
        out[y * side + x] =
            0.25f * (in[y * side + x - 1] + in[y * side + x + 1] +
                     in[(y - 1) * side + x] + in[(y + 1) * side + x]);
    else if (x < side && y < side)
        out[y * side + x] = in[y * side + x];
}
CASE(heat_in_two_buffers) {
    const int side = 18;
    float *a = zeros<float>(side * side), *b = unwritten<float>(side * side);
    float hot[18];
    for (float &x : hot) x = 64;
    cudaMemcpy(a, hot, sizeof hot, cudaMemcpyHostToDevice);
    for (int i = 0; i < 4; i++)
        jacobi<<<dim3(3, 3), dim3(8, 8)>>>(i % 2 ? a : b, i % 2 ? b : a, side);
    const float *h = fetch(a, side * side);
    return h[5] == 64 && h[side + 9] > 20 && h[side + 9] < 40 &&
           h[10 * side] == 0;
}

__global__ void spmv(float *y, const int *row, const int *col,
                     const float *value, const float *x, int n) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float sum = 0;
    for (int k = row[i]; k < row[i + 1]; k++) sum += value[k] * x[col[k]];
    y[i] = sum;
}
CASE(a_sparse_matrix) {
    const int row[] = {0, 2, 3, 3, 5}, col[] = {0, 3, 1, 0, 2};
    int *d_row = unwritten<int>(5), *d_col = unwritten<int>(5);
    float *y = unwritten<float>(4);
    cudaMemcpy(d_row, row, sizeof row, cudaMemcpyHostToDevice);
    cudaMemcpy(d_col, col, sizeof col, cudaMemcpyHostToDevice);
    spmv<<<1, 32>>>(y, d_row, d_col, values<float>(5), values<float>(4), 4);
    const float want[] = {1.0f + 8 * 22, 15 * 8.0f, 0, 22 + 29 * 15.0f};
    return equal(y, 4, [&](int i) { return want[i]; });
}

__global__ void bfs(const int *first, const int *edges, int *distance,
                    int level, int *changed, int n) {
    const int i = threadIdx.x;
    if (i >= n || *(volatile int *)&distance[i] != level) return;
    for (int k = first[i]; k < first[i + 1]; k++)
        if (atomicCAS(&distance[edges[k]], -1, level + 1) == -1) *changed = 1;
}
CASE(breadth_first_search) {
    const int n = 6, first[] = {0, 2, 4, 5, 6, 7, 7},
              edges[] = {1, 2, 3, 0, 3, 4, 5};
    int *d_first = unwritten<int>(7), *d_edges = unwritten<int>(7), more = 1;
    int *distance = unwritten<int>(n), *changed = unwritten<int>(1);
    cudaMemcpy(d_first, first, sizeof first, cudaMemcpyHostToDevice);
    cudaMemcpy(d_edges, edges, sizeof edges, cudaMemcpyHostToDevice);
    cudaMemset(distance, -1, n * sizeof(int));
    cudaMemset(distance, 0, sizeof(int));
    for (int level = 0; more; level++) {
        cudaMemset(changed, 0, sizeof(int));
        bfs<<<1, 32>>>(d_first, d_edges, distance, level, changed, n);
        cudaMemcpy(&more, changed, sizeof more, cudaMemcpyDeviceToHost);
    }
    const int want[] = {0, 1, 1, 2, 3, 4};
    return equal(distance, n, [&](int i) { return want[i]; });
}

__global__ void zero_threads_idle(int *out, int n) {
    if (threadIdx.x < n) out[threadIdx.x] = 1;
}
CASE(nothing_to_do) {
    int *out = unwritten<int>(1);
    zero_threads_idle<<<3, 32>>>(out, 0);
    cudaMemset(out, 0, 4);
    return equal(out, 1, [](int) { return 0; });
}
