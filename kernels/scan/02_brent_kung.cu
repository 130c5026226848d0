/* 02_brent_kung.cu -- scan, rung 2: a tree up, and the same tree down.
 *
 * Before:     rung 1 makes 256 log2(256) additions for a tile of 256.
 * Idea:       on the way up, a tree adds pairs, pairs of pairs, ..., up to the
 *             total. On the way down, each complete sum is added to the middle
 *             of the part to its right (Brent and Kung, 1982).
 * Prediction: fewer than 512 additions, in 15 steps instead of 8. The bytes
 *             stay the same, and so does the time if memory is the limit.
 * Limit:      the distances are powers of 2, so threads meet in the same banks
 *             of shared memory, and most threads idle in most steps. */
#include "scan.cuh"

struct brent_kung {
    static __device__ __forceinline__ float
    add_before(float own, float sums_s[THREADS], float *total) {
        const unsigned i = threadIdx.x;
        sums_s[i] = own;
        for (unsigned d = 1; d < THREADS; d *= 2) {
            const unsigned right = (i + 1) * 2 * d - 1;
            __syncthreads(); // the previous step's sums are stored
            if (right < THREADS) sums_s[right] += sums_s[right - d];
        }
        for (unsigned d = THREADS / 4; d > 0; d /= 2) {
            const unsigned left = (i + 1) * 2 * d - 1;
            __syncthreads(); // the previous step's sums are stored
            if (left + d < THREADS) sums_s[left + d] += sums_s[left];
        }
        __syncthreads(); // all sums are complete
        *total = sums_s[THREADS - 1];
        return i ? sums_s[i - 1] : 0.0f;
    }
};

typedef singles<brent_kung> tile;

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

int scan_brent_kung(const struct scanning *s) {
    return scan_in_three<tile>(s, add_tiles, scan_tiles);
}
