/* block.cu -- joint and separate work of a block's threads. */
#include <cuda_runtime.h>
#include <stdint.h>

#define EXPORT extern "C" __attribute__((visibility("default")))

/* out[i] = the sum of block i's n elements of x, n = blockDim.x. */
static __global__ void block_sum(float *out, const float *x) {
    extern __shared__ float s[];
    const int t = threadIdx.x;
    s[t] = x[blockIdx.x * blockDim.x + t];
    __syncthreads();
    for (int step = blockDim.x / 2; step; step /= 2) {
        if (t < step) s[t] += s[t + step];
        __syncthreads();
    }
    if (t == 0) out[blockIdx.x] = s[0];
}

EXPORT int run_block_sum(float *out, const float *x, int blocks, int threads) {
    block_sum<<<blocks, threads, threads * sizeof(float)>>>(out, x);
    return cudaGetLastError();
}

/* Do the same without the barrier between writes and reads. */
static __global__ void neighbour_without_barrier(int *out) {
    __shared__ int s[256];
    s[threadIdx.x] = threadIdx.x + 1;
    out[threadIdx.x] = s[(threadIdx.x + 1) % 256];
}

EXPORT int run_neighbour_without_barrier(int *out) {
    neighbour_without_barrier<<<1, 256>>>(out);
    return cudaGetLastError();
}

/* Threads at or above `stay` return before the barriers of the others. */
static __global__ void early_return(int *out, int stay) {
    __shared__ int sum;
    if ((int)threadIdx.x >= stay) return;
    if (threadIdx.x == 0) sum = 0;
    __syncthreads();
    atomicAdd(&sum, threadIdx.x + 1);
    __syncthreads();
    out[blockIdx.x * blockDim.x + threadIdx.x] = sum;
}

EXPORT int run_early_return(int *out, int blocks, int threads, int stay) {
    early_return<<<blocks, threads>>>(out, stay);
    return cudaGetLastError();
}

/* Threads leave one after another, and the others continue. */
static __global__ void leave_one_by_one(int *left) {
    for (unsigned i = 0; i < threadIdx.x; i++) {
        const int here = __syncthreads_count(1);
        if (threadIdx.x == blockDim.x - 1) left[i] = here;
    }
}

EXPORT int run_leave_one_by_one(int *left, int threads) {
    leave_one_by_one<<<1, threads>>>(left);
    return cudaGetLastError();
}

/* Store the votes of three successive barriers: count, any, all. */
static __global__ void barrier_votes(int *out) {
    const int t = threadIdx.x, n = blockDim.x;
    const int count = __syncthreads_count(t % 3 == 0);
    const int any = __syncthreads_or(t == n - 1), none = __syncthreads_or(0);
    const int all = __syncthreads_and(1), some = __syncthreads_and(t != 5);
    int *mine = out + t * 5;
    mine[0] = count, mine[1] = any, mine[2] = none, mine[3] = all;
    mine[4] = some;
}

EXPORT int run_barrier_votes(int *out, int threads) {
    barrier_votes<<<1, threads>>>(out);
    return cudaGetLastError();
}

static __device__ int reversed(int value) {
    __shared__ int buffer[1024]; // each device function has its own memory
    buffer[threadIdx.x] = value;
    __syncthreads();
    return buffer[blockDim.x - 1 - threadIdx.x];
}

/* Use several shared arrays in one declaration, in several, and in a callee. */
static __global__ void many_arrays(int *out) {
    __shared__ int a[32][33], b[4], c;
    __shared__ struct {
        double d[32];
        char e;
    } pair;
    __shared__ alignas(16) unsigned char bytes[64];
    const int tx = threadIdx.x % 32, ty = threadIdx.x / 32;
    a[ty][tx] = threadIdx.x;
    if (tx == 0 && ty < 4) b[ty] = 100 * ty;
    if (threadIdx.x == 0) c = 7, pair.e = 3;
    if (ty == 0) pair.d[tx] = tx * 0.5;
    if (threadIdx.x < 64) bytes[threadIdx.x] = threadIdx.x;
    __syncthreads();
    const int other = reversed(threadIdx.x);
    __syncthreads();
    out[threadIdx.x] = a[tx][ty] + b[3] + c + pair.e + (int)(2 * pair.d[tx]) +
                       bytes[63] + other + ((uintptr_t)bytes % 16 != 0);
}

