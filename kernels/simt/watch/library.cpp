/* library.cpp -- replacements for functions of the C and C++ libraries in
 * instrumented code: the linker puts __wrap_ before the names that build.py
 * lists.
 *
 * A kernel's malloc() and new take device memory, so that its use is checked.
 * Its memcpy() and similar calls are accesses. The host's calls are passed on
 * to the libraries, unless they free memory that a kernel allocated. For
 * kernels that are not watched, only malloc() and free() are replaced. */
#include <stdlib.h>

#include <new>

#include "../device/device_heap.h"
#include "hooks.h"

namespace simt::SIMT_FIBERS {

static constexpr Mark READING = {READ, EFFECT_READS, false, false};
static constexpr Mark WRITING = {WRITE, EFFECT_WRITES, false, false};
enum { FRESH = 0xff };

static void *take_heap(size_t size, int filled, State state) {
    Array array = {};
    array.size = size ? size : 1;
    array.origin = FROM_KERNEL;
    if (!take_from_heap(array.size)) return 0;
    void *at = take_array(array, state);
    if (at)
        memset(at, filled, size);
    else
        give_to_heap(array.size);
    return at;
}

/* Implement malloc(size) in a kernel. */
static void *of_heap(size_t size) {
    return running_checker() ? take_heap(size, FRESH, LIVE) : heap_malloc(size);
}

/* Record that a kernel copies some bytes, and copy them. */
static void copy(void *to, const void *from, size_t size, const void *pc) {
    if (!size) return;
    hook_range(from, size, pc, READING);
    hook_range(to, size, pc, WRITING);
}

[[noreturn]] static void bad_free(const void *memory) {
    Worker *worker = this_worker;
    note_fault(worker, here(), SIMT_FAULT_EXCEPTION, cudaErrorLaunchFailure,
               "frees %p, which no malloc() or new of a kernel returned",
               memory);
    abandon(worker);
}

static bool in_arena(const void *memory) {
    return (uintptr_t)memory - arena.base < arena.bytes;
}

/* Free the memory if a kernel allocated it, and return whether one did. */
static bool free_heap(void *memory) {
    if (!in_arena(memory)) {
        if (heap_free(memory)) return true;
        if (in_kernel()) bad_free(memory);
        return false;
    }
    Array array;
    const uintptr_t offset = (uintptr_t)memory - arena.base;
    const bool mine = find_array(offset, &array) && array.offset == offset &&
                      array.origin == FROM_KERNEL;
    if (mine) give_to_heap(array.size);
    if (mine) return free_array(memory);
    if (in_kernel()) bad_free(memory);
    return true; // the arena never contains memory of the C library
}

} // namespace simt::SIMT_FIBERS

using namespace simt;

#define SIMT_PC __builtin_return_address(0)

#pragma GCC visibility push(default)
extern "C" {

void *__wrap_malloc(size_t size) {
    return in_kernel() ? of_heap(size) : malloc(size);
}
void *__wrap_calloc(size_t count, size_t size) {
    size_t all;
    if (!in_kernel()) return calloc(count, size);
    if (__builtin_mul_overflow(count, size, &all)) return 0;
    if (running_checker()) return take_heap(all, 0, BOTH);
    void *memory = heap_malloc(all);
    return memory ? memset(memory, 0, all) : 0;
}
void __wrap_free(void *memory) {
    if (memory && !free_heap(memory)) free(memory);
}

/* Replace operator new and delete, and those of arrays. If memory runs out,
 * they return NULL, as on a GPU, and throw no exception. */
void *__wrap__Znwm(size_t size) {
    return in_kernel() ? of_heap(size) : operator new(size);
}
void *__wrap__Znam(size_t size) {
    return in_kernel() ? of_heap(size) : operator new[](size);
}
void __wrap__ZdlPv(void *memory) {
    if (memory && !free_heap(memory)) operator delete(memory);
}
void __wrap__ZdaPv(void *memory) {
    if (memory && !free_heap(memory)) operator delete[](memory);
}
void __wrap__ZdlPvm(void *memory, size_t) { __wrap__ZdlPv(memory); }
void __wrap__ZdaPvm(void *memory, size_t) { __wrap__ZdaPv(memory); }

void *__wrap_memcpy(void *to, const void *from, size_t size) {
    if (running_checker()) copy(to, from, size, SIMT_PC);
    return memcpy(to, from, size);
}
void *__wrap_memmove(void *to, const void *from, size_t size) {
    if (running_checker()) copy(to, from, size, SIMT_PC);
    return memmove(to, from, size);
}
void *__wrap_memset(void *to, int byte, size_t size) {
    if (running_checker() && size) hook_range(to, size, SIMT_PC, WRITING);
    return memset(to, byte, size);
}

} // extern "C"
#pragma GCC visibility pop
