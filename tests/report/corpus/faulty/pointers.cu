/* pointers.cu -- pointers that a GPU cannot follow, addresses that are not
 * multiples of the size of the access, and too much local memory. */
#include "../cases.h"

enum { N = 32 };

__global__ void twice(float *x) {
    x[threadIdx.x] *= 2; // FAULT: host-pointer, block 0
}
CASE(malloc_for_cuda_malloc) {
    float *x = (float *)calloc(N, sizeof(float));
    twice<<<1, N>>>(x);
    return launched();
}

__global__ void count(int *total) {
    atomicAdd(total, 1); // FAULT: host-pointer, block 0
}
CASE(the_address_of_a_local_variable) {
    int total = 0;
    count<<<1, N>>>(&total);
    return launched();
}

struct Vector {
    int size;
    float *data;
};
__global__ void sum(float *out, const Vector *v) {
    float sum = 0;
    for (int i = 0; i < v->size; i++) sum += v->data[i]; // FAULT: host-pointer
    *out = sum;
}
CASE(a_struct_copied_without_its_data) {
    Vector host = {N, (float *)malloc(N * sizeof(float))};
    Vector *v = unwritten<Vector>(1);
    cudaMemcpy(v, &host, sizeof host, cudaMemcpyHostToDevice);
    sum<<<1, 1>>>(unwritten<float>(1), v);
    return launched();
}

struct Settings {
    float scale;
};
__global__ void apply(float *x, const Settings &settings) {
    x[threadIdx.x] *= settings.scale; // FAULT: host-pointer
}
CASE(a_reference_as_a_parameter) {
    const Settings settings = {2};
    apply<<<1, N>>>(values<float>(N), settings);
    return launched();
}

__global__ void null(int *x) {
    if (threadIdx.x == 3)
        x[0] = 1; // FAULT: bounds|host-pointer, block 0, thread 3
}
CASE(a_null_pointer) {
    null<<<1, N>>>(0);
    return launched();
}

__global__ void follow(int **rows, int *out) {
    const int t = threadIdx.x;
    out[t] = rows[t][0]; // FAULT: bounds|host-pointer, thread 5
}
CASE(a_row_that_is_null) {
    int *h[8], **rows = unwritten<int *>(8);
    for (int i = 0; i < 8; i++) h[i] = i == 5 ? 0 : zeros<int>(1);
    cudaMemcpy(rows, h, sizeof h, cudaMemcpyHostToDevice);
    follow<<<1, 8>>>(rows, unwritten<int>(8));
    return launched();
}

__global__ void nothing_there(int *x) {
    *x = 1; // FAULT: bounds|host-pointer, block 0, thread 0
}
CASE(a_made_up_address) {
    nothing_there<<<1, 1>>>((int *)0x7123456789a0);
    return launched();
}

// ---- misaligned ----

__global__ void load4(float4 *out, const float *x) {
    out[0] = *(const float4 *)(x + 1); // FAULT: misaligned, thread 0
}
CASE(float4_at_an_odd_element) {
    load4<<<1, 1>>>(unwritten<float4>(1), values<float>(16));
    return launched();
}

__global__ void store2(float *x, int cols, const float2 *from) {
    const int row = threadIdx.x;
    float2 *pair = (float2 *)(x + row * cols);
    if (row == 1) *pair = from[row]; // FAULT: misaligned, thread 1
}
CASE(float2_in_rows_of_odd_length) {
    store2<<<1, 4>>>(unwritten<float>(20), 5, zeros<float2>(4));
    return launched();
}

__global__ void parse(double *out, const char *bytes) {
    out[0] = *(const double *)(bytes + 4); // FAULT: misaligned, thread 0
}
CASE(double_in_a_packed_record) {
    parse<<<1, 1>>>(unwritten<double>(1), values<char>(32));
    return launched();
}

__global__ void read_int(int *out, const unsigned char *bytes) {
    const int t = threadIdx.x;
    if (t == 2)
        out[t] = *(const int *)(bytes + t); // FAULT: misaligned, thread 2
}
CASE(int_at_any_byte) {
    read_int<<<1, 4>>>(unwritten<int>(4), values<unsigned char>(8));
    return launched();
}

__global__ void shared4(float4 *out) {
    __shared__ __align__(16) float s[N + 4];
    for (int i = 0; i < N + 4; i++) s[i] = i;
    out[0] = *(float4 *)&s[2]; // FAULT: misaligned, thread 0
}
CASE(float4_in_shared_memory) {
    shared4<<<1, 1>>>(unwritten<float4>(1));
    return launched();
}

__global__ void atomic8(char *x) {
    atomicAdd((unsigned long long *)(x + 4), 1ull); // FAULT: misaligned
}
CASE(an_atomic_of_8_bytes) {
    atomic8<<<1, 1>>>(zeros<char>(32));
    return launched();
}

__global__ void carve(double *out) {
    extern __shared__ __align__(16) char memory[];
    int *flags = (int *)memory;
    double *sums = (double *)(flags + 3); // 12 bytes in
    flags[threadIdx.x] = 1;
    sums[threadIdx.x] = 2; // FAULT: misaligned, thread 0
    out[threadIdx.x] = sums[threadIdx.x] + flags[threadIdx.x];
}
CASE(dynamic_shared_memory_carved_badly) {
    carve<<<1, 1, 64>>>(unwritten<double>(1));
    return launched();
}

// ---- too much local memory ----

__device__ __noinline__ int factorial(int n, int *trace) { // OTHER
    trace[n & 7] = n;                                      // OTHER
    if (n == 1) return 1;
    return n * factorial(n - 1, trace) + trace[n & 7]; // FAULT: stack
}
__global__ void recursion(int *out, int *trace, int n) {
    *out = factorial(n, trace); // OTHER
}
CASE(recursion_without_an_end) {
    recursion<<<1, 1>>>(unwritten<int>(1), zeros<int>(8), 0);
    return launched();
}

__device__ __noinline__ int visit(const int *next, int node, // OTHER
                                  int depth) {
    int path[64];                                    // FAULT: stack
    for (int i = 0; i < 64; i++) path[i] = node + i; // OTHER
    if (depth == 0) return node;
    return visit(next, next[node], depth - 1) + path[depth % 64]; // OTHER
}
__global__ void deep(int *out, const int *next) {
    *out = visit(next, 0, 100000); // OTHER
}
CASE(recursion_too_deep_with_an_array) {
    deep<<<1, 1>>>(unwritten<int>(1), zeros<int>(1));
    return launched();
}
