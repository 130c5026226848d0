/* curand.cu -- random numbers on the device. */
#include <cuda_runtime.h>
#include <curand_kernel.h>

#define EXPORT extern "C" __attribute__((visibility("default")))
typedef unsigned long long u64;

/* Write a row of 18 numbers per (seed, sequence, offset) and thread. */
template <class State>
static __global__ void numbers(double *out, const u64 *from, int n) {
    const int t = blockIdx.x * blockDim.x + threadIdx.x;
    if (t >= n) return;
    State s;
    curand_init(from[3 * t], from[3 * t + 1], from[3 * t + 2], &s);
    double *row = out + 18 * t;
    for (int i = 0; i < 6; i++) *row++ = curand(&s);
    *row++ = curand_uniform(&s);
    *row++ = curand_uniform(&s);
    *row++ = curand_uniform_double(&s);
    for (int i = 0; i < 3; i++) *row++ = curand_normal(&s);
    const float2 two = curand_normal2(&s);
    *row++ = two.x;
    *row++ = two.y;
    *row++ = curand_normal_double(&s);
    *row++ = curand_normal_double(&s);
    *row++ = curand_log_normal(&s, 0.5f, 0.25f);
    *row++ = curand(&s);
}

EXPORT int run_numbers(double *out, const u64 *from, int n, int philox) {
    if (philox)
        numbers<curandStatePhilox4_32_10_t><<<1, n>>>(out, from, n);
    else
        numbers<curandState><<<1, n>>>(out, from, n);
    return cudaGetLastError();
}

/* Draw four numbers at a time. */
static __global__ void fours(double *out, const u64 *from) {
    const int t = threadIdx.x;
    curandStatePhilox4_32_10_t s;
    curand_init(from[3 * t], from[3 * t + 1], from[3 * t + 2], &s);
    double *row = out + 16 * t;
    const uint4 u = curand4(&s);
    row[0] = u.x, row[1] = u.y, row[2] = u.z, row[3] = u.w;
    const float4 f = curand_uniform4(&s);
    row[4] = f.x, row[5] = f.y, row[6] = f.z, row[7] = f.w;
    const float4 g = curand_normal4(&s);
    row[8] = g.x, row[9] = g.y, row[10] = g.z, row[11] = g.w;
    const double2 d = curand_uniform2_double(&s);
    row[12] = d.x, row[13] = d.y;
    const double2 e = curand_normal2_double(&s);
    row[14] = e.x, row[15] = e.y;
}

EXPORT int run_fours(double *out, const u64 *from, int n) {
    fours<<<1, n>>>(out, from);
    return cudaGetLastError();
}

/* States that remain in global memory from one kernel to the next. */
static __global__ void start(curandState *states, u64 seed) {
    const int t = blockIdx.x * blockDim.x + threadIdx.x;
    curand_init(seed, t, 0, &states[t]);
}

/* skip: number of values that each thread skips. */
static __global__ void one_each(unsigned *out, curandState *states, u64 skip) {
    const int t = blockIdx.x * blockDim.x + threadIdx.x;
    curandState mine = states[t];
    skipahead(skip, &mine);
    out[t] = curand(&mine);
    states[t] = mine;
}

EXPORT int run_states(unsigned *out, int blocks, int threads, u64 seed,
                      u64 skip) {
    curandState *states;
    cudaMalloc(&states, blocks * threads * sizeof *states);
    start<<<blocks, threads>>>(states, seed);
    one_each<<<blocks, threads>>>(out, states, skip);
    one_each<<<blocks, threads>>>(out + blocks * threads, states, 0);
    cudaFree(states);
    return cudaGetLastError();
}

static __global__ void poisson(unsigned *out, double mean) {
    const int t = blockIdx.x * blockDim.x + threadIdx.x;
    curandStatePhilox4_32_10_t s;
    curand_init(8, t, 0, &s);
    out[t] = curand_poisson(&s, mean);
}

EXPORT int run_poisson(unsigned *out, int blocks, double mean) {
    poisson<<<blocks, 128>>>(out, mean);
    return cudaGetLastError();
}

/* These kernels need not be fast, and -O1 compiles them sooner than -O3. */
/* g++: -O1 */
