/* cluster.cuh -- how the blocks of a cluster share a row, of which each keeps a
 * slice in registers. */
#ifndef WEFT_CLUSTER_CUH
#define WEFT_CLUSTER_CUH
#include "hopper.cuh"
#include "registers.cuh"

enum { MOST_IN_CLUSTER = 16 }; // blocks

/* Return how many blocks a cluster may have: 1 on a device without clusters, and
 * on the CPU target. */
static inline unsigned count_cluster(void) {
#ifdef __CUDACC__
    const int major = device_has(cudaDevAttrComputeCapabilityMajor);
    return major < 9 ? 1 : major < 11 ? MOST_IN_CLUSTER : 8;
#else
    return 1;
#endif
}

/* The slices of a row, one for each block of a cluster. The last may be shorter
 * or empty. */
struct slices {
    unsigned blocks, length;
};

/* Divide a row of `cols` numbers into slices of at most `wanted` numbers, or of
 * more if a cluster would need too many blocks. */
static inline slices divide_row(unsigned cols, unsigned wanted) {
    unsigned blocks = 1;
    while (blocks < count_cluster() && CEIL_DIV(cols, blocks) > wanted)
        blocks *= 2;
    return {blocks, CEIL_DIV(CEIL_DIV(cols, blocks), WARP) * WARP};
}

/* Return how many of the row's numbers are in slice `rank`. */
static __device__ __forceinline__ unsigned count_slice(slices s, unsigned rank,
                                                       unsigned cols) {
    const unsigned start = min(rank * s.length, cols);
    return min(s.length, cols - start);
}

/* Store each block's value, a struct of floats, in place `rank` of all_s in
 * every block of the cluster. All threads call this, after a cluster_arrive()
 * by which every block has begun. Behind it no block accesses another. */
template <class T>
static __device__ __forceinline__ void
exchange_in_cluster(T own, T all_s[MOST_IN_CLUSTER], unsigned rank,
                    unsigned blocks) {
    cluster_wait(); // every block has begun
    if (threadIdx.x < blocks)
#pragma unroll
        for (unsigned i = 0; i < sizeof(T) / sizeof(float); i++)
            cluster_store((float *)(all_s + rank) + i, ((float *)&own)[i],
                          threadIdx.x);
    cluster_arrive();
    cluster_wait(); // the values of all blocks are stored
}

#endif
