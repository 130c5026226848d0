/* launch.cuh -- a launch that asks for what <<<>>> has no words for: much
 * shared memory, an early start, blocks in clusters. */
#ifndef WEFT_LAUNCH_CUH
#define WEFT_LAUNCH_CUH
#include "internal.cuh"

/* An attribute of the current device. */
static inline int device_has(cudaDeviceAttr which) {
    int device = 0, value = 0;
    cudaGetDevice(&device);
    cudaDeviceGetAttribute(&value, which, device);
    return value;
}

/* How a kernel is launched. */
struct launch {
    const char *name; /* of the kernel, for an error */
    dim3 grid, block;
    size_t shared_bytes; /* dynamic ones, of a block */
    cudaStream_t stream;
    /* Whether its blocks may start while the kernel before it still ends, where
     * the device can: the kernel calls pdl_wait() (ptx.cuh) before it looks at
     * what others write. Spares 1 us or 2 between two kernels. */
    int early;
    int cluster = 1; /* so many blocks along x stand together */
};

/* Let blocks of the kernel have their dynamic shared memory, where it is more
 * than any may have unasked. At each launch: it holds for one device, and costs
 * less than a search for whether it has been done. A captured launch asks once.
 */
static inline int claim_shared(const struct launch &l, const void *kernel) {
    if (l.shared_bytes <= 48 << 10) return WEFT_OK;
    const cudaError_t error = cudaFuncSetAttribute(
        kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
        (int)l.shared_bytes);
    if (error == cudaSuccess) return WEFT_OK;
    cudaGetLastError(); // not sticky
    return weft_fail(WEFT_EINVAL,
                     "%s needs %zu bytes of shared memory a block, this GPU "
                     "has %d",
                     l.name, l.shared_bytes,
                     device_has(cudaDevAttrMaxSharedMemoryPerBlockOptin));
}

/* kernel(arguments...), launched so; returns a status, as launchers do. */
template <class... P, class... A>
static int launch_kernel(const struct launch &l, void (*kernel)(P...),
                         A... arguments) {
    WEFT_TRY(claim_shared(l, (const void *)kernel));
    cudaLaunchAttribute asked[2] = {};
    unsigned count = 0;
    if (l.early && device_has(cudaDevAttrComputeCapabilityMajor) >= 9) {
        asked[count].id = cudaLaunchAttributeProgrammaticStreamSerialization;
        asked[count++].val.programmaticStreamSerializationAllowed = 1;
    }
    if (l.cluster > 1) {
        asked[count].id = cudaLaunchAttributeClusterDimension;
        asked[count].val.clusterDim.x = (unsigned)l.cluster;
        asked[count].val.clusterDim.y = asked[count].val.clusterDim.z = 1;
        count++;
    }
    cudaLaunchConfig_t config = {};
    config.gridDim = l.grid;
    config.blockDim = l.block;
    config.dynamicSmemBytes = l.shared_bytes;
    config.stream = l.stream;
    config.attrs = asked;
    config.numAttrs = count;
    const cudaError_t error =
        cudaLaunchKernelEx(&config, kernel, (P)arguments...);
    cudaGetLastError(); // not sticky
    return error ? weft_cuda_fail(error, l.name) : WEFT_OK;
}

#endif
