/* language.cu -- operations of one thread on its data in CUDA C. */
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "../cases.h"

enum { N = 64 };

__global__ void copy4(float4 *out, const float4 *x, int n, float *tail) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n / 4) out[i] = x[i];
    if (i < n % 4) tail[i] = ((const float *)x)[n / 4 * 4 + i];
}
CASE(float4_with_a_tail) {
    float *out = unwritten<float>(102), *x = values<float>(102);
    copy4<<<1, 32>>>((float4 *)out, (float4 *)x, 102, out + 100);
    return equal(out, 102, [](int i) { return value_at(i); });
}

struct Padded {
    char tag;
    double value;
    short count;
};
__global__ void make(Padded *p) {
    p[threadIdx.x].tag = 'a';
    p[threadIdx.x].value = threadIdx.x;
    p[threadIdx.x].count = 3;
}
__global__ void copy_structs(Padded *to, const Padded *from) {
    to[threadIdx.x] = from[N - 1 - threadIdx.x]; // the padding is copied, too
}
__global__ void sum_structs(double *out, const Padded *p) {
    const Padded mine = p[threadIdx.x];
    out[threadIdx.x] = mine.value + mine.count + (mine.tag == 'a');
}
CASE(structs_with_padding) {
    Padded *a = unwritten<Padded>(N), *b = unwritten<Padded>(N);
    double *out = unwritten<double>(N);
    make<<<1, N>>>(a);
    copy_structs<<<1, N>>>(b, a);
    sum_structs<<<1, N>>>(out, b);
    return equal(out, N, [](int i) { return N - 1 - i + 4; });
}

__global__ void halves(__half *h, __nv_bfloat16 *b, __half2 *pairs,
                       const float *x) {
    const int i = threadIdx.x;
    h[i] = __float2half(x[i]);
    b[i] = __float2bfloat16(2 * x[i]);
    __syncthreads();
    if (i < N / 2)
        pairs[i] =
            __hadd2(*(const __half2 *)&h[2 * i], *(const __half2 *)&h[2 * i]);
}
CASE(half_and_bfloat16) {
    __half *h = unwritten<__half>(N);
    __nv_bfloat16 *b = unwritten<__nv_bfloat16>(N);
    __half2 *pairs = unwritten<__half2>(N / 2);
    halves<<<1, N>>>(h, b, pairs, values<float>(N));
    const __half *got = fetch((const __half *)pairs, N);
    for (int i = 0; i < N; i++)
        if (__half2float(got[i]) != 2 * value_at(i)) return false;
    return __bfloat162float(fetch(b, N)[3]) == 2 * value_at(3);
}

union Bits {
    float number;
    unsigned word;
    unsigned char bytes[4];
};
__global__ void pun(unsigned char *out, const float *x) {
    Bits bits;
    bits.number = x[threadIdx.x];
    out[threadIdx.x] = bits.bytes[3] ^ (bits.word >> 16 & 255);
    out[N + threadIdx.x] =
        (unsigned char)(__float_as_int(x[threadIdx.x]) >> 23);
}
CASE(unions_of_a_thread) {
    unsigned char *out = unwritten<unsigned char>(2 * N);
    pun<<<1, N>>>(out, values<float>(N));
    return equal(out, N, [](int i) {
        const float v = value_at(i);
        unsigned word;
        memcpy(&word, &v, 4);
        return (word >> 24) ^ (word >> 16 & 255);
    });
}

__global__ void top3(int *out, const int *x, int each) {
    int best[3] = {-1, -1, -1}, order[8];
    for (int k = 0; k < each; k++) {
        const int v = x[threadIdx.x * each + k];
        for (int j = 0; j < 3; j++)
            if (v > best[j]) {
                for (int m = 2; m > j; m--) best[m] = best[m - 1];
                best[j] = v;
                break;
            }
        order[k % 8] = v;
    }
    out[2 * threadIdx.x] = best[(threadIdx.x + each) % 3];
    out[2 * threadIdx.x + 1] = order[each - 1];
}
CASE(local_arrays_indexed_at_run_time) {
    int *out = unwritten<int>(2 * N);
    top3<<<1, N>>>(out, values<int>(6 * N), 6);
    return fetch(out, 2 * N)[1] == value_at(5);
}

