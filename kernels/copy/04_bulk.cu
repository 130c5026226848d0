/* 04_bulk.cu -- copy, rung 4: a thread requests 16 KB.
 *
 * Before:     rung 3 needs a thread, two registers for addresses, and a load
 *             and a store for each 16 bytes.
 * Idea:       one thread of a block requests a piece of 16 KB with one
 *             instruction, cp.async.bulk. A barrier in shared memory counts
 *             the bytes that arrive. A second instruction sends them to y. No
 *             byte passes through a register.
 * Prediction: the bandwidth of rung 3 with a thousandth of the instructions.
 *             The 13 blocks on a multiprocessor keep 208 KB in flight.
 * Limit:      the memory. The rung needs compute capability 9.0 and, like rung
 *             3, addresses that are multiples of 16. */
#include "copy.cuh"

#include "common/hopper.cuh"

enum { PIECE = 16 << 10 }; // bytes of a block

static __global__ void copy_pieces(float *y, const float *x, struct parts p) {
    __shared__ __align__(128) char piece_s[PIECE];
    __shared__ mbarrier arrived_s;
    copy_ends(y, x, p);
    if (threadIdx.x) return;
    const size_t first = (size_t)blockIdx.x * PIECE;
    const size_t left = 16 * p.fours - first, most = PIECE;
    const unsigned bytes = (unsigned)(left < most ? left : most);
    mbarrier_init(&arrived_s, 1);
    fence_barrier_init();
    mbarrier_expect(&arrived_s, bytes);
    bulk_load(piece_s, (const char *)(x + p.head) + first, &arrived_s, bytes);
    mbarrier_wait(&arrived_s, 0);
    bulk_store((char *)(y + p.head) + first, piece_s, bytes);
    tma_store_commit();
    tma_store_wait<0>(); // the shared memory is read before the block ends
}

int copy_bulk(const struct duplication *d) {
    const struct parts p = divide(d);
    if (!p.fours) return copy_word(d);
    const unsigned blocks = (unsigned)CEIL_DIV(16 * p.fours, (size_t)PIECE);
    copy_pieces<<<blocks, 32, 0, d->stream>>>(d->y, d->x, p);
    WEFT_LAUNCHED(copy_pieces);
    return WEFT_OK;
}
