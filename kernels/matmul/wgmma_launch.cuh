/* wgmma_launch.cuh -- the width of a wgmma rung's tiles, their division into
 * parts, and the launch of the rung. */
#ifndef WEFT_WGMMA_LAUNCH_CUH
#define WEFT_WGMMA_LAUNCH_CUH
#include "awkward_sizes.h"
#include "wgmma_parts.cuh"
#include "wgmma_us.h"

/* Properties of a rung's kernels. */
struct making {
    int element;      /* size of a number in bytes */
    int bk, grain;    /* steps of k in a stage; stages that are processed
                       * together */
    int widest;       /* maximum columns of a tile: 64, 128, ... */
    int clusters;     /* whether the widest tiles form clusters of two */
    double stages[4]; /* cycles per stage with 64, 128, 192, 256 columns */
};

/* Return q divided into whole tiles of BM x width, none of them in parts. */
static inline struct tiles
cut(const struct product *q, const struct making *how, int width, int cluster) {
    struct tiles t = {};
    t.m = q->m, t.n = q->n, t.k = q->k;
    t.width = width;
    t.down = CEIL_DIV(q->m, BM * cluster);
    t.across = CEIL_DIV(q->n, width);
    t.count = t.whole = t.down * t.across * q->batch;
    // Make the number of stages a multiple of the grain: if the loop could end
    // in mid-grain, ptxas would add a wait after each product.
    t.k_steps = CEIL_DIV(q->k, how->bk * how->grain) * how->grain;
    t.strip = 16 / cluster;
    t.cluster = cluster;
    t.a_moves = q->extras.step_a != 0;
    t.b_moves = q->extras.step_b != 0;
    t.sums = (float *)q->scratch;
    return t;
}

/* Return t with each tile of the last round cut into at most `parts` parts. A
 * round has `slots` tiles. */
static inline struct tiles in_parts(struct tiles t, int slots, int parts,
                                    int grain) {
    t.whole = t.count - t.count % slots;
    t.part_steps = CEIL_DIV(t.k_steps, parts * grain) * grain;
    t.parts = CEIL_DIV(t.k_steps, t.part_steps);
    return t;
}

/* Return the number of bytes of the parts' sums. */
static inline size_t sums_bytes(const struct tiles &t) {
    const size_t each = (size_t)BM * t.width * t.cluster * sizeof(float);
    return (t.count - t.whole) * (size_t)t.parts * each;
}

/* Return the cycles of a stage. TMA takes 4 cycles for a row of 128 bytes that
 * starts in the middle of a 32-byte sector. Every other row does so if the
 * pitch is an odd multiple of 16. */
static inline double stage_cycles(const struct product *q,
                                  const struct tiles &t,
                                  const struct making *how) {
    const int odd_a = q->extras.pitch_a * how->element % 32 != 0;
    const int odd_b = q->extras.pitch_b * how->element % 32 != 0;
    const double loads = 4.0 * (odd_a * BM + odd_b * t.width / t.cluster);
    const double multiplies = how->stages[t.width / 64 - 1];
    return loads > multiplies ? loads : multiplies;
}

/* Estimate the cycles of a product, at 1.7 GHz, as measured on an H200. Tiles
 * of 256 columns load the fewest bytes for each product, tiles of 64 columns
 * twice as many. But with few tiles, multiprocessors are idle. */
static inline double cycles(const struct product *q, const struct tiles &t,
                            const struct making *how, int sms) {
    const int slots = sms / t.cluster;
    const double start = 2000 + 16.0 * t.width; // includes the stores
    const double stage = stage_cycles(q, t, how);
    const double rounds = CEIL_DIV(t.whole, slots);
    const double whole = rounds * (t.k_steps * stage + start);
    if (t.whole == t.count) return whole;
    const double cut_rounds = CEIL_DIV((t.count - t.whole) * t.parts, slots);
    const double add = 3000 + (double)sums_bytes(t) / (12.0 * sms);
    return whole + cut_rounds * (t.part_steps * stage + start) + add;
}

/* Return the cluster size, 1 or 2. A cluster pays only if blocks compute many
 * long tiles, since it waits for the slower of two blocks. The CPU target has
 * no clusters. */
