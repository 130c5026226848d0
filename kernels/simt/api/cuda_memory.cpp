/* cuda_memory.cpp -- allocation, pools, and hints; see cuda_memory.h. */
#include <string.h>

#include <set>

#include "cuda_graph_private.h"
#include "cuda_heap.h"

using namespace simt;

/* ---- allocating --------------------------------------------------------- */

/* Make an allocation, unless a capture of this or another thread forbids it. */
static cudaError_t get(void **pointer, size_t size, Memory memory,
                       unsigned flags) {
    if (cudaError_t error = forbid_while_capturing(false)) return error;
    if (cudaError_t error = sticky_error()) return set_error(error);
    return allocate(pointer, size, memory, flags);
}

cudaError_t cudaMalloc(void **pointer, size_t size) {
    return get(pointer, size, DEVICE, 0);
}

cudaError_t cudaMallocManaged(void **pointer, size_t size, unsigned flags) {
    if (!size || (flags != cudaMemAttachGlobal && flags != cudaMemAttachHost))
        return set_error(cudaErrorInvalidValue);
    return get(pointer, size, MANAGED, flags);
}

cudaError_t cudaHostAlloc(void **pointer, size_t size, unsigned flags) {
    if (flags > 7) return set_error(cudaErrorInvalidValue);
    return get(pointer, size, PINNED, flags);
}

cudaError_t cudaMallocHost(void **pointer, size_t size, unsigned flags) {
    return cudaHostAlloc(pointer, size, flags);
}

enum : size_t { PITCH = 512 }; // alignment of rows in bytes, as on GPUs

cudaError_t cudaMallocPitch(void **pointer, size_t *pitch, size_t width,
                            size_t height) {
    if (!pitch) return set_error(cudaErrorInvalidValue);
    size_t size;
    if (__builtin_add_overflow(width, PITCH - 1, &size))
        return set_error(cudaErrorMemoryAllocation);
    *pitch = size / PITCH * PITCH;
    if (__builtin_mul_overflow(*pitch, height, &size))
        return set_error(cudaErrorMemoryAllocation);
    return cudaMalloc(pointer, size);
}

cudaError_t cudaMalloc3D(struct cudaPitchedPtr *pointer,
                         struct cudaExtent extent) {
    if (!pointer) return set_error(cudaErrorInvalidValue);
    size_t rows;
    if (__builtin_mul_overflow(extent.height, extent.depth, &rows))
        return set_error(cudaErrorMemoryAllocation);
    pointer->xsize = extent.width;
    pointer->ysize = extent.height;
    return cudaMallocPitch(&pointer->ptr, &pointer->pitch, extent.width, rows);
}

cudaError_t cudaFree(void *pointer) {
    if (cudaError_t error = forbid_while_capturing(false)) return error;
    if (cudaError_t error = sticky_error()) return set_error(error);
    if (free_in_graph(pointer)) return cudaSuccess;
    return release(pointer, DEVICE, MANAGED);
}

cudaError_t cudaFreeHost(void *pointer) {
    if (cudaError_t error = forbid_while_capturing(false)) return error;
    return release(pointer, PINNED, PINNED);
}

/* ---- host memory that the device may use -------------------------------- */

cudaError_t cudaHostRegister(void *pointer, size_t size, unsigned flags) {
    if (flags > 15) return set_error(cudaErrorInvalidValue);
    return register_host(pointer, size, flags);
}

cudaError_t cudaHostUnregister(void *pointer) {
    return unregister_host(pointer);
}

/* Find the allocation of host memory around `pointer`. */
static bool find_host(void *pointer, Allocation *found) {
    return find_allocation(pointer, found) &&
           (found->memory == PINNED || found->memory == REGISTERED);
}

cudaError_t cudaHostGetDevicePointer(void **device, void *host,
                                     unsigned flags) {
    Allocation found;
    if (!device || flags || !find_host(host, &found))
        return set_error(cudaErrorInvalidValue);
    *device = host;
    return cudaSuccess;
}

