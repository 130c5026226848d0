/* 06_look_back.cu -- scan, rung 6: look back instead of waiting.
 *
 * Before:     a tile of rung 5 waits until all earlier tiles are complete.
 * Idea:       a tile publishes its own sum immediately. A thread adds the sums
 *             of the tiles before it, one after the other, until it finds a
 *             tile that has its prefix (Merrill and Garland, 2016).
 * Prediction: a tile waits only for loads, not for other tiles' waits.
 * Limit:      a load from the L2 cache for each tile on the way back. The tile
 *             where the search ends depends on the schedule, and so do the last
 *             bits. */
#include "scan.cuh"

struct thread_finder {
    static __device__ __forceinline__ float find(const chain<float> &c,
                                                 unsigned tile, float total) {
        if (threadIdx.x > 0) return 0.0f;
        c.publish(tile, TILE_SUM, total);
        const float earlier = c.look_back(tile);
        c.publish(tile, TILE_PREFIX, earlier + total);
        return earlier;
    }
};

static __global__ void __launch_bounds__(THREADS)
    scan_looking_back(scanning s, chain<float> c) {
    __shared__ room room_s;
    scan_once<fours<1>, thread_finder>(s, c, &room_s);
}

int scan_look_back(const struct scanning *s) {
    return scan_in_one<fours<1>>(s, "scan_looking_back", scan_looking_back);
}
