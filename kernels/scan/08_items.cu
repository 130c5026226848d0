/* 08_items.cu -- scan, rung 8: more numbers per thread.
 *
 * Before:     a tile of rung 7 has 1024 numbers, one load per thread.
 * Idea:       a thread has four loads of 16 bytes in flight and keeps 16
 *             numbers in registers, so a tile has 4096. A warp's lanes load
 *             neighbours; each row of 128 numbers is scanned by itself.
 * Prediction: a quarter of the tickets and look-backs. With more bytes in
 *             flight than the memory's latency needs, the speed approaches a
 *             copy's.
 * Limit:      the bits still depend on the schedule. All earlier tiles must
 *             keep running once they have begun. */
#include "scan.cuh"

static __global__ void __launch_bounds__(THREADS)
    scan_large_tiles(scanning s, chain<float> c) {
    __shared__ room room_s;
    scan_once<fours<4>, warp_finder>(s, c, &room_s);
}

int scan_items(const struct scanning *s) {
    return scan_in_one<fours<4>>(s, "scan_large_tiles", scan_large_tiles);
}
