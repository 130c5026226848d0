/* memory.h -- the bytes that a kernel may access, and their states.
 *
 * While watch builds are loaded, device memory is one reserved range of
 * addresses, the arena. Its shadows (a state for each byte in this file, and
 * the cells of races.h) are at matching distances, so one subtraction finds
 * them. */
#ifndef SIMT_CHECK_MEMORY_H
#define SIMT_CHECK_MEMORY_H
#include "../runtime/runtime.h"

namespace simt::SIMT_FIBERS {

/* The state of a byte. LIVE bytes may be accessed. A copy into a COMING byte,
 * or out of a GOING one, is in flight. */
enum State : uint8_t {
    NOWHERE = 0,
    LIVE = 1,
    WRITTEN = 2,
    BOTH = 3,
    COMING = 4,
    GOING = 8
};

enum Origin : uint8_t {
    FROM_MALLOC,   /* cudaMalloc() and similar functions */
    FROM_MANAGED,  /* cudaMallocManaged() */
    FROM_HOST,     /* cudaMallocHost(), cudaHostRegister() */
    FROM_LAUNCHER, /* simt_check_alloc(): an array of the launch's caller */
    FROM_KERNEL,   /* malloc() or new in a kernel */
    FROM_VARIABLE, /* __device__, __constant__ or __managed__ */
    FROM_SHARED    /* __shared__ */
};

/* A piece of memory with a name. */
struct Array {
    uintptr_t address; /* address that the program uses */
    uintptr_t offset;  /* offset in its space; see Access::offset */
    size_t size;       /* in bytes */
    unsigned element;  /* size of an element in bytes; 0: unknown */
    Sides sides;       /* sides of the rows, if the declaration has several */
    Origin origin;
    bool freed;
    unsigned number; /* counted from 1 in the order of creation */
    char name[48];   /* "": no name yet */
};

/* The arena. If bytes is 0, there is none: no memory, or no watch build. */
struct Arena {
    uintptr_t base;
    size_t bytes;
    uint8_t *states;
};
extern __attribute__((visibility("hidden"))) Arena arena;

/* Begin to check device memory, when the first instrumented library is loaded.
 * Return true if there is an arena. */
bool start_checking();
/* Reserve addresses for a shadow of the arena, with `each` zeroed bytes per
 * word. Only the part of the shadow that belongs to arrays is writable. Return
 * NULL if there is no room. */
void *reserve_shadow(size_t each);
bool checking();

/* Make room for `array.size` bytes with red zones, in which every byte has
 * `state`. Return the address, or NULL if there is no room. If the array
 * already has an address, the room only represents it. */
void *take_array(Array array, State state);
bool free_array(const void *pointer); /* false: there is no such array */

/* Find the live array around an offset of the arena. Return false if there is
 * none. */
bool find_array(uintptr_t offset, Array *found);
/* Find the freed array around an offset or, failing that, the nearest live
 * one. */
bool nearest_array(uintptr_t offset, Array *found);
/* Give the array at an offset this name; NULL keeps its name. */
void name_array(uintptr_t offset, const char *name, size_t length,
                unsigned element);

/* Record that the host has written or copied `size` bytes. Bytes outside the
 * arena are ignored. */
void mark_written(const void *at, size_t size);
void mark_copied(const void *to, const void *from, size_t size);

} // namespace simt::SIMT_FIBERS
#endif
