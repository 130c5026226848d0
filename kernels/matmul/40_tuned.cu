/* 40_tuned.cu -- matmul: for each precision, a rung that selects another rung.
 *
 * Before:  every kernel is the fastest for some sizes. Large tiles read least,
 *          small ones leave no multiprocessor idle, and a c of ten columns
 *          suits neither.
 * Idea:    estimate the time of each rung in microseconds from the tiles of the
 *          busiest multiprocessor, and take the fastest. The rates are measured
 *          (H200); the counts are exact. An estimate that is 5 % off costs at
 *          most 5 %, where two rungs are nearly equal, and nothing elsewhere. A
 *          tf32 product may use floats that were not rounded: if memory sets
 *          the pace, the fp32 rungs are as fast and more exact.
 * Prediction: as fast as the best rung at every size, except for an estimate's
 *          5 % and for copies of operands in a layout that no rung takes.
 * Measured: H200: 1024^3 47.3 us, k_groups alone 47.4; 4096^3 55.8 TFLOP/s, tma
 *          alone 55.9; bf16 182 us, like wgmma_bf16; tf32 339, like wgmma_tf32.
 *          Compared with the best of cuBLAS: see README.md.
 * Limit:   a rule covers only the cases for which it was made: python -m weft
 *          bench matmul --rungs tuned shows where it is wrong.
 * Lesson:  notebooks/08b_matmul_pipeline.ipynb, "Tuned per size" */
#include "awkward_sizes.h"
#include "matmul.h"
#include "pack.h"
#include "wgmma_us.h"

#include <limits.h>
#include <math.h>

enum {
    RATE = 200000,      // multiply-adds per us of a busy multiprocessor
    START_US = 6,       // time of the launch, the first loads and the last
                        // stores
    PIECE_US = 9,       // time to add one piece of a cut tile to the others
    SMALL_PIECE_US = 3, // time to add such a piece in k_groups
    STORE_US = 4,       // time of launch and first loads of kernels that mostly
                        // store
    ADD_US = 3,         // time to add the parts of k
    COPY_US = 3,        // fixed time to copy operands; COPIED gives the rest
    COPIED = 3000       // bytes read and written per nanosecond
};

static double tiles_of(const struct product *q, int bm, int bn) {
    return (double)CEIL_DIV(q->m, bm) * CEIL_DIV(q->n, bn) * q->batch;
}

/* Return the time of q's tiles in microseconds. `blocks` of them share a
 * multiprocessor and run, in total, at `full` times RATE; a single one runs at
 * `one` times RATE. If `cut`, the tiles of the last round are cut along k. */
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
    // A tile is cut into at most four pieces.
    const double fair = left * tile_us / full;
    const double quarter = tile_us / full / 4;
    const double count = blocks > 4 * left ? 4 : ceil(blocks / left);
    const double pieces = PIECE_US * count + (fair > quarter ? fair : quarter);
    return START_US + whole + (cut && pieces < uncut ? pieces : uncut);
}

static double tma_us(const struct product *q) {
    return tiles_us(q, 256, 128, 1, 1.02, 1.02, 1);
}

static double tma_pairs_us(const struct product *q) {
    return tiles_us(q, 128, 128, 2, 1.03, 0.67, 1);
}

static double k_groups_us(const struct product *q) {
    // Every tile starts a new block, so each adds a fixed time.
    const double each = 3.0, start = 2.0;
    const double tile_us = each + 64.0 * 128.0 * q->k / RATE / 0.96;
    const double sms = matmul_multiprocessors(), tiles = tiles_of(q, 64, 128);
    const double rounds = floor(tiles / sms), left = tiles - rounds * sms;
    if (left == 0.0) return start + rounds * tile_us;
    const double count = 8 * left < sms ? 8 : floor(sms / left);
    const double cut = each + (tile_us - each) / count + SMALL_PIECE_US * count;
    return start + rounds * tile_us + (cut < tile_us ? cut : tile_us);
}

