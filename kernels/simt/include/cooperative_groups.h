/* cooperative_groups.h -- replaces the toolkit's header under g++.
 *
 * Tiles and coalesced groups are lanes of one warp. They synchronise through
 * the warp primitives with their masks, so groups on the two sides of a branch
 * do not wait for each other. A grid can synchronise if it was launched
 * cooperatively. Not supported: clusters and grids of several devices. */
#ifndef SIMT_COOPERATIVE_GROUPS_H
#define SIMT_COOPERATIVE_GROUPS_H
#include "simt.h"

#define SIMT_MEMBER inline __attribute__((always_inline))

namespace simt {

SIMT_INLINE unsigned block_rank() { return peek(here()->thread.linear); }
SIMT_INLINE unsigned block_size() {
    const dim3 d = blockDim;
    return d.x * d.y * d.z;
}

/* Return the linear index of the running block in the grid, or the number of
 * blocks. */
SIMT_INLINE unsigned long long grid_block() {
    const dim3 d = gridDim;
    const uint3 b = blockIdx;
    return ((unsigned long long)b.z * d.y + b.y) * d.x + b.x;
}
SIMT_INLINE unsigned long long grid_blocks() {
    const dim3 d = gridDim;
    return (unsigned long long)d.x * d.y * d.z;
}

/* Return a value of any size from lane `source`, in pieces that shuffle() can
 * move. */
template <class T>
SIMT_INLINE T shuffle_any(unsigned mask, const T &value, unsigned source) {
    if constexpr (sizeof(T) <= 8) {
        return shuffle(mask, value, source);
    } else {
        static_assert(__is_trivially_copyable(T), "lanes exchange plain data");
        uint64_t words[(sizeof(T) + 7) / 8] = {};
        __builtin_memcpy(words, &value, sizeof value);
        for (uint64_t &word : words) word = shuffle(mask, word, source);
        T out = value;
        __builtin_memcpy(&out, words, sizeof out);
        return out;
    }
}

/* Return the bits of `lanes` that are in `mask`, compacted so that bit i
 * belongs to rank i. */
SIMT_INLINE unsigned pack(unsigned lanes, unsigned mask) {
    unsigned out = 0;
    for (unsigned rank = 0; mask; rank++, mask &= mask - 1)
        if (lanes & mask & -mask) out |= 1u << rank;
    return out;
}

/* Return at most `count` threads of `mask`, starting with rank `first`. */
SIMT_INLINE unsigned some_of(unsigned mask, unsigned first, unsigned count) {
    unsigned out = 0;
    for (unsigned rank = 0; mask; rank++, mask &= mask - 1)
        if (rank >= first && rank - first < count) out |= mask & -mask;
    return out;
}

} // namespace simt

namespace cooperative_groups {

/* ---- any group, as functions receive it ---------------------------------- */

class thread_group {
  protected:
    enum Kind { BLOCK, GRID, LANES };
    Kind kind;
    unsigned mask, meta_rank, meta_size; /* for a group of kind LANES */

    explicit thread_group(Kind kind, unsigned mask = 0, unsigned meta_rank = 0,
                          unsigned meta_size = 1)
        : kind(kind), mask(mask), meta_rank(meta_rank), meta_size(meta_size) {}

    unsigned rank_of_lane() const {
        return __builtin_popcount(mask & ((1u << simt::lane()) - 1));
    }

    /* Return a tile of `size` threads of a group. */
    template <class Group> static Group tile_of(const Group &g, unsigned size) {
        // A kernel on a GPU aborts, too.
        if (size == 0 || size > 32 || size & (size - 1)) __builtin_trap();
        const unsigned rank = (unsigned)g.thread_rank();
        const unsigned all = (unsigned)g.size(), first = rank / size * size;
        Group tile = g;
        if (g.kind == LANES) {
            tile.mask = simt::some_of(g.mask, first, size);
        } else {
            const unsigned count = all - first < size ? all - first : size;
            tile.mask = (0xffffffffu >> (32 - count)) << first % 32;
        }
        tile.kind = LANES;
        tile.meta_rank = rank / size;
        tile.meta_size = (all + size - 1) / size;
        return tile;
    }
    friend thread_group tiled_partition(const thread_group &, unsigned);

