/* launch.cuh -- how the fused step launches its kernels. */
#ifndef WEFT_LAUNCH_H
#define WEFT_LAUNCH_H
#include "fused.h"

/* Launch kernel(...) and pass a failure on, as WEFT_TRY() does:
 *
 *     LAUNCH(f, conv1<FP32>, grid, threads, shared_bytes, stream, a, b);
 *
 * `grid` is what dim3 is made of. With more than one template argument the
 * kernel stands in parentheses. With f->pdl it is a programmatic dependent
 * launch: the kernel may start while the one before it ends, and reads what
 * that one wrote only after pdl_wait(). */
#define LAUNCH(f, kernel, grid, threads, shared_bytes, stream, ...) \
    WEFT_TRY(fused_launch((f), #kernel, kernel, (grid), (threads),  \
                          (shared_bytes), (stream), __VA_ARGS__))

enum { SHARED_ALWAYS = 48 << 10 }; /* bytes a block may have unasked */

/* Let the kernel's blocks have that much dynamic shared memory. */
template <class... P>
static int fused_claim(const char *name, void (*kernel)(P...), size_t bytes) {
    if (bytes <= SHARED_ALWAYS) return WEFT_OK;
    // At each launch: it holds for one device, and costs less than a search
    // for whether it has been done. A captured step asks once.
    cudaError_t error = cudaFuncSetAttribute(
        kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)bytes);
    if (error == cudaSuccess) return WEFT_OK;
    int device = 0, most = 0;
    cudaGetLastError(); // not sticky
    cudaGetDevice(&device);
    cudaDeviceGetAttribute(&most, cudaDevAttrMaxSharedMemoryPerBlockOptin,
                           device);
    return weft_fail(WEFT_EINVAL,
                     "mnist: %s needs %zu bytes of shared memory a block, this "
                     "GPU has %d",
                     name, bytes, most);
}

template <class... P, class... A>
static int fused_launch(const struct fused *f, const char *name,
                        void (*kernel)(P...), dim3 grid, int threads,
                        size_t shared_bytes, cudaStream_t stream,
                        A... arguments) {
    WEFT_TRY(fused_claim(name, kernel, shared_bytes));
    cudaLaunchAttribute overlap = {};
    overlap.id = cudaLaunchAttributeProgrammaticStreamSerialization;
    overlap.val.programmaticStreamSerializationAllowed = 1;
    cudaLaunchConfig_t config = {};
    config.gridDim = grid;
    config.blockDim = dim3(threads);
    config.dynamicSmemBytes = shared_bytes;
    config.stream = stream;
    config.attrs = &overlap;
    config.numAttrs = f->pdl ? 1 : 0;
    const cudaError_t error = cudaLaunchKernelEx(&config, kernel, arguments...);
    cudaGetLastError(); // not sticky
    return error ? weft_cuda_fail(error, name) : WEFT_OK;
}

#endif