/* ---- tensor cores -------------------------------------------------------- */

/* Return the time in microseconds to read a and b, numbers of `element` bytes,
 * at `rate` bytes per nanosecond. */
static double reads_us(const struct product *q, int element, double rate) {
    const double numbers = (double)q->m * q->k + (double)q->k * q->n;
    return numbers * q->batch * element / (1000 * rate);
}

/* Return the time of mma.sync in microseconds; its large tiles reach `full`
 * times RATE. */
static double mma_us(const struct product *q, double full) {
    const double large = tiles_us(q, 128, 256, 1, full, full, 0);
    const double medium = tiles_us(q, 128, 128, 2, 0.95 * full, 0.6 * full, 0);
    const double small = tiles_us(q, 64, 64, 4, 0.68 * full, 0.65 * full, 0);
    return fmin(large, fmin(medium, small));
}
static double mma_16_us(const struct product *q) {
    return fmax(START_US + reads_us(q, 2, 2900), mma_us(q, 8.5));
}
static double mma_tf32_us(const struct product *q) {
    const double rate = q->n <= 16 ? 2600 : 4000; // a is tall, and few columns
                                                  // read it
    return fmax(START_US + reads_us(q, 4, rate), mma_us(q, 3.8));
}
static double mma_3xtf32_us(const struct product *q) {
    return fmax(START_US + reads_us(q, 4, 4000), mma_us(q, 1.05));
}

/* Return the time of wgmma in microseconds, with 16-bit numbers. Tiles have 128
 * rows; with far fewer rows, most of shared memory is filled with zeros. */
static double wgmma_16_us(const struct product *q) {
    const double rate = q->m <= 64 ? 1600 : 3000;
    return fmax(STORE_US + reads_us(q, 2, rate), matmul_wgmma_bf16_us(q));
}
static double wgmma_tf32_us(const struct product *q) {
    return fmax(STORE_US + reads_us(q, 4, 3200), matmul_wgmma_tf32_us(q));
}

static double wmma_fp16_us(const struct product *q) {
    return tiles_us(q, 128, 128, 2, 4.9, 3.0, 0);
}
static double wmma_bf16_us(const struct product *q) {
    return tiles_us(q, 128, 128, 2, 3.2, 2.0, 0);
}
static double wmma_tf32_us(const struct product *q) {
    return tiles_us(q, 128, 128, 2, 1.0, 0.6, 0);
}

/* ---- the choice ---------------------------------------------------------- */

/* The precisions that a rung may serve. */
enum { FP32 = 1, TF32 = 2, THREE = 4, FP16 = 8, BF16 = 16 };
enum { CUT = 32 }; // flag: the rung's k may be cut; see parts_of()
enum { FLOATS = FP32 | TF32 | THREE, ANY = INT_MAX };

/* The rungs that can be selected, the precisions they serve, and their maximum
 * rows and columns. The rungs for few rows or columns read the large operand
 * only once within these limits. The last two columns are the rates of storing
 * c in bytes per nanosecond, with rows at multiples of 16 bytes and at other
 * addresses. They are 0 if `us` includes the stores. */
