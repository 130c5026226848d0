/* curand.cpp -- cuRAND's host interface on the CPU; see curand.h.
 *
 * A generator consists of many device generators (curand_kernel.h) with one
 * seed, each in a subsequence of its own. Their turns determine the order of
 * the numbers. XORWOW has 4096, and each gives one number a turn, or two normal
 * numbers. Philox has 65536, and each gives four numbers a turn. A number of
 * 64 random bits takes two numbers of 32 bits from one subsequence.
 *
 * The order is that of the host generators of cuRAND 10.4.5, whose numbers are
 * in tests/kernels/simt/curand_host.json. Its name is
 * CURAND_ORDERING_PSEUDO_LEGACY: XORWOW's result n is at position
 * (n mod 4096) 2^67 + n / 4096 of the original sequence. Source: cuRAND guide,
 * "Generator Options", "Order". */
#include "curand.h"

#include <stdio.h>

#include <algorithm>
#include <memory>
#include <vector>

#include "api/cuda_library.h"
#include "curand_kernel.h"
#include "simt_runtime.h"

namespace {

typedef unsigned long long u64;

enum { XORWOWS = 4096, PHILOXES = 65536, FOUR = 4 };
/* The number of subsequences that take their turns together. So they write
 * neighbouring addresses, and their states remain in the cache. */
enum { TOGETHER = 64 };

struct Generator {
    bool philox, host;
    cudaStream_t stream = 0;
    u64 seed = 0;
    u64 at = 0; /* numbers given in the current round of turns */
    /* The count of numbers (XORWOW) or of fours (Philox) that each subsequence
     * has used. */
    std::vector<u64> used;
    std::vector<curandState> states; /* of XORWOW; empty: not prepared */

