/* cost.cpp -- the cost of one request, following the rules of
 * lib/weft/pykernel/sim/counters.py. */
#include "counters.h"

#include <atomic>

namespace simt::SIMT_FIBERS {

/* Return the number of different keys; `count` is at most 64. */
static unsigned distinct(uint64_t *keys, unsigned count) {
    uint64_t low = keys[0], high = keys[0];
    for (unsigned i = 1; i < count; i++) {
        low = keys[i] < low ? keys[i] : low;
        high = keys[i] > high ? keys[i] : high;
    }
    if (high - low < 64) {
        uint64_t seen = 0;
        for (unsigned i = 0; i < count; i++)
            seen |= (uint64_t)1 << (keys[i] - low);
        return (unsigned)__builtin_popcountll(seen);
    }
    enum { SLOTS = 256 };
    uint8_t slots[SLOTS] = {}; // 1 + the index of the key in this slot
    unsigned found = 0;
    for (unsigned i = 0; i < count; i++) {
        unsigned slot = (unsigned)(keys[i] * 0x9e3779b97f4a7c15u >> 56);
        while (slots[slot] && keys[slots[slot] - 1] != keys[i])
            slot = (slot + 1) % SLOTS;
        if (slots[slot]) continue;
        slots[slot] = (uint8_t)(i + 1);
        found++;
    }
    return found;
}

static unsigned sectors_of(unsigned size, unsigned mask, const uintptr_t *at) {
    uint64_t sectors[2 * WARP];
    unsigned count = 0;
    for (unsigned left = mask; left; left &= left - 1) {
        const uintptr_t address = at[__builtin_ctz(left)];
        const uint64_t first = address / SECTOR;
        const uint64_t last = (address + size - 1) / SECTOR;
        sectors[count++] = first;
        if (last != first) sectors[count++] = last;
    }
    return distinct(sectors, count);
}

/* Count the sectors of atomics. Lanes that update the same element run one
 * after another. In each turn, lanes with other elements of the same sector run
 * with them. */
static unsigned sectors_of_atomics(unsigned mask, const uintptr_t *at) {
    uintptr_t known[WARP]; // the addresses of the elements met so far
    uint8_t times[WARP];   // number of times that each was met
    unsigned count = 0, sum = 0;
    for (unsigned left = mask; left; left &= left - 1) {
        const uintptr_t address = at[__builtin_ctz(left)];
        unsigned mine = count, most = 0; // most: maximum in the current sector
        for (unsigned i = 0; i < count; i++) {
            if (known[i] == address) mine = i;
            if (known[i] / SECTOR == address / SECTOR && times[i] > most)
                most = times[i];
        }
        if (mine == count) {
            known[count] = address;
            times[count++] = 0;
        }
        if (++times[mine] > most) sum++;
    }
    return sum;
}

/* Return the number of turns that some lanes of a warp need. A bank serves
 * different words one after another. Elements of 8 and 16 bytes are also words.
 * Then a half or a quarter of the warp accesses 16 or 8 banks of that width. */
static unsigned turns_of(unsigned word_size, unsigned mask,
                         const uintptr_t *at) {
    const unsigned banks = 4 * BANKS / word_size;
    uint64_t words[WARP]; // lists of words by bank, in the order of the lanes
    uint8_t before[WARP], last[BANKS] = {}, length[BANKS] = {};
    unsigned turns = 0, count = 0;
    for (unsigned left = mask; left; left &= left - 1) {
        const uint64_t word = at[__builtin_ctz(left)] / word_size;
        const unsigned bank = word % banks;
        unsigned i = last[bank];
        while (i && words[i - 1] != word) i = before[i - 1];
        if (i) continue;
        before[count] = last[bank];
        words[count++] = word;
        last[bank] = (uint8_t)count;
        if (++length[bank] > turns) turns = length[bank];
    }
    return turns;
}

/* Return the number of turns for atomics. A bank serves its lanes one after
 * another, even those that access the same word. */
static unsigned turns_of_atomics(unsigned word_size, unsigned mask,
                                 const uintptr_t *at) {
    const unsigned banks = 4 * BANKS / word_size;
    uint8_t lanes[BANKS] = {};
    unsigned turns = 0;
    for (unsigned left = mask; left; left &= left - 1) {
        const unsigned bank = at[__builtin_ctz(left)] / word_size % banks;
        if (++lanes[bank] > turns) turns = lanes[bank];
    }
    return turns;
}

Cost cost_of(Space space, Kind kind, unsigned size, unsigned mask,
             const uintptr_t *at) {
    Cost cost = {true, 0, 0, 0};
    const bool atomic = kind == ATOMIC;
    if (space == GLOBAL)
        cost.sectors = (uint8_t)(atomic ? sectors_of_atomics(mask, at)
                                        : sectors_of(size, mask, at));
    if (space != SHARED) return cost;
    const unsigned word = size < 4 ? 4 : size;
    const unsigned together = 4 * BANKS / word; // number of lanes served
                                                // together
    for (unsigned first = 0; first < WARP; first += together) {
        unsigned part = mask >> first;
        if (together < WARP) part &= (1u << together) - 1;
        if (!part) continue;
        part <<= first;
        cost.wavefronts += (uint8_t)(atomic ? turns_of_atomics(word, part, at)
                                            : turns_of(word, part, at));
        cost.needed++;
    }
    return cost;
}

/* ---- atomics that count as plain accesses -------------------------------- */

static std::atomic<uint8_t> others[MAX_SITES]; // 1 + the kind that a site
                                               // counts as; 0: its actual kind

Kind counted_as(unsigned site) {
    const uint8_t other = others[site].load(std::memory_order_relaxed);
    return other ? (Kind)(other - 1) : site_at(site).kind;
}

void count_as(unsigned site, Kind kind) {
    if (!others[site].load(std::memory_order_relaxed))
        others[site] = (uint8_t)(kind + 1);
}

} // namespace simt::SIMT_FIBERS
