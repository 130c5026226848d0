/* 07_look_back_warp.cu -- scan, rung 7: a warp looks back.
 *
 * Before:     a thread of rung 6 goes back one tile per load.
 * Idea:       32 lanes read the states of 32 tiles at the same time. A ballot
 *             finds the nearest prefix, and shuffles add the sums after it.
 * Prediction: a window of 32 tiles takes the time of one load.
 * Limit:      a tile of 1024 numbers has 8 KB of traffic, which takes the
 *             memory only a few nanoseconds. Each tile still costs a start, a
 *             ticket and a look-back. */
#include "scan.cuh"

static __global__ void __launch_bounds__(THREADS)
    scan_looking_back(scanning s, chain<float> c) {
    __shared__ room room_s;
    scan_once<fours<1>, warp_finder>(s, c, &room_s);
}

int scan_look_back_warp(const struct scanning *s) {
    return scan_in_one<fours<1>>(s, "scan_looking_back", scan_looking_back);
}
