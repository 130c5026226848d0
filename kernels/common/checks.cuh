/* checks.cuh -- how the ops' launchers check sizes and arrays, so that the same
 * mistake reads the same everywhere. Messages start with the function's name
 * and hold the numbers. */
#ifndef WEFT_CHECKS_CUH
#define WEFT_CHECKS_CUH
#include "internal.cuh"

/* Threads of a block where the kernel does not care. */
enum { THREADS = 256 };

/* The most elements of an array, 2 TiB of floats: a grid has at most 2^31 - 1
 * blocks in x, and the naive kernels give each element a thread. */
#define MAX_ELEMENTS (2147483647.0 * THREADS)

/* Blocks of THREADS threads that cover `count` elements, within the limit. */
static inline unsigned blocks_for(size_t count) {
    return (unsigned)CEIL_DIV(count, THREADS);
}

/* Refuse a size below 1. */
#define CHECK_SIZE(size)                                                       \
    WEFT_REQUIRE((size) >= 1, "%s: %s = %d, want at least 1", __func__, #size, \
                 size)

/* Refuse an array that is missing. */
#define CHECK_ARRAY(array) \
    WEFT_REQUIRE(array, "%s: %s is NULL", __func__, #array)

/* Refuse an array of more than MAX_ELEMENTS. `count` is a double, since the
 * product of four sizes may be more than any integer holds. */
#define CHECK_COUNT(array, count)                                           \
    WEFT_REQUIRE((double)(count) <= MAX_ELEMENTS,                           \
                 "%s: %s would have %.0f elements, at most %.0f", __func__, \
                 #array, (double)(count), MAX_ELEMENTS)

#endif
