/* 04_three_kernels.cu -- scan, rung 4: loads of four.
 *
 * Before:     a thread of rung 3 handles one number, and a tile has 256.
 * Idea:       a thread loads and stores four numbers, 16 bytes, at a time. It
 *             adds them alone, and only their sum takes part in the shuffles.
 * Prediction: a quarter of the requests, steps and sums for the same bytes: the
 *             speed of memory for two reads and one write.
 * Limit:      the second read: 1.5 times the floor. The three kernels run one
 *             after the other, and the second has one block. */
#include "scan.cuh"

typedef fours<1> tile;

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

int scan_three_kernels(const struct scanning *s) {
    return scan_in_three<tile>(s, add_tiles, scan_tiles);
}