#define CHOICES(CHOICE)                                                       \
    CHOICE(tma_pairs, tma_pairs_us, FP32, ANY, ANY, 2100, 600)                \
    CHOICE(tma, tma_us, FP32, ANY, ANY, 2100, 600)                            \
    CHOICE(k_groups, k_groups_us, FP32, ANY, ANY, 1000, 600)                  \
    CHOICE(pipeline, matmul_pipeline_us, FP32, ANY, ANY, 1450, 600)           \
    CHOICE(split_k, matmul_split_k_us, FLOATS, ANY, ANY, 0, 0)                \
    CHOICE(narrow, matmul_narrow_us<float>, FLOATS, ANY, 16, 0, 0)            \
    CHOICE(short, matmul_short_us<float>, FLOATS, 16, ANY, 0, 0)              \
    CHOICE(wgmma_3xtf32, matmul_wgmma_3xtf32_us, THREE, ANY, ANY, 3200, 1400) \
    CHOICE(mma_3xtf32, mma_3xtf32_us, THREE | CUT, ANY, ANY, 1100, 400)       \
    CHOICE(wgmma_tf32, wgmma_tf32_us, TF32, ANY, ANY, 3200, 1400)             \
    CHOICE(mma_tf32, mma_tf32_us, TF32 | CUT, ANY, ANY, 2100, 400)            \
    CHOICE(wmma_tf32, wmma_tf32_us, TF32, ANY, ANY, 2100, 400)                \
    CHOICE(wgmma_bf16, wgmma_16_us, BF16, ANY, ANY, 3200, 1400)               \
    CHOICE(mma_bf16, mma_16_us, BF16 | CUT, ANY, ANY, 2100, 400)              \
    CHOICE(wmma_bf16, wmma_bf16_us, BF16, ANY, ANY, 2100, 400)                \
    CHOICE(narrow_bf16, matmul_narrow_us<__nv_bfloat16>, BF16, ANY, 16, 0, 0) \
    CHOICE(short_bf16, matmul_short_us<__nv_bfloat16>, BF16, 16, ANY, 0, 0)   \
    CHOICE(wgmma_fp16, wgmma_16_us, FP16, ANY, ANY, 3200, 1400)               \
    CHOICE(mma_fp16, mma_16_us, FP16 | CUT, ANY, ANY, 2100, 400)              \
    CHOICE(wmma_fp16, wmma_fp16_us, FP16, ANY, ANY, 2100, 400)                \
    CHOICE(narrow_fp16, matmul_narrow_us<__half>, FP16, ANY, 16, 0, 0)        \
    CHOICE(short_fp16, matmul_short_us<__half>, FP16, 16, ANY, 0, 0)

#define DECLARE(name, ...) extern const struct matmul_rung matmul_##name##_rung;
CHOICES(DECLARE)

#define ROW(name, ...) {&matmul_##name##_rung, __VA_ARGS__},
static const struct choice {
    const struct matmul_rung *rung;
    double (*us)(const struct product *q);
    int serves, rows, cols;
    double stored, stored_odd;
} choices[] = {CHOICES(ROW)};

/* Return the time in microseconds to copy the operands whose layout the rung
 * does not accept. */
static double copies_us(const struct product *q,
                        const struct matmul_rung *rung) {
    const size_t bytes = matmul_pack_bytes(q, rung);
    return bytes ? COPY_US + 2.0 * bytes / (1000 * COPIED) : 0.0;
}

/* Return the time in microseconds to store c, which may exceed the time of the
 * sums. */
static double stores_us(const struct product *q, const struct choice *choice) {
    const double rate = q->n % 4 ? choice->stored_odd : choice->stored;
    const double bytes = 4.0 * q->m * q->n * q->batch;
    return rate > 0.0 ? STORE_US + bytes / (1000 * rate) : 0.0;
}

/* Return the device's compute capability times ten. */
static int capability(void) {
    return 10 * device_has(cudaDevAttrComputeCapabilityMajor) +
           device_has(cudaDevAttrComputeCapabilityMinor);
}

/* ---- k in parts ---------------------------------------------------------- */

/* Return the number of equal parts of k with which the smallest tiles, 64 x 64,
 * keep all multiprocessors busy. q's operands have the layout that the rung
 * requires. */
static int parts_of(const struct product *q, const struct choice *choice) {
    enum { SIDE = 64, LEAST = 256 };
    int parts = 1;
    if (!(choice->serves & CUT) || q->batch > 1) return parts;
    const double tiles = tiles_of(q, SIDE, SIDE);
    while (tiles * 2 * parts <= 4 * matmul_multiprocessors() &&
           q->k % (2 * parts * SIDE) == 0 && q->k / (2 * parts) >= LEAST)
        parts *= 2;
    return parts;
}

