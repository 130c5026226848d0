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

/* Divide a row of `cols` numbers if a block keeps a slice of each of `arrays`
 * arrays. Slices are small if 8 blocks suffice for the row: every device with
 * clusters supports clusters of 8. A larger cluster waits longer for free
 * multiprocessors, so its slices fill more registers. */
static inline slices divide_row(unsigned cols, unsigned arrays) {
    const unsigned large = 16384 / arrays, most = count_cluster();
    unsigned blocks = 1;
    while (blocks < most &&
           CEIL_DIV(cols, blocks) > (blocks < 8 ? large / 2 : large))
        blocks *= 2;
    return {blocks, CEIL_DIV(CEIL_DIV(cols, blocks), WARP) * WARP};
}

/* Return the number of the row's elements in slice `rank`. */
static __device__ __forceinline__ unsigned count_slice(slices s, unsigned rank,
                                                       unsigned cols) {
    return min(s.length, cols - rank * s.length);
}

/* The values of a cluster's blocks, each a struct of floats. Rows use the two
 * sets in turn: a thread may still be reading the values of one row when
 * another block sends its value for the next. */
template <class T> struct exchanged {
    mbarrier arrived[2];
    T all[2][MOST_IN_CLUSTER];
};

/* Prepare s in the block's shared memory. All threads call this once. */
template <class T>
static __device__ __forceinline__ void begin_exchange(exchanged<T> *s) {
    if (threadIdx.x == 0) {
        mbarrier_init(&s->arrived[0], 1);
        mbarrier_init(&s->arrived[1], 1);
        fence_barrier_init();
    }
    cluster_arrive(); // the first exchange waits
}

/* Send the block's value `own` to every block of the cluster. Return the value
 * of block i to lane i of each warp, and `none` to the other lanes. All threads
 * call this for their row number `turn`, counted from 0. No block accesses
 * another one after the last row. */
template <class T>
static __device__ __forceinline__ T exchange_in_cluster(exchanged<T> *s, T own,
                                                        T none, unsigned turn,
                                                        unsigned rank,
                                                        unsigned blocks) {
    mbarrier *const bar = &s->arrived[turn % 2];
    T *const all = s->all[turn % 2];
    const unsigned lane = threadIdx.x % WARP;
#if HOPPER
    // Without clusters, st.async would be an illegal instruction.
    if (blocks == 1) return lane == 0 ? own : none;
#endif
    if (turn == 0) cluster_wait(); // all blocks have prepared their barriers
    if (threadIdx.x == 0) mbarrier_expect(bar, blocks * sizeof(T));
    if (threadIdx.x < blocks)
#pragma unroll
        for (unsigned i = 0; i < sizeof(T) / sizeof(float); i++)
            cluster_send((float *)(all + rank) + i, ((float *)&own)[i], bar,
                         threadIdx.x);
    mbarrier_wait_cluster(bar, turn / 2 % 2);
    return lane < blocks ? all[lane] : none;
}

/* Return how many clusters of this launch run at the same time, at most `most`.
 * On the CPU target, the number is the same on every machine. */
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
    return min(count_resident(kernel, l.block.x, 0, 2), most);
#endif
}

/* Launch kernel(arguments...) for `rows` rows that are cut into slices, in
 * blocks of `threads` threads. There is a cluster for each row, or as many
 * clusters as run at the same time, which then take several rows each. Return a
 * status. */
template <class Kernel, class... A>
static int launch_clusters(const char *name, Kernel kernel, slices cut,
                           unsigned threads, unsigned rows, cudaStream_t stream,
                           A... arguments) {
    struct launch l = {name,   cut.blocks, threads,        0,
                       stream, 0,          (int)cut.blocks};
    l.grid = count_clusters(l, kernel, rows) * cut.blocks;
    return launch_kernel(l, kernel, arguments...);
}

#endif