  public:
    unsigned long long num_threads() const {
        if (kind == LANES) return (unsigned)__builtin_popcount(mask);
        return simt::block_size() * (kind == GRID ? simt::grid_blocks() : 1);
    }
    unsigned long long size() const { return num_threads(); }
    unsigned long long thread_rank() const {
        if (kind == LANES) return rank_of_lane();
        const unsigned long long block = kind == GRID ? simt::grid_block() : 0;
        return block * simt::block_size() + simt::block_rank();
    }
    SIMT_MEMBER void sync(SIMT_WHERE) const {
        if (kind == LANES)
            __syncwarp(mask);
        else if (kind == BLOCK)
            __syncthreads(SIMT_PLACE);
        else
            simt::grid_barrier(SIMT_PLACE);
    }
};

/* ---- the block ---------------------------------------------------------- */

/* The result of barrier_arrive(), which does nothing; barrier_wait() waits
 * until all other threads have reached it, too. */
struct arrival_token {};

class thread_block : public thread_group {
    thread_block() : thread_group(BLOCK) {}
    friend thread_block this_thread_block();

  public:
    typedef cooperative_groups::arrival_token arrival_token;
    static SIMT_MEMBER void sync(SIMT_WHERE) { __syncthreads(SIMT_PLACE); }
    arrival_token barrier_arrive() const { return {}; }
    SIMT_MEMBER void barrier_wait(arrival_token &&SIMT_AND_WHERE) const {
        __syncthreads(SIMT_PLACE);
    }
    static unsigned num_threads() { return simt::block_size(); }
    static unsigned size() { return simt::block_size(); }
    static unsigned thread_rank() { return simt::block_rank(); }
    static dim3 group_index() { return (uint3)blockIdx; }
    static dim3 thread_index() { return (uint3)threadIdx; }
    static dim3 dim_threads() { return blockDim; }
    static dim3 group_dim() { return blockDim; }
};

/* The shared memory that tiles of several warps need on older GPUs. */
template <unsigned threads = 1024> struct block_tile_memory {};

inline thread_block this_thread_block() { return {}; }
template <unsigned threads>
thread_block this_thread_block(block_tile_memory<threads> &) {
    return this_thread_block();
}

/* ---- the grid ----------------------------------------------------------- */

class grid_group : public thread_group {
    grid_group() : thread_group(GRID) {}
    friend grid_group this_grid();

  public:
    typedef cooperative_groups::arrival_token arrival_token;
    /* Return whether the launch was a cooperative one. */
    bool is_valid() const { return simt::here()->block->cooperative; }
    SIMT_MEMBER void sync(SIMT_WHERE) const { simt::grid_barrier(SIMT_PLACE); }
    arrival_token barrier_arrive() const { return {}; }
    SIMT_MEMBER void barrier_wait(arrival_token &&SIMT_AND_WHERE) const {
        sync(SIMT_PLACE);
    }
    static unsigned long long num_threads() {
        return simt::grid_blocks() * simt::block_size();
    }
    static unsigned long long size() { return num_threads(); }
    static unsigned long long thread_rank() {
        return simt::grid_block() * simt::block_size() + simt::block_rank();
    }
    static unsigned long long num_blocks() { return simt::grid_blocks(); }
    static unsigned long long block_rank() { return simt::grid_block(); }
    static dim3 block_index() { return (uint3)blockIdx; }
    static dim3 thread_index() { return (uint3)threadIdx; }
    static dim3 dim_blocks() { return gridDim; }
    static dim3 dim_threads() { return blockDim; }
    static dim3 group_dim() { return gridDim; }
};

inline grid_group this_grid() { return {}; }

/* ---- lanes of a warp ---------------------------------------------------- */

class coalesced_group : public thread_group {
  protected:
    explicit coalesced_group(unsigned mask, unsigned meta_rank = 0,
                             unsigned meta_size = 1)
        : thread_group(LANES, mask, meta_rank, meta_size) {}

