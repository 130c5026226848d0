/* rows.cuh -- loads, sums and memory of a row that threads share.
 *
 * Numbers that a thread handles alone are in groups of four. If rows begin at
 * multiples of 16 bytes, the four are neighbours, and one load fetches them.
 * Otherwise the four are as far apart as the group has threads, so that the
 * threads of a warp load neighbours in each of four loads. */
#ifndef WEFT_ROWS_CUH
#define WEFT_ROWS_CUH
#include "internal.cuh"

#include "checks.cuh"
#include "launch.cuh"

enum { WARP = 32, WARPS = THREADS / WARP };

/* Return to every lane the sum over the warp's lanes, added in a tree. */
template <class T> static __device__ __forceinline__ T add_lanes(T value) {
    for (int distance = WARP / 2; distance > 0; distance /= 2)
        value += __shfl_xor_sync(0xffffffff, value, distance);
    return value;
}

/* Return to each thread the sum over its block of COUNT warps. The order
 * of the additions is always the same. */
template <int COUNT>
static __device__ __forceinline__ float add_threads(float value,
                                                    float (&values_s)[COUNT]) {
    const int lane = threadIdx.x % WARP;
    value = add_lanes(value);
    __syncthreads(); // no thread uses the values of an earlier call
    if (lane == 0) values_s[threadIdx.x / WARP] = value;
    __syncthreads(); // the sums of all warps are stored
    return add_lanes(lane < COUNT ? values_s[lane] : 0.0f);
}

/* ---- groups of four ------------------------------------------------------ */

struct __align__(16) four {
    float at[4];
};

/* How a kernel reads an array. CONSTANT: no thread writes it, so that the
 * compiler may move the load ahead of stores. ONCE: each number is read once.
 */
enum reading { READ, READ_CONSTANT, READ_ONCE };

/* Load four numbers that are read once. With the hint "evict last", the caches
 * drop stored numbers before they drop loaded ones. On an H200, a copy of 1 GB
 * takes 497 us with the hint and 504 us without. A kernel that keeps rows in
 * registers becomes up to 3 % faster (2026-11-30). "Evict first" makes both
 * slower. */
static __device__ __forceinline__ float4 load_once(const float4 *at) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
    float4 v;
    uint64_t last;
    asm("createpolicy.fractional.L2::evict_last.b64 %0, 1.0;" : "=l"(last));
    asm volatile("ld.global.L1::evict_last.L2::cache_hint.v4.f32 "
                 "{%0, %1, %2, %3}, [%4], %5;"
                 : "=f"(v.x), "=f"(v.y), "=f"(v.z), "=f"(v.w)
                 : "l"(at), "l"(last));
    return v;
#else
    return *at;
#endif
}

/* A thread among `width` that share a row or a part of one. Its group j has the
 * numbers that find() returns. WIDE: whether the four are neighbours. */
template <bool WIDE> struct sharer {
    unsigned own, width;

    __device__ __forceinline__ size_t find(unsigned j, unsigned k) const {
        const size_t first = (size_t)j * width;
        return WIDE ? 4 * (first + own) + k : 4 * first + k * width + own;
    }
    /* Return the number of groups that a row of `count` numbers needs. */
    __device__ __forceinline__ unsigned count_groups(unsigned count) const {
        return CEIL_DIV(count, 4 * width);
    }
    /* Return how many of `count` numbers this thread's warp has in `groups`
     * groups. */
    __device__ __forceinline__ unsigned count_warp(unsigned groups,
                                                   unsigned count) const {
        const unsigned together = WIDE ? 4 : 1, step = together * WARP;
        unsigned found = 0;
#pragma unroll
        for (unsigned j = 0; j < groups * 4 / together; j++) {
            const unsigned first = together * (j * width + own / WARP * WARP);
            found += first < count ? min(count - first, step) : 0;
        }
        return found;
    }
    /* Load group j of x; numbers at or past `count` are `other`. */
    template <int AS = READ>
    __device__ __forceinline__ four load(const float *x, unsigned j,
                                         unsigned count, float other) const {
        four v = {other, other, other, other};
        if (WIDE) {
            const size_t i = find(j, 0);
            if (i < count) {
                const float4 *const at = (const float4 *)(x + i);
                const float4 wide = AS == READ_CONSTANT ? __ldg(at)
                                    : AS == READ_ONCE   ? load_once(at)
                                                        : *at;
                v = {wide.x, wide.y, wide.z, wide.w};
            }
        } else {
#pragma unroll
            for (int k = 0; k < 4; k++)
                if (find(j, k) < count)
                    v.at[k] = AS == READ_CONSTANT ? __ldg(x + find(j, k))
                                                  : x[find(j, k)];
        }
        return v;
    }
    __device__ __forceinline__ void store(float *y, unsigned j, unsigned count,
                                          four v) const {
        if (WIDE) {
            const size_t i = find(j, 0);
            if (i < count)
                *(float4 *)(y + i) =
                    make_float4(v.at[0], v.at[1], v.at[2], v.at[3]);
        } else {
#pragma unroll
            for (int k = 0; k < 4; k++)
                if (find(j, k) < count) y[find(j, k)] = v.at[k];
        }
    }
};

/* Return whether every row begins at a multiple of 16 bytes in each array. */
static inline bool rows_are_aligned(const void *a, const void *b, const void *c,
                                    unsigned cols) {
    return are_aligned(a, b, c) && cols % 4 == 0;
}

static __device__ __forceinline__ float add_four(four v) {
    return (v.at[0] + v.at[1]) + (v.at[2] + v.at[3]);
}

static __device__ __forceinline__ four scale_four(four v, float factor) {
    return {v.at[0] * factor, v.at[1] * factor, v.at[2] * factor,
            v.at[3] * factor};
}

static __device__ __forceinline__ float dot_four(four a, four b) {
    return (a.at[0] * b.at[0] + a.at[1] * b.at[1]) +
           (a.at[2] * b.at[2] + a.at[3] * b.at[3]);
}

/* ---- parts of a row that stay on the chip -------------------------------- */

/* Return how many floats of dynamic shared memory a block may use, in whole
 * groups of four per thread. It may use 64 KB on a device of compute capability
 * 7.5 and 100 KB on others, less 1 KB for a kernel's own arrays. */
static inline unsigned count_room(void) {
    const int most = device_has(cudaDevAttrMaxSharedMemoryPerBlockOptin);
    const int bytes = most < 100 << 10 ? most : 100 << 10;
    return (unsigned)(bytes - 1024) / (4 * THREADS * 4) * (4 * THREADS);
}

#endif
