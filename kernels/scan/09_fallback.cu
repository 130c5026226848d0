/* 09_fallback.cu -- scan, rung 9: no block has to wait for another.
 *
 * Before:     a block of rung 8 waits for blocks that have begun. A device may
 *             suspend those blocks, or run them only after the waiting ones.
 * Idea:       a block that has read an empty state PATIENCE times loads that
 *             tile. It computes the sum for itself and for all others
 *             (Smith, Levien and Owens, Decoupled Fallback, SPAA 2025). So no
 *             ticket is needed: the tile is blockIdx.
 * Prediction: the bytes of rung 8 where blocks run in order. Each tile that is
 *             late costs one more read, or several if several blocks lose
 *             patience at the same time.
 * Limit:      one thread looks back, and the bits depend on the schedule. */
#include "scan.cuh"

enum { PATIENCE = 100 };

/* The state of a block's look-back: `earlier` is the sum of tiles `end` and
 * up. */
struct way {
    unsigned end;
    float earlier;
};

/* Go back until a tile has its prefix, or has remained empty. Returns whether
 * tile w->end - 1 is empty. */
static __device__ bool go_back(const chain<float> &c, way *w) {
    for (int reads = 0; w->end > 0;) {
        const tile_state<float> s = c.read(w->end - 1);
        if (s.status == TILE_EMPTY) {
            if (++reads == PATIENCE) return true;
            __nanosleep(50);
            continue;
        }
        w->earlier = s.value + w->earlier;
        w->end = s.status == TILE_PREFIX ? 0 : w->end - 1;
        reads = 0;
    }
    return false;
}

/* Publish the sum of another block's tile, unless that block has done so. The
 * first tile's sum is its prefix. */
static __device__ void offer_sum(const chain<float> &c, unsigned tile,
                                 float sum) {
    const tile_status status = tile ? TILE_SUM : TILE_PREFIX;
    atomicCAS(&c.states[tile], 0ull,
              pack_state<float>({(unsigned)status, sum}));
}

static __global__ void __launch_bounds__(THREADS)
    scan_without_waiting(scanning s, chain<float> c) {
    __shared__ float sums_s[WARPS], earlier_s;
    __shared__ unsigned empty_s; // 1 + the tile that is still empty, or 0
    fours<4> t;
    t.load(s, blockIdx.x);
    const float total = t.scan(sums_s);
    way w = {blockIdx.x, 0.0f};
    if (threadIdx.x == 0) offer_sum(c, blockIdx.x, total);
    for (;;) {
        if (threadIdx.x == 0) {
            empty_s = go_back(c, &w) ? w.end : 0;
            earlier_s = w.earlier;
        }
        __syncthreads(); // the tile and the sum are stored
        if (empty_s == 0) break;
        fours<4> other;
        other.load(s, empty_s - 1);
        const float sum = other.scan(sums_s);
        if (threadIdx.x == 0) {
            offer_sum(c, empty_s - 1, sum);
            w = {w.end - 1, sum + w.earlier};
        }
        __syncthreads(); // no thread uses empty_s and sums_s
    }
    if (threadIdx.x == 0) c.publish(blockIdx.x, TILE_PREFIX, earlier_s + total);
    t.store(s, blockIdx.x, earlier_s);
}

int scan_fallback(const struct scanning *s) {
    return scan_in_one<fours<4>>(s, "scan_without_waiting",
                                 scan_without_waiting);
}
