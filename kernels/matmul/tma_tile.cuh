/* tma_tile.cuh -- the shape of tiles, and the ring of stages that TMA fills,
 * for rungs 11 and 12. tma_multiply.cuh has the rest of their common code. */
#ifndef WEFT_MATMUL_TMA_TILE_CUH
#define WEFT_MATMUL_TMA_TILE_CUH
#include "common/hopper.cuh"
#include "matmul.h"
#include "tma_work.cuh"

enum {
    BK = 32, // a row of a's tile is 128 bytes, as the swizzle requires
    TM = 8,  // rows and columns of c per thread
    TN = 16,
    QUAD = 4,       // steps of k that a thread reads of a at a time
    WARP_ROWS = 32, // rows of c that a warp computes
    WARP_COLS = 128,
};

/* The shape of a block's tile, computed by WARPS_M x WARPS_N warps in each of
 * GROUPS groups that take turns along k. STAGES tiles of a and of b are in
 * flight. */
template <int WARPS_M, int WARPS_N, int GROUPS_, int STAGES_, int BLOCKS_>
struct shape {
    enum {
        BM = WARP_ROWS * WARPS_M,
        BN = WARP_COLS * WARPS_N,
        GROUPS = GROUPS_,
        STAGES = STAGES_,
        BLOCKS = BLOCKS_, // blocks per multiprocessor
        ROWS_OF_WARPS = WARPS_M,
        WARPS = WARPS_M * WARPS_N * GROUPS,
        THREADS = 32 * WARPS,
        A_FLOATS = BM * BK,
        STAGE_FLOATS = (BM + BN) * BK,
        STAGE_BYTES = STAGE_FLOATS * 4,
        SHARED_BYTES = STAGES * STAGE_BYTES + 1024, // see aligned_1024()
    };
};

/* ---- the ring ---------------------------------------------------------- */

/* A stage holds BM x BK of a, swizzled, followed by BK x BN of b. */
template <class S> struct ring {
    float *stages;
    mbarrier *full, *empty;
    int slot;
    unsigned parity;

    __device__ float *stage() const { return stages + slot * S::STAGE_FLOATS; }
    __device__ void next() {
        if (++slot == S::STAGES) {
            slot = 0;
            parity ^= 1;
        }
    }
};

/* Initialise the ring; one thread calls this before the block's first
 * barrier. */
template <class S>
static __device__ __forceinline__ void start_ring(const struct ring<S> &r) {
    for (int s = 0; s < S::STAGES; s++) {
        mbarrier_init(&r.full[s], 1);
        mbarrier_init(&r.empty[s], S::WARPS);
    }
    fence_barrier_init();
}

/* The next load of thread 0, which fills the ring. All threads reserve scarce
 * registers for this struct. If it were in shared memory, its fields, and with
 * them every stage, would arrive late. */
struct box {
    int k0, steps, row0, col0; /* steps of BK that are left, and the place in
                                * the matrices */
    int z_a, z_b;
    int piece, pieces; /* index of the piece, and number of the block's
                        * pieces */
};

/* Set *box to the first box of a piece. */
template <class S>
static __device__ __forceinline__ void
open_box(struct box *box, const struct piece &piece, const struct work &w,
         const struct extras &x) {
    const struct place at = place_of<S::BM, S::BN>(piece.tile, w);
    box->k0 = piece.first * BK;
    box->steps = piece.last - piece.first;
    box->row0 = at.row0;
    box->col0 = at.col0;
    box->z_a = x.step_a ? at.z : 0;
    box->z_b = x.step_b ? at.z : 0;
}

/* Set *box to the block's first box. */
template <class S>
static __device__ __forceinline__ void
first_box(struct box *box, const struct work &w, const struct extras &x) {
    box->steps = box->piece = 0;
    box->pieces = pieces_of_block(w);
    if (box->pieces) open_box<S>(box, piece_at(w, 0), w, x);
}

/* Fill stage `slot` as soon as it is empty, if there is anything left to load;
 * `parity` is the parity of the stage's use. */
template <class S>
static __device__ __forceinline__ void
fill_stage(struct box *box, const struct ring<S> &r, int slot, unsigned parity,
           const tensor_map *a_map, const tensor_map *b_map,
           const struct work &w, const struct extras &x) {
    const int k0 = box->k0, steps = box->steps;
    if (!steps) return;
    float *const stage = r.stages + slot * S::STAGE_FLOATS;
    mbarrier_wait(&r.empty[slot], parity ^ 1);
    mbarrier_expect(&r.full[slot], S::STAGE_BYTES);
    tma_load(stage, a_map, &r.full[slot], k0, box->row0, box->z_a);
    tma_load(stage + S::A_FLOATS, b_map, &r.full[slot], box->col0, k0,
             box->z_b);
    box->k0 = k0 + BK;
    box->steps = steps - 1;
    if (steps == 1 && ++box->piece < box->pieces)
        open_box<S>(box, piece_at(w, box->piece), w, x);
}

#endif
