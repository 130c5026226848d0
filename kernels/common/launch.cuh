/* launch.cuh -- launches with options that <<<>>> cannot express: large shared
 * memory, an early start, and blocks in clusters. */
#ifndef WEFT_LAUNCH_CUH
#define WEFT_LAUNCH_CUH
#include "internal.cuh"

/* Return the value of an attribute of the current device. */
static inline int device_has(cudaDeviceAttr which) {
    int device = 0, value = 0;
    cudaGetDevice(&device);
    cudaDeviceGetAttribute(&value, which, device);
    return value;
}

/* The options of a launch. */
struct launch {
    const char *name; /* the kernel's name, for error messages */
    dim3 grid, block;
    size_t shared_bytes; /* dynamic shared memory per block */
    cudaStream_t stream;
    /* Whether the kernel's blocks may start while the previous kernel is still
     * ending, if the device supports it. The kernel must call pdl_wait()
     * (ptx.cuh) before it reads the results of other kernels. This saves 1 or 2
     * us between two kernels. */
    int early;
    int cluster = 1;  /* number of blocks along x that form a cluster */
    int together = 0; /* whether all blocks must run at the same time */
};

/* Permit the kernel's blocks to use their dynamic shared memory if it exceeds
 * the default limit of 48 KB, which also covers a kernel's own arrays. This
 * happens at each launch, because the permission is for one device only,
 * and setting it costs less than querying it. A captured launch sets it
 * once. */
static inline int claim_shared(const struct launch &l, const void *kernel) {
    if (l.shared_bytes <= 32 << 10) return WEFT_OK;
    const cudaError_t error = cudaFuncSetAttribute(
        kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
        (int)l.shared_bytes);
    if (error == cudaSuccess) return WEFT_OK;
    cudaGetLastError(); // clear the error, which is not sticky
    return weft_fail(WEFT_EINVAL,
                     "%s needs %zu bytes of shared memory a block, this GPU "
                     "has %d",
                     l.name, l.shared_bytes,
                     device_has(cudaDevAttrMaxSharedMemoryPerBlockOptin));
}

/* Permit the kernel's clusters to have more than 8 blocks, which devices of 9.0
 * and 10.0 support. */
static inline void claim_cluster(const struct launch &l, const void *kernel) {
    if (l.cluster <= 8) return;
    cudaFuncSetAttribute(kernel, cudaFuncAttributeNonPortableClusterSizeAllowed,
                         1);
}

/* Return how many blocks of the kernel, with `shared_bytes` of dynamic shared
 * memory each, the device runs at the same time: at least 1. On the CPU target,
 * return on_cpu, so that the result does not depend on the machine. */
template <class Kernel>
static unsigned count_resident(Kernel kernel, unsigned threads,
                               size_t shared_bytes, unsigned on_cpu) {
#ifdef __CUDACC__
    int blocks = 0;
    cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, kernel, (int)threads,
                                                  shared_bytes);
    (void)on_cpu;
    return (unsigned)(max(blocks, 1) *
                      device_has(cudaDevAttrMultiProcessorCount));
#else
    (void)kernel, (void)threads, (void)shared_bytes;
    return on_cpu;
#endif
}

/* Launch kernel(arguments...) with these options and return a status. */
template <class... P, class... A>
static int launch_kernel(const struct launch &l, void (*kernel)(P...),
                         A... arguments) {
    WEFT_TRY(claim_shared(l, (const void *)kernel));
    claim_cluster(l, (const void *)kernel);
    cudaLaunchAttribute asked[3] = {};
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
    if (l.together) {
        asked[count].id = cudaLaunchAttributeCooperative;
        asked[count++].val.cooperative = 1;
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
    cudaGetLastError(); // clear the error, which is not sticky
    return error ? weft_cuda_fail(error, l.name) : WEFT_OK;
}

#endif
