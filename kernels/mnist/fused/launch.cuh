/* launch.cuh -- launches of the fused step's kernels. */
#ifndef WEFT_FUSED_LAUNCH_CUH
#define WEFT_FUSED_LAUNCH_CUH
#include "common/launch.cuh"
#include "fused.h"

/* Launch kernel(...) and return a failure, as WEFT_TRY() does:
 *
 *     LAUNCH(f, conv1<FP32>, grid, threads, shared_bytes, stream, a, b);
 *
 * `grid` converts to dim3. With more than one template argument the kernel must
 * be in parentheses. With f->pdl and a grid of no more blocks than the device
 * has multiprocessors, this is a programmatic dependent launch. The kernel may
 * then start while the previous one ends, and must read that kernel's results
 * only after pdl_wait(). */
#define LAUNCH(f, kernel, grid, threads, shared_bytes, stream, ...)   \
    WEFT_TRY(fused_launch((f), 0, #kernel, kernel, (grid), (threads), \
                          (shared_bytes), (stream), __VA_ARGS__))

/* Launch a kernel whose blocks fit on a multiprocessor in pairs and all run at
 * the same time. They cannot crowd onto some multiprocessors, so they may start
 * early without the claim of fused_alone(). */
#define LAUNCH_PAIRS(f, kernel, grid, threads, shared_bytes, stream, ...) \
    WEFT_TRY(fused_launch((f), 1, #kernel, kernel, (grid), (threads),     \
                          (shared_bytes), (stream), __VA_ARGS__))

/* Return an amount of shared memory in bytes that keeps two blocks from sharing
 * a multiprocessor. Blocks that start early find some multiprocessors still
 * busy, crowd on the free ones, and stay there. On an H200, a step on 64 images
 * took 95 us with early starts alone, and 87 us without early starts. It took
 * 86 us with early starts and this claim (tf32: 62, 64 and 57). */
static size_t fused_alone(void) {
    const int all = device_has(cudaDevAttrMaxSharedMemoryPerMultiprocessor);
    const int most = device_has(cudaDevAttrMaxSharedMemoryPerBlockOptin);
    const int alone = all / 2 + (2 << 10);
    return alone < most ? alone : most;
}

/* Return whether this GPU's blocks may have twice the shared memory of a small
 * GPU's blocks (99 KB). If so, kernels load an image while they process
 * another. */
static inline int has_large_blocks() {
    return device_has(cudaDevAttrMaxSharedMemoryPerBlockOptin) >= 200 << 10;
}

static inline int smallest(int a, int b, int c) {
    const int d = a < b ? a : b;
    return d < c ? d : c;
}

template <class... P, class... A>
static int fused_launch(const struct fused *f, int pairs, const char *name,
                        void (*kernel)(P...), dim3 grid, int threads,
                        size_t shared_bytes, cudaStream_t stream,
                        A... arguments) {
    const size_t blocks = (size_t)grid.x * grid.y * grid.z;
    const bool few = blocks <= (size_t)f->blocks;
    const bool early = f->pdl && (few || pairs);
    const size_t alone = f->pdl && !pairs ? fused_alone() : 0;
    const bool claims = early && shared_bytes < alone;
    WEFT_TRY(launch_kernel({name, grid, dim3((unsigned)threads),
                            claims ? alone : shared_bytes, stream, early},
                           kernel, arguments...));
    // A graph of another batch size may launch this kernel with that claim,
    // which this launch may have forbidden.
    if (shared_bytes < alone && !claims)
        cudaFuncSetAttribute((const void *)kernel,
                             cudaFuncAttributeMaxDynamicSharedMemorySize,
                             (int)alone);
    cudaGetLastError(); // a device without room for the claim never makes it
    return WEFT_OK;
}

#endif
