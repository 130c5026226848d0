/* device_atomics.h -- atomics on global and shared memory, for the types that
 * CUDA supports. Each function returns the old value. Blocks run concurrently
 * on several CPU threads, so these are real atomics, with relaxed order as in
 * CUDA. */
#ifndef SIMT_DEVICE_ATOMICS_H
#define SIMT_DEVICE_ATOMICS_H
#include "../runtime/engine.h"

namespace simt {

/* Record an atomic that changed nothing. A spinning thread must let the other
 * threads of its block run; otherwise it would wait forever. */
#ifdef SIMT_CHECK
SIMT_INLINE void fruitless(bool is = true) { checked_fruitless(is); }
#else
SIMT_INLINE void fruitless(bool is = true) {
    if (SIMT_UNLIKELY(is)) spin(here());
}
#endif

template <class T> struct Bits; /* the integer that holds a T */
template <> struct Bits<float> {
    typedef uint32_t type;
};
template <> struct Bits<double> {
    typedef uint64_t type;
};

#ifdef SIMT_CHECK
/* Compute an update from an old value. The runtime calls this function, because
 * a loop in this header would count as steps of the kernel, although the kernel
 * does not contain it. */
template <class T, class Next>
uint64_t next_value(const void *next, uint64_t seen) {
    static_assert(sizeof(T) <= 8, "atomics have at most 8 bytes");
    T old;
    __builtin_memcpy(&old, &seen, sizeof old);
    const T now = (*(const Next *)next)(old);
    uint64_t wanted = 0;
    __builtin_memcpy(&wanted, &now, sizeof now);
    return wanted;
}
/* Replace *address with next(old). This counts as one access at the program's
 * line. */
template <class T, class Next>
SIMT_INLINE T update(T *address, Next next, int order = __ATOMIC_RELAXED) {
    const uint64_t seen =
        checked_update(address, sizeof(T), order, next_value<T, Next>, &next);
    T old;
    __builtin_memcpy(&old, &seen, sizeof old);
    return old;
}
template <class T> SIMT_INLINE T add_float(T *address, T value) {
    return update(address, [=](T old) { return old + value; });
}
#else
template <class T> SIMT_INLINE T add_float(T *address, T value) {
    typedef typename Bits<T>::type U;
    U *bits = (U *)address, seen = __atomic_load_n(bits, __ATOMIC_RELAXED),
      next;
    T old, sum;
    do {
        __builtin_memcpy(&old, &seen, sizeof old);
        sum = old + value;
        __builtin_memcpy(&next, &sum, sizeof sum);
    } while (!__atomic_compare_exchange_n(bits, &seen, next, true,
                                          __ATOMIC_RELAXED, __ATOMIC_RELAXED));
    return old;
}

/* Replace *address with next(old). */
template <class T, class Next> SIMT_INLINE T update(T *address, Next next) {
    T old = __atomic_load_n(address, __ATOMIC_RELAXED);
    while (!__atomic_compare_exchange_n(address, &old, next(old), true,
                                        __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {
    }
    return old;
}
#endif

/* Return `old`. If `nothing` is true, record that the atomic changed nothing,
 * since adding 0 is a way to read a flag that other threads set. */
template <class T> SIMT_INLINE T added(T old, bool nothing) {
    fruitless(nothing);
    return old;
}

} // namespace simt

/* The memory order of the atomics. It must keep the compiler from moving an
 * access on which a kernel spins. CUDA's atomics order nothing, however, and
 * the watch build must detect code that relies on an order. Its hooks keep the
 * compiler from moving anything past them. */
#ifdef SIMT_CHECK
#define SIMT_ORDER __ATOMIC_RELAXED
#else
#define SIMT_ORDER __ATOMIC_SEQ_CST
#endif

#define SIMT_ATOMICS(T)                                                      \
    SIMT_INLINE T atomicAdd(T *address, T value) {                           \
        T old = __atomic_fetch_add(address, value, __ATOMIC_RELAXED);        \
        return simt::added(old, value == 0);                                 \
    }                                                                        \
    SIMT_INLINE T atomicAnd(T *address, T value) {                           \
        T old = __atomic_fetch_and(address, value, __ATOMIC_RELAXED);        \
        return simt::added(old, value == (T) - 1);                           \
    }                                                                        \
    SIMT_INLINE T atomicOr(T *address, T value) {                            \
        T old = __atomic_fetch_or(address, value, __ATOMIC_RELAXED);         \
        return simt::added(old, value == 0);                                 \
    }                                                                        \
    SIMT_INLINE T atomicXor(T *address, T value) {                           \
        T old = __atomic_fetch_xor(address, value, __ATOMIC_RELAXED);        \
        return simt::added(old, value == 0);                                 \
    }                                                                        \
    SIMT_INLINE T atomicExch(T *address, T value) {                          \
        T old = __atomic_exchange_n(address, value, SIMT_ORDER);             \
        return simt::added(old, old == value);                               \
    }                                                                        \
    SIMT_INLINE T atomicCAS(T *address, T compare, T value) {                \
        T old = compare;                                                     \
        bool done = __atomic_compare_exchange_n(address, &old, value, false, \
                                                SIMT_ORDER, SIMT_ORDER);     \
        return simt::added(old, !done);                                      \
    }

#define SIMT_MIN_MAX(T)                                                        \
    SIMT_INLINE T atomicMin(T *address, T value) {                             \
        return simt::update(address,                                           \
                            [=](T old) { return old < value ? old : value; }); \
    }                                                                          \
    SIMT_INLINE T atomicMax(T *address, T value) {                             \
        return simt::update(address,                                           \
                            [=](T old) { return old > value ? old : value; }); \
    }

SIMT_ATOMICS(int)
SIMT_ATOMICS(unsigned)
SIMT_ATOMICS(unsigned long long)
SIMT_MIN_MAX(int)
SIMT_MIN_MAX(unsigned)
SIMT_MIN_MAX(unsigned long long)
SIMT_MIN_MAX(long long)
#undef SIMT_ATOMICS
#undef SIMT_MIN_MAX

SIMT_INLINE float atomicAdd(float *address, float value) {
    return simt::add_float(address, value);
}
SIMT_INLINE double atomicAdd(double *address, double value) {
    return simt::add_float(address, value);
}
SIMT_INLINE int atomicSub(int *address, int value) {
    return simt::added(__atomic_fetch_sub(address, value, __ATOMIC_RELAXED),
                       value == 0);
}
SIMT_INLINE unsigned atomicSub(unsigned *address, unsigned value) {
    return simt::added(__atomic_fetch_sub(address, value, __ATOMIC_RELAXED),
                       value == 0);
}
SIMT_INLINE float atomicExch(float *address, float value) {
    int bits;
    __builtin_memcpy(&bits, &value, sizeof bits);
    bits = atomicExch((int *)address, bits);
    __builtin_memcpy(&value, &bits, sizeof bits);
    return value;
}

/* Count up to `limit` and restart at 0, or down to 0 and restart at `limit`. */
SIMT_INLINE unsigned atomicInc(unsigned *address, unsigned limit) {
    return simt::update(
        address, [=](unsigned old) { return old >= limit ? 0 : old + 1; });
}
SIMT_INLINE unsigned atomicDec(unsigned *address, unsigned limit) {
    return simt::update(address, [=](unsigned old) {
        return old == 0 || old > limit ? limit : old - 1;
    });
}

SIMT_INLINE unsigned short atomicCAS(unsigned short *address,
                                     unsigned short compare,
                                     unsigned short value) {
    unsigned short old = compare;
    const bool done = __atomic_compare_exchange_n(address, &old, value, false,
                                                  SIMT_ORDER, SIMT_ORDER);
    return simt::added(old, !done);
}

/* The scopes of the block and of the whole machine, which are the same in this
   runtime. */
#define atomicAdd_block atomicAdd
#define atomicAdd_system atomicAdd
#define atomicSub_block atomicSub
#define atomicSub_system atomicSub
#define atomicExch_block atomicExch
#define atomicExch_system atomicExch
#define atomicMin_block atomicMin
#define atomicMin_system atomicMin
#define atomicMax_block atomicMax
#define atomicMax_system atomicMax
#define atomicInc_block atomicInc
#define atomicInc_system atomicInc
#define atomicDec_block atomicDec
#define atomicDec_system atomicDec
#define atomicCAS_block atomicCAS
#define atomicCAS_system atomicCAS
#define atomicAnd_block atomicAnd
#define atomicAnd_system atomicAnd
#define atomicOr_block atomicOr
#define atomicOr_system atomicOr
#define atomicXor_block atomicXor
#define atomicXor_system atomicXor

#endif
