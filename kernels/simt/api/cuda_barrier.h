/* cuda_barrier.h -- cuda::barrier and cuda::memcpy_async, as in <cuda/barrier>.
 *
 * The thread that issues a copy performs it immediately, so code that waits for
 * the end of the copy waits only for the threads' arrivals. */
#ifndef SIMT_CUDA_BARRIER_H
#define SIMT_CUDA_BARRIER_H
#include "cooperative_groups/memcpy_async.h"
#include "cuda_atomic.h"

#ifdef SIMT_CHECK
/* Functions of the runtime. The first returns whether a barrier belongs to the
 * running block. The others record arrivals and departures. So a thread that
 * waits for a phase acquires the earlier work of the threads that arrive in
 * that phase. */
extern "C" bool simt_block_barrier(const void *barrier);
extern "C" void simt_tile_arrival(const void *barrier);
extern "C" void simt_tile_departure(const void *barrier);
#endif

namespace cuda {

/* The default action at the end of a barrier's phase. */
struct simt_nothing {
    void operator()() const {}
};

/* A barrier: in each phase threads arrive, and threads wait until all have
 * arrived. A `__shared__` barrier has no value until init(). */
template <thread_scope scope = thread_scope_system,
          class Completion = simt_nothing>
class barrier {
    uint64_t state; /* upper half: number of the phase; lower half: number of
                     * missing arrivals */
    uint32_t expected;
    Completion completion;

    static constexpr uint64_t word(uint32_t phase, uint32_t pending) {
        return (uint64_t)phase << 32 | pending;
    }
    uint32_t phase() const {
        return (uint32_t)(__atomic_load_n(&state, __ATOMIC_ACQUIRE) >> 32);
    }

#ifdef SIMT_CHECK
    /* Return the name under which the watch build records a phase. A thread
     * that waits for a phase acquires the work before that phase's arrivals. It
     * does not acquire the later work of threads that may already be in the
     * next phase. */
    const void *name(uint32_t phase) const {
        return (char *)this + 4 * (phase % 2);
    }
    bool swap(uint64_t *now, uint64_t then) {
        if (!simt_block_barrier(this))
            return __atomic_compare_exchange_n(
                &state, now, then, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE);
        simt_tile_arrival(name((uint32_t)(*now >> 32)));
        return __atomic_compare_exchange_n(&state, now, then, false,
                                           __ATOMIC_RELAXED, __ATOMIC_RELAXED);
    }
    void ended(uint32_t phase) const {
        if (simt_block_barrier(this)) simt_tile_departure(name(phase));
    }
    static constexpr bool completes = !__is_same(Completion, simt_nothing);
#else
    bool swap(uint64_t *now, uint64_t then) {
        return __atomic_compare_exchange_n(&state, now, then, false,
                                           __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE);
    }
    void ended(uint32_t) const {}
    static constexpr bool completes = false;
#endif

  public:
    struct arrival_token {
        uint32_t phase;
    };

    barrier() = default;
    barrier(ptrdiff_t expected, Completion completion = {})
        : state(word(0, (uint32_t)expected)), expected((uint32_t)expected),
          completion(completion) {}
    barrier(const barrier &) = delete;
    barrier &operator=(const barrier &) = delete;

    static constexpr ptrdiff_t max() noexcept { return (1 << 20) - 1; }
    friend void init(barrier *at, ptrdiff_t expected,
                     Completion completion = {}) {
        at->state = word(0, (uint32_t)expected);
        at->expected = (uint32_t)expected;
        at->completion = completion;
    }

    [[nodiscard]] arrival_token arrive(ptrdiff_t update = 1) {
        uint64_t now = __atomic_load_n(&state, __ATOMIC_ACQUIRE), then;
        for (;;) {
            const uint32_t left = (uint32_t)now;
            if (left < update) __builtin_trap(); // more arrivals than expected
            then = now - (uint64_t)update;
            if (left == update) {
                if (completes) ended((uint32_t)(now >> 32));
                completion();
                const uint32_t all =
                    __atomic_load_n(&expected, __ATOMIC_ACQUIRE);
                then = word((uint32_t)(now >> 32) + 1, all);
            }
            if (swap(&now, then)) return {(uint32_t)(now >> 32)};
        }
    }
    void wait(arrival_token &&token) const {
        while (phase() == token.phase) simt::spin(simt::here());
        ended(token.phase);
    }
    bool try_wait(arrival_token &&token) const {
        return try_wait_parity(token.phase & 1);
    }
    void arrive_and_wait() { wait(arrive()); }
    void arrive_and_drop() {
        __atomic_sub_fetch(&expected, 1, __ATOMIC_ACQ_REL);
        (void)arrive();
    }
    /* Return whether the phase of this parity is over. Phase 0 is the first. */
    bool try_wait_parity(bool parity) const {
        const bool over = (phase() & 1) != parity;
        if (over)
            ended(parity);
        else
            simt::spin(simt::here());
        return over;
    }
    void wait_parity(bool parity) const {
        while (!try_wait_parity(parity)) {
        }
    }
};

/* Copy the bytes. This thread's arrival at the barrier then includes the end of
 * the copy. */
template <class Size, thread_scope scope, class Completion>
void memcpy_async(void *to, const void *from, Size bytes,
                  barrier<scope, Completion> &) {
    memcpy(to, from, (size_t)bytes);
}
template <class Group, class Size, thread_scope scope, class Completion>
void memcpy_async(const Group &group, void *to, const void *from, Size bytes,
                  barrier<scope, Completion> &) {
    cooperative_groups::memcpy_async(group, (char *)to, (const char *)from,
                                     (size_t)bytes);
}

} // namespace cuda
#endif