    /* Return the lane that has this rank in the group, or the calling lane
     * if there is none. */
    unsigned lane_of(unsigned rank) const {
        const unsigned low = __builtin_ctz(mask), up = mask >> low;
        if (rank >= size()) return simt::lane();
        return up & (up + 1) ? simt::lane_of_rank(mask, rank) : low + rank;
    }
    friend class thread_group;
    friend coalesced_group coalesced_threads();
    template <class G> friend coalesced_group binary_partition(const G &, bool);
    template <class G, class T>
    friend coalesced_group labeled_partition(const G &, T);
    friend coalesced_group tiled_partition(const coalesced_group &, unsigned);

  public:
    unsigned num_threads() const { return __builtin_popcount(mask); }
    unsigned size() const { return __builtin_popcount(mask); }
    unsigned thread_rank() const { return rank_of_lane(); }
    unsigned meta_group_rank() const { return meta_rank; }
    unsigned meta_group_size() const { return meta_size; }
    SIMT_MEMBER void sync() const { __syncwarp(mask); }

    /* Return the value of the thread of that rank, or of the thread `delta`
     * below or above. */
    template <class T> SIMT_MEMBER T shfl(T value, unsigned rank) const {
        return simt::shuffle_any(mask, value, lane_of(rank));
    }
    template <class T> SIMT_MEMBER T shfl_up(T value, unsigned delta) const {
        return shfl(value, thread_rank() - delta);
    }
    template <class T> SIMT_MEMBER T shfl_down(T value, unsigned delta) const {
        return shfl(value, thread_rank() + delta);
    }

    /* Votes. Bit i of a result belongs to the thread of rank i. */
    SIMT_MEMBER int any(int predicate) const {
        return __any_sync(mask, predicate);
    }
    SIMT_MEMBER int all(int predicate) const {
        return __all_sync(mask, predicate);
    }
    SIMT_MEMBER unsigned ballot(int predicate) const {
        return simt::pack(__ballot_sync(mask, predicate), mask);
    }
    template <class T> SIMT_MEMBER unsigned match_any(T value) const {
        return simt::pack(__match_any_sync(mask, value), mask);
    }
    template <class T>
    SIMT_MEMBER unsigned match_all(T value, int &same) const {
        return simt::pack(__match_all_sync(mask, value, &same), mask);
    }
};

/* Return the threads of the warp that make this call at the same time. */
SIMT_MEMBER coalesced_group coalesced_threads() {
    return coalesced_group(__activemask());
}

/* A tile of `Size` neighbouring threads of one warp. */
template <unsigned Size> class warp_tile : public coalesced_group {
  protected:
    static unsigned own_mask() {
        return (0xffffffffu >> (32 - Size)) << (simt::lane() & ~(Size - 1));
    }
    warp_tile(unsigned meta_rank, unsigned meta_size)
        : coalesced_group(own_mask(), meta_rank, meta_size) {}

  public:
    static constexpr unsigned num_threads() { return Size; }
    static constexpr unsigned size() { return Size; }
    static unsigned thread_rank() { return simt::lane() & (Size - 1); }

    template <class T> SIMT_MEMBER T shfl(T value, int rank) const {
        const unsigned first = simt::lane() & ~(Size - 1);
        return simt::shuffle_any(mask, value, first | (rank & (Size - 1)));
    }
    template <class T> SIMT_MEMBER T shfl_up(T value, unsigned delta) const {
        const unsigned rank = thread_rank();
        return shfl(value, delta <= rank ? rank - delta : rank);
    }
    template <class T> SIMT_MEMBER T shfl_down(T value, unsigned delta) const {
        const unsigned rank = thread_rank();
        return shfl(value, delta < Size - rank ? rank + delta : rank);
    }
    template <class T> SIMT_MEMBER T shfl_xor(T value, unsigned flip) const {
        const unsigned rank = thread_rank(), other = rank ^ flip;
        return shfl(value, other < Size ? other : rank);
    }
};

} // namespace cooperative_groups

#include "../device/cooperative_tiles.h"