cudaError_t cudaHostGetFlags(unsigned *flags, void *host) {
    Allocation found;
    if (!flags || !find_host(host, &found))
        return set_error(cudaErrorInvalidValue);
    // All pinned memory is mapped, since there is only one address space.
    *flags = found.flags | cudaHostAllocMapped;
    return cudaSuccess;
}

cudaError_t cudaPointerGetAttributes(struct cudaPointerAttributes *attributes,
                                     const void *pointer) {
    if (!attributes) return set_error(cudaErrorInvalidValue);
    memset(attributes, 0, sizeof *attributes);
    Allocation found;
    if (!find_allocation(pointer, &found)) {
        attributes->type = cudaMemoryTypeUnregistered;
        attributes->device = cudaInvalidDeviceId;
        attributes->hostPointer = (void *)pointer;
        return cudaSuccess;
    }
    attributes->type = found.memory == DEVICE    ? cudaMemoryTypeDevice
                       : found.memory == MANAGED ? cudaMemoryTypeManaged
                                                 : cudaMemoryTypeHost;
    attributes->devicePointer = (void *)pointer;
    attributes->hostPointer = found.memory == DEVICE ? 0 : (void *)pointer;
    return cudaSuccess;
}

cudaError_t cudaMemGetInfo(size_t *free, size_t *total) {
    if (!free || !total) return set_error(cudaErrorInvalidValue);
    memory_left(free, total);
    return cudaSuccess;
}

/* ---- pools and allocations on a stream ---------------------------------- */

struct CUmemPoolHandle_st {
    uint64_t threshold = 0; /* cudaMemPoolAttrReleaseThreshold */
    int reuse[3] = {1, 1, 1};
};

static CUmemPoolHandle_st &default_pool = *new CUmemPoolHandle_st;
static std::atomic<cudaMemPool_t> current_pool{&default_pool};
static std::set<cudaMemPool_t> &pools = *new std::set<cudaMemPool_t>;
static std::mutex &pool_lock = *new std::mutex;

static bool is_pool(cudaMemPool_t pool) {
    std::lock_guard<std::mutex> guard(pool_lock);
    return pool == &default_pool || pools.count(pool);
}

cudaError_t simt::allocation_work(void **pointer, size_t size, Work *work) {
    if (cudaError_t error = allocate(pointer, size, DEVICE, OF_GRAPH))
        return error;
    *work = {};
    work->type = cudaGraphNodeTypeMemAlloc;
    work->memory = {*pointer, leave_graph};
    return cudaSuccess;
}

Work simt::free_work() {
    Work work = {};
    work.type = cudaGraphNodeTypeMemFree;
    return work;
}

static cudaError_t capture_allocation(CUstream_st *recording, void **pointer,
                                      size_t size) {
    Work work;
    if (cudaError_t error = allocation_work(pointer, size, &work)) return error;
    return add_work(recording, work);
}

cudaError_t cudaMallocFromPoolAsync(void **pointer, size_t size,
                                    cudaMemPool_t pool, cudaStream_t stream) {
    CUstream_st *recording;
    if (!pointer || !is_pool(pool)) return set_error(cudaErrorInvalidValue);
    if (cudaError_t error = begin_work(stream, &recording)) return error;
    if (recording) return capture_allocation(recording, pointer, size);
    if (cudaError_t error = sticky_error()) return set_error(error);
    return allocate(pointer, size, DEVICE, 0);
}

cudaError_t cudaMallocAsync(void **pointer, size_t size, cudaStream_t stream) {
    return cudaMallocFromPoolAsync(pointer, size, current_pool, stream);
}

cudaError_t cudaFreeAsync(void *pointer, cudaStream_t stream) {
    CUstream_st *recording;
    if (cudaError_t error = begin_work(stream, &recording)) return error;
    if (recording) {
        Allocation found;
        if (!find_allocation(pointer, &found))
            return set_error(cudaErrorInvalidValue);
        free_in_graph(pointer);
        return add_work(recording, free_work());
    }
    if (free_in_graph(pointer)) return cudaSuccess;
    return release(pointer, DEVICE, DEVICE);
}

