/* language.cu -- kernels in macros, namespaces and classes, as templates and as
 * arguments, launched from any place. */
#include <cstdio>
#include <iostream>
#include <utility>

#define CHECK(call)                                           \
    do {                                                      \
        cudaError_t error = (call);                           \
        if (error != cudaSuccess) {                           \
            fprintf(stderr, "%s:%d %s\n", __FILE__, __LINE__, \
                    cudaGetErrorString(error));               \
            exit(1);                                          \
        }                                                     \
    } while (0)
#define KERNEL __global__ void
#define EXPORTED(name) extern "C" __global__ void name
#define LAUNCH(kernel, grid, block, ...) \
    kernel<<<(grid), (block)>>>(__VA_ARGS__)
#define MAKE_ADD(T, name) \
    __global__ void name(T *p, T v) { p[threadIdx.x] += v; }

MAKE_ADD(int, add_int)
KERNEL plain(int *p) { p[threadIdx.x] = threadIdx.x; }
EXPORTED(doubled)(int *p) { p[threadIdx.x] *= 2; }

namespace outer {
namespace {
template <typename T, int N = 4>
__global__ static void __launch_bounds__(128, 2)
    scale(T *__restrict__ p, const T k = T(2)) {
    if (threadIdx.x < N) p[threadIdx.x] *= k;
}
} // namespace
} // namespace outer

class Solver {
  public:
    struct Times {
        int k;
        __host__ __device__ int operator()(int x) const { return x * k; }
    };
    explicit Solver(int *data) : data_(data) {}
    template <class F> void apply(int n, F f);
    __device__ static int twice(int x) { return 2 * x; }

  private:
    int *data_;
};

template <class F> __global__ void each(int *p, int n, F f) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) p[i] = f(Solver::twice(p[i]));
}

template <class F> void Solver::apply(int n, F f) {
    dim3 block(32), grid((n + block.x - 1) / block.x);
    each<F><<<grid, block>>>(data_, n, f);
}

template <typename T> __global__ void which(T *p) { p[0] = 1; }
template <> __global__ void which<float>(float *p) { p[0] = 2; }
template __global__ void which<double>(double *p);

template <typename T> __inline__ __device__ T warp_sum(T v) {
#pragma unroll
    for (int o = 16; o > 0; o >>= 1) v += __shfl_down_sync(~0u, v, o);
    return v;
}

template <typename T, int BLOCK>
inline __device__ __forceinline__ T block_sum(T v) {
    static __shared__ T part[32];
    const int lane = threadIdx.x % warpSize, warp = threadIdx.x / warpSize;
    v = warp_sum(v);
    if (!lane) part[warp] = v;
    __syncthreads();
    v = threadIdx.x < BLOCK / 32 ? part[lane] : T(0);
    return warp == 0 ? warp_sum(v) : v;
}

template <typename T, int BLOCK>
__global__ void sum(const T *in, T *out, int n) {
    T v = 0;
    for (int i = blockIdx.x * BLOCK + threadIdx.x; i < n;
         i += BLOCK * gridDim.x)
        v += in[i];
    v = block_sum<T, BLOCK>(v);
    if (threadIdx.x == 0) atomicAdd(out, v);
}

typedef int (*function)(int);
__device__ int plus_one(int x) { return x + 1; }
__device__ __noinline__ int times_ten(int x) { return x * 10; }
__device__ function functions[2] = {plus_one, times_ten};
__constant__ float table[4] = {1, 2, 3, 4};
__device__ int counter = 5;

struct Vec3 {
    float x, y, z;
    __host__ __device__ Vec3(float a = 0, float b = 0, float c = 0)
        : x(a), y(b), z(c) {}
    __host__ __device__ Vec3 operator+(const Vec3 &o) const {
        return Vec3(x + o.x, y + o.y, z + o.z);
    }
};