namespace cooperative_groups {

template <unsigned Size, class Parent = void> class thread_block_tile;

template <unsigned Size, bool several> struct tile_of_size {
    typedef warp_tile<Size> type;
};
template <unsigned Size> struct tile_of_size<Size, true> {
    typedef warps_tile<Size> type;
};

/* A tile of `Size` neighbouring threads, with or without a Parent type. */
template <unsigned Size>
class thread_block_tile<Size, void>
    : public tile_of_size<Size, (Size > 32)>::type {
    static_assert(Size && !(Size & (Size - 1)), "a tile's size: a power of 2");
    static_assert(Size <= 1024, "a block has at most 1024 threads");

  protected:
    thread_block_tile(unsigned meta_rank, unsigned meta_size)
        : tile_of_size<Size, (Size > 32)>::type(meta_rank, meta_size) {}

  public:
    /* Make a tile of a whole block, which has at most `Size` threads. */
    thread_block_tile(const thread_block &) : thread_block_tile(0, 1) {}
};

template <unsigned Size, class Parent>
class thread_block_tile : public thread_block_tile<Size, void> {
  public:
    thread_block_tile(unsigned meta_rank, unsigned meta_size)
        : thread_block_tile<Size, void>(meta_rank, meta_size) {}
};

/* ---- parts of groups ---------------------------------------------------- */

template <unsigned Size, class Parent>
SIMT_INLINE thread_block_tile<Size, Parent> tiled_partition(const Parent &g) {
    return {(unsigned)g.thread_rank() / Size,
            ((unsigned)g.size() + Size - 1) / Size};
}
inline thread_group tiled_partition(const thread_group &g, unsigned size) {
    return thread_group::tile_of(g, size);
}
inline coalesced_group tiled_partition(const coalesced_group &g,
                                       unsigned size) {
    return thread_group::tile_of(g, size);
}

/* Return the threads of the group whose predicate, or label, equals this
 * thread's. */
template <class Group>
SIMT_MEMBER coalesced_group binary_partition(const Group &group,
                                             bool predicate) {
    const coalesced_group &g = group;
    const unsigned all = __ballot_sync(g.mask, 1);
    const unsigned yes = __ballot_sync(g.mask, predicate);
    if (yes == 0 || yes == all) return coalesced_group(all);
    return coalesced_group(predicate ? yes : all & ~yes, predicate, 2);
}
template <class Group, class T>
SIMT_MEMBER coalesced_group labeled_partition(const Group &group, T label) {
    const coalesced_group &g = group;
    const unsigned mine = __match_any_sync(g.mask, label);
    const bool leads = __builtin_ctz(mine) == (int)simt::lane();
    const unsigned leaders = __ballot_sync(g.mask, leads);
    const unsigned before = leaders & ((mine & -mine) - 1);
    return coalesced_group(mine, __builtin_popcount(before),
                           __builtin_popcount(leaders));
}
template <class Group>
SIMT_MEMBER coalesced_group labeled_partition(const Group &g, bool label) {
    return binary_partition(g, label);
}

/* ---- functions of any group --------------------------------------------- */

template <class Group> SIMT_INLINE void sync(const Group &g) { g.sync(); }
SIMT_INLINE void sync(const thread_block &SIMT_AND_WHERE) {
    __syncthreads(SIMT_PLACE);
}
SIMT_INLINE void sync(const grid_group &g SIMT_AND_WHERE) {
    g.sync(SIMT_PLACE);
}
template <class Group>
SIMT_INLINE auto thread_rank(const Group &g) -> decltype(g.thread_rank()) {
    return g.thread_rank();
}
template <class Group>
SIMT_INLINE auto group_size(const Group &g) -> decltype(g.num_threads()) {
    return g.num_threads();
}

/* Call `f` on one thread, and return its result to all threads. */
template <class Group, class F, class... Args>
SIMT_INLINE void invoke_one(const Group &g, F &&f, Args &&...args) {
    if (g.thread_rank() == 0) f(args...);
}
template <class Group, class F, class... Args>
SIMT_INLINE auto invoke_one_broadcast(const Group &g, F &&f, Args &&...args)
    -> decltype(f(args...)) {
    decltype(f(args...)) result{};
    if (g.thread_rank() == 0) result = f(args...);
    return g.shfl(result, 0);
}

/* Unsupported functions give a compile error. */
template <class... T>
__attribute__((error("grids of several devices are gone since CUDA 13, and not "
                     "simulated on the CPU"))) thread_group
this_multi_grid(T...);
template <class... T>
__attribute__((error("thread block clusters are not simulated on the CPU")))
thread_block
this_cluster(T...);

} // namespace cooperative_groups
#endif
