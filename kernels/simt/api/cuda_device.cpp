/* cuda_device.cpp -- the single device; see cuda_device.h. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cuda_graph_private.h"
#include "cuda_heap.h"

using namespace simt;

enum { CUDA_VERSION_LIKE = CUDART_VERSION };

/* ---- the current device -------------------------------------------------- */

cudaError_t cudaGetDeviceCount(int *count) {
    if (!count) return set_error(cudaErrorInvalidValue);
    *count = 1;
    return cudaSuccess;
}

cudaError_t cudaGetDevice(int *device) {
    if (!device) return set_error(cudaErrorInvalidValue);
    *device = 0;
    return cudaSuccess;
}

cudaError_t cudaSetDevice(int device) {
    return set_error(device == 0 ? cudaSuccess : cudaErrorInvalidDevice);
}

cudaError_t cudaInitDevice(int device, unsigned, unsigned) {
    return cudaSetDevice(device);
}

cudaError_t cudaSetValidDevices(int *devices, int count) {
    for (int i = 0; i < count; i++)
        if (!devices || devices[i] != 0)
            return set_error(cudaErrorInvalidDevice);
    return cudaSuccess;
}

cudaError_t cudaChooseDevice(int *device, const struct cudaDeviceProp *prop) {
    if (!prop) return set_error(cudaErrorInvalidValue);
    return cudaGetDevice(device);
}

cudaError_t cudaRuntimeGetVersion(int *version) {
    if (!version) return set_error(cudaErrorInvalidValue);
    *version = CUDA_VERSION_LIKE;
    return cudaSuccess;
}

cudaError_t cudaDriverGetVersion(int *version) {
    return cudaRuntimeGetVersion(version);
}

/* ---- limits ------------------------------------------------------------- */

static const Capability capabilities[] = {{9, 0, 227, 228, 2048},
                                          {7, 5, 64, 64, 1024},
                                          {8, 0, 163, 164, 2048},
                                          {8, 6, 99, 100, 1536},
                                          {8, 9, 99, 100, 1536}};
static std::atomic<const Capability *> chosen = &capabilities[0];

const Capability *simt::SIMT_FIBERS::capability() { return chosen; }

int simt_set_capability(int major, int minor) {
    for (const Capability &one : capabilities) {
        if (one.major != major || one.minor != minor) continue;
        chosen = &one;
        return 0;
    }
    return -1;
}

/* ---- properties --------------------------------------------------------- */

/* Read the value of the first "key : value" line in /proc/cpuinfo, or use
 * `otherwise`. */
static void read_cpuinfo(const char *key, char *value, size_t size,
                         const char *otherwise) {
    char line[256];
    FILE *file = fopen("/proc/cpuinfo", "r");
    snprintf(value, size, "%s", otherwise);
    while (file && fgets(line, sizeof line, file)) {
        char *colon = strchr(line, ':');
        if (!colon || strncmp(line, key, strlen(key))) continue;
        colon += strspn(colon, ": ");
        colon[strcspn(colon, "\n")] = 0;
        snprintf(value, size, "%s", colon);
        break;
    }
    if (file) fclose(file);
}

static int cache_size() {
    const long third = sysconf(_SC_LEVEL3_CACHE_SIZE);
    const long last = third > 0 ? third : sysconf(_SC_LEVEL2_CACHE_SIZE);
    return last > 0 ? (int)last : 0;
}

/* Set the properties of the machine. */
static void describe_machine(cudaDeviceProp *p) {
    char model[200];
    read_cpuinfo("model name", model, sizeof model, "CPU");
    snprintf(p->name, sizeof p->name, "SIMT on %s", model);
    p->clockRate = 1000000; // in kHz, of clock64(), which counts nanoseconds
    size_t left;
    memory_left(&left, &p->totalGlobalMem);
    p->l2CacheSize = cache_size();
    p->integrated = 1;
    p->hostNumaId = p->deviceNumaId = -1;
}

