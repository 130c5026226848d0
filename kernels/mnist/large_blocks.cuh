/* large_blocks.cuh -- whether this card's blocks may have twice the shared
 * memory that those of a small one may (99 KB). */
#ifndef WEFT_LARGE_BLOCKS_CUH
#define WEFT_LARGE_BLOCKS_CUH
#include "../internal.cuh"

/* If so, kernels load an image while they compute another. */
static inline int has_large_blocks() {
    int device = 0, bytes = 0;
    cudaGetDevice(&device);
    cudaDeviceGetAttribute(&bytes, cudaDevAttrMaxSharedMemoryPerBlockOptin,
                           device);
    return bytes >= 200 << 10;
}

#endif
