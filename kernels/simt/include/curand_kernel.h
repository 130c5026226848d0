/* curand_kernel.h -- replaces cuRAND's header under g++: random numbers on the
 * device, equal to cuRAND's for the same seed, sequence and offset.
 *
 * Philox4x32-10: Salmon, Moraes, Dror, Shaw, "Parallel random numbers: as easy
 * as 1, 2, 3" (2011). XORWOW: Marsaglia, "Xorshift RNGs" (2003). Normal numbers
 * use the method of Box and Muller. They agree with cuRAND's as closely as
 * sin() and log() agree on the CPU and the GPU. Not supported: MRG32k3a, MTGP32
 * and the Sobol generators. */
#ifndef SIMT_CURAND_KERNEL_H
#define SIMT_CURAND_KERNEL_H
#include "simt.h"

typedef struct curandStateXORWOW {
    unsigned d, v[5];
    int boxmuller_flag, boxmuller_flag_double; /* the kind of the extra
                                                * numbers */
    float boxmuller_extra;
    double boxmuller_extra_double;
} curandStateXORWOW_t, curandState_t, curandState;

typedef struct curandStatePhilox4_32_10 {
    uint4 ctr, output;
    uint2 key;
    unsigned STATE; /* number of the four numbers in `output` that have been
                     * used */
    int boxmuller_flag, boxmuller_flag_double;
    float boxmuller_extra;
    double boxmuller_extra_double;
} curandStatePhilox4_32_10_t;

namespace simt {

#pragma GCC visibility push(default)
/* Advance v by `steps`, or by `sequences` times 2^67 steps (curand.cpp). */
void xorwow_skip(unsigned v[5], unsigned long long steps);
void xorwow_skip_sequences(unsigned v[5], unsigned long long sequences);
#pragma GCC visibility pop

SIMT_INLINE uint4 philox_round(uint4 c, uint2 key) {
    const uint64_t a = (uint64_t)0xd2511f53u * c.x;
    const uint64_t b = (uint64_t)0xcd9e8d57u * c.z;
    return {(unsigned)(b >> 32) ^ c.y ^ key.x, (unsigned)b,
            (unsigned)(a >> 32) ^ c.w ^ key.y, (unsigned)a};
}
inline uint4 philox(uint4 c, uint2 key) {
    for (int i = 0; i < 10; i++) {
        c = philox_round(c, key);
        key.x += 0x9e3779b9u; // the golden ratio
        key.y += 0xbb67ae85u; // sqrt(3) - 1
    }
    return c;
}

/* Add high * 2^64 + low to the 128-bit counter. */
inline void philox_add(uint4 *c, unsigned long long low,
                       unsigned long long high) {
    const unsigned long long before = (unsigned long long)c->y << 32 | c->x;
    const unsigned long long sum = before + low;
    high += ((unsigned long long)c->w << 32 | c->z) + (sum < before);
    *c = {(unsigned)sum, (unsigned)(sum >> 32), (unsigned)high,
          (unsigned)(high >> 32)};
}

template <class State> SIMT_INLINE void no_extra(State *state) {
    state->boxmuller_flag = state->boxmuller_flag_double = 0;
    state->boxmuller_extra = 0;
    state->boxmuller_extra_double = 0;
}

/* Return a number in (0, 1] from 32 bits, or in (0, 1) from 53 bits. */
SIMT_INLINE float uniform(unsigned x) { return (float)x * 0x1p-32f + 0x1p-33f; }
SIMT_INLINE double uniform_double(unsigned x) { return x * 0x1p-32 + 0x1p-32; }
SIMT_INLINE double uniform_double(unsigned x, unsigned y) {
    return (double)(x ^ (unsigned long long)y << 21) * 0x1p-53 + 0x1p-54;
}

/* Normal numbers come in pairs, and the second number is kept in the state. If
 * the next request is of another kind, that number is lost. */
enum { NORMAL = 1, LOG_NORMAL = 2 };
template <class T, class Pair>
SIMT_INLINE T one_of(Pair pair, int *flag, T *extra, int kind) {
    if (*flag == kind) {
        *flag = 0;
        return *extra;
    }
    const auto v = pair();
    *flag = kind;
    *extra = v.y;
    return v.x;
}

/* Return two normal numbers from 64 random bits. */
SIMT_INLINE float2 box_muller(unsigned x, unsigned y) {
    const float turn = 0x1p-32f * 6.2831855f; // 2 pi / 2^32
    const float angle = (float)y * turn + turn / 2;
    const float radius = sqrtf(-2.0f * logf(uniform(x)));
    float2 v;
    sincosf(angle, &v.x, &v.y);
    return {v.x * radius, v.y * radius};
}
SIMT_INLINE double2 box_muller_double(uint4 x) {
    const double angle = 2 * uniform_double(x.z, x.w);
    const double radius = sqrt(-2.0 * log(uniform_double(x.x, x.y)));
    return {sinpi(angle) * radius, cospi(angle) * radius};
}

} // namespace simt