/* Set a GPU's limits, which programs use to choose their launch sizes. */
static void describe_limits(cudaDeviceProp *p) {
    p->major = capability()->major;
    p->minor = capability()->minor;
    p->warpSize = WARP;
    p->maxThreadsPerBlock = MAX_THREADS;
    p->maxThreadsDim[0] = p->maxThreadsDim[1] = MAX_THREADS;
    p->maxThreadsDim[2] = 64;
    p->maxGridSize[0] = 0x7fffffff;
    p->maxGridSize[1] = p->maxGridSize[2] = 65535;
    p->maxThreadsPerMultiProcessor = capability()->threads;
    p->maxBlocksPerMultiProcessor = 32;
    p->sharedMemPerBlock = STATIC_SHARED;
    p->sharedMemPerBlockOptin = (size_t)capability()->block_kb << 10;
    p->sharedMemPerMultiprocessor = (size_t)capability()->multiprocessor_kb
                                    << 10;
    p->reservedSharedMemPerBlock = 1 << 10;
    p->regsPerBlock = p->regsPerMultiprocessor = 65536;
    p->totalConstMem = 64 << 10;
    p->memPitch = 0x7fffffff;
    p->textureAlignment = p->surfaceAlignment = 512;
    p->texturePitchAlignment = 32;
}

/* Set the supported features. Copies and kernels that may overlap on a GPU run
 * one after another in this runtime. */
static void describe_features(cudaDeviceProp *p) {
    p->deviceOverlap = p->concurrentKernels = p->asyncEngineCount = 1;
    p->canMapHostMemory = p->unifiedAddressing = p->managedMemory = 1;
    p->concurrentManagedAccess = p->directManagedMemAccessFromHost = 1;
    p->streamPrioritiesSupported = p->cooperativeLaunch = 1;
    p->memoryPoolsSupported = p->hostRegisterSupported = 1;
    p->canUseHostPointerForRegisteredMem = p->hostNativeAtomicSupported = 1;
    p->globalL1CacheSupported = p->localL1CacheSupported = 1;
    p->computePreemptionSupported = 1;
    p->singleToDoublePrecisionPerfRatio = 2;
}

cudaError_t cudaGetDeviceProperties(struct cudaDeviceProp *prop, int device) {
    static const cudaDeviceProp fixed = [] {
        cudaDeviceProp p;
        memset(&p, 0, sizeof p);
        describe_machine(&p);
        describe_features(&p);
        return p;
    }();
    if (!prop) return set_error(cudaErrorInvalidValue);
    if (device != 0) return set_error(cudaErrorInvalidDevice);
    *prop = fixed;
    describe_limits(prop);
    prop->multiProcessorCount = simt_threads();
    return cudaSuccess;
}

cudaError_t cudaDeviceGetAttribute(int *value, enum cudaDeviceAttr attribute,
                                   int device) {
    struct cudaDeviceProp p;
    if (!value) return set_error(cudaErrorInvalidValue);
    const cudaError_t error = cudaGetDeviceProperties(&p, device);
    if (error) return error;
    switch (attribute) {
#define SIMT_ATTRIBUTE(number, name, expression) \
    case name: *value = (int)(expression); return cudaSuccess;
#include "cuda_attributes.h"
    default: return set_error(cudaErrorInvalidValue);
    }
}

cudaError_t cudaDeviceGetPCIBusId(char *id, int size, int device) {
    if (!id || size < 13) return set_error(cudaErrorInvalidValue);
    if (device != 0) return set_error(cudaErrorInvalidDevice);
    snprintf(id, (size_t)size, "0000:00:00.0");
    return cudaSuccess;
}

cudaError_t cudaDeviceGetByPCIBusId(int *device, const char *id) {
    if (!device || !id) return set_error(cudaErrorInvalidValue);
    if (strcmp(id, "0000:00:00.0")) return set_error(cudaErrorInvalidDevice);
    return cudaGetDevice(device);
}

