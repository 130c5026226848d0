/* cuda_launch.cpp -- launches by function, attributes of kernels, and
 * occupancy; see cuda_launch.h. */
#include <string.h>

#include <map>

#include "cuda_graph_private.h"

/* ---- the kernels that pointers refer to ---------------------------------- */

namespace simt {

static std::mutex &known_lock = *new std::mutex;
static std::map<const void *, Invoke> &known =
    *new std::map<const void *, Invoke>;

void remember(const void *function, Invoke invoke) {
    if (!function) return;
    std::lock_guard<std::mutex> guard(known_lock);
    known[function] = invoke;
}

Invoke invoke_of(const void *function) {
    std::lock_guard<std::mutex> guard(known_lock);
    const auto found = known.find(function);
    return found == known.end() ? 0 : found->second;
}

/* ---- occupancy ---------------------------------------------------------- */

enum {
    PROCESSOR_WARPS = 64, // maximum of an sm_90
    PROCESSOR_BLOCKS = 32,
    PROCESSOR_SHARED = 228 << 10,
    RESERVED_SHARED = 1 << 10, // bytes that the system reserves per block
    SHARED_UNIT = 128          // allocation unit in bytes
};

static size_t shared_of(const Kernel *kernel, size_t dynamic) {
    const size_t bytes = dynamic + (size_t)kernel->static_shared;
    return (bytes + SHARED_UNIT - 1) / SHARED_UNIT * SHARED_UNIT;
}

static int least(int a, int b) { return a < b ? a : b; }

/* Return the number of blocks of a kernel that run at the same time on a
 * multiprocessor. */
static int resident(const Kernel *kernel, int threads, size_t dynamic) {
    const size_t most = kernel->max_dynamic_shared ? kernel->max_dynamic_shared
                                                   : (int)STATIC_SHARED;
    if (threads > MAX_THREADS || dynamic > most) return 0;
    const int warps = (threads + WARP - 1) / WARP;
    const size_t shared = shared_of(kernel, dynamic) + RESERVED_SHARED;
    int blocks = least(PROCESSOR_BLOCKS, PROCESSOR_WARPS / warps);
    blocks = least(blocks, (int)(PROCESSOR_SHARED / shared));
    // A cooperative launch must accept the returned number of blocks, so the
    // limit of such launches applies to it.
    const int share = cooperative_limit() / simt_threads();
    return least(blocks, share > 0 ? share : 1);
}

/* Return the error with which a GPU rejects a cooperative launch of this
 * size. */
static cudaError_t check_cooperative(const void *function,
                                     const cudaLaunchConfig_t *config) {
    const Kernel *kernel = kernel_of(function);
    const dim3 g = config->gridDim, b = config->blockDim;
    const uint64_t blocks = (uint64_t)g.x * g.y * g.z;
    const uint64_t threads = (uint64_t)b.x * b.y * b.z;
    if (!kernel) return cudaErrorInvalidDeviceFunction;
    if (!threads || threads > MAX_THREADS) return cudaErrorInvalidConfiguration;
    const int per = resident(kernel, (int)threads, config->dynamicSmemBytes);
    return blocks > (uint64_t)per * simt_threads()
               ? cudaErrorCooperativeLaunchTooLarge
               : cudaSuccess;
}

/* ---- launching ---------------------------------------------------------- */

static bool is_cluster(const cudaLaunchAttribute &a) {
    const auto &c = a.val.clusterDim;
    return a.id == cudaLaunchAttributeClusterDimension &&
           (c.x > 1 || c.y > 1 || c.z > 1);
}

/* Read the attributes of a launch that have an effect. */
static cudaError_t read(const cudaLaunchConfig_t *config, bool *cooperative) {
    *cooperative = false;
    if (config->numAttrs && !config->attrs) return cudaErrorInvalidValue;
    for (unsigned i = 0; i < config->numAttrs; i++) {
        const cudaLaunchAttribute &a = config->attrs[i];
        if (is_cluster(a)) return cudaErrorNotSupported;
        if (a.id == cudaLaunchAttributeCooperative)
            *cooperative = a.val.cooperative;
    }
    return cudaSuccess;
}

cudaError_t launch_by_function(const void *function, Invoke invoke,
                               const cudaLaunchConfig_t *config,
                               void **arguments) {
    CUstream_st *recording;
    bool cooperative;
    if (!config) return set_error(cudaErrorInvalidValue);
    if (!function || !invoke) return set_error(cudaErrorInvalidDeviceFunction);
    if (cudaError_t error = read(config, &cooperative)) return set_error(error);
    if (cudaError_t error = begin_work(config->stream, &recording))
        return error;
    if (cooperative)
        if (cudaError_t error = check_cooperative(function, config))
            return set_error(error);
    Launch launch(config->gridDim, config->blockDim, config->dynamicSmemBytes,
                  config->stream, cooperative);
    invoke(function, arguments);
    return (cudaError_t)launch.error;
}

} // namespace simt

using namespace simt;

cudaError_t cudaLaunchKernelExC(const cudaLaunchConfig_t *config,
                                const void *kernel, void **arguments) {
    return launch_by_function(kernel, invoke_of(kernel), config, arguments);
}

