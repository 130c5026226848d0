/* atomics.cpp -- the hooks for __atomic builtins in instrumented code,
 * including the host's code. Each hook records one access and then performs the
 * operation itself. */
#include "counters.h"
#include "hooks.h"

using namespace simt;

static constexpr Mark UPDATE = {ATOMIC, EFFECT_UPDATES, false, true};
static constexpr Mark SWAP = {ATOMIC, EFFECT_SWAPS, false, true};
static constexpr Mark LOAD = {ATOMIC, EFFECT_READS, false, true};
static constexpr Mark STORE = {ATOMIC, EFFECT_WRITES, false, true};

#define SIMT_PC __builtin_return_address(0)

/* Count a change for the watchdog: a thread that only spins changes nothing. */
static void note_change(bool changed) {
    if (Checker *checker = changed ? running_checker() : 0) checker->changes++;
}

/* Handle a load or a store that is atomic. */
template <unsigned size>
SIMT_INLINE void hook_single(const volatile void *at, const void *pc, Mark mark,
                             int order) {
    if (Checker *checker = running_checker())
        count_as(site_number(checker, pc, size, ATOMIC, false),
                 mark.effect == EFFECT_READS ? READ : WRITE);
    hook<size>(at, pc, mark, (uint8_t)order);
}

typedef uint8_t a8;
typedef uint16_t a16;
typedef uint32_t a32;
typedef uint64_t a64;

#define SIMT_FETCH_(bits, name, builtin)                                   \
    a##bits __tsan_atomic##bits##_fetch_##name(volatile a##bits *at,       \
                                               a##bits value, int order) { \
        hook<bits / 8>(at, SIMT_PC, UPDATE, (uint8_t)order);               \
        const a##bits old = builtin(at, value, __ATOMIC_SEQ_CST);          \
        note_change(old != __atomic_load_n(at, __ATOMIC_RELAXED));         \
        return old;                                                        \
    }
#define SIMT_EXCHANGE(bits, strength)                                        \
    int __tsan_atomic##bits##_compare_exchange_##strength(                   \
        volatile a##bits *at, a##bits *expected, a##bits value, int order,   \
        int fail) {                                                          \
        hook<bits / 8>(at, SIMT_PC, SWAP,                                    \
                       (uint8_t)(order > fail ? order : fail));              \
        const a##bits old = *expected;                                       \
        const bool done = __atomic_compare_exchange_n(                       \
            at, expected, value, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST); \
        note_change(done && old != value);                                   \
        return done;                                                         \
    }
#define SIMT_ATOMIC(bits)                                                     \
    a##bits __tsan_atomic##bits##_load(const volatile a##bits *at,            \
                                       int order) {                           \
        hook_single<bits / 8>(at, SIMT_PC, LOAD, order);                      \
        return __atomic_load_n(at, __ATOMIC_SEQ_CST);                         \
    }                                                                         \
    void __tsan_atomic##bits##_store(volatile a##bits *at, a##bits value,     \
                                     int order) {                             \
        hook_single<bits / 8>(at, SIMT_PC, STORE, order);                     \
        note_change(__atomic_exchange_n(at, value, __ATOMIC_SEQ_CST) !=       \
                    value);                                                   \
    }                                                                         \
    a##bits __tsan_atomic##bits##_exchange(volatile a##bits *at,              \
                                           a##bits value, int order) {        \
        hook<bits / 8>(at, SIMT_PC, UPDATE, (uint8_t)order);                  \
        const a##bits old = __atomic_exchange_n(at, value, __ATOMIC_SEQ_CST); \
        note_change(old != value);                                            \
        return old;                                                           \
    }                                                                         \
    SIMT_FETCH_(bits, add, __atomic_fetch_add)                                \
    SIMT_FETCH_(bits, sub, __atomic_fetch_sub)                                \
    SIMT_FETCH_(bits, and, __atomic_fetch_and)                                \
    SIMT_FETCH_(bits, or, __atomic_fetch_or)                                  \
    SIMT_FETCH_(bits, xor, __atomic_fetch_xor)                                \
    SIMT_FETCH_(bits, nand, __atomic_fetch_nand)                              \
    SIMT_EXCHANGE(bits, strong)                                               \
    SIMT_EXCHANGE(bits, weak)                                                 \
    a##bits __tsan_atomic##bits##_compare_exchange_val(                       \
        volatile a##bits *at, a##bits expected, a##bits value, int order,     \
        int fail) {                                                           \
        hook<bits / 8>(at, SIMT_PC, SWAP,                                     \
                       (uint8_t)(order > fail ? order : fail));               \
        const a##bits old = expected;                                         \
        note_change(__atomic_compare_exchange_n(at, &expected, value, false,  \
                                                __ATOMIC_SEQ_CST,             \
                                                __ATOMIC_SEQ_CST) &&          \
                    old != value);                                            \
        return expected;                                                      \
    }

#pragma GCC visibility push(default)
extern "C" {
SIMT_ATOMIC(8)
SIMT_ATOMIC(16)
SIMT_ATOMIC(32)
SIMT_ATOMIC(64)

void __tsan_atomic_thread_fence(int) { checked_fence(true); }
void __tsan_atomic_signal_fence(int) {}
}
#pragma GCC visibility pop

/* ---- the parts of atomicAdd(float *) and similar functions --------------- */

namespace simt::SIMT_FIBERS {

typedef uint64_t Next(const void *closure, uint64_t old);

template <class T>
SIMT_INLINE uint64_t update(void *address, const void *pc, int order,
                            Next *next, const void *closure) {
    hook<sizeof(T)>(address, pc, UPDATE, (uint8_t)order);
    Checker *checker = running_checker();
    if (checker) go_inside(checker->worker); // next() is not kernel code
    T *at = (T *)address, old = __atomic_load_n(at, __ATOMIC_SEQ_CST), now;
    do now = (T)next(closure, old);
    while (!__atomic_compare_exchange_n(at, &old, now, false, __ATOMIC_SEQ_CST,
                                        __ATOMIC_SEQ_CST));
    if (checker) go_outside(checker->worker);
    note_change(old != now);
    return old;
}

uint64_t checked_update(void *address, unsigned size, int order, Next *next,
                        const void *closure) {
    switch (size) {
    case 1: return update<a8>(address, SIMT_PC, order, next, closure);
    case 2: return update<a16>(address, SIMT_PC, order, next, closure);
    case 4: return update<a32>(address, SIMT_PC, order, next, closure);
    default: return update<a64>(address, SIMT_PC, order, next, closure);
    }
}

void checked_fruitless(bool is) {
    if (is) spin(here());
}

} // namespace simt::SIMT_FIBERS
