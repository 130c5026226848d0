/* 10_fixed_order.cu -- scan, rung 10: the same bits in every run.
 *
 * Before:     rung 8 adds the sums that it finds, back to the nearest complete
 *             tile. The schedule determines which tile that is.
 * Idea:       a tree of tiles (common/tile_tree.cuh). 32 tiles form a group and
 *             32 groups a section, which publish their sums, too. A tile adds
 *             the earlier sums of its group and section, and those of all
 *             earlier sections. Its number alone determines which these are, so
 *             every schedule and device gives the same bits. A thread keeps 32
 *             numbers, so a tile has 8192; short arrays have smaller tiles.
 * Prediction: no slower than a look-back, which reads as many states. With
 *             twice the bytes in flight of rung 8, the waits cost less of the
 *             time.
 * Limit:      a block holds its numbers while it waits for the tiles before it.
 *             Four blocks of 256 threads with 64 registers each hold 128 KB of
 *             a multiprocessor. Its shared memory could hold more (rung 11). */
#include "scan.cuh"

#include "common/tile_tree.cuh"

struct tree_finder {
    static __device__ __forceinline__ float find(const tile_tree<float> &tree,
                                                 unsigned tile, float total) {
        return tree.find(tile, total);
    }
};

static __global__ void __launch_bounds__(THREADS)
    scan_small_tiles(scanning s, tile_tree<float> tree) {
    __shared__ room room_s;
    scan_once<fours<4>, tree_finder>(s, tree, &room_s);
}

static __global__ void __launch_bounds__(THREADS, 4)
    scan_large_tiles(scanning s, tile_tree<float> tree) {
    __shared__ room room_s;
    scan_once<fours<8>, tree_finder>(s, tree, &room_s);
}

int scan_fixed_order(const struct scanning *s) {
    if (s->count < SCAN_LONG)
        return scan_in_one<fours<4>>(s, "scan_small_tiles", scan_small_tiles);
    return scan_in_one<fours<8>>(s, "scan_large_tiles", scan_large_tiles);
}
