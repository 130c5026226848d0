/* last_block.cuh -- the last block of a grid finds the results of the others.
 */
#ifndef WEFT_LAST_BLOCK_CUH
#define WEFT_LAST_BLOCK_CUH
#include "internal.cuh"

/* Count the blocks that have stored their results, and return to every thread
 * whether this is the last one of the grid. `arrived` is 0 before the launch.
 *
 * A block stores its result, then a fence makes the result visible to the whole
 * device, then the block counts itself. So the last block finds all results. */
static __device__ __forceinline__ bool arrive_last(unsigned *arrived,
                                                   bool *last_s) {
    if (threadIdx.x == 0) {
        __threadfence(); // the result is visible before the count
        *last_s = atomicAdd(arrived, 1u) == gridDim.x - 1;
        __threadfence(); // the count is read before the results
    }
    __syncthreads(); // *last_s is stored
    return *last_s;
}

#endif
