/* atomics.cpp -- what instrumented code calls for __atomic builtins, the host's
 * code too: each is one access, and then the operation itself. */
#include "hooks.h"

using namespace simt;

static constexpr Mark UPDATE = {ATOMIC, EFFECT_UPDATES, false, true};
static constexpr Mark SWAP = {ATOMIC, EFFECT_SWAPS, false, true};
static constexpr Mark LOAD = {ATOMIC, EFFECT_READS, false, true};
static constexpr Mark STORE = {ATOMIC, EFFECT_WRITES, false, true};

#define SIMT_PC __builtin_return_address(0)

/* For the watchdog: a thread that spins changes nothing. */
static void note_change(bool changed) {
    if (Checker *checker = changed ? running_checker() : 0) checker->changes++;
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
        hook<bits / 8>(at, SIMT_PC, LOAD, (uint8_t)order);                    \
        return __atomic_load_n(at, __ATOMIC_SEQ_CST);                         \
    }                                                                         \
    void __tsan_atomic##bits##_store(volatile a##bits *at, a##bits value,     \
                                     int order) {                             \
        hook<bits / 8>(at, SIMT_PC, STORE, (uint8_t)order);                   \
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

/* ---- what atomicAdd(float *) and its like are made of -------------------- */

namespace simt {
#ifdef SIMT_UCONTEXT
inline namespace ucontext_fibers {
#else
inline namespace asm_fibers {
#endif

void checked_atomic(const void *address, unsigned size, int order) {
    const uint8_t o = (uint8_t)order;
    switch (size) {
    case 1: return hook<1>(address, SIMT_PC, UPDATE, o);
    case 2: return hook<2>(address, SIMT_PC, UPDATE, o);
    case 4: return hook<4>(address, SIMT_PC, UPDATE, o);
    case 8: return hook<8>(address, SIMT_PC, UPDATE, o);
    default: return hook<16>(address, SIMT_PC, UPDATE, o);
    }
}

uint64_t checked_load(const void *address, unsigned size) {
    switch (size) {
    case 1: return __atomic_load_n((const a8 *)address, __ATOMIC_SEQ_CST);
    case 2: return __atomic_load_n((const a16 *)address, __ATOMIC_SEQ_CST);
    case 4: return __atomic_load_n((const a32 *)address, __ATOMIC_SEQ_CST);
    default: return __atomic_load_n((const a64 *)address, __ATOMIC_SEQ_CST);
    }
}

template <class T>
static bool swap(void *address, uint64_t *expected, uint64_t value) {
    T old = (T)*expected;
    const bool done =
        __atomic_compare_exchange_n((T *)address, &old, (T)value, false,
                                    __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
    note_change(done && (T)*expected != (T)value);
    *expected = old;
    return done;
}

bool checked_swap(void *address, uint64_t *expected, uint64_t value,
                  unsigned size) {
    switch (size) {
    case 1: return swap<a8>(address, expected, value);
    case 2: return swap<a16>(address, expected, value);
    case 4: return swap<a32>(address, expected, value);
    default: return swap<a64>(address, expected, value);
    }
}

} // namespace
} // namespace simt