/* ---- XORWOW ------------------------------------------------------------- */

SIMT_INLINE void skipahead(unsigned long long n, curandStateXORWOW_t *state) {
    simt::xorwow_skip(state->v, n);
    state->d += 362437 * (unsigned)n;
}
SIMT_INLINE void skipahead_sequence(unsigned long long n,
                                    curandStateXORWOW_t *state) {
    simt::xorwow_skip_sequences(state->v, n); // d returns to its old value
}

SIMT_INLINE void curand_init(unsigned long long seed,
                             unsigned long long sequence,
                             unsigned long long offset,
                             curandStateXORWOW_t *state) {
    const unsigned low = ((unsigned)seed ^ 0xaad26b49u) * 1099087573u;
    const unsigned high = ((unsigned)(seed >> 32) ^ 0xf7dcefddu) * 2591861531u;
    // Marsaglia's initial values, mixed with the seed.
    state->d = 6615241u + high + low;
    state->v[0] = 123456789u + low;
    state->v[1] = 362436069u ^ low;
    state->v[2] = 521288629u + high;
    state->v[3] = 88675123u ^ high;
    state->v[4] = 5783321u + low;
    skipahead_sequence(sequence, state);
    skipahead(offset, state);
    simt::no_extra(state);
}

/* Return 32 random bits. */
SIMT_INLINE unsigned curand(curandStateXORWOW_t *state) {
    unsigned *v = state->v;
    const unsigned t = v[0] ^ v[0] >> 2;
    v[0] = v[1];
    v[1] = v[2];
    v[2] = v[3];
    v[3] = v[4];
    v[4] = (v[4] ^ v[4] << 4) ^ (t ^ t << 1);
    state->d += 362437;
    return v[4] + state->d;
}

/* ---- Philox ------------------------------------------------------------- */

SIMT_INLINE void skipahead(unsigned long long n,
                           curandStatePhilox4_32_10_t *state) {
    const unsigned used = state->STATE + (unsigned)(n & 3);
    state->STATE = used & 3;
    simt::philox_add(&state->ctr, n / 4 + used / 4, 0);
    state->output = simt::philox(state->ctr, state->key);
}
SIMT_INLINE void skipahead_sequence(unsigned long long n,
                                    curandStatePhilox4_32_10_t *state) {
    simt::philox_add(&state->ctr, 0, n);
    state->output = simt::philox(state->ctr, state->key);
}

SIMT_INLINE void curand_init(unsigned long long seed,
                             unsigned long long sequence,
                             unsigned long long offset,
                             curandStatePhilox4_32_10_t *state) {
    state->ctr = {0, 0, 0, 0};
    state->key = {(unsigned)seed, (unsigned)(seed >> 32)};
    state->STATE = 0;
    simt::philox_add(&state->ctr, 0, sequence);
    skipahead(offset, state);
    simt::no_extra(state);
}

SIMT_INLINE uint4 curand4(curandStatePhilox4_32_10_t *state) {
    const uint4 a = state->output;
    simt::philox_add(&state->ctr, 1, 0);
    const uint4 b = state->output = simt::philox(state->ctr, state->key);
    const unsigned all[8] = {a.x, a.y, a.z, a.w, b.x, b.y, b.z, b.w};
    const unsigned *from = all + (state->STATE & 3);
    return {from[0], from[1], from[2], from[3]};
}

SIMT_INLINE unsigned curand(curandStatePhilox4_32_10_t *state) {
    const uint4 v = state->output;
    const unsigned used = state->STATE++;
    if (used == 3) {
        simt::philox_add(&state->ctr, 1, 0);
        state->output = simt::philox(state->ctr, state->key);
        state->STATE = 0;
    }
    return used == 0 ? v.x : used == 1 ? v.y : used == 2 ? v.z : v.w;
}

/* ---- distributions ------------------------------------------------------ */