    Generator(bool philox, bool host) : philox(philox), host(host) { move(0); }
    void move(u64 offset);
    void prepare();
};

void Generator::move(u64 offset) {
    const u64 each = philox ? FOUR : 1, count = philox ? PHILOXES : XORWOWS;
    at = offset % (each * count);
    used.resize(count);
    for (u64 i = 0; i < count; i++)
        used[i] = offset / (each * count) + (each * (i + 1) <= at);
    states.clear();
}

/* Compute XORWOW's states. Skips of steps and of sequences commute.
 * Neighbouring subsequences are one product apart if they have used equally
 * many numbers. */
void Generator::prepare() {
    if (philox || !states.empty()) return;
    states.resize(XORWOWS);
    curandState first;
    for (int i = 0; i < XORWOWS; i++) {
        if (i == 0 || used[i] != used[i - 1])
            curand_init(seed, 0, used[i], &first);
        states[i] = first;
        skipahead_sequence(i, &states[i]);
    }
}

/* ---- kinds of numbers ---------------------------------------------------- */

/* Each kind of number has a type T. turn() writes the numbers of one turn of
 * XORWOW: two if PAIRS is 1, otherwise one. four() writes those of Philox, from
 * FOURS times four random integers. */
struct Bits {
    typedef unsigned T;
    enum { PAIRS = 0, FOURS = 1 };
    void turn(T *to, curandState *state) const { *to = curand(state); }
    void four(T *to, const uint4 *x) const {
        to[0] = x->x, to[1] = x->y, to[2] = x->z, to[3] = x->w;
    }
};

struct Uniform {
    typedef float T;
    enum { PAIRS = 0, FOURS = 1 };
    void turn(T *to, curandState *state) const { *to = curand_uniform(state); }
    void four(T *to, const uint4 *x) const {
        to[0] = simt::uniform(x->x), to[1] = simt::uniform(x->y);
        to[2] = simt::uniform(x->z), to[3] = simt::uniform(x->w);
    }
};

struct UniformDouble {
    typedef double T;
    enum { PAIRS = 0, FOURS = 2 };
    void turn(T *to, curandState *state) const {
        *to = curand_uniform_double(state);
    }
    void four(T *to, const uint4 *x) const {
        for (int i = 0; i < 2; i++) {
            to[2 * i] = simt::uniform_double(x[i].x, x[i].y);
            to[2 * i + 1] = simt::uniform_double(x[i].z, x[i].w);
        }
    }
};

struct Normal {
    typedef float T;
    enum { PAIRS = 1, FOURS = 1 };
    T mean, deviation;
    bool log; /* whether to write exponentials */
    void put(T *to, float2 v) const {
        to[0] = mean + deviation * v.x, to[1] = mean + deviation * v.y;
        if (log) to[0] = expf(to[0]), to[1] = expf(to[1]);
    }
    void turn(T *to, curandState *state) const {
        put(to, curand_normal2(state));
    }
    void four(T *to, const uint4 *x) const {
        put(to, simt::box_muller(x->x, x->y));
        put(to + 2, simt::box_muller(x->z, x->w));
    }
};

struct NormalDouble {
    typedef double T;
    enum { PAIRS = 1, FOURS = 2 };
    T mean, deviation;
    bool log;
    void put(T *to, double2 v) const {
        to[0] = mean + deviation * v.x, to[1] = mean + deviation * v.y;
        if (log) to[0] = exp(to[0]), to[1] = exp(to[1]);
    }
    void turn(T *to, curandState *state) const {
        put(to, curand_normal2_double(state));
    }
    void four(T *to, const uint4 *x) const {
        put(to, simt::box_muller_double(x[0]));
        put(to + 2, simt::box_muller_double(x[1]));
    }
};

/* curand_poisson() takes a varying number of random integers, so compute_four()
 * has a separate version for it. */
struct Poisson {
    typedef unsigned T;
    enum { PAIRS = 0, FOURS = 0 };
    double mean;
    void turn(T *to, curandState *state) const {
        *to = curand_poisson(state, mean);
        state->boxmuller_flag_double = 0;
    }
};

/* ---- turns --------------------------------------------------------------- */

/* Call take(turn) for each of `turns` turns of `count` subsequences. The turns
 * of one subsequence run in one thread, in order. */
template <class Take> void each_turn(long long turns, int count, Take take) {
#pragma omp parallel for num_threads(simt_threads()) if (turns > 16384)
    for (int group = 0; group < count; group += TOGETHER)
        for (long long round = group; round < turns; round += count)
            for (long long turn = round;
                 turn < std::min<long long>(round + TOGETHER, turns); turn++)
                take(turn);
}

uint4 philox_at(const Generator &g, u64 subsequence, u64 index) {
    return simt::philox(
        {(unsigned)index, (unsigned)(index >> 32), (unsigned)subsequence, 0},
        {(unsigned)g.seed, (unsigned)(g.seed >> 32)});
}

/* Compute the four numbers of a subsequence's turn; return how many fours of
 * random integers they take. */
template <class Kind>
u64 compute_four(const Generator &g, const Kind &kind, u64 subsequence,
                 typename Kind::T to[FOUR]) {
    const u64 index = g.used[subsequence];
    uint4 x[2];
    for (int i = 0; i < Kind::FOURS; i++)
        x[i] = philox_at(g, subsequence, index + i);
    kind.four(to, x);
    return Kind::FOURS;
}
u64 compute_four(const Generator &g, const Poisson &kind, u64 subsequence,
                 unsigned to[FOUR]) {
    const u64 index = g.used[subsequence];
    curandStatePhilox4_32_10_t state;
    curand_init(g.seed, subsequence, 0, &state);
    simt::philox_add(&state.ctr, index, 0);
    state.output = simt::philox(state.ctr, state.key);
    for (int i = 0; i < FOUR; i++) to[i] = curand_poisson(&state, kind.mean);
    const u64 now = (u64)state.ctr.y << 32 | state.ctr.x;
    return now - index + (state.STATE > 0);
}

template <class Kind>
void fill_philox(Generator &g, const Kind &kind, typename Kind::T *to,
                 size_t n) {
    const u64 start = g.at, end = start + n;
    each_turn((end + FOUR - 1) / FOUR - start / FOUR, PHILOXES,
              [&](long long turn) {
                  const u64 base = (start / FOUR + turn) * FOUR;
                  const u64 subsequence = base / FOUR % PHILOXES;
                  typename Kind::T four[FOUR];
                  const u64 fours = compute_four(g, kind, subsequence, four);
                  for (u64 i = 0; i < FOUR; i++)
                      if (base + i >= start && base + i < end)
                          to[base + i - start] = four[i];
                  if (base + FOUR <= end) g.used[subsequence] += fours;
              });
    g.at = end % (u64)(FOUR * PHILOXES);
}

template <class Kind>
void fill_xorwow(Generator &g, const Kind &kind, typename Kind::T *to,
                 size_t n) {
    const int each = Kind::PAIRS ? 2 : 1;
    const long long turns = (long long)(n / each);
    const u64 start = g.at;
    g.prepare();
    each_turn(turns, XORWOWS, [&](long long turn) {
        const u64 subsequence = (start + turn) % XORWOWS;
        curandState &state = g.states[subsequence];
        unsigned before = state.d;
        kind.turn(to + each * turn, &state);
        for (; before != state.d; before += 362437) g.used[subsequence]++;
    });
    g.at = (start + turns) % XORWOWS;
}

template <class Kind>
void fill(Generator &g, const Kind &kind, typename Kind::T *to, size_t n) {
    if (g.philox)
        fill_philox(g, kind, to, n);
    else
        fill_xorwow(g, kind, to, n);
}

/* ---- calls --------------------------------------------------------------- */

/* The calls of a graph keep their generator. */
simt::Handles<std::shared_ptr<Generator>> &handles =
    *new simt::Handles<std::shared_ptr<Generator>>;

std::shared_ptr<Generator> find(curandGenerator_t handle) {
    const std::shared_ptr<Generator> *entry = handles.find(handle);
    return entry ? *entry : nullptr;
}

template <class Kind>
curandStatus_t generate(const char *name, curandGenerator_t handle, Kind kind,
                        typename Kind::T *to, size_t n) {
    const std::shared_ptr<Generator> g = find(handle);
    if (!g) return CURAND_STATUS_NOT_INITIALIZED;
    if (n == 0) return CURAND_STATUS_SUCCESS;
    if (!g->philox && Kind::PAIRS && n % 2)
        return CURAND_STATUS_LENGTH_NOT_MULTIPLE;
    const auto work = [=] { fill(*g, kind, to, n); };
    const auto access = g->host ? simt::Argument::HOST : simt::Argument::WRITE;
    const simt::Argument output = {"outputPtr", access, to, n * sizeof *to};
    if (g->host) {
        if (!simt::may_access(name, {output}))
            return CURAND_STATUS_LAUNCH_FAILURE;
        work();
        return CURAND_STATUS_SUCCESS;
    }
    return simt::submit(name, g->stream, {output}, work)
               ? CURAND_STATUS_LAUNCH_FAILURE
               : CURAND_STATUS_SUCCESS;
}

bool exists(int type) {
    static const int types[] = {0,   100, 101, 121, 141, 142,
                                161, 200, 201, 202, 203, 204};
    return std::count(std::begin(types), std::end(types), type);
}

curandStatus_t create(curandGenerator_t *handle, curandRngType_t type,
                      bool host) {
    if (!handle) return CURAND_STATUS_NOT_INITIALIZED;
    const bool philox = type == CURAND_RNG_PSEUDO_PHILOX4_32_10;
    if (!philox && type != CURAND_RNG_PSEUDO_DEFAULT &&
        type != CURAND_RNG_PSEUDO_XORWOW) {
        if (exists(type))
            fprintf(
                stderr,
                "cuRAND: generator type %d is not simulated on the CPU: use "
                "XORWOW (101) or Philox4_32_10 (161)\n",
                (int)type);
        return CURAND_STATUS_TYPE_ERROR;
    }
    std::shared_ptr<Generator> *generator = handles.create();
    *generator = std::make_shared<Generator>(philox, host);
    *handle = (curandGenerator_t)generator;
    return CURAND_STATUS_SUCCESS;
}

} // namespace

