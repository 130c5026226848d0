/* compact.cuh -- the rungs of compact, and the code that they share.
 *
 * All lanes of a warp vote at the same time on whether they keep their numbers:
 * a ballot has a bit per lane. The bits below a lane's own mark the kept
 * numbers before it, so their popc is the lane's place. */
#ifndef WEFT_COMPACT_CUH
#define WEFT_COMPACT_CUH
#include "common/internal.cuh"

#include <math.h>
#include <stdint.h>

#include "common/rows.cuh"
#include "common/scans.cuh"
#include "common/scratch.cuh"

/* The arguments of weft_compact(), which the rungs receive. */
struct compaction {
    float *y;       // (count), of which the first *kept are written
    int64_t *kept;  // (1)
    const float *x; // (count)
    size_t count;
    float threshold;
    cudaStream_t stream;
};

/* Queue the work of a rung; each returns a weft_status. */
int compact_atomic(const struct compaction *c);
int compact_ballot(const struct compaction *c);
int compact_three_kernels(const struct compaction *c);
int compact_look_back(const struct compaction *c);
int compact_bulk(const struct compaction *c);

/* An index of y, in the type of CUDA's atomic additions of 64 bits. */
typedef unsigned long long place;

/* In rungs 3 and 4, a block handles a tile of x, and each of its warps handles
 * a contiguous part of the tile. */
enum { ITEMS = 16, TILE = ITEMS * THREADS };

/* Return where the warp's part of tile `tile` begins in x. */
static __device__ __forceinline__ size_t find_part(size_t tile) {
    return tile * TILE + threadIdx.x / WARP * (ITEMS * WARP);
}

/* Return numbers i to i + 3 of x, and NaN, which is never kept, past its end.
 * `aligned`: whether x begins at a multiple of 16 bytes, as i does. */
static __device__ __forceinline__ four load_four(const float *x, size_t i,
                                                 size_t count, bool aligned) {
    four v = {NAN, NAN, NAN, NAN};
    if (aligned && i + 4 <= count) {
        const float4 wide = *(const float4 *)(x + i);
        v = {wide.x, wide.y, wide.z, wide.w};
    } else {
#pragma unroll
        for (int k = 0; k < 4; k++)
            if (i + k < count) v.at[k] = x[i + k];
    }
    return v;
}

#endif
