/* 13_tuned.cu -- matmul: the rung that picks a rung.
 *
 * Before:  every kernel is the fastest somewhere: large tiles read least, small
 *          ones leave no multiprocessor idle, and a c of ten columns wants
 *          neither.
 * Idea:    say of each how many microseconds it would take, from the tiles that
 *          the busiest multiprocessor gets, and take the one with the fewest.
 *          The rates are measured (H200), the counting is exact; a guess 5 %
 *          off costs 5 % where two are equal, and nothing elsewhere.
 * Limit:   a rule knows only what was put into it: python -m weft bench matmul
 *          --rung tuned shows where it is wrong.
 * Lesson:  notebooks/08b_matmul_pipeline.ipynb, "Tuned per size"
 */
#include "awkward.h"
#include "matmul.h"
#include "pack.h"

#include <limits.h>
#include <math.h>

extern const struct matmul_rung matmul_tma_rung, matmul_tma_pairs_rung,
    matmul_k_groups_rung, matmul_pipeline_rung, matmul_narrow_rung,
    matmul_short_rung, matmul_split_k_rung;

enum {
    RATE = 200000, // multiply-adds a microsecond of a busy multiprocessor
    START_US = 6,  // launch, first loads, last stores
    PIECE_US = 9,  // to add one piece of a tile that was cut to the others,
    SMALL_PIECE_US = 3,  // of one of k_groups
    ODD_STORED = 600000, // bytes of c a microsecond, one by one: n % 4
    COPY_US = 6,         // of the operands, besides their bytes
    COPIED = 3000000     // bytes a microsecond, read and written
};

static double tiles_of(const struct product *q, int bm, int bn) {
    return (double)CEIL_DIV(q->m, bm) * CEIL_DIV(q->n, bn) * q->batch;
}

/* Tiles of which `blocks` run on a multiprocessor at once, together at `full`
 * of RATE and one alone at `one`; the tiles of the last round are cut along k
 * if `cut`. */
static double tiles_us(const struct product *q, int bm, int bn, int blocks,
                       double full, double one, int cut) {
    const double tile_us = (double)bm * bn * q->k / RATE;
    const double per = tiles_of(q, bm, bn) / matmul_multiprocessors();
    const double whole = floor(per / blocks) * blocks * tile_us / full;
    const double left = per - floor(per / blocks) * blocks;
    if (left == 0.0) return START_US + whole;
    const double crowded = ceil(left) * tile_us / full;
    const double alone = tile_us / one;
    const double uncut = crowded > alone ? crowded : alone;
    // A tile is cut into four pieces at most.
    const double fair = left * tile_us / full;
    const double quarter = tile_us / full / 4;
    const double count = blocks > 4 * left ? 4 : ceil(blocks / left);
    const double pieces = PIECE_US * count + (fair > quarter ? fair : quarter);
    return START_US + whole + (cut && pieces < uncut ? pieces : uncut);
}

static double tma_us(const struct product *q) {
    return tiles_us(q, 256, 128, 1, 1.0, 1.0, 1);
}

static double tma_pairs_us(const struct product *q) {
    return tiles_us(q, 128, 128, 2, 1.0, 0.65, 1);
}

static double k_groups_us(const struct product *q) {
    // A block starts anew for every tile.
    const double each = 3.0, start = 2.0;
    const double tile_us = each + 64.0 * 128.0 * q->k / RATE / 0.96;
    const double sms = matmul_multiprocessors(), tiles = tiles_of(q, 64, 128);
    const double rounds = floor(tiles / sms), left = tiles - rounds * sms;
    if (left == 0.0) return start + rounds * tile_us;
    const double count = 8 * left < sms ? 8 : floor(sms / left);
    const double cut = each + (tile_us - each) / count + SMALL_PIECE_US * count;
    return start + rounds * tile_us + (cut < tile_us ? cut : tile_us);
}

/* What can be picked, and for how many rows and columns at most: a matrix that
 * is short or narrow is read once, which the last ones count as all there is.
 */
static const struct choice {
    const struct matmul_rung *rung;
    double (*us)(const struct product *q);
    int rows, cols;
} choices[] = {
    {&matmul_tma_pairs_rung, tma_pairs_us, INT_MAX, INT_MAX},
    {&matmul_tma_rung, tma_us, INT_MAX, INT_MAX},
    {&matmul_k_groups_rung, k_groups_us, INT_MAX, INT_MAX},
    {&matmul_pipeline_rung, matmul_pipeline_us, INT_MAX, INT_MAX},
    {&matmul_split_k_rung, matmul_split_k_us, INT_MAX, INT_MAX},
    {&matmul_narrow_rung, matmul_narrow_us, INT_MAX, 16},
    {&matmul_short_rung, matmul_short_us, 16, INT_MAX},
};

/* The time to copy the operands that do not lie as the rung wants them. */
static double copies_us(const struct product *q,
                        const struct matmul_rung *rung) {
    const size_t bytes = matmul_pack_bytes(q, rung);
    return bytes ? COPY_US + 2.0 * bytes / COPIED : 0.0;
}

/* The time to store c, where it takes longer than the sums: where rows do not
 * start at multiples of 16 bytes, the rungs that want ALIGNED operands store
 * number by number. */
static double stores_us(const struct product *q,
                        const struct matmul_rung *rung) {
    if (!(rung->needs & ALIGNED) || q->n % 4 == 0) return 0.0;
    return START_US + 4.0 * q->m * q->n * q->batch / ODD_STORED;
}

/* The current device's compute capability: 90, ... */
static int capability(void) {
    int device = 0, major = 0, minor = 0;
    cudaGetDevice(&device);
    cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device);
    cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, device);
    return 10 * major + minor;
}

static const struct matmul_rung *pick(const struct product *q) {
    const int sm = capability();
    const struct matmul_rung *best = &matmul_pipeline_rung;
    double least = 1e300;
    for (const struct choice &choice : choices) {
        if (choice.rung->line.sm > sm) continue;
        if (q->m > choice.rows || q->n > choice.cols) continue;
        const double sums = choice.us(q), stores = stores_us(q, choice.rung);
        const double us =
            (sums > stores ? sums : stores) + copies_us(q, choice.rung);
        if (us < least) least = us, best = choice.rung;
    }
    return best;
}

static size_t scratch(const struct product *q) {
    const struct matmul_rung *const rung = pick(q);
    struct product packed = *q;
    matmul_pack_plan(&packed, rung, (void *)256);
    return matmul_pack_bytes(q, rung) +
           (rung->scratch ? rung->scratch(&packed) : 0);
}

static int launch(const struct product *q, cudaStream_t stream) {
    const struct matmul_rung *const rung = pick(q);
    struct product packed = *q;
    WEFT_TRY(matmul_pack(&packed, rung, q->scratch, stream));
    packed.scratch = (char *)q->scratch + matmul_pack_bytes(q, rung);
    return rung->launch(&packed, stream);
}

MATMUL_RUNG(tuned, "the rung that suits the size and the device", "fp32",
            WEFT_CPU | WEFT_CUDA, 0, ANY_A | ANY_B, launch, scratch)
