/* cluster.cuh -- sharing a row among the blocks of a cluster, each of which
 * keeps a slice in registers. */
#ifndef WEFT_CLUSTER_CUH
#define WEFT_CLUSTER_CUH
#include "hopper.cuh"
#include "registers.cuh"

enum { MOST_IN_CLUSTER = 16 }; // blocks

/* Return the maximum number of blocks of a cluster: 1 on a device without
 * clusters, and on the CPU target. */
static inline unsigned count_cluster(void) {
#ifdef __CUDACC__
    const int major = device_has(cudaDevAttrComputeCapabilityMajor);
    return major < 9 ? 1 : major < 11 ? MOST_IN_CLUSTER : 8;
#else
    return 1;
#endif
}

/* The slices of a row, one for each block of a cluster; the last may be
 * shorter. */
struct slices {
    unsigned blocks, length;
};

/* Divide a row of `cols` numbers into slices of at most `wanted` numbers, or of
 * more if that would take too many blocks. `wanted` is at least 1024, so
 * that no slice is empty. */
static inline slices divide_row(unsigned cols, unsigned wanted) {
    unsigned blocks = 1;
    while (blocks < count_cluster() && CEIL_DIV(cols, blocks) > wanted)
        blocks *= 2;
    return {blocks, CEIL_DIV(CEIL_DIV(cols, blocks), WARP) * WARP};
}

/* Return the number of the row's elements in slice `rank`. */
static __device__ __forceinline__ unsigned count_slice(slices s, unsigned rank,
                                                       unsigned cols) {
    return min(s.length, cols - rank * s.length);
}

/* Store each block's value, a struct of floats, in place `rank` of all_s in
 * every block of the cluster. All threads call this, after a cluster_arrive():
 * each block has begun and needs no earlier values. No block accesses another
 * one afterwards. */
template <class T>
static __device__ __forceinline__ void
exchange_in_cluster(T own, T all_s[MOST_IN_CLUSTER], unsigned rank,
                    unsigned blocks) {
    cluster_wait(); // every block has begun this row
    if (threadIdx.x < blocks)
#pragma unroll
        for (unsigned i = 0; i < sizeof(T) / sizeof(float); i++)
            cluster_store((float *)(all_s + rank) + i, ((float *)&own)[i],
                          threadIdx.x);
    cluster_arrive();
    cluster_wait(); // the values of all blocks are stored
}

/* Return how many clusters of this launch run at the same time, at most `most`.
 * The CPU target's number does not depend on the machine. */
template <class Kernel>
static unsigned count_clusters(const struct launch &l, Kernel kernel,
                               unsigned most) {
#ifdef __CUDACC__
    cudaLaunchAttribute asked = {};
    asked.id = cudaLaunchAttributeClusterDimension;
    asked.val.clusterDim = {(unsigned)l.cluster, 1, 1};
    cudaLaunchConfig_t config = {};
    config.gridDim = (unsigned)l.cluster;
    config.blockDim = l.block;
    config.attrs = &asked;
    config.numAttrs = 1;
    int clusters = 1;
    claim_cluster(l, (const void *)kernel);
    cudaOccupancyMaxActiveClusters(&clusters, kernel, &config);
    cudaGetLastError(); // the launch reports an error
    return min((unsigned)max(clusters, 1), most);
#else
    return count_blocks(kernel, l.block.x, most);
#endif
}

#endif
