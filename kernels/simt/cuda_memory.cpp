/* cuda_memory.cpp -- device memory, which is the host's: see cuda_api.h. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <map>
#include <mutex>

#include "runtime.h"

using namespace simt;

enum { ALIGNMENT = 256 }; // cudaMalloc()'s promise

/* Everything cudaMalloc() and cudaMallocHost() gave out. */
struct Heap {
    std::mutex lock;
    std::map<uintptr_t, size_t> device, host; // address -> bytes
};

static Heap &heap() {
    static Heap *the = new Heap; // never destroyed: freed memory may come late
    return *the;
}

typedef std::map<uintptr_t, size_t> Blocks;

static cudaError_t allocate(Blocks &blocks, void **pointer, size_t size) {
    if (!pointer) return set_error(cudaErrorInvalidValue);
    *pointer = 0;
    if (size == 0) return cudaSuccess;
    // Linux promises more memory than there is; a GPU does not.
    const size_t pages = (size_t)sysconf(_SC_PHYS_PAGES);
    void *memory;
    if (size / (size_t)sysconf(_SC_PAGESIZE) >= pages ||
        posix_memalign(&memory, ALIGNMENT, size))
        return set_error(cudaErrorMemoryAllocation);
    std::lock_guard<std::mutex> guard(heap().lock);
    blocks[(uintptr_t)memory] = size;
    *pointer = memory;
    return cudaSuccess;
}

static cudaError_t release(Blocks &blocks, void *pointer) {
    if (!pointer) return cudaSuccess;
    {
        std::lock_guard<std::mutex> guard(heap().lock);
        if (!blocks.erase((uintptr_t)pointer))
            return set_error(cudaErrorInvalidValue);
    }
    free(pointer);
    return cudaSuccess;
}

/* Whether `address` lies in one of `blocks`. */
static bool holds(const Blocks &blocks, uintptr_t address) {
    auto after = blocks.upper_bound(address);
    if (after == blocks.begin()) return false;
    --after;
    return address - after->first < after->second;
}

cudaError_t cudaMalloc(void **pointer, size_t size) {
    return allocate(heap().device, pointer, size);
}

cudaError_t cudaMallocHost(void **pointer, size_t size) {
    return allocate(heap().host, pointer, size);
}

cudaError_t cudaFree(void *pointer) { return release(heap().device, pointer); }

cudaError_t cudaFreeHost(void *pointer) {
    return release(heap().host, pointer);
}

cudaError_t cudaMallocAsync(void **pointer, size_t size, cudaStream_t) {
    return cudaMalloc(pointer, size);
}

cudaError_t cudaFreeAsync(void *pointer, cudaStream_t) {
    return cudaFree(pointer);
}

/* What can be had without swapping, or `total` where nobody says. */
static size_t available_memory(size_t total) {
    // Not _SC_AVPHYS_PAGES: that leaves out the files the kernel has cached,
    // which it gives up when asked, and which fill most of a busy machine.
    FILE *file = fopen("/proc/meminfo", "r");
    char line[128];
    size_t kib, bytes = total;
    while (file && fgets(line, sizeof line, file))
        if (sscanf(line, "MemAvailable: %zu", &kib) == 1) bytes = kib << 10;
    if (file) fclose(file);
    return bytes;
}

cudaError_t cudaMemGetInfo(size_t *free, size_t *total) {
    if (!free || !total) return set_error(cudaErrorInvalidValue);
    *total = (size_t)sysconf(_SC_PHYS_PAGES) * (size_t)sysconf(_SC_PAGESIZE);
    *free = available_memory(*total);
    return cudaSuccess;
}

cudaError_t cudaPointerGetAttributes(struct cudaPointerAttributes *attributes,
                                     const void *pointer) {
    if (!attributes) return set_error(cudaErrorInvalidValue);
    std::lock_guard<std::mutex> guard(heap().lock);
    const uintptr_t address = (uintptr_t)pointer;
    const bool device = holds(heap().device, address);
    const bool host = holds(heap().host, address);
    attributes->type = device ? cudaMemoryTypeDevice
                       : host ? cudaMemoryTypeHost
                              : cudaMemoryTypeUnregistered;
    attributes->device = device || host ? 0 : -2; // cudaInvalidDeviceId
    attributes->devicePointer = device || host ? (void *)pointer : 0;
    attributes->hostPointer = host ? (void *)pointer : 0;
    return cudaSuccess;
}

cudaError_t cudaMemcpy(void *to, const void *from, size_t size,
                       enum cudaMemcpyKind kind) {
    if (kind < cudaMemcpyHostToHost || kind > cudaMemcpyDefault)
        return set_error(cudaErrorInvalidMemcpyDirection);
    if (size && (!to || !from)) return set_error(cudaErrorInvalidValue);
    if (size) memmove(to, from, size);
    return cudaSuccess;
}

cudaError_t cudaMemset(void *to, int byte, size_t size) {
    if (size && !to) return set_error(cudaErrorInvalidValue);
    if (size) memset(to, byte, size);
    return cudaSuccess;
}
