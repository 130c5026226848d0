/* tma_work.cu -- the pieces of tiles that each block computes. */
#include "matmul/tma_work.cuh"

#define EXPORT extern "C" __attribute__((visibility("default")))

/* Store, for each step of each tile, its number of computations and its block;
 * for each cut tile, the number of pieces for which its last block waits. */
static __global__ void pieces(int *made, int *block, int *expected,
                              const struct work w) {
    const int count = pieces_of_block(w);
    for (int i = 0; i < count; i++) {
        const struct piece p = piece_at(w, i);
        for (int step = p.first; step < p.last; step++) {
            atomicAdd(&made[p.tile * w.steps + step], 1);
            block[p.tile * w.steps + step] = blockIdx.x;
        }
        if (p.last - p.first == w.steps) continue;
        const int unit = (p.tile - w.whole) * w.steps;
        expected[p.tile] = owner(w, unit + w.steps - 1) - owner(w, unit) + 1;
    }
}

EXPORT int run_pieces(int *made, int *block, int *expected, int *whole,
                      int tiles, int steps, int blocks, double worth) {
    struct product q = {};
    q.m = tiles;
    q.n = q.batch = 1;
    q.k = steps;
    const struct work w = divide(&q, 1, 1, 1, blocks, worth);
    *whole = w.whole;
    const int grid = w.units || tiles > blocks ? blocks : tiles;
    pieces<<<grid, 1>>>(made, block, expected, w);
    return cudaGetLastError();
}
