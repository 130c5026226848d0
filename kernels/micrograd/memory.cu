/* memory.cu -- the memory of a tape: arrays on the target, and the pool of
 * arrays that a reset has freed.
 *
 * Later entries take arrays of the same sizes from the pool. So a training step
 * allocates nothing after the first one. */
#include "tape.h"

#include <stdlib.h>
#include <string.h>

#include "common/checks.cuh"
#include "common/internal.cuh"

/* Return the bytes of an array of `count` numbers of 4 bytes, in whole units of
 * 256. */
static size_t bytes_of(size_t count) { return CEIL_DIV(count * 4, 256) * 256; }

int tape_grow(void **array, int count, int *capacity, size_t size) {
    if (count < *capacity) return WEFT_OK;
    const int larger = *capacity ? 2 * *capacity : 64;
    void *const memory = realloc(*array, larger * size);
    if (!memory)
        return weft_fail(WEFT_ENOMEM, "weft_tape: %zu bytes needed",
                         larger * size);
    *array = memory;
    *capacity = larger;
    return WEFT_OK;
}

int tape_take(struct weft_tape *tape, void *pointer, size_t count, int fill,
              weft_stream stream) {
    const size_t bytes = bytes_of(count);
    void *data = NULL;
    for (int i = tape->pool_count - 1; i >= 0 && !data; i--)
        if (tape->pool[i].bytes == bytes) {
            data = tape->pool[i].data;
            tape->pool[i] = tape->pool[--tape->pool_count];
            tape->pool_bytes -= bytes;
        }
    if (!data) {
        size_t available = 0, total = 0;
        // Check first, because Linux overcommits a CPU's memory and then kills
        // the process that writes to it.
        WEFT_CUDA_TRY(cudaMemGetInfo(&available, &total));
        const cudaError_t error = bytes > available ? cudaErrorMemoryAllocation
                                                    : cudaMalloc(&data, bytes);
        if (error == cudaErrorMemoryAllocation) {
            cudaGetLastError(); // clear the error, which is not sticky
            return weft_fail(WEFT_ENOMEM,
                             "weft_tape: out of memory: %zu bytes needed, %zu "
                             "of %zu are free; the tape has %zu",
                             bytes, available, total, tape->used_bytes);
        }
        if (error) return weft_cuda_fail(error, "cudaMalloc");
    }
    tape->used_bytes += bytes;
    memcpy(pointer, &data, sizeof data);
    WEFT_CUDA_TRY(cudaMemsetAsync(data, fill, bytes, weft_cuda_stream(stream)));
    return WEFT_OK;
}

void tape_give_back(struct weft_tape *tape, void *data, size_t count) {
    const size_t bytes = bytes_of(count);
    if (!data) return;
    tape->used_bytes -= bytes;
    if (tape_grow((void **)&tape->pool, tape->pool_count, &tape->pool_capacity,
                  sizeof *tape->pool)) {
        cudaFree(data);
        return;
    }
    tape->pool[tape->pool_count++] = {data, bytes};
    tape->pool_bytes += bytes;
}

size_t tape_elements(const struct tape_entry *entry) {
    return (size_t)entry->rows * entry->cols;
}

void tape_release(struct weft_tape *tape, const struct tape_entry *entry) {
    tape_give_back(tape, entry->value, tape_elements(entry));
    tape_give_back(tape, entry->grad, tape_elements(entry));
    if (entry->target)
        tape_give_back(tape, entry->target, tape->entries[entry->a].rows);
}
