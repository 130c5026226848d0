/* reduce.cuh -- the rungs of reduce, and the code that they share.
 *
 * The identity of floating-point addition is -0, not 0: x + -0 is x for every
 * x, but -0 + 0 is 0. So lanes without a number add -0. */
#ifndef WEFT_REDUCE_CUH
#define WEFT_REDUCE_CUH
#include "common/internal.cuh"

#include "common/checks.cuh"
#include "common/last_block.cuh"
#include "common/launch.cuh"
#include "common/scratch.cuh"

/* The arguments of weft_reduce(), which the rungs receive. */
struct reduction {
    float *sum;     // (1)
    const float *x; // (count)
    size_t count;
    int blocks; // blocks of the grid; 0: as many as keep the device busy
    cudaStream_t stream;
};

/* Queue the work of a rung; each returns a weft_status. */
int reduce_atomic(const struct reduction *r);
int reduce_tree(const struct reduction *r);
int reduce_shuffle(const struct reduction *r);
int reduce_vector(const struct reduction *r);
int reduce_two_kernels(const struct reduction *r);
int reduce_last_block(const struct reduction *r);
int reduce_fixed_order(const struct reduction *r);
int reduce_compensated(const struct reduction *r);
int reduce_tickets(const struct reduction *r);

enum { WARP = 32, WARPS = THREADS / WARP };

/* The number of blocks that must fit on a multiprocessor: threads have at most
 * 40 registers, or 64 where a multiprocessor holds only 1024 threads. */
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 800
enum { RESIDENT = 4 };
#else
enum { RESIDENT = 6 };
#endif

/* Return the number of blocks for a kernel whose blocks take several parts of
 * x: the caller's number, or `times` as many as run at the same time, but at
 * most `most`. With a few more than run at the same time, the last blocks would
 * begin only when the first ones end, and most of the device would wait for
 * them. On the CPU target, the number is constant. */
template <class Kernel>
static unsigned reduce_grid(const struct reduction *r, Kernel kernel,
                            size_t most, unsigned times = 1) {
    size_t blocks = r->blocks;
    if (!blocks) blocks = times * count_resident(kernel, THREADS, 0, 8);
    return (unsigned)(blocks < most ? blocks : most);
}

/* Return to every lane the sum over the warp's lanes, added in a tree. */
static __device__ __forceinline__ float add_lanes(float value) {
    for (int distance = WARP / 2; distance > 0; distance /= 2)
        value += __shfl_xor_sync(0xffffffff, value, distance);
    return value;
}

/* Return to the first warp the sum over its block of THREADS threads. The order
 * of the additions is always the same. No thread may be using sums_s. */
static __device__ __forceinline__ float add_threads(float value,
                                                    float sums_s[WARPS]) {
    const int lane = threadIdx.x % WARP;
    const float sum = add_lanes(value);
    if (lane == 0) sums_s[threadIdx.x / WARP] = sum;
    __syncthreads(); // the sums of all warps are stored
    return add_lanes(lane < WARPS ? sums_s[lane] : -0.0f);
}

/* Return number i of x, or -0 past its end. */
static __device__ __forceinline__ float number_at(const float *x, size_t i,
                                                  size_t count) {
    return i < count ? x[i] : -0.0f;
}

/* Return numbers 4 i to 4 i + 3 of x, and -0 past its end. `aligned`: whether x
 * is aligned to 16 bytes, so that one load can fetch them. */
static __device__ __forceinline__ float4 four_at(const float *x, size_t i,
                                                 size_t count, bool aligned) {
    if (aligned && 4 * i + 4 <= count) return ((const float4 *)x)[i];
    return make_float4(
        number_at(x, 4 * i, count), number_at(x, 4 * i + 1, count),
        number_at(x, 4 * i + 2, count), number_at(x, 4 * i + 3, count));
}

static __device__ __forceinline__ float4 add_fours(float4 a, float4 b) {
    return make_float4(a.x + b.x, a.y + b.y, a.z + b.z, a.w + b.w);
}

static __device__ __forceinline__ float add_four(float4 a) {
    return (a.x + a.y) + (a.z + a.w);
}

static __device__ __forceinline__ bool is_aligned(const void *x) {
    return (uintptr_t)x % sizeof(float4) == 0;
}

enum { LOADS = 4 }; // loads in flight per thread

/* Return the calling thread's part of the sum of x. A thread has LOADS loads of
 * four numbers in flight, each a grid's width past the previous one. */
static __device__ __forceinline__ float add_own(const float *x, size_t count) {
    const bool aligned = is_aligned(x);
    const size_t step = (size_t)gridDim.x * THREADS, fours = CEIL_DIV(count, 4);
    const float4 none = make_float4(-0.0f, -0.0f, -0.0f, -0.0f);
    float4 sums[LOADS] = {none, none, none, none};
    for (size_t i = (size_t)blockIdx.x * THREADS + threadIdx.x; i < fours;
         i += LOADS * step) {
#pragma unroll
        for (int j = 0; j < LOADS; j++)
            sums[j] =
                add_fours(sums[j], four_at(x, i + j * step, count, aligned));
    }
    const float4 left = add_fours(sums[0], sums[1]);
    return add_four(add_fours(left, add_fours(sums[2], sums[3])));
}

/* Store the block's sum `total` in partials. The last block adds them all and
 * stores *sum. */
static __device__ __forceinline__ void finish(float *sum, float *partials,
                                              unsigned *arrived, float total,
                                              float sums_s[WARPS],
                                              bool *last_s) {
    if (threadIdx.x == 0) partials[blockIdx.x] = total;
    if (!arrive_last(arrived, last_s)) return;
    float rest = -0.0f;
    for (unsigned i = threadIdx.x; i < gridDim.x; i += THREADS)
        rest += partials[i];
    rest = add_threads(rest, sums_s);
    if (threadIdx.x == 0) *sum = rest;
}

#endif