/* Return a number greater than 0 and at most 1. */
template <class State> SIMT_INLINE float curand_uniform(State *state) {
    return simt::uniform(curand(state));
}
SIMT_INLINE float4 curand_uniform4(curandStatePhilox4_32_10_t *state) {
    const uint4 x = curand4(state);
    return {simt::uniform(x.x), simt::uniform(x.y), simt::uniform(x.z),
            simt::uniform(x.w)};
}
SIMT_INLINE double curand_uniform_double(curandStateXORWOW_t *state) {
    const unsigned x = curand(state), y = curand(state);
    return simt::uniform_double(x, y);
}
SIMT_INLINE double curand_uniform_double(curandStatePhilox4_32_10_t *state) {
    return simt::uniform_double(curand(state));
}
SIMT_INLINE double2 curand_uniform2_double(curandStatePhilox4_32_10_t *state) {
    const uint4 x = curand4(state);
    return {simt::uniform_double(x.x, x.y), simt::uniform_double(x.z, x.w)};
}

/* Return normal numbers of mean 0 and standard deviation 1. */
template <class State> SIMT_INLINE float2 curand_normal2(State *state) {
    const unsigned x = curand(state), y = curand(state);
    return simt::box_muller(x, y);
}
SIMT_INLINE float4 curand_normal4(curandStatePhilox4_32_10_t *state) {
    const uint4 x = curand4(state);
    const float2 a = simt::box_muller(x.x, x.y), b = simt::box_muller(x.z, x.w);
    return {a.x, a.y, b.x, b.y};
}
template <class State> SIMT_INLINE float curand_normal(State *state) {
    return simt::one_of([=] { return curand_normal2(state); },
                        &state->boxmuller_flag, &state->boxmuller_extra,
                        simt::NORMAL);
}
SIMT_INLINE double2 curand_normal2_double(curandStateXORWOW_t *state) {
    uint4 x;
    x.x = curand(state);
    x.y = curand(state);
    x.z = curand(state);
    x.w = curand(state);
    return simt::box_muller_double(x);
}
SIMT_INLINE double2 curand_normal2_double(curandStatePhilox4_32_10_t *state) {
    return simt::box_muller_double(curand4(state));
}
template <class State> SIMT_INLINE double curand_normal_double(State *state) {
    return simt::one_of([=] { return curand_normal2_double(state); },
                        &state->boxmuller_flag_double,
                        &state->boxmuller_extra_double, simt::NORMAL);
}

/* Return numbers whose logarithm has this mean and standard deviation. */
template <class State>
SIMT_INLINE float2 curand_log_normal2(State *state, float mean,
                                      float deviation) {
    const float2 v = curand_normal2(state);
    return {expf(mean + deviation * v.x), expf(mean + deviation * v.y)};
}
SIMT_INLINE float4 curand_log_normal4(curandStatePhilox4_32_10_t *state,
                                      float mean, float deviation) {
    const float4 v = curand_normal4(state);
    return {expf(mean + deviation * v.x), expf(mean + deviation * v.y),
            expf(mean + deviation * v.z), expf(mean + deviation * v.w)};
}
template <class State>
SIMT_INLINE double2 curand_log_normal2_double(State *state, double mean,
                                              double deviation) {
    const double2 v = curand_normal2_double(state);
    return {exp(mean + deviation * v.x), exp(mean + deviation * v.y)};
}
template <class State>
SIMT_INLINE float curand_log_normal(State *state, float mean, float deviation) {
    return simt::one_of(
        [=] { return curand_log_normal2(state, mean, deviation); },
        &state->boxmuller_flag, &state->boxmuller_extra, simt::LOG_NORMAL);
}
template <class State>
SIMT_INLINE double curand_log_normal_double(State *state, double mean,
                                            double deviation) {
    return simt::one_of(
        [=] { return curand_log_normal2_double(state, mean, deviation); },
        &state->boxmuller_flag_double, &state->boxmuller_extra_double,
        simt::LOG_NORMAL);
}

/* Return a Poisson-distributed number of mean `mean`, by Knuth's method or, for
 * large means, as a rounded normal number. The distribution is the same as
 * cuRAND's, but the numbers for large means are not. */
template <class State>
SIMT_INLINE unsigned curand_poisson(State *state, double mean) {
    if (mean < 64) {
        unsigned events = 0;
        double product = exp(mean);
        while ((product *= curand_uniform(state)) > 1) events++;
        return events;
    }
    const double x = mean + sqrt(mean) * curand_normal_double(state) + 0.5;
    return x > 0 ? (unsigned)x : 0;
}

#endif
