/* 01_kogge_stone.cu -- scan, rung 1: the distance doubles in each step.
 *
 * Before:     one thread adds the numbers in turn, in count steps.
 * Idea:       in step d = 1, 2, 4, ... each thread adds the sum that is d
 *             places to the left (Kogge and Stone, 1973). After log2(256) = 8
 *             steps every thread has its running sum. Three kernels join the
 *             tiles of 256 numbers: the first stores each tile's sum, the
 *             second scans the sums, the third scans each tile again.
 * Prediction: two reads and one write of the array, 1.5 times the floor, and a
 *             tenth more for the sums of such small tiles.
 * Limit:      17 barriers per tile, and 256 log2(256) additions where 256
 *             suffice. One block scans all sums. */
#include "scan.cuh"

struct kogge_stone {
    static __device__ __forceinline__ float
    add_before(float own, float sums_s[THREADS], float *total) {
        const unsigned i = threadIdx.x;
        sums_s[i] = own;
        for (unsigned d = 1; d < THREADS; d *= 2) {
            __syncthreads(); // the previous step's sums are stored
            const float left = i >= d ? sums_s[i - d] : 0.0f;
            __syncthreads(); // all threads have read
            sums_s[i] += left;
        }
        __syncthreads(); // all sums are complete
        *total = sums_s[THREADS - 1];
        return i ? sums_s[i - 1] : 0.0f;
    }
};

typedef singles<kogge_stone> tile;

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

int scan_kogge_stone(const struct scanning *s) {
    return scan_in_three<tile>(s, add_tiles, scan_tiles);
}
