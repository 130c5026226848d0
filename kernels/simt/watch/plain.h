/* plain.h -- the fast path, which suffices for nearly every access. Such an
 * access is plain and aligned, is inside an array, and touches only written
 * bytes. There is room in the log, and there is no race.
 *
 * All of it is inlined into the hook and fits in the registers that a call may
 * overwrite, so that the hook needs no frame. Any other access takes the slow
 * path (hooks.h), which starts over. The fast path first withdraws its log
 * entry. Its other notes may be made twice. */
#ifndef SIMT_CHECK_PLAIN_H
#define SIMT_CHECK_PLAIN_H
#include "check.h"

namespace simt::SIMT_FIBERS {

/* Return an address on the running stack, without needing a frame. */
SIMT_INLINE uintptr_t on_stack() {
#ifdef __x86_64__
    uintptr_t sp;
    asm("movq %%rsp, %0" : "=r"(sp));
    return sp;
#else
    return (uintptr_t)__builtin_frame_address(0);
#endif
}

/* The type of a word that holds the states of bytes that are accessed
 * together. */
template <unsigned size> struct StatesOf;
template <> struct StatesOf<1> {
    typedef uint8_t type;
};
template <> struct StatesOf<2> {
    typedef uint16_t type;
};
template <> struct StatesOf<4> {
    typedef uint32_t type;
};
template <> struct StatesOf<8> {
    typedef uint64_t type;
};
template <> struct StatesOf<16> {
    typedef unsigned __int128 type;
};

/* Return whether all bytes may be accessed this way, and note the first write
 * to any of them. */
template <unsigned size, Kind kind>
SIMT_INLINE bool states_allow(const Checker *checker, uint8_t *states) {
    typedef typename StatesOf<size>::type Word;
    constexpr Word each = (Word)-1 / 255;
    Word word;
    memcpy(&word, states, sizeof word);
    if (word == (Word)(each * BOTH)) return true;
    if (kind == READ || (word & each) != each || checker->blanks) return false;
    if (word & (Word)(each * (COMING | GOING))) return false;
    memset(states, BOTH, size);
    return true;
}

/* The effort of the search for an access's races. PLAIN handles more of the
 * cases without a race, and QUICK needs fewer registers. */
enum Effort { QUICK, PLAIN };

/* Return whether an access by code of this tag (check.h) races with no earlier
 * access. */
template <unsigned size, Kind kind, Space space, Effort effort>
SIMT_INLINE bool races_allow(const Races &races, const Fiber *self,
                             uintptr_t offset, uint64_t tag) {
    if (size < 4 || races.slow) return false;
    const Cells &cells = space == SHARED ? races.shared : races.global;
    const unsigned floor = space == SHARED ? races.interval : races.settled;
    const Mention now =
        mention(races, self, 0) | tag >> (SITE_TAG - SITE_SHIFT);
#pragma GCC unroll 4
    for (size_t i = offset / 4; i < offset / 4 + size / 4; i++) {
        const bool fine =
            effort == QUICK
                ? (kind == READ ? read_quickly(cells, i, now, floor)
                                : write_quickly(cells, i, now, floor))
                : (kind == READ ? read_plainly(races, cells, i, now, floor)
                                : write_plainly(races, cells, i, now, floor));
        if (SIMT_UNLIKELY(!fine)) return false;
    }
    return true;
}

template <unsigned size, Kind kind, Space space, Effort effort>
SIMT_INLINE bool passes(Checker *checker, Fiber *self, uintptr_t address,
                        uintptr_t offset, uint64_t tag) {
    uint8_t *states =
        (space == SHARED ? checker->shared_states : arena.states) + offset;
    if (SIMT_UNLIKELY((!states_allow<size, kind>(checker, states))))
        return false;
    // Logging precedes the check for races because it needs registers. No other
    // thread runs in between.
    if (checker->log_on &&
        SIMT_UNLIKELY(!log_try(&checker->log, self, tag | address)))
        return false;
    if (checker->races_on &&
        SIMT_UNLIKELY((!races_allow<size, kind, space, effort>(
            checker->races, self, offset, tag)))) {
        if (checker->log_on) log_take_back(&checker->log, self);
        return false;
    }
    if (kind == WRITE) checker->changes++;
    return true;
}

/* Take the whole fast path for a plain access by code that continues at `pc`.
 * Return false if the access needs a slower path. */
template <unsigned size, Kind kind, Effort effort>
SIMT_INLINE bool passes(uintptr_t address, const void *pc) {
    const uintptr_t stack = on_stack();
    if (stack - fibers.base >= fibers.bytes) return true;
    Fiber *self = fiber_at(stack);
    Checker *checker = self->block->checker;
    if (SIMT_UNLIKELY(!checker)) return true;
    const uint64_t tag = site_tag(checker, pc);
    if (SIMT_UNLIKELY(!is_tag(tag)) || address % size) return false;
    uintptr_t offset = address - checker->shared;
    if (offset < SHADOWED)
        return passes<size, kind, SHARED, effort>(checker, self, address,
                                                  offset, tag);
    offset = address - arena.base;
    if (offset < arena.bytes)
        return passes<size, kind, GLOBAL, effort>(checker, self, address,
                                                  offset, tag);
    return address - fibers.base < fibers.bytes; // the thread's own stack
}

} // namespace simt::SIMT_FIBERS
#endif