EXPORT int run_many_arrays(int *out) {
    many_arrays<<<1, 1024>>>(out);
    return cudaGetLastError();
}

/* out = x, rotated by N places within each block. */
template <int N, class T> __global__ void rotate(T *out, const T *x) {
    __shared__ T tile[128];
    tile[threadIdx.x] = x[blockIdx.x * 128 + threadIdx.x];
    __syncthreads();
    out[blockIdx.x * 128 + threadIdx.x] = tile[(threadIdx.x + N) % 128];
}

template <class T, bool upwards> static __global__ void dynamic_copy(T *p) {
    extern __shared__ __align__(16) unsigned char raw[];
    T *s = reinterpret_cast<T *>(raw);
    const int n = blockDim.x, t = threadIdx.x;
    s[t] = p[t];
    __syncthreads();
    p[t] = upwards ? s[(t + 1) % n] : s[(t + n - 1) % n];
}

EXPORT int run_templates(float *f, double *d, const float *x, int blocks) {
    rotate<5><<<blocks, 128>>>(f, x); // the compiler deduces T
    dynamic_copy<double, (2 > 1)><<<1, 64, 64 * sizeof(double)>>>(d);
    dynamic_copy<double, (2 > 1)><<<1, 64, 64 * sizeof(double), 0>>>(d);
    dynamic_copy<double, false><<<1, 64, 64 * sizeof(double)>>>(d);
    return cudaGetLastError();
}

/* Write every thread's indices: n = gridDim * blockDim rows of 12. */
__global__ void who(unsigned *out) {
    const unsigned block =
        (blockIdx.z * gridDim.y + blockIdx.y) * gridDim.x + blockIdx.x;
    const unsigned thread =
        (threadIdx.z * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x;
    unsigned *row =
        out + 12 * (block * blockDim.x * blockDim.y * blockDim.z + thread);
    const uint3 t = threadIdx, b = blockIdx;
    const dim3 n = blockDim, g = gridDim;
    row[0] = t.x, row[1] = t.y, row[2] = t.z;
    row[3] = b.x, row[4] = b.y, row[5] = b.z;
    row[6] = n.x, row[7] = n.y, row[8] = n.z;
    row[9] = g.x, row[10] = g.y, row[11] = g.z;
}

EXPORT int run_who(unsigned *out, const int *g, const int *b) {
    // A host's own variables may have the names of the built-in ones.
    dim3 gridDim(g[0], g[1], g[2]), blockDim(b[0], b[1]);
    blockDim.z = b[2];
    who<<<gridDim, blockDim>>>(out);
    return cudaGetLastError();
}

/* A thread may change its parameters: the next one has the original. */
static __global__ void change_parameters(int *out, int n) {
    out += blockIdx.x * blockDim.x + threadIdx.x;
    n += threadIdx.x;
    *out = n;
}

static int calls;
static int counted(int value) {
    calls++;
    return value;
}

EXPORT int run_arguments_once(int *out) {
    int i = 10;
    calls = 0;
    change_parameters<<<counted(3), counted(32)>>>(out, counted(i++));
    return calls * 100 + i; // the third call, with i = 11
}

struct Numbers {
    int of[40];
};

/* Parameters of any type are converted once, at the call. */
static __global__ void typed(float *out, Numbers numbers, double third,
                             const char *none, unsigned char small) {
    numbers.of[threadIdx.x] += none == NULL;
    out[threadIdx.x] =
        numbers.of[threadIdx.x] + (float)third + (float)small / 256;
}

EXPORT int run_typed(float *out) {
    Numbers numbers = {{}};
    int wide = 256 + 64; // an unsigned char stores 64
    for (int i = 0; i < 40; i++) numbers.of[i] = i;
    typed<<<1, 40>>>(out, numbers, 3, NULL, wide);
    return cudaGetLastError();
}
