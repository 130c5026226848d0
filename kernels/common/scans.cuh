/* scans.cuh -- sums over earlier lanes and warps. T is float or an unsigned
 * integer. */
#ifndef WEFT_SCANS_CUH
#define WEFT_SCANS_CUH
#include "internal.cuh"

#include "rows.cuh"

/* Return the value of the lane `distance` lanes below, or 0 without one. */
template <class T>
static __device__ __forceinline__ T shift_lanes(T value, int distance) {
    const T left = __shfl_up_sync(0xffffffff, value, distance);
    return threadIdx.x % WARP >= (unsigned)distance ? left : T();
}

/* Return to each lane the sum over the lanes up to and including itself. */
template <class T> static __device__ __forceinline__ T scan_lanes(T value) {
    for (int distance = 1; distance < WARP; distance *= 2)
        value += shift_lanes(value, distance);
    return value;
}

/* Return the number of set bits of `votes` below the lane's own. */
static __device__ __forceinline__ unsigned count_below(unsigned votes) {
    return __popc(votes & ((1u << threadIdx.x % WARP) - 1));
}

/* Return to each thread the sum over all earlier warps. Lane 0 passes the sum
 * of its own warp. *total receives the sum over the block. No thread may be
 * using sums_s. */
template <class T>
static __device__ __forceinline__ T add_earlier_warps(T own, T sums_s[WARPS],
                                                      T *total) {
    const unsigned warp = threadIdx.x / WARP;
    T sum = T(), before = T();
    if (threadIdx.x % WARP == 0) sums_s[warp] = own;
    __syncthreads(); // the sums of all warps are stored
#pragma unroll
    for (unsigned w = 0; w < WARPS; w++) {
        if (w == warp) before = sum;
        sum += sums_s[w];
    }
    *total = sum;
    return before;
}

#endif