curandStatus_t curandCreateGenerator(curandGenerator_t *generator,
                                     curandRngType_t type) {
    return create(generator, type, false);
}

curandStatus_t curandCreateGeneratorHost(curandGenerator_t *generator,
                                         curandRngType_t type) {
    return create(generator, type, true);
}

curandStatus_t curandDestroyGenerator(curandGenerator_t generator) {
    return handles.destroy(generator) ? CURAND_STATUS_SUCCESS
                                      : CURAND_STATUS_NOT_INITIALIZED;
}

curandStatus_t curandGetVersion(int *version) {
    if (!version) return CURAND_STATUS_OUT_OF_RANGE;
    *version = CURAND_VERSION;
    return CURAND_STATUS_SUCCESS;
}

curandStatus_t curandGetProperty(libraryPropertyType type, int *value) {
    static const int version[] = {CURAND_VER_MAJOR, CURAND_VER_MINOR,
                                  CURAND_VER_PATCH};
    if (!value || (unsigned)type > 2) return CURAND_STATUS_OUT_OF_RANGE;
    *value = version[type];
    return CURAND_STATUS_SUCCESS;
}

curandStatus_t curandSetStream(curandGenerator_t generator,
                               cudaStream_t stream) {
    const auto g = find(generator);
    if (!g) return CURAND_STATUS_NOT_INITIALIZED;
    g->stream = stream;
    return CURAND_STATUS_SUCCESS;
}

