/* hooks.h -- the steps of every hook for an access. */
#ifndef SIMT_CHECK_HOOKS_H
#define SIMT_CHECK_HOOKS_H
#include "check.h"

namespace simt::SIMT_FIBERS {

struct Mark { /* the form of an access, which is constant for each hook */
    Kind kind;
    Effect effect;
    bool is_volatile, aligned;
};

/* ---- judge.cpp ---------------------------------------------------------- */

/* Judge an access to bytes in unusual states: report errors, and update the
 * states. Return true if no thread had waited for a copy that the access met.
 * Do not return if the error ends the launch. */
bool judge_states(Checker *checker, Fiber *self, const Access &access,
                  Mark mark, uint8_t *states);
/* Report that a thread has read bytes that no thread has written. */
void tell_blank(Checker *checker, const Access &access, uint3 block,
                uint3 thread);
/* Judge an address that is in neither the arena nor the block's shared memory.
 * Return false if the access is harmless. Do not return if it ends the
 * launch. */
bool judge_elsewhere(Checker *checker, Fiber *self, Access *access, Mark mark);
[[noreturn]] void judge_misaligned(Checker *checker, Fiber *self,
                                   const Access &access);

/* Report a copy of these bytes that is in flight, and the thread that requested
 * it, if known. coming: whether the copy writes the bytes; otherwise it reads
 * them. */
void tell_under_way(Checker *checker, const Fiber *self, const Access &access,
                    const struct Later *later, const uint3 *asker, bool coming);
/* Report a copy that a thread has requested and that is still in flight when
 * its block ends. */
void tell_not_waited(Checker *checker, const struct Later *later, uint3 asker);

/* ---- async_copies.cpp -------------------------------------------------- */

/* Return whether an access meets bytes that are in flight; if so, it has been
 * reported. */
bool judge_under_way(Checker *checker, const Fiber *self, const Access &access,
                     Mark mark, const uint8_t *states);

/* ---- blanks.cpp --------------------------------------------------------- */

/* Note a read of bytes that no thread has written so far, or their first
 * write. */
void note_blank(Checker *checker, const Fiber *self, const Access &access);
void note_first_write(Checker *checker, const Fiber *self,
                      const Access &access);
/* Report the reads of a space whose bytes no other thread has written by
 * now. */
void tell_blanks(Checker *checker, Space space);

/* ---- the slow path ------------------------------------------------------- */

/* Return whether all bytes may be accessed and have been written. */
template <unsigned size> SIMT_INLINE bool are_written(const uint8_t *states) {
    if constexpr (size == 16) {
        uint64_t word[2];
        memcpy(word, states, sizeof word);
        return (word[0] & word[1]) == 0x0303030303030303u;
    } else if constexpr (size == 8) {
        uint64_t word;
        memcpy(&word, states, sizeof word);
        return word == 0x0303030303030303u;
    } else if constexpr (size == 4) {
        uint32_t word;
        memcpy(&word, states, sizeof word);
        return word == 0x03030303u;
    } else if constexpr (size == 2) {
        uint16_t word;
        memcpy(&word, states, sizeof word);
        return word == 0x0303u;
    } else {
        return *states == BOTH;
    }
}

/* Handle an access of `size` bytes at `address` by kernel code that continues
 * at `pc`. */
template <unsigned size>
SIMT_INLINE void access(Checker *checker, Fiber *self, uintptr_t address,
                        const void *pc, Mark mark, uint8_t order = 0) {
    Access it;
    it.address = address;
    it.size = size;
    it.kind = mark.kind;
    it.is_volatile = mark.is_volatile;
    it.effect = mark.effect;
    it.order = order;
    it.offset = address - arena.base;
    it.space = GLOBAL;
    it.site = site_number(checker, pc, size, mark.kind, mark.is_volatile);
    const bool skewed = mark.aligned && address % size;
    if (SIMT_UNLIKELY(it.offset >= arena.bytes)) {
        it.offset = address - checker->shared;
        it.space = SHARED;
        if (it.offset >= SHADOWED &&
            (address - fibers.base < fibers.bytes ||
             !judge_elsewhere(checker, self, &it, mark)))
            return;
    }
    if (mark.kind == WRITE) checker->changes++;
    // Log the access before anything else, because other threads may run before
    // access() returns.
    if (checker->log_on && it.site) log_access(checker, self, it);
    uint8_t *states =
        (it.space == SHARED ? checker->shared_states : arena.states) +
        it.offset;
    bool told = false;
    if (SIMT_UNLIKELY(!are_written<size>(states)))
        told = judge_states(checker, self, it, mark, states);
    if (SIMT_UNLIKELY(skewed)) judge_misaligned(checker, self, it);
    if (SIMT_UNLIKELY(told)) return;
    if ((mark.kind == ATOMIC || mark.is_volatile) && size <= 8 &&
        mark.effect & EFFECT_READS)
        note_look(checker, self, it);
    if (checker->races_on) races_access(checker, self, it);
}

/* Handle an access like access(), but by code that may be the host's. This is
 * the slow path; see plain.h. */
template <unsigned size>
__attribute__((noinline)) void hook(const volatile void *address,
                                    const void *pc, Mark mark,
                                    uint8_t order = 0) {
    const uintptr_t stack = (uintptr_t)__builtin_frame_address(0);
    if (stack - fibers.base >= fibers.bytes) return;
    Fiber *self = fiber_at(stack);
    if (Checker *checker = self->block->checker)
        access<size>(checker, self, (uintptr_t)address, pc, mark, order);
}

/* Handle any number of bytes, in pieces as large as their alignment allows. */
void hook_range(const void *address, size_t size, const void *pc, Mark mark);

} // namespace simt::SIMT_FIBERS
#endif