cudaError_t cudaMemPoolCreate(cudaMemPool_t *pool,
                              const struct cudaMemPoolProps *props) {
    if (!pool || !props || props->allocType != cudaMemAllocationTypePinned)
        return set_error(cudaErrorInvalidValue);
    std::lock_guard<std::mutex> guard(pool_lock);
    *pool = new CUmemPoolHandle_st;
    pools.insert(*pool);
    return cudaSuccess;
}

cudaError_t cudaMemPoolDestroy(cudaMemPool_t pool) {
    std::lock_guard<std::mutex> guard(pool_lock);
    if (!pools.erase(pool)) return set_error(cudaErrorInvalidValue);
    if (current_pool == pool) current_pool = &default_pool;
    delete pool;
    return cudaSuccess;
}

static bool is_reuse(enum cudaMemPoolAttr attribute) {
    return attribute >= cudaMemPoolReuseFollowEventDependencies &&
           attribute <= cudaMemPoolReuseAllowInternalDependencies;
}

cudaError_t cudaMemPoolSetAttribute(cudaMemPool_t pool,
                                    enum cudaMemPoolAttr attribute,
                                    void *value) {
    if (!is_pool(pool) || !value) return set_error(cudaErrorInvalidValue);
    if (is_reuse(attribute))
        pool->reuse[attribute - 1] = *(int *)value;
    else if (attribute == cudaMemPoolAttrReleaseThreshold)
        pool->threshold = *(uint64_t *)value;
    else if (attribute != cudaMemPoolAttrUsedMemHigh &&
             attribute != cudaMemPoolAttrReservedMemHigh)
        return set_error(cudaErrorInvalidValue);
    return cudaSuccess;
}

cudaError_t cudaMemPoolGetAttribute(cudaMemPool_t pool,
                                    enum cudaMemPoolAttr attribute,
                                    void *value) {
    if (!is_pool(pool) || !value) return set_error(cudaErrorInvalidValue);
    size_t now, most;
    memory_used(&now, &most);
    if (is_reuse(attribute))
        *(int *)value = pool->reuse[attribute - 1];
    else if (attribute == cudaMemPoolAttrReleaseThreshold)
        *(uint64_t *)value = pool->threshold;
    else if (attribute == cudaMemPoolAttrUsedMemCurrent ||
             attribute == cudaMemPoolAttrReservedMemCurrent)
        *(uint64_t *)value = now;
    else if (attribute == cudaMemPoolAttrUsedMemHigh ||
             attribute == cudaMemPoolAttrReservedMemHigh)
        *(uint64_t *)value = most;
    else
        return set_error(cudaErrorInvalidValue);
    return cudaSuccess;
}

cudaError_t cudaDeviceGetGraphMemAttribute(int device,
                                           enum cudaGraphMemAttributeType which,
                                           void *value) {
    size_t now, most;
    if (device) return set_error(cudaErrorInvalidDevice);
    if (!value || which < cudaGraphMemAttrUsedMemCurrent ||
        which > cudaGraphMemAttrReservedMemHigh)
        return set_error(cudaErrorInvalidValue);
    memory_used(&now, &most);
    const bool high = which == cudaGraphMemAttrUsedMemHigh ||
                      which == cudaGraphMemAttrReservedMemHigh;
    *(uint64_t *)value = high ? most : now;
    return cudaSuccess;
}

cudaError_t cudaDeviceSetGraphMemAttribute(int device,
                                           enum cudaGraphMemAttributeType which,
                                           void *value) {
    uint64_t unused; // the maxima belong to the process and cannot be
                     // reset
    if (!value) return set_error(cudaErrorInvalidValue);
    return cudaDeviceGetGraphMemAttribute(device, which, &unused);
}

cudaError_t cudaDeviceGraphMemTrim(int device) { return cudaSetDevice(device); }

cudaError_t cudaMemPoolTrimTo(cudaMemPool_t pool, size_t) {
    return set_error(is_pool(pool) ? cudaSuccess : cudaErrorInvalidValue);
}

cudaError_t cudaMemPoolSetAccess(cudaMemPool_t pool,
                                 const struct cudaMemAccessDesc *access,
                                 size_t count) {
    if (!is_pool(pool) || (count && !access))
        return set_error(cudaErrorInvalidValue);
    return cudaSuccess;
}