/* ---- waiting, resetting ------------------------------------------------- */

cudaError_t cudaDeviceSynchronize(void) {
    if (cudaError_t error = forbid_while_capturing(true)) return error;
    return arrive();
}

cudaError_t cudaDeviceReset(void) {
    release_all();
    simt_clear_fault();
    cudaGetLastError();
    return cudaSuccess;
}

/* ---- settings ----------------------------------------------------------- */

static std::atomic<unsigned> flags_set{cudaDeviceScheduleAuto};
static std::atomic<int> cache_config;
static std::atomic<size_t> limits[] = {{1024}, {1 << 20}, {8 << 20}, {2},
                                       {2048}, {64},      {0}};

cudaError_t cudaSetDeviceFlags(unsigned flags) {
    if (flags & ~(unsigned)cudaDeviceMask)
        return set_error(cudaErrorInvalidValue);
    flags_set = flags;
    return cudaSuccess;
}

cudaError_t cudaGetDeviceFlags(unsigned *flags) {
    if (!flags) return set_error(cudaErrorInvalidValue);
    *flags = flags_set | cudaDeviceMapHost;
    return cudaSuccess;
}

static bool is_limit(enum cudaLimit limit) {
    return (unsigned)limit < sizeof limits / sizeof *limits;
}

cudaError_t cudaDeviceSetLimit(enum cudaLimit limit, size_t value) {
    if (!is_limit(limit)) return set_error(cudaErrorUnsupportedLimit);
    limits[limit] = value;
    return cudaSuccess;
}

cudaError_t cudaDeviceGetLimit(size_t *value, enum cudaLimit limit) {
    if (!value) return set_error(cudaErrorInvalidValue);
    if (!is_limit(limit)) return set_error(cudaErrorUnsupportedLimit);
    *value = limits[limit];
    return cudaSuccess;
}

cudaError_t cudaDeviceSetCacheConfig(enum cudaFuncCache config) {
    cache_config = config;
    return cudaSuccess;
}

cudaError_t cudaDeviceGetCacheConfig(enum cudaFuncCache *config) {
    if (!config) return set_error(cudaErrorInvalidValue);
    *config = (enum cudaFuncCache)cache_config.load();
    return cudaSuccess;
}

cudaError_t cudaDeviceSetSharedMemConfig(enum cudaSharedMemConfig) {
    return cudaSuccess;
}

cudaError_t cudaDeviceGetSharedMemConfig(enum cudaSharedMemConfig *config) {
    if (!config) return set_error(cudaErrorInvalidValue);
    // As on GPUs since Maxwell, banks have four bytes, regardless of the
    // request.
    *config = cudaSharedMemBankSizeFourByte;
    return cudaSuccess;
}

cudaError_t cudaCtxResetPersistingL2Cache(void) { return cudaSuccess; }
cudaError_t cudaProfilerStart(void) { return cudaSuccess; }
cudaError_t cudaProfilerStop(void) { return cudaSuccess; }

/* ---- peers: there are none ---------------------------------------------- */

cudaError_t cudaDeviceCanAccessPeer(int *can, int device, int peer) {
    if (!can) return set_error(cudaErrorInvalidValue);
    if (device || peer) return set_error(cudaErrorInvalidDevice);
    *can = 0; // a device is not its own peer
    return cudaSuccess;
}

cudaError_t cudaDeviceEnablePeerAccess(int, unsigned) {
    return set_error(cudaErrorInvalidDevice);
}

cudaError_t cudaDeviceDisablePeerAccess(int) {
    return set_error(cudaErrorInvalidDevice);
}

cudaError_t cudaDeviceGetP2PAttribute(int *value, enum cudaDeviceP2PAttr, int,
                                      int) {
    return set_error(value ? cudaErrorInvalidDevice : cudaErrorInvalidValue);
}
