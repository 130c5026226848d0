/* cuda_atomic.h -- cuda::atomic and cuda::atomic_ref, as in <cuda/atomic>.
 *
 * Scopes have no effect on a CPU; memory orders have their usual meaning. A
 * load lets other threads run from time to time, since it may belong to a loop
 * that waits for them. */
#ifndef SIMT_CUDA_ATOMIC_H
#define SIMT_CUDA_ATOMIC_H
#include "simt.h"

namespace cuda {

enum thread_scope {
    thread_scope_system,
    thread_scope_device,
    thread_scope_block,
    thread_scope_thread
};

namespace std {

enum memory_order {
    memory_order_relaxed = __ATOMIC_RELAXED,
    memory_order_consume = __ATOMIC_CONSUME,
    memory_order_acquire = __ATOMIC_ACQUIRE,
    memory_order_release = __ATOMIC_RELEASE,
    memory_order_acq_rel = __ATOMIC_ACQ_REL,
    memory_order_seq_cst = __ATOMIC_SEQ_CST
};

} // namespace std

using namespace std;

/* The operations of atomic<T> and atomic_ref<T> (Self) on the T at address
 * at(). Read-modify-write functions use the order seq_cst. */
template <class T, class Self> struct simt_atomic {
    static_assert(sizeof(T) <= 8, "atomics have at most 8 bytes");
    typedef T value_type;
    static constexpr bool is_always_lock_free = true;

    T *at() const { return static_cast<const Self *>(this)->address(); }
    bool is_lock_free() const { return true; }

    T load(memory_order order = memory_order_seq_cst) const {
        simt::fruitless();
        T value;
        __atomic_load(at(), &value, (int)order);
        return value;
    }
    void store(T value, memory_order order = memory_order_seq_cst) const {
        __atomic_store(at(), &value, (int)order);
    }
    T exchange(T value, memory_order order = memory_order_seq_cst) const {
        T old;
        __atomic_exchange(at(), &value, &old, (int)order);
        simt::fruitless(!memcmp(&old, &value, sizeof old));
        return old;
    }
    bool compare_exchange_strong(T &expected, T desired,
                                 memory_order order = memory_order_seq_cst,
                                 memory_order = memory_order_seq_cst) const {
        const int failed = order == memory_order_release   ? __ATOMIC_RELAXED
                           : order == memory_order_acq_rel ? __ATOMIC_ACQUIRE
                                                           : (int)order;
        const bool done = __atomic_compare_exchange(at(), &expected, &desired,
                                                    false, (int)order, failed);
        simt::fruitless(!done);
        return done;
    }
    bool compare_exchange_weak(T &expected, T desired,
                               memory_order order = memory_order_seq_cst,
                               memory_order = memory_order_seq_cst) const {
        return compare_exchange_strong(expected, desired, order);
    }
    operator T() const { return load(); }
    T operator=(T value) const {
        store(value);
        return value;
    }

#ifdef SIMT_CHECK
#define SIMT_FETCH(name, expression, op)                                       \
    T fetch_##name(T value, memory_order order = memory_order_seq_cst) const { \
        return simt::update(                                                   \
            at(), [=](T old) { return (T)(expression); }, (int)order);         \
    }
#else
#define SIMT_FETCH(name, expression, op)                                 \
    T fetch_##name(T value, memory_order = memory_order_seq_cst) const { \
        T old = load(memory_order_relaxed);                              \
        while (!compare_exchange_strong(old, (T)(expression))) {         \
        }                                                                \
        return old;                                                      \
    }
#endif
    SIMT_FETCH(add, old + value, +=)
    SIMT_FETCH(sub, old - value, -=)
    SIMT_FETCH(and, old &value, &=)
    SIMT_FETCH(or, old | value, |=)
    SIMT_FETCH(xor, old ^ value, ^=)
    SIMT_FETCH(min, value < old ? value : old, )
    SIMT_FETCH(max, old < value ? value : old, )
#undef SIMT_FETCH
    T operator+=(T value) const { return (T)(fetch_add(value) + value); }
    T operator-=(T value) const { return (T)(fetch_sub(value) - value); }
    T operator++() const { return *this += (T)1; }
    T operator--() const { return *this -= (T)1; }
    T operator++(int) const { return fetch_add((T)1); }
    T operator--(int) const { return fetch_sub((T)1); }

    void wait(T old, memory_order order = memory_order_seq_cst) const {
        while (load(order) == old) {
        }
    }
    void notify_one() const {}
    void notify_all() const {}
};

template <class T, thread_scope scope = thread_scope_system>
struct atomic : simt_atomic<T, atomic<T, scope>> {
    atomic() = default; // uninitialised, as from cudaMalloc() and in __shared__
    constexpr atomic(T value) : value(value) {}
    atomic(const atomic &) = delete;
    atomic &operator=(const atomic &) = delete;
    using simt_atomic<T, atomic>::operator=;
    T *address() const { return &value; }

  private:
    alignas(sizeof(T)) mutable T value;
};

template <class T, thread_scope scope = thread_scope_system>
struct atomic_ref : simt_atomic<T, atomic_ref<T, scope>> {
    explicit atomic_ref(T &object) : object(&object) {}
    using simt_atomic<T, atomic_ref>::operator=;
    T *address() const { return object; }

  private:
    T *object;
};

/* The atomics of cuda::std have no scope. */
namespace std {
template <class T> struct atomic : cuda::atomic<T, thread_scope_system> {
    using cuda::atomic<T, thread_scope_system>::atomic;
    using cuda::atomic<T, thread_scope_system>::operator=;
};
} // namespace std

/* Make the calling thread's writes visible to all threads before it
 * continues. */
SIMT_INLINE void atomic_thread_fence(memory_order,
                                     thread_scope = thread_scope_system) {
    __threadfence();
}

} // namespace cuda
#endif