__constant__ float filter[5];
__device__ float device_scale = 2, device_sum[4];
__device__ int *device_pointer;
__managed__ int managed_count;
__global__ void convolve(float *out, const float *x, int n) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float sum = 0;
    for (int k = -2; k <= 2; k++)
        if (i + k >= 0 && i + k < n) sum += filter[k + 2] * x[i + k];
    out[i] = sum * device_scale;
    atomicAdd(&device_sum[i % 4], 1.0f);
    atomicAdd(&managed_count, 1);
}
CASE(constant_device_and_managed_variables) {
    const float h[5] = {1, 2, 3, 2, 1}, scale = 3;
    float *out = unwritten<float>(100), counts[4];
    cudaMemcpyToSymbol(filter, h, sizeof h);
    cudaMemcpyToSymbol(device_scale, &scale, sizeof scale);
    convolve<<<2, N>>>(out, values<float>(100), 100);
    cudaDeviceSynchronize();
    cudaMemcpyFromSymbol(counts, device_sum, sizeof counts);
    if (managed_count != 100 || counts[3] != 25) return false;
    return equal(out, 100, [&](int i) {
        float sum = 0;
        for (int k = -2; k <= 2; k++)
            if (i + k >= 0 && i + k < 100) sum += h[k + 2] * value_at(i + k);
        return sum * 3;
    });
}

__global__ void through_a_pointer(int *out) {
    out[threadIdx.x] = device_pointer[threadIdx.x] + 1;
}
CASE(a_device_variable_that_is_a_pointer) {
    int *x = values<int>(N), *out = unwritten<int>(N), *symbol;
    cudaMemcpyToSymbol(device_pointer, &x, sizeof x);
    through_a_pointer<<<1, N>>>(out);
    if (cudaGetSymbolAddress((void **)&symbol, device_sum) != cudaSuccess)
        return false;
    return equal(out, N, [](int i) { return value_at(i) + 1; });
}

__global__ void read_device_array(float *out, const float *p) {
    out[threadIdx.x] = p[threadIdx.x];
}
CASE(the_address_of_a_device_array) {
    const float h[4] = {4, 5, 6, 7};
    float *p, *out = unwritten<float>(4);
    cudaGetSymbolAddress((void **)&p, device_sum);
    cudaMemcpy(p, h, sizeof h, cudaMemcpyHostToDevice);
    read_device_array<<<1, 4>>>(out, p);
    return equal(out, 4, [](int i) { return i + 4; });
}

__device__ const char letters[] = "0123456789abcdef";
static __constant__ int primes[8] = {2, 3, 5, 7, 11, 13, 17, 19};
__global__ void tables(char *out, int *p) {
    const char *own = "fedcba9876543210"; // a literal is in device memory
    out[threadIdx.x] =
        threadIdx.x % 2 ? letters[threadIdx.x] : own[threadIdx.x];
    const int squares[4] = {1, 4, 9, 16};
    p[threadIdx.x] = primes[threadIdx.x % 8] + squares[threadIdx.x % 4];
}
CASE(tables_and_literals) {
    char *out = unwritten<char>(16);
    int *p = unwritten<int>(16);
    tables<<<1, 16>>>(out, p);
    return fetch(out, 16)[0] == 'f' && fetch(out, 16)[1] == '1' &&
           fetch(p, 16)[7] == 19 + 16;
}

__device__ __noinline__ int fibonacci(int n) {
    return n < 2 ? n : fibonacci(n - 1) + fibonacci(n - 2);
}
__device__ __noinline__ void sort(int *x, int low, int high) {
    if (low >= high) return;
    int i = low, j = high;
    const int pivot = x[(low + high) / 2];
    while (i <= j) {
        while (x[i] < pivot) i++;
        while (x[j] > pivot) j--;
        if (i <= j) {
            const int a = x[i];
            x[i++] = x[j];
            x[j--] = a;
        }
    }
    sort(x, low, j);
    sort(x, i, high);
}
__global__ void recursion(int *out, int *x) {
    out[threadIdx.x] = fibonacci(threadIdx.x);
    if (threadIdx.x < 2) sort(x + threadIdx.x * 31, 0, 30);
}
CASE(recursion_within_limits) {
    int *out = unwritten<int>(12), *x = values<int>(62);
    recursion<<<1, 12>>>(out, x);
    return fetch(out, 12)[11] == 89 &&
           equal(x, 62, [](int i) { return i % 31 + 1; });
}