curandStatus_t curandSetPseudoRandomGeneratorSeed(curandGenerator_t generator,
                                                  unsigned long long seed) {
    const auto g = find(generator);
    if (!g) return CURAND_STATUS_NOT_INITIALIZED;
    g->seed = seed;
    g->states.clear();
    return CURAND_STATUS_SUCCESS;
}

curandStatus_t curandSetGeneratorOffset(curandGenerator_t generator,
                                        unsigned long long offset) {
    const auto g = find(generator);
    if (!g) return CURAND_STATUS_NOT_INITIALIZED;
    g->move(offset);
    return CURAND_STATUS_SUCCESS;
}

curandStatus_t curandSetGeneratorOrdering(curandGenerator_t generator,
                                          curandOrdering_t order) {
    const auto g = find(generator);
    if (!g) return CURAND_STATUS_NOT_INITIALIZED;
    return (order == CURAND_ORDERING_PSEUDO_DYNAMIC && !g->host) ||
                   order == CURAND_ORDERING_PSEUDO_BEST ||
                   order == CURAND_ORDERING_PSEUDO_DEFAULT ||
                   order == CURAND_ORDERING_PSEUDO_LEGACY
               ? CURAND_STATUS_SUCCESS
               : CURAND_STATUS_OUT_OF_RANGE;
}

curandStatus_t curandGenerateSeeds(curandGenerator_t generator) {
    const auto g = find(generator);
    if (!g) return CURAND_STATUS_NOT_INITIALIZED;
    g->prepare();
    return CURAND_STATUS_SUCCESS;
}

curandStatus_t curandGenerate(curandGenerator_t generator, unsigned *output,
                              size_t num) {
    return generate(__func__, generator, Bits{}, output, num);
}

curandStatus_t curandGenerateUniform(curandGenerator_t generator, float *output,
                                     size_t num) {
    return generate(__func__, generator, Uniform{}, output, num);
}

curandStatus_t curandGenerateUniformDouble(curandGenerator_t generator,
                                           double *output, size_t num) {
    return generate(__func__, generator, UniformDouble{}, output, num);
}

curandStatus_t curandGenerateNormal(curandGenerator_t generator, float *output,
                                    size_t n, float mean, float stddev) {
    return generate(__func__, generator, Normal{mean, stddev, false}, output,
                    n);
}

curandStatus_t curandGenerateNormalDouble(curandGenerator_t generator,
                                          double *output, size_t n, double mean,
                                          double stddev) {
    return generate(__func__, generator, NormalDouble{mean, stddev, false},
                    output, n);
}

curandStatus_t curandGenerateLogNormal(curandGenerator_t generator,
                                       float *output, size_t n, float mean,
                                       float stddev) {
    return generate(__func__, generator, Normal{mean, stddev, true}, output, n);
}

curandStatus_t curandGenerateLogNormalDouble(curandGenerator_t generator,
                                             double *output, size_t n,
                                             double mean, double stddev) {
    return generate(__func__, generator, NormalDouble{mean, stddev, true},
                    output, n);
}

curandStatus_t curandGeneratePoisson(curandGenerator_t generator,
                                     unsigned *output, size_t n,
                                     double lambda) {
    if (!find(generator)) return CURAND_STATUS_NOT_INITIALIZED;
    if (!(lambda > 0)) return CURAND_STATUS_OUT_OF_RANGE;
    return generate(__func__, generator, Poisson{lambda}, output, n);
}
