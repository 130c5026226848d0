/* tile_tree.cuh -- the sum of all earlier tiles, added in the same order in
 * every run.
 *
 * 32 tiles form a group, and 32 groups a section. The last tile of a group
 * publishes the group's sum; the last tile of a section publishes the sum of
 * all sections so far. So a tile needs the sums of the earlier tiles of its
 * group, of the earlier groups of its section, and of the earlier sections. The
 * 32 lanes of a warp read the first two kinds at the same time, and add them in
 * a tree.
 *
 * The sums that a tile adds depend on its number alone. A look-back, in
 * contrast, ends at the nearest tile that happens to be complete. A tile waits
 * at most three times, and earlier tiles have usually ended the last two
 * waits. */
#ifndef WEFT_TILE_TREE_CUH
#define WEFT_TILE_TREE_CUH
#include "look_back.cuh"

template <class T> struct tile_tree {
    enum { MEMBERS = 32 }; // tiles of a group, and groups of a section
    chain<T> tiles, groups, sections;

    /* Return the tile of the calling block, as chain::take_tile() does. */
    __device__ __forceinline__ unsigned take_tile(unsigned *tile_s) const {
        return tiles.take_tile(tile_s);
    }
    /* Publish the sum of a tile, and return to every lane of the calling warp
     * the sum of all tiles before it. */
    __device__ __forceinline__ T find(unsigned tile, T own) const {
        const unsigned lane = threadIdx.x % 32, group = tile / MEMBERS,
                       section = group / MEMBERS;
        const bool ends_group = tile % MEMBERS == MEMBERS - 1,
                   ends_section = ends_group && group % MEMBERS == MEMBERS - 1;
        if (lane == 0) tiles.publish(tile, TILE_SUM, own);
        const member in_group(tiles, tile), in_section(groups, group);
        const T tile_sum = in_group.add();
        if (lane == 0 && ends_group)
            groups.publish(group, TILE_SUM, tile_sum + own);
        const T group_sum = in_section.add();
        T before = T();
        if (section > 0) before = sections.wait(section - 1, TILE_SUM).value;
        if (lane == 0 && ends_section)
            sections.publish(section, TILE_SUM,
                             before + (group_sum + (tile_sum + own)));
        return before + (group_sum + tile_sum);
    }

  private:
    /* The state that a lane reads: that of member `lane` of the group that
     * contains `end`, if the member is before `end`. */
    struct member {
        const chain<T> &states;
        unsigned at;
        bool is_before;
        tile_state<T> state; // at the first read

        __device__ __forceinline__ member(const chain<T> &states_, unsigned end)
            : states(states_), at(end / MEMBERS * MEMBERS + threadIdx.x % 32),
              is_before(at < end), state({TILE_SUM, T()}) {
            if (is_before) state = states.read(at);
        }
        /* Return to every lane the sum of all members before the end. */
        __device__ __forceinline__ T add() const {
            T value = state.value;
            if (state.status == TILE_EMPTY)
                value = states.wait(at, TILE_SUM).value;
            for (int distance = 16; distance > 0; distance /= 2)
                value += __shfl_xor_sync(0xffffffff, value, distance);
            return value;
        }
    };
};

/* Claim the states of `tiles` tiles for `op`, and queue their reset on the
 * stream of `memory`. Returns a weft_status. */
template <class T>
static int claim_chain(const char *op, scratch *memory, unsigned tiles,
                       tile_tree<T> *tree) {
    const unsigned groups = CEIL_DIV(tiles, 32),
                   sections = CEIL_DIV(groups, 32);
    WEFT_TRY(claim_chain(op, memory, tiles + groups + sections, &tree->tiles));
    unsigned *const ticket = tree->tiles.ticket;
    tree->groups = {tree->tiles.states + tiles, ticket};
    tree->sections = {tree->groups.states + groups, ticket};
    return WEFT_OK;
}

#endif