struct Tree {
    int key;
    Tree *left, *right;
};
__device__ Tree *insert(Tree *tree, int key) {
    Tree *leaf = new Tree{key, nullptr, nullptr}, **at = &tree;
    while (*at) at = key < (*at)->key ? &(*at)->left : &(*at)->right;
    *at = leaf;
    return tree;
}
__device__ int drop(Tree *tree, int *out) {
    if (!tree) return 0;
    int n = drop(tree->left, out);
    out[n++] = tree->key;
    n += drop(tree->right, out + n);
    delete tree;
    return n;
}
__global__ void trees(int *out, const int *x) {
    Tree *tree = nullptr;
    for (int i = 0; i < 31; i++) tree = insert(tree, x[i]);
    drop(tree, out + 31 * threadIdx.x);
}
CASE(trees_on_the_devices_heap) {
    int *out = unwritten<int>(62);
    trees<<<1, 2>>>(out, values<int>(31));
    return equal(out, 62, [](int i) { return i % 31 + 1; });
}

__global__ void scratch(int *out, int n) {
    __shared__ int *memory;
    if (threadIdx.x == 0) memory = (int *)malloc(n * sizeof(int));
    __syncthreads();
    memory[threadIdx.x] = threadIdx.x;
    __syncthreads();
    out[threadIdx.x] = memory[n - 1 - threadIdx.x];
    __syncthreads();
    if (threadIdx.x == 0) free(memory);
}
CASE(a_blocks_own_heap_memory) {
    int *out = unwritten<int>(N);
    scratch<<<1, N>>>(out, N);
    return equal(out, N, [](int i) { return N - 1 - i; });
}

__device__ int *kept;
__global__ void keep() { kept = new int[4]{1, 2, 3, 4}; }
__global__ void use(int *out) { out[threadIdx.x] = kept[threadIdx.x]; }
__global__ void give_back() { delete[] kept; }
CASE(heap_memory_kept_between_kernels) {
    int *out = unwritten<int>(4);
    keep<<<1, 1>>>();
    use<<<1, 4>>>(out);
    give_back<<<1, 1>>>();
    return equal(out, 4, [](int i) { return i + 1; });
}

__global__ void says(const int *x, int n) {
    if (threadIdx.x == 0)
        printf("x[%d] is %d, %s %.1f\n", n, x[n], "and half", 0.5);
}
CASE(prints) {
    says<<<1, 32>>>(values<int>(N), 5);
    return true;
}

template <class T, int STEPS> struct Polynomial {
    T coefficient[STEPS];
    __device__ T operator()(T x) const {
        T sum = 0;
        for (int k = STEPS - 1; k >= 0; k--) sum = sum * x + coefficient[k];
        return sum;
    }
};
template <class T, class F>
__global__ void map(T *out, const T *x, int n, F f) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = f(x[i]);
}
CASE(templates_and_functors) {
    double *out = unwritten<double>(50);
    const Polynomial<double, 3> p = {{1, 2, 3}};
    map<<<1, N>>>(out, values<double>(50), 50, p);
    return equal(out, 50, [](int i) {
        const double x = value_at(i);
        return 1 + 2 * x + 3 * x * x;
    });
}

struct Image {
    int width, height;
    float *data;
    __device__ float &at(int x, int y) { return data[y * width + x]; }
};
__global__ void blur(Image out, Image in) {
    const int x = threadIdx.x, y = threadIdx.y;
    if (x >= in.width || y >= in.height) return;
    float sum = 0;
    for (int dy = -1; dy <= 1; dy++)
        for (int dx = -1; dx <= 1; dx++)
            sum += in.at(min(max(x + dx, 0), in.width - 1),
                         min(max(y + dy, 0), in.height - 1));
    out.at(x, y) = sum;
}
CASE(structs_with_pointers_by_value) {
    Image in = {7, 5, values<float>(35)}, out = {7, 5, unwritten<float>(35)};
    blur<<<1, dim3(8, 8)>>>(out, in);
    return fetch(out.data, 35)[8] ==
           value_at(0) + value_at(1) + value_at(2) + value_at(7) + value_at(8) +
               value_at(9) + value_at(14) + value_at(15) + value_at(16);
}