cudaError_t cudaLaunchKernel(const void *kernel, dim3 grid, dim3 block,
                             void **arguments, size_t shared,
                             cudaStream_t stream) {
    const cudaLaunchConfig_t config = {grid, block, shared, stream, 0, 0};
    return cudaLaunchKernelExC(&config, kernel, arguments);
}

cudaError_t cudaLaunchCooperativeKernel(const void *kernel, dim3 grid,
                                        dim3 block, void **arguments,
                                        size_t shared, cudaStream_t stream) {
    cudaLaunchAttribute attribute = {};
    attribute.id = cudaLaunchAttributeCooperative;
    attribute.val.cooperative = 1;
    const cudaLaunchConfig_t config = {grid,   block,      shared,
                                       stream, &attribute, 1};
    return cudaLaunchKernelExC(&config, kernel, arguments);
}

/* ---- attributes --------------------------------------------------------- */

cudaError_t cudaFuncGetAttributes(struct cudaFuncAttributes *attributes,
                                  const void *function) {
    if (!attributes) return set_error(cudaErrorInvalidValue);
    const Kernel *kernel = kernel_of(function);
    if (!kernel) return set_error(cudaErrorInvalidDeviceFunction);
    memset(attributes, 0, sizeof *attributes);
    attributes->sharedSizeBytes = (size_t)kernel->static_shared;
    attributes->maxThreadsPerBlock = MAX_THREADS;
    attributes->ptxVersion = attributes->binaryVersion = 90;
    attributes->maxDynamicSharedSizeBytes = kernel->max_dynamic_shared
                                                ? kernel->max_dynamic_shared
                                                : (int)STATIC_SHARED;
    attributes->preferredShmemCarveout = cudaSharedmemCarveoutDefault;
    return cudaSuccess;
}

cudaError_t cudaFuncSetAttribute(const void *function,
                                 enum cudaFuncAttribute attribute, int value) {
    Kernel *kernel = kernel_of(function);
    if (!kernel) return set_error(cudaErrorInvalidDeviceFunction);
    switch (attribute) {
    case cudaFuncAttributeMaxDynamicSharedMemorySize:
        if (value < 0 ||
            value > (capability()->block_kb << 10) - kernel->static_shared)
            return set_error(cudaErrorInvalidValue);
        kernel->max_dynamic_shared = value;
        return cudaSuccess;
    case cudaFuncAttributePreferredSharedMemoryCarveout:
        if (value < -1 || value > 100) return set_error(cudaErrorInvalidValue);
        return cudaSuccess; // the value is only a hint about the size of a
                            // cache
    case cudaFuncAttributeNonPortableClusterSizeAllowed:
    case cudaFuncAttributeClusterSchedulingPolicyPreference:
        return set_error(cudaErrorNotSupported);
    default: return set_error(cudaErrorInvalidValue);
    }
}

static cudaError_t check_kernel(const void *function) {
    return set_error(kernel_of(function) ? cudaSuccess
                                         : cudaErrorInvalidDeviceFunction);
}

cudaError_t cudaFuncSetCacheConfig(const void *kernel, enum cudaFuncCache) {
    return check_kernel(kernel);
}

cudaError_t cudaFuncSetSharedMemConfig(const void *kernel,
                                       enum cudaSharedMemConfig) {
    return check_kernel(kernel);
}

cudaError_t cudaFuncGetName(const char **name, const void *function) {
    const Kernel *kernel = kernel_of(function);
    if (!name) return set_error(cudaErrorInvalidValue);
    if (!kernel) return set_error(cudaErrorInvalidDeviceFunction);
    *name = kernel->name;
    return cudaSuccess;
}

/* ---- occupancy ---------------------------------------------------------- */

cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(
    int *blocks, const void *function, int block_size, size_t dynamic_shared,
    unsigned flags) {
    const Kernel *kernel = kernel_of(function);
    if (!blocks || block_size <= 0 ||
        flags > cudaOccupancyDisableCachingOverride)
        return set_error(cudaErrorInvalidValue);
    if (!kernel) return set_error(cudaErrorInvalidDeviceFunction);
    *blocks = resident(kernel, block_size, dynamic_shared);
    return cudaSuccess;
}

cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(
    int *blocks, const void *kernel, int block_size, size_t dynamic_shared) {
    return cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(
        blocks, kernel, block_size, dynamic_shared, cudaOccupancyDefault);
}

cudaError_t cudaOccupancyAvailableDynamicSMemPerBlock(size_t *bytes,
                                                      const void *function,
                                                      int blocks,
                                                      int block_size) {
    const Kernel *kernel = kernel_of(function);
    if (!bytes || blocks <= 0 || block_size <= 0)
        return set_error(cudaErrorInvalidValue);
    if (!kernel) return set_error(cudaErrorInvalidDeviceFunction);
    if (blocks > resident(kernel, block_size, 0))
        return set_error(cudaErrorInvalidValue);
    const size_t most = kernel->max_dynamic_shared ? kernel->max_dynamic_shared
                                                   : (int)STATIC_SHARED;
    const size_t each = (size_t)(PROCESSOR_SHARED / blocks - RESERVED_SHARED) /
                        SHARED_UNIT * SHARED_UNIT;
    const size_t taken = shared_of(kernel, 0);
    const size_t left = each > taken ? each - taken : 0;
    *bytes = left < most ? left : most;
    return cudaSuccess;
}
