/* checks.cuh -- checks of sizes and arrays for the ops' launchers, so that the
 * same mistake gives the same message everywhere. Messages start with the
 * function's name and contain the numbers. */
#ifndef WEFT_CHECKS_CUH
#define WEFT_CHECKS_CUH
#include "internal.cuh"

/* Threads per block of kernels that work with any block size. */
enum { THREADS = 256 };

/* The maximum number of elements of an array, 2 TiB of floats. A grid has at
 * most 2^31 - 1 blocks in x, and the naive kernels use one thread per
 * element. */
#define MAX_ELEMENTS (2147483647.0 * THREADS)

/* Return the number of blocks of THREADS threads that cover `count` elements,
 * which must not exceed MAX_ELEMENTS. */
static inline unsigned blocks_for(size_t count) {
    return (unsigned)CEIL_DIV(count, THREADS);
}

/* Return whether all arrays begin at multiples of 16 bytes, so that one load
 * can fetch four floats. */
static inline bool are_aligned(const void *a, const void *b, const void *c) {
    return ((uintptr_t)a | (uintptr_t)b | (uintptr_t)c) % 16 == 0;
}

/* Reject a size below 1. */
#define CHECK_SIZE(size)                                                       \
    WEFT_REQUIRE((size) >= 1, "%s: %s = %d, want at least 1", __func__, #size, \
                 size)

/* Reject an array that is NULL. */
#define CHECK_ARRAY(array) \
    WEFT_REQUIRE(array, "%s: %s is NULL", __func__, #array)

/* Reject an array of more than MAX_ELEMENTS elements. `count` is a double
 * because the product of four sizes can overflow every integer type. */
#define CHECK_COUNT(array, count)                                           \
    WEFT_REQUIRE((double)(count) <= MAX_ELEMENTS,                           \
                 "%s: %s would have %.0f elements, at most %.0f", __func__, \
                 #array, (double)(count), MAX_ELEMENTS)

#endif
