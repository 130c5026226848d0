/* device_warp.h -- joint operations of a warp's 32 lanes: shuffles and votes.
 *
 * `mask` contains the lanes that take part; a call does not wait for lanes
 * whose threads have ended. As with the PTX instruction shfl.sync, a lane whose
 * source is out of range keeps its value. */
#ifndef SIMT_DEVICE_WARP_H
#define SIMT_DEVICE_WARP_H
#include "../runtime/engine.h"

namespace simt {

SIMT_INLINE unsigned lane() { return peek(here()->thread.linear) % WARP; }

template <class T>
SIMT_INLINE T shuffle(unsigned mask, T value, unsigned source) {
    static_assert(sizeof(T) <= 8, "shuffles move at most 8 bytes");
    uint64_t bits = 0;
    __builtin_memcpy(&bits, &value, sizeof value);
    bits = meet(mask, SHUFFLE, bits, source);
    __builtin_memcpy(&value, &bits, sizeof value);
    return value;
}

/* Return the last lane of this lane's segment of `width` lanes. */
SIMT_INLINE unsigned last_lane(int width) {
    return lane() | ((unsigned)width - 1);
}

} // namespace simt

/* Return the value of lane `source`, counted within the segment of `width`
 * lanes. */
template <class T>
SIMT_INLINE T __shfl_sync(unsigned mask, T value, int source, int width = 32) {
    const unsigned inside = (unsigned)width - 1;
    return simt::shuffle(mask, value,
                         (simt::lane() & ~inside) | (source & inside));
}

/* Return the value of the lane that is `delta` below. */
template <class T>
SIMT_INLINE T __shfl_up_sync(unsigned mask, T value, unsigned delta,
                             int width = 32) {
    const unsigned lane = simt::lane();
    const bool in = (lane & ((unsigned)width - 1)) >= delta;
    return simt::shuffle(mask, value, in ? lane - delta : lane);
}

/* Return the value of the lane that is `delta` above. */
template <class T>
SIMT_INLINE T __shfl_down_sync(unsigned mask, T value, unsigned delta,
                               int width = 32) {
    const unsigned lane = simt::lane();
    const bool in = delta < 32 && lane + delta <= simt::last_lane(width);
    return simt::shuffle(mask, value, in ? lane + delta : lane);
}

/* Return the value of the lane whose index differs in the bits of `flip`. */
template <class T>
SIMT_INLINE T __shfl_xor_sync(unsigned mask, T value, int flip,
                              int width = 32) {
    const unsigned lane = simt::lane(), source = lane ^ (unsigned)flip;
    const bool in = source <= simt::last_lane(width);
    return simt::shuffle(mask, value, in ? source : lane);
}

/* Return a mask in which bit i is set if lane i takes part and its predicate is
 * not 0. */
SIMT_INLINE unsigned __ballot_sync(unsigned mask, int predicate) {
    return (unsigned)simt::meet(mask, simt::BALLOT, predicate != 0, 0);
}
SIMT_INLINE int __any_sync(unsigned mask, int predicate) {
    return __ballot_sync(mask, predicate) != 0;
}
SIMT_INLINE int __all_sync(unsigned mask, int predicate) {
    return __ballot_sync(mask, !predicate) == 0;
}

SIMT_INLINE void __syncwarp(unsigned mask = 0xffffffffu) {
    simt::meet(mask, simt::SYNC, 0, simt::lane());
}

/* Return the lanes that make this call at the same time. */
SIMT_INLINE unsigned __activemask() {
    return simt::active_lanes(simt::promoted());
}

/* ---- lanes with equal values, reductions (device_warp.cpp) -------------- */

#pragma GCC visibility push(default)

namespace simt {
/* Return the lane of the set bit of `mask` with this rank, or 32 if fewer bits
 * are set. */
unsigned lane_of_rank(unsigned mask, unsigned rank);
unsigned match_any(unsigned mask, uint64_t value);
unsigned match_all(unsigned mask, uint64_t value, int *same);
} // namespace simt

/* Reduce over the lanes that take part. Each of them receives the result. */
int __reduce_add_sync(unsigned mask, int value);
int __reduce_min_sync(unsigned mask, int value);
int __reduce_max_sync(unsigned mask, int value);
unsigned __reduce_add_sync(unsigned mask, unsigned value);
unsigned __reduce_min_sync(unsigned mask, unsigned value);
unsigned __reduce_max_sync(unsigned mask, unsigned value);
unsigned __reduce_and_sync(unsigned mask, unsigned value);
unsigned __reduce_or_sync(unsigned mask, unsigned value);
unsigned __reduce_xor_sync(unsigned mask, unsigned value);

#pragma GCC visibility pop

/* Return the lanes whose value has the same bytes as this lane's. */
template <class T>
SIMT_INLINE unsigned __match_any_sync(unsigned mask, T value) {
    static_assert(sizeof(T) <= 8, "lanes compare at most 8 bytes");
    uint64_t bits = 0;
    __builtin_memcpy(&bits, &value, sizeof value);
    return simt::match_any(mask, bits);
}

/* Return all lanes that take part if their values are the same, else 0. */
template <class T>
SIMT_INLINE unsigned __match_all_sync(unsigned mask, T value, int *same) {
    static_assert(sizeof(T) <= 8, "lanes compare at most 8 bytes");
    uint64_t bits = 0;
    __builtin_memcpy(&bits, &value, sizeof value);
    return simt::match_all(mask, bits, same);
}

/* ---- functions from before CUDA 9 ---------------------------------------- */

#define SIMT_GONE(name, now) \
    __attribute__((error(#name "() is gone since CUDA 13: write " now)))
SIMT_GONE(__shfl, "__shfl_sync(mask, value, lane)")
double __shfl(double, int, int = 32);
SIMT_GONE(__shfl_up, "__shfl_up_sync(mask, value, delta)")
double __shfl_up(double, unsigned, int = 32);
SIMT_GONE(__shfl_down, "__shfl_down_sync(mask, value, delta)")
double __shfl_down(double, unsigned, int = 32);
SIMT_GONE(__shfl_xor, "__shfl_xor_sync(mask, value, flip)")
double __shfl_xor(double, int, int = 32);
SIMT_GONE(__ballot, "__ballot_sync(mask, predicate)")
unsigned __ballot(int);
SIMT_GONE(__any, "__any_sync(mask, predicate)")
int __any(int);
SIMT_GONE(__all, "__all_sync(mask, predicate)")
int __all(int);
#undef SIMT_GONE

namespace simt {

/* The value that a statement of old code stores, as described in shared.py. All
 * active lanes read before any of them writes, and all write before any of them
 * continues. */
template <class T> struct Lockstep {
    unsigned mask;
    T value;
    template <class Read>
    inline __attribute__((always_inline)) explicit Lockstep(const Read &read)
        : mask(__activemask()), value(read()) {
        __syncwarp(mask);
    }
    Lockstep(const Lockstep &) = delete;
    inline __attribute__((always_inline)) ~Lockstep() { __syncwarp(mask); }
    operator T() const { return value; }
};

template <class Read> SIMT_INLINE auto lockstep(const Read &read) {
    return Lockstep<decltype(read())>(read);
}

} // namespace simt
#endif
