/* 03_shuffle.cu -- scan, rung 3: rung 1's steps within a warp, in registers.
 *
 * Before:     each step of rungs 1 and 2 goes through shared memory, between
 *             barriers.
 * Idea:       32 lanes scan with shuffles, which need neither. Shared memory
 *             holds only the sums of the 8 warps, and each thread adds those of
 *             earlier warps.
 * Prediction: one barrier per tile instead of 16, and 5 steps instead of 15.
 * Limit:      a thread loads 4 bytes and then waits for its block, and the
 *             array is still read twice. */
#include "scan.cuh"

struct shuffle {
    static __device__ __forceinline__ float
    add_before(float own, float sums_s[THREADS], float *total) {
        const float upto = scan_lanes(own);
        const float warp = __shfl_sync(0xffffffff, upto, WARP - 1);
        return add_earlier_warps(warp, sums_s, total) + shift_lanes(upto, 1);
    }
};

typedef singles<shuffle> tile;

static __global__ void __launch_bounds__(THREADS)
    add_tiles(float *sums, scanning s) {
    __shared__ float sums_s[tile::SHARED];
    add_tile<tile>(sums, s, sums_s);
}

static __global__ void __launch_bounds__(THREADS)
    scan_tiles(scanning s, const float *earlier) {
    __shared__ float sums_s[tile::SHARED];
    scan_tile<tile>(s, earlier, sums_s);
}

int scan_shuffle(const struct scanning *s) {
    return scan_in_three<tile>(s, add_tiles, scan_tiles);
}