__global__ void shared(Vec3 v, Vec3 *out, int &seen) {
    __shared__ Vec3 s[4], one;
    volatile __shared__ int column[4][4 + 1];
    extern __shared__ __align__(16) char bytes[];
    float *f = (float *)bytes;
    int *g = reinterpret_cast<int *>(&f[4]);
    const int t = threadIdx.x;
    s[t] = v;
    if (t == 0) one = Vec3(1, 1, 1), seen = 77;
    column[t][t] = t;
    f[t] = table[t];
    g[t] = functions[1](t);
    __syncthreads();
    out[t] = s[3 - t] + one + Vec3(column[t][t], f[3 - t], g[3 - t]);
}

__global__ void count(int *p) {
    p[0] = functions[0](1);
    atomicAdd(&counter, 3);
    p[1] = max(threadIdx.x, 1u);
}

__global__ void put_1(int *p) { *p = 1; }
__global__ void put_2(int *p) { *p = 2; }
typedef void (*kernel)(int *);
template <kernel K> void run(int *p) { K<<<1, 1>>>(p); }
template <typename... T> __global__ void total(int *p, T... t) {
    int s = 0;
    ((s += t), ...);
    *p = s;
}

int main(int argc, char **) {
    int *p;
    CHECK(cudaMalloc(&p, 64 * sizeof(int)));
    plain<<<1, 64>>>(p);
    doubled<<<dim3(1, 1, 1), 64, 0, 0>>>(p);
    LAUNCH(add_int, 1, 64, p, 1);
    CHECK((outer::scale<int><<<1, 64>>>(p, 2), cudaGetLastError()));
    CHECK(cudaDeviceSynchronize());
    Solver solver(p);
    solver.apply(64, Solver::Times{3});
    solver.apply(64, [=] __device__(int x) { return x + 1; });
    int h[64];
    cudaMemcpy(h, p, sizeof h, cudaMemcpyDeviceToHost);
    printf("%d %d %d\n", h[0], h[3], h[63]);

    float *f;
    cudaMalloc(&f, 1024 * sizeof(float));
    which<<<1, 1>>>(f);
    which<int><<<1, 1>>>(p);
    float ones[1024], result = 0;
    for (float &x : ones) x = 0.5f;
    cudaMemcpy(h, p, sizeof(int), cudaMemcpyDeviceToHost);
    cudaMemcpy(&result, f, sizeof result, cudaMemcpyDeviceToHost);
    printf("%g %d\n", result, h[0]);
    cudaMemcpy(f, ones, sizeof ones, cudaMemcpyHostToDevice);
    cudaMemset(p, 0, sizeof(int));
    sum<float, 128><<<4, 128>>>(f, (float *)p, 1024);
    cudaMemcpy(&result, p, sizeof result, cudaMemcpyDeviceToHost);
    printf("%g\n", result);

    Vec3 *out, v[4];
    int seen = 0;
    cudaMalloc((void **)&out, sizeof v);
    shared<<<1, 4, 64>>>(Vec3(1, 2, 3), out, seen);
    cudaMemcpy(v, out, sizeof v, cudaMemcpyDeviceToHost);
    for (const Vec3 &a : v) printf("(%g %g %g) ", a.x, a.y, a.z);
    printf("%d\n", seen);

    count<<<1, 2>>>(p);
    int counted;
    cudaMemcpyFromSymbol(&counted, counter, sizeof counted);
    const kernel kernels[] = {put_1, put_2};
    kernels[0]<<<1, 1>>>(p + 2);
    run<put_2>(p + 3);
    (argc > 9 ? put_1 : put_2)<<<1, 1>>>(p + 4);
    if (argc)
        put_1<<<1, 1>>>(p + 5);
    else
        put_2<<<1, 1>>>(p + 5);
    auto launch = [&](int n) { put_2<<<n, 1>>>(p + 6); };
    launch(2);
    total<<<1, 1>>>(p + 7, 1, 2L, 3u);
    cudaMemcpy(h, p, 8 * sizeof(int), cudaMemcpyDeviceToHost);
    for (int i = 0; i < 8; i++) printf("%d ", h[i]);
    std::cout << counted << R"( <<<1, 1>>> __shared__)" << std::endl;
}
