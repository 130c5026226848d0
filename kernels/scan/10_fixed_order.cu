/* 10_fixed_order.cu -- scan, rung 10: look back, add forward, the same bits.
 *
 * Before:     rung 8 adds the sums that it finds from right to left, as far as
 *             the nearest prefix. The schedule decides where that is.
 * Idea:       define each prefix as the previous one plus the tile's sum. A
 *             warp looks back to the nearest prefix as before, but then adds
 *             the sums from left to right. Wherever it begins, each of its
 *             additions is one by which a later prefix is defined. So it
 *             computes the chain's bits without its waits, for every schedule
 *             and device.
 * Prediction: rung 8's speed: the additions of a window take a few cycles each,
 *             less than the load of its states.
 * Limit:      a rounding error per tile, instead of one per doubling. */
#include "scan.cuh"

struct ordered_finder {
    /* Return the state of the tile lane + 1 places before `end`. */
    static __device__ __forceinline__ tile_state<float>
    read_window(const chain<float> &c, unsigned end) {
        const unsigned lane = threadIdx.x % WARP;
        if (lane < end) return c.wait(end - 1 - lane, TILE_SUM);
        return {TILE_PREFIX, 0.0f};
    }
    static __device__ __forceinline__ unsigned
    find_prefixes(const tile_state<float> &s) {
        return __ballot_sync(0xffffffff, s.status == TILE_PREFIX);
    }
    static __device__ float add_in_order(const chain<float> &c, unsigned tile) {
        unsigned end = tile;
        tile_state<float> s = read_window(c, end);
        while (!find_prefixes(s)) s = read_window(c, end -= WARP);
        for (float sum = 0.0f;; s = read_window(c, end += WARP)) {
            const unsigned prefixes = find_prefixes(s);
            int lane = WARP;
            if (prefixes) {
                lane = __ffs(prefixes) - 1;
                sum = __shfl_sync(0xffffffff, s.value, lane);
            }
            while (lane-- > 0) sum += __shfl_sync(0xffffffff, s.value, lane);
            if (end == tile) return sum;
        }
    }
    static __device__ __forceinline__ float find(const chain<float> &c,
                                                 unsigned tile, float total) {
        if (threadIdx.x == 0) c.publish(tile, TILE_SUM, total);
        const float earlier = add_in_order(c, tile);
        if (threadIdx.x == 0) c.publish(tile, TILE_PREFIX, earlier + total);
        return earlier;
    }
};

static __global__ void __launch_bounds__(THREADS)
    scan_in_order(scanning s, chain<float> c) {
    __shared__ room room_s;
    scan_once<fours<4>, ordered_finder>(s, c, &room_s);
}

int scan_fixed_order(const struct scanning *s) {
    return scan_in_one<fours<4>>(s, "scan_in_order", scan_in_order);
}