static cudaError_t give_pool(cudaMemPool_t *pool, int device,
                             cudaMemPool_t which) {
    if (!pool) return set_error(cudaErrorInvalidValue);
    if (device) return set_error(cudaErrorInvalidDevice);
    *pool = which;
    return cudaSuccess;
}

cudaError_t cudaDeviceGetDefaultMemPool(cudaMemPool_t *pool, int device) {
    return give_pool(pool, device, &default_pool);
}

cudaError_t cudaDeviceGetMemPool(cudaMemPool_t *pool, int device) {
    return give_pool(pool, device, current_pool);
}

cudaError_t cudaDeviceSetMemPool(int device, cudaMemPool_t pool) {
    if (device) return set_error(cudaErrorInvalidDevice);
    if (!is_pool(pool)) return set_error(cudaErrorInvalidValue);
    current_pool = pool;
    return cudaSuccess;
}

/* ---- hints about managed memory ----------------------------------------- */

/* Check that the range is managed memory or the system's. */
static cudaError_t check_hint(const void *pointer, size_t size, int device) {
    Allocation found;
    if (!pointer || !size) return set_error(cudaErrorInvalidValue);
    if (device != 0 && device != cudaCpuDeviceId)
        return set_error(cudaErrorInvalidDevice);
    const bool ours = find_allocation(pointer, &found);
    const bool fits = ours && found.memory != DEVICE &&
                      size <= found.address + found.size - (uintptr_t)pointer;
    // A __managed__ variable is not in the list of allocations.
    return set_error(ours && !fits ? cudaErrorInvalidValue : cudaSuccess);
}

/* Return the device number by which CUDA 12 specifies a location. */
static int device_of(const struct cudaMemLocation &location) {
    return location.type == cudaMemLocationTypeDevice ? location.id
                                                      : cudaCpuDeviceId;
}

cudaError_t cudaMemPrefetchAsync(const void *pointer, size_t size, int device,
                                 cudaStream_t stream) {
    CUstream_st *recording;
    if (cudaError_t error = check_hint(pointer, size, device)) return error;
    return begin_work(stream, &recording);
}

cudaError_t cudaMemPrefetchAsync(const void *pointer, size_t size,
                                 struct cudaMemLocation location,
                                 unsigned flags, cudaStream_t stream) {
    if (flags) return set_error(cudaErrorInvalidValue);
    return cudaMemPrefetchAsync(pointer, size, device_of(location), stream);
}

cudaError_t cudaMemAdvise(const void *pointer, size_t size,
                          enum cudaMemoryAdvise advice, int device) {
    if (advice < cudaMemAdviseSetReadMostly ||
        advice > cudaMemAdviseUnsetAccessedBy)
        return set_error(cudaErrorInvalidValue);
    return check_hint(pointer, size, device);
}

cudaError_t cudaMemAdvise(const void *pointer, size_t size,
                          enum cudaMemoryAdvise advice,
                          struct cudaMemLocation location) {
    return cudaMemAdvise(pointer, size, advice, device_of(location));
}

cudaError_t cudaMemRangeGetAttribute(void *value, size_t value_size,
                                     enum cudaMemRangeAttribute attribute,
                                     const void *pointer, size_t size) {
    if (cudaError_t error = check_hint(pointer, size, 0)) return error;
    if (!value || value_size < sizeof(int) ||
        attribute < cudaMemRangeAttributeReadMostly ||
        attribute > cudaMemRangeAttributeLastPrefetchLocation)
        return set_error(cudaErrorInvalidValue);
    // Advice is not stored, so no range is read-mostly or has a preferred
    // location.
    *(int *)value =
        attribute == cudaMemRangeAttributeReadMostly ? 0 : cudaInvalidDeviceId;
    return cudaSuccess;
}

cudaError_t cudaStreamAttachMemAsync(cudaStream_t stream, void *pointer, size_t,
                                     unsigned) {
    CUstream_st *recording;
    Allocation found;
    if (!find_allocation(pointer, &found) || found.memory == DEVICE)
        return set_error(cudaErrorInvalidValue);
    return begin_work(stream, &recording);
}
