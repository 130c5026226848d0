/* wgmma_launch.cuh -- how wide a wgmma rung's tiles are, and how it is started.
 */
#ifndef WEFT_WGMMA_LAUNCH_CUH
#define WEFT_WGMMA_LAUNCH_CUH
#include "wgmma_store.cuh"

static inline int multiprocessors(int *count) {
    int device = 0;
    WEFT_CUDA_TRY(cudaGetDevice(&device));
    WEFT_CUDA_TRY(
        cudaDeviceGetAttribute(count, cudaDevAttrMultiProcessorCount, device));
    return WEFT_OK;
}

/* The same product as c^T (n,m) = b^T (n,k) @ a^T (k,m): whatever a rung does
 * with a happens to b, but c lies as it did. */
static inline struct product turned(const struct product *q) {
    struct product r = *q;
    r.a = q->b;
    r.b = q->a;
    r.m = q->n;
    r.n = q->m;
    r.extras.step_a = q->extras.step_b;
    r.extras.step_b = q->extras.step_a;
    r.extras.pitch_a = q->extras.pitch_b;
    r.extras.pitch_b = q->extras.pitch_a;
    return r;
}

/* q cut into tiles of BM x bn, bk of k to a stage. */
static inline struct tiles cut(const struct product *q, int bn, int bk,
                               int cluster) {
    struct tiles t = {q->m,
                      q->n,
                      q->k,
                      0,
                      0,
                      0,
                      0,
                      16 / cluster,
                      cluster,
                      0,
                      q->extras.step_a != 0,
                      q->extras.step_b != 0};
    t.down = CEIL_DIV(q->m, BM * cluster);
    t.across = CEIL_DIV(q->n, bn);
    t.count = t.down * t.across * q->batch;
    t.k_steps = CEIL_DIV(q->k, bk);
    return t;
}

/* Tiles of 256 columns need the fewest loads, but where there are few of them
 * multiprocessors stand idle. Cycles, roughly: of a stage's products (twice as
 * many bytes for each at 64 columns), and of starting and storing a tile. */
static inline double tile_cost(const struct product *q, int bn, int bk,
                               int sms) {
    const struct tiles t = cut(q, bn, bk, 1);
    const double step = bn == 256 ? 1024 : bn == 128 ? 576 : 384;
    const double each = t.k_steps * step + 2000 + 16.0 * bn;
    return (double)CEIL_DIV(t.count, sms) * each;
}

static inline int best_width(const struct product *q, int bk, int sms) {
    int best = 256;
    for (int bn = 128; bn >= 64; bn /= 2)
        if (tile_cost(q, bn, bk, sms) < tile_cost(q, best, bk, sms)) best = bn;
    return best;
}

/* A cluster pays where blocks come back for many long tiles; it waits for the
 * slower of two. The CPU target has none. */
static inline int best_cluster(const struct product *q, int bn, int bk,
                               int sms) {
    const struct tiles t = cut(q, bn, bk, 1);
    return !PTX_TWIN && q->m > BM && t.count > 2 * sms && t.k_steps >= 32 ? 2
                                                                          : 1;
}

/* The kernel on as many blocks as there are multiprocessors, or tiles. */
template <class... P, class... A>
static int launch_tiles(const char *name, void (*kernel)(P...), int threads,
                        const struct tiles &t, int sms, size_t shared,
                        cudaStream_t stream, A... arguments) {
    WEFT_CUDA_TRY(cudaFuncSetAttribute(
        kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)shared));
    const int clusters = sms / t.cluster;
    cudaLaunchAttribute side_by_side = {};
    side_by_side.id = cudaLaunchAttributeClusterDimension;
    side_by_side.val.clusterDim.x = (unsigned)t.cluster;
    side_by_side.val.clusterDim.y = side_by_side.val.clusterDim.z = 1;
    cudaLaunchConfig_t config = {};
    config.gridDim =
        dim3((unsigned)((t.count < clusters ? t.count : clusters) * t.cluster));
    config.blockDim = dim3((unsigned)threads);
    config.dynamicSmemBytes = shared;
    config.stream = stream;
    config.attrs = &side_by_side;
    config.numAttrs = t.cluster > 1 ? 1 : 0;
    const cudaError_t error = cudaLaunchKernelEx(&config, kernel, arguments...);
    cudaGetLastError(); // not sticky
    return error ? weft_cuda_fail(error, name) : WEFT_OK;
}

#endif
