/* 05_chained.cu -- scan, rung 5: one kernel, each tile waits for the one
 * before.
 *
 * Before:     rung 4 reads the array twice, because no tile has the sum of the
 *             earlier tiles at its first read.
 * Idea:       a block keeps its tile in registers, waits for the prefix of the
 *             previous tile, adds its own sum, and publishes the result.
 *             It takes its tile with a ticket (an atomicAdd) when it begins.
 *             With blockIdx as the tile, the kernel could hang: blocks begin in
 *             no fixed order. Blocks of late tiles may occupy the device and
 *             wait for a tile whose block cannot begin before one of them ends.
 * Prediction: the floor of bytes: one read and one write.
 * Limit:      the prefixes go through the tiles one by one. Each step costs a
 *             write to and a read from the L2 cache, about a microsecond per
 *             1024 numbers. This can be slower than three kernels. */
#include "scan.cuh"

struct chained {
    static __device__ __forceinline__ float find(const chain<float> &c,
                                                 unsigned tile, float total) {
        float earlier = 0.0f;
        if (threadIdx.x > 0) return earlier;
        if (tile > 0) earlier = c.wait(tile - 1, TILE_PREFIX).value;
        c.publish(tile, TILE_PREFIX, earlier + total);
        return earlier;
    }
};

static __global__ void __launch_bounds__(THREADS)
    scan_chain(scanning s, chain<float> c) {
    __shared__ room room_s;
    scan_once<fours<1>, chained>(s, c, &room_s);
}

int scan_chained(const struct scanning *s) {
    return scan_in_one<fours<1>>(s, "scan_chain", scan_chain);
}