/* Return the parts as a batch of separate products, for rungs that cannot cut
 * k. Part i multiplies columns of a by rows of b, starting at i * k / parts,
 * and stores plain sums. */
static struct product parts_as_batch(const struct product *q, int parts) {
    size_t step_part;
    struct product batch = matmul_part_of(q, parts, &step_part);
    if (parts == 1) return batch;
    batch.batch = parts;
    batch.k = q->k / parts;
    batch.extras.step_a = (size_t)batch.k;
    batch.extras.step_b = batch.k * q->extras.pitch_b;
    return batch;
}

/* Estimate the time in microseconds of a choice, copies included. */
static double choice_us(const struct product *q, const struct choice *choice) {
    struct product packed = *q;
    matmul_pack_plan(&packed, choice->rung, (void *)256);
    const int parts = parts_of(&packed, choice);
    const struct product batch = parts_as_batch(&packed, parts);
    return fmax(choice->us(&batch), stores_us(q, choice)) +
           (parts > 1 ? (double)ADD_US : 0.0) + copies_us(q, choice->rung);
}

static const struct choice *pick(const struct product *q, int precision) {
    const int sm = capability();
    const struct choice *best = NULL;
    double least = INFINITY;
    for (const struct choice &choice : choices) {
        const struct weft_rung *const line = &choice.rung->line;
        if (!(choice.serves & precision)) continue;
        if (line->sm > sm || !(line->targets & WEFT_TARGET)) continue;
        if (q->m > choice.rows || q->n > choice.cols) continue;
        const double us = choice_us(q, &choice);
        if (!best || us < least) least = us, best = &choice;
    }
    return best;
}

template <int PRECISION> static size_t scratch(const struct product *q) {
    const struct choice *const choice = pick(q, PRECISION);
    const struct matmul_rung *const rung = choice->rung;
    struct product packed = *q;
    matmul_pack_plan(&packed, rung, (void *)256);
    return matmul_pack_bytes(q, rung) +
           (rung->scratch
                ? rung->scratch(&packed)
                : matmul_partials_bytes(&packed, parts_of(&packed, choice)));
}

template <int PRECISION>
static int launch(const struct product *q, cudaStream_t stream) {
    const struct choice *const choice = pick(q, PRECISION);
    const struct matmul_rung *const rung = choice->rung;
    struct product packed = *q;
    WEFT_TRY(matmul_pack(&packed, rung, q->scratch, stream));
    packed.scratch = (char *)q->scratch + matmul_pack_bytes(q, rung);
    const int parts = parts_of(&packed, choice);
    const struct product batch = parts_as_batch(&packed, parts);
    WEFT_TRY(rung->launch(&batch, stream));
    return matmul_add_partials(&packed, parts, stream);
}

#define IDEA "the rung that suits the size and the device"
MATMUL_RUNG(tuned, IDEA, "fp32", WEFT_CPU | WEFT_CUDA, 0, ANY_A | ANY_B,
            launch<FP32>, scratch<FP32>)
MATMUL_RUNG(tuned_fp16, IDEA, "fp16", WEFT_CPU | WEFT_CUDA, 70, ANY_A | ANY_B,
            launch<FP16>, scratch<FP16>)
MATMUL_RUNG(tuned_bf16, IDEA, "bf16", WEFT_CPU | WEFT_CUDA, 80, ANY_A | ANY_B,
            launch<BF16>, scratch<BF16>)
MATMUL_RUNG(tuned_tf32, IDEA, "tf32", WEFT_CPU | WEFT_CUDA, 80, ANY_A | ANY_B,
            launch<TF32>, scratch<TF32>)
MATMUL_RUNG(tuned_3xtf32, IDEA, "3xtf32", WEFT_CPU | WEFT_CUDA, 80,
            ANY_A | ANY_B, launch<THREE>, scratch<THREE>)
