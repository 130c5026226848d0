/* device_heap.cpp -- implements device_heap.h. */
#include "device_heap.h"

#include <stdlib.h>

#include <mutex>
#include <unordered_map>

namespace simt::SIMT_FIBERS {

enum : size_t { HEAD = 16 }; // overhead of an allocation in bytes

static std::atomic<size_t> taken;

static size_t cost(size_t size) {
    return (size + HEAD - 1) / HEAD * HEAD + HEAD;
}

bool take_from_heap(size_t size) {
    size_t limit = 0;
    cudaDeviceGetLimit(&limit, cudaLimitMallocHeapSize);
    if (size > limit) return false; // cost(size) may overflow
    if (taken.fetch_add(cost(size)) + cost(size) <= limit) return true;
    taken -= cost(size);
    return false;
}

void give_to_heap(size_t size) { taken -= cost(size); }

/* Memory that kernels hold, by address. free() must distinguish it from the
 * host's memory. */
static struct Kept {
    std::mutex lock;
    std::unordered_map<void *, size_t> sizes;
} *const kept = new Kept; // never destroyed: a program may free at its end

void *heap_malloc(size_t size) {
    if (!take_from_heap(size)) return 0;
    void *memory = malloc(size ? size : 1);
    if (!memory) {
        give_to_heap(size);
        return 0;
    }
    std::lock_guard<std::mutex> guard(kept->lock);
    kept->sizes[memory] = size;
    return memory;
}

bool heap_free(void *memory) {
    if (!taken) return false; // a shortcut if no kernel allocates
    std::lock_guard<std::mutex> guard(kept->lock);
    const auto found = kept->sizes.find(memory);
    if (found == kept->sizes.end()) return false;
    give_to_heap(found->second);
    kept->sizes.erase(found);
    free(memory);
    return true;
}

} // namespace simt::SIMT_FIBERS
