/* cooperative_tiles.h -- tiles of several warps, as in cooperative_groups.h.
 *
 * A block's threads take turns on one CPU thread. So their shared state is a
 * variable of that thread and needs no atomics. */
#ifndef SIMT_COOPERATIVE_TILES_H
#define SIMT_COOPERATIVE_TILES_H
#include "cooperative_groups.h"

#ifdef SIMT_CHECK
/* Functions of the runtime: a thread that has arrived at a barrier acquires the
 * work of all others that have arrived. */
extern "C" void simt_tile_arrival(const void *barrier);
extern "C" void simt_tile_departure(const void *barrier);
#endif

namespace simt {

/* The state of the tiles of one block. Overlapping tiles of different sizes do
 * not wait at the same time, so a tile is identified by its first warp. */
struct WarpsTiles {
    unsigned launch;
    unsigned long long block;
    unsigned arrived[MAX_THREADS / WARP], epoch[MAX_THREADS / WARP];
    const void *offered[MAX_THREADS]; /* address of each thread's value, on the
                                       * thread's stack */
};
inline thread_local WarpsTiles warps_tiles;

/* This code is not the program's own, so the watch build's hooks must not
 * record its accesses. */
#ifdef SIMT_CHECK
#define SIMT_UNSEEN inline __attribute__((noinline, no_sanitize_thread))
#else
#define SIMT_UNSEEN inline
#endif

/* Return the tile state of the running block. The first call in each block
 * resets the state's counters. */
SIMT_UNSEEN WarpsTiles &tiles_of_block() {
    WarpsTiles &tiles = warps_tiles;
    const unsigned launch = here()->block->launch;
    if (tiles.launch != launch || tiles.block != grid_block()) {
        for (unsigned &arrived : tiles.arrived) arrived = 0;
        tiles.launch = launch;
        tiles.block = grid_block();
    }
    return tiles;
}

/* Wait for the `threads` threads of the tile that begins with thread
   `first`. */
SIMT_UNSEEN void tile_barrier(unsigned first, unsigned threads) {
    Block *block = here()->block;
    go_inside(block);
    WarpsTiles &tiles = tiles_of_block();
    unsigned &arrived = tiles.arrived[first / WARP];
    unsigned &epoch = tiles.epoch[first / WARP];
    const unsigned mine = epoch;
#ifdef SIMT_CHECK
    simt_tile_arrival(&epoch);
#endif
    if (++arrived == threads) {
        arrived = 0;
        epoch++;
    }
    go_outside(block);
    while (look(epoch) == mine) spin(here());
#ifdef SIMT_CHECK
    simt_tile_departure(&epoch);
#endif
}

/* Offer a value to the other threads of the tile. */
SIMT_UNSEEN void offer(const void *value) {
    tiles_of_block().offered[block_rank()] = value;
}
SIMT_UNSEEN const void *offered_by(unsigned rank) {
    return look(tiles_of_block().offered[rank]);
}

} // namespace simt

namespace cooperative_groups {

/* A tile of `Size` neighbouring threads of a block, more than a warp has. */
template <unsigned Size> class warps_tile : public thread_group {
    static unsigned first() { return simt::block_rank() & ~(Size - 1); }
    static unsigned present() {
        const unsigned rest = simt::block_size() - first();
        return rest < Size ? rest : Size;
    }
    unsigned rank_in_parent, parts;

  protected:
    warps_tile(unsigned meta_rank, unsigned meta_size)
        : thread_group(BLOCK), rank_in_parent(meta_rank), parts(meta_size) {}

  public:
    static void sync() { simt::tile_barrier(first(), present()); }
    static constexpr unsigned num_threads() { return Size; }
    static constexpr unsigned size() { return Size; }
    static unsigned thread_rank() { return simt::block_rank() & (Size - 1); }
    unsigned meta_group_rank() const { return rank_in_parent; }
    unsigned meta_group_size() const { return parts; }

    /* Return the value that the thread of this rank passes. No thread reads
     * before all have offered their values, or continues before all have
     * read. */
    template <class T> T shfl(T value, unsigned rank) const {
        simt::offer(&value);
        sync();
        const unsigned source = first() + (rank & (Size - 1));
        const T result = *(const T *)simt::offered_by(source);
        sync();
        return result;
    }
    template <class T> T shfl_up(T value, unsigned delta) const {
        const unsigned rank = thread_rank();
        return shfl(value, delta <= rank ? rank - delta : rank);
    }
    template <class T> T shfl_xor(T value, unsigned flip) const {
        return shfl(value, thread_rank() ^ flip);
    }
    bool any(int predicate) const {
        bool yes = predicate;
        for (unsigned flip = 1; flip < Size; flip *= 2)
            yes |= shfl_xor(yes, flip);
        return yes;
    }
    bool all(int predicate) const { return !any(!predicate); }
};

} // namespace cooperative_groups
#endif