static inline int best_cluster(const struct product *q,
                               const struct making *how, int width, int sms) {
    const struct tiles t = cut(q, how, width, 1);
    return !PTX_TWIN && how->clusters && width == how->widest && q->m > BM &&
                   t.count > 2 * sms && t.k_steps >= 32
               ? 2
               : 1;
}

/* Return the fastest combination of width and number of parts. The search
 * begins with as many parts as fill a round, or with 8 if that is more. Then
 * the parts take several rounds, and an incomplete last one wastes less. */
static inline struct tiles best_tiles(const struct product *q,
                                      const struct making *how, int sms) {
    struct tiles best = {};
    double least = 0.0;
    for (int width = how->widest; width >= 64; width -= 64) {
        const int cluster = best_cluster(q, how, width, sms);
        const int slots = sms / cluster;
        const struct tiles all = cut(q, how, width, cluster);
        const int rest = all.count % slots;
        int parts = rest ? slots / rest : 1;
        if (rest && parts < 8) parts = 8;
        if (parts > all.k_steps) parts = all.k_steps;
        for (; parts > 0; parts -= CEIL_DIV(parts, 8)) {
            const struct tiles t =
                parts > 1 ? in_parts(all, slots, parts, how->grain) : all;
            const double takes = cycles(q, t, how, sms);
            if (best.count && takes >= least) continue;
            best = t;
            least = takes;
        }
    }
    return best;
}

/* Return the time in microseconds that a rung's matmul_wgmma_..._us() reports.
 * This is the time of the launches, plus the longer of two times: the
 * computation, and the reads and writes of a, b and c. */
static inline double best_us(const struct product *q,
                             const struct making *how) {
    const int sms = matmul_multiprocessors();
    const double per_us = 30e3 * sms; // bytes of memory traffic per microsecond
    const double a = (double)q->m * q->k, b = (double)q->k * q->n;
    const double bytes = (a + b) * how->element + 4.0 * q->m * q->n;
    const double memory = bytes * q->batch / per_us;
    const double makes = cycles(q, best_tiles(q, how, sms), how, sms) / 1700;
    return 2.5 + (makes > memory ? makes : memory);
}

/* Whether the library may call the kernels at all. Launchers test this with `if
 * constexpr`, so that a library for another GPU does not compile their many
 * shapes. */
enum { WGMMA_RUNS = (WGMMA_TARGETS & WEFT_TARGET) != 0 };

static inline int no_wgmma(void) {
    return weft_fail(WEFT_EINVAL, "matmul: wgmma needs an sm_90a library");
}

/* Launch a rung's kernel with a block for each multiprocessor, or for each
 * piece if these are fewer. The kernel may begin before the previous one ends,
 * so it calls pdl_wait(). */
template <class... P, class... A>
static int launch_tiles(const char *name, void (*kernel)(P...), int threads,
                        const struct tiles &t, size_t shared,
                        cudaStream_t stream, A... arguments) {
    const int slots = matmul_multiprocessors() / t.cluster;
    const int clusters = pieces(t) < slots ? pieces(t) : slots;
    const dim3 grid((unsigned)(clusters * t.cluster));
    const struct launch how = {
        name, grid, dim3((unsigned)threads), shared, stream, 1, t.cluster};
    return launch_kernel(how, kernel, arguments...);
}

/* If tiles were cut, launch `add`, the kernel that calls add_sums(). Returns a
 * weft_status. */
static inline int add_parts(const struct product *q, const struct tiles &t,
                            void (*add)(float *, int, struct tiles,
                                        struct extras),
                            cudaStream_t stream) {
    if (t.whole == t.count) return WEFT_OK;
    const int groups = t.parts < MANY_PARTS ? 1 : GROUPS;
    const unsigned cut = (unsigned)(t.count - t.whole) * t.cluster;
    const dim3 grid(BM * t.width / 4 * groups / ADDERS, cut);
    return launch_kernel({"matmul_wgmma_add", grid, dim3(ADDERS), 0, stream, 1},
                         add, q->c, groups, t, q->extras);
}

#endif