struct Shape {
    float side;
    __device__ Shape(float s) : side(s) {}
    __device__ virtual float area() const { return side * side; }
    __device__ virtual ~Shape() {}
};
struct Circle : Shape {
    __device__ Circle(float r) : Shape(r) {}
    __device__ float area() const override { return 3 * side * side; }
};
__global__ void areas(float *out, Shape **shapes) {
    const int t = threadIdx.x;
    shapes[t] = t % 2 ? new Circle(t) : new Shape(t);
    __syncthreads();
    out[t] = shapes[31 - t]->area();
    __syncthreads();
    delete shapes[t];
}
CASE(virtual_functions) {
    float *out = unwritten<float>(32);
    areas<<<1, 32>>>(out, unwritten<Shape *>(32));
    return equal(out, 32, [](int i) {
        const int side = 31 - i;
        return (side % 2 ? 3 : 1) * side * side;
    });
}

typedef float (*Function)(float);
__device__ float twice(float x) { return 2 * x; }
__device__ float negative(float x) { return -x; }
__device__ Function functions[2] = {twice, negative};
__device__ __noinline__ float last_of(const float *p, int n) {
    return p[n - 1];
}
__global__ void apply(float *out, const float *x) {
    __shared__ float s[N];
    float own[3] = {1, 2, x[threadIdx.x]};
    const int t = threadIdx.x;
    s[t] = x[t];
    __syncthreads();
    const float *from = t % 3 == 0 ? s : t % 3 == 1 ? x : own; // any memory
    out[t] = functions[t % 2](last_of(from, t % 3 == 2 ? 3 : t + 1));
}
CASE(pointers_to_functions_and_to_any_memory) {
    float *out = unwritten<float>(N);
    apply<<<1, N>>>(out, values<float>(N));
    return equal(out, N, [](int i) { return (i % 2 ? -1 : 2) * value_at(i); });
}

struct Tile {
    float values[2][4][8];
    int count;
};
__global__ void in_a_struct(float *out, const float *x) {
    __shared__ Tile tile;
    const int t = threadIdx.x;
    tile.values[t / 32][t / 8 % 4][t % 8] = x[t];
    if (t == 5) tile.count = 3;
    __syncthreads();
    out[t] = tile.values[1 - t / 32][t / 8 % 4][7 - t % 8] * tile.count;
}
CASE(a_struct_in_shared_memory) {
    float *out = unwritten<float>(N);
    in_a_struct<<<1, N>>>(out, values<float>(N));
    return equal(out, N, [](int i) {
        return 3 * value_at((i ^ 32) / 8 * 8 + 7 - i % 8);
    });
}

__global__ void read_only(float *out, const float *__restrict__ x, int n) {
    const int i = threadIdx.x;
    if (i < n) out[i] = __ldg(&x[i]) + __ldg(&x[n - 1 - i]);
}
CASE(ldg_and_restrict) {
    float *out = unwritten<float>(50);
    read_only<<<1, N>>>(out, values<float>(50), 50);
    return equal(out, 50, [](int i) { return value_at(i) + value_at(49 - i); });
}

__global__ void last_bytes(char *out, const char *x, int n) {
    for (int i = threadIdx.x; i < n; i += 8) out[n - 1 - i] = x[i];
    if (threadIdx.x == 0) memset(out + n, 7, 3), memcpy(out + n + 3, x, 5);
}
CASE(odd_numbers_of_bytes) {
    char *out = unwritten<char>(21);
    last_bytes<<<1, 8>>>(out, values<char>(13), 13);
    return equal(out, 16, [](int i) { return i < 13 ? value_at(12 - i) : 7; });
}

struct Large {
    int numbers[4000];
};
__global__ void large_parameter(int *out, Large large) {
    large.numbers[threadIdx.x] += 1; // only this thread's struct
    out[threadIdx.x] = large.numbers[threadIdx.x] + large.numbers[3999];
}
__global__ void largest_parameter(int *out, Large large, Large more) {
    out[threadIdx.x] = large.numbers[threadIdx.x] + more.numbers[3999];
}
CASE(parameters_of_32_kilobytes) {
    int *out = unwritten<int>(64);
    Large large;
    for (int i = 0; i < 4000; i++) large.numbers[i] = i;
    large_parameter<<<1, 64>>>(out, large);
    if (!equal(out, 64, [](int i) { return i + 4000; })) return false;
    largest_parameter<<<1, 64>>>(out, large, large);
    return equal(out, 64, [](int i) { return i + 3999; });
}
