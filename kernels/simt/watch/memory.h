/* memory.h -- which bytes a kernel may touch, and what is known about each.
 *
 * While watch builds are about, device memory lies in one reserved range of
 * addresses, the arena. Its shadows (a byte of state for each byte here, and
 * what races.h has) are as far apart: finding them takes one subtraction. */
#ifndef SIMT_CHECK_MEMORY_H
#define SIMT_CHECK_MEMORY_H
#include "../runtime/runtime.h"

namespace simt {
#ifdef SIMT_UCONTEXT
inline namespace ucontext_fibers {
#else
inline namespace asm_fibers {
#endif

/* Of a byte. LIVE ones may be touched; a copy into a COMING one, or out of a
 * GOING one, is under way. */
enum State : uint8_t {
    NOWHERE = 0,
    LIVE = 1,
    WRITTEN = 2,
    BOTH = 3,
    COMING = 4,
    GOING = 8
};

enum Origin : uint8_t {
    FROM_MALLOC,   /* cudaMalloc() and its kin */
    FROM_MANAGED,  /* cudaMallocManaged() */
    FROM_HOST,     /* cudaMallocHost(), cudaHostRegister() */
    FROM_LAUNCHER, /* simt_check_alloc(): an array of the launch's caller */
    FROM_KERNEL,   /* malloc() or new in a kernel */
    FROM_VARIABLE, /* __device__, __constant__ or __managed__ */
    FROM_SHARED    /* __shared__ */
};

/* A piece of memory that has a name. */
struct Array {
    uintptr_t address; /* where the program sees it */
    uintptr_t offset;  /* the same in its space: see Access::offset */
    size_t size;       /* bytes */
    unsigned element;  /* bytes of one element; 0: not known */
    Sides sides;       /* of its rows, where it is declared with several */
    Origin origin;
    bool freed;
    unsigned number; /* counted from 1 in the order of their births */
    char name[48];   /* "" while nobody has named it */
};

/* The arena; bytes 0: there is none (no memory for it, or no watch build). */
struct Arena {
    uintptr_t base;
    size_t bytes;
    uint8_t *states;
};
extern __attribute__((visibility("hidden"))) Arena arena;

/* From now on device memory is checked: true if there is an arena. Called when
 * the first instrumented library is loaded. */
bool start_checking();
/* Addresses for a shadow of the arena, `each` bytes for each word, all 0. As
 * far as arrays lie it can be written. NULL: there are no such. */
void *reserve_shadow(size_t each);
bool checking();

/* Make room for `array.size` bytes, with red zones, in which every byte has
 * `state`. Returns where; NULL: no room. If the array has an address already,
 * the room is only its stand-in. */
void *take_array(Array array, State state);
bool free_array(const void *pointer); /* false: there is none */

/* The live array around an offset of the arena; false: there is none ... */
bool find_array(uintptr_t offset, Array *found);
/* ... or else the freed one, or else the live one that is nearest. */
bool nearest_array(uintptr_t offset, Array *found);
/* Call the array at an offset this from now on; name NULL: as before. */
void name_array(uintptr_t offset, const char *name, size_t length,
                unsigned element);

/* The host has written, or copied: bytes outside of the arena are no matter. */
void mark_written(const void *at, size_t size);
void mark_copied(const void *to, const void *from, size_t size);

} // namespace
} // namespace simt
#endif
