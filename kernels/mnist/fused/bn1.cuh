/* bn1.cuh -- conv1's batch norm as an affine map, computed before conv1 runs.
 *
 * The sums of moments.cuh and conv1's weights give mean and variance, and these
 * give the two numbers per channel that conv1 applies. The computation needs
 * doubles and only a few threads. So a few blocks, with two channels each,
 * perform it once, rather than every block of conv1. If one step directly
 * follows another, blocks of update() perform it as soon as the weights are
 * updated. Otherwise moments() launches a kernel for it. */
#ifndef WEFT_BN1_H
#define WEFT_BN1_H
#include "image.cuh"
#include "moments.cuh"

enum { BN1_EACH = 2, BN1_BLOCKS = C1 / BN1_EACH };

/* An affine map: conv1's output becomes scale * |y| + shift, where |y| is y
 * times the sign of batch norm's weight. Of the four values of a window, the
 * largest |y| wins. */
struct affine {
    float scale, shift, sign;
};

/* The sums of the current step. Each block of two channels has its own copy. A
 * block may replace its copy with the next step's sums while other blocks still
 * read their copies. */
struct bn1 {
    struct patch_sums patches[BN1_BLOCKS];
    double mean[C1], rstd[C1];
    struct affine affine[C1];
};

static __host__ __device__ inline struct bn1 *bn1_of(const struct fused *f) {
    static_assert(sizeof(struct bn1) <=
                      (MOMENT_SLOTS - MOMENT_ROOM) * MOMENTS * sizeof(moment),
                  "bn1 fits into the slots that moments leave free");
    return (struct bn1 *)((moment *)f->moments.data + MOMENT_ROOM * MOMENTS);
}

/* The inputs of the blocks that compute BN1. */
struct bn1_from {
    const moment *slots; /* (count,MOMENTS) */
    int count;
    double scale, shift; /* conv1 reads x = scale * q + shift */
    double population, eps;
};

static inline struct bn1_from bn1_from(const struct fused *f, int batch) {
    struct bn1_from from;
    from.slots = (const moment *)f->moments.data;
    from.count = f->moments.count;
    from.scale = pixel_scale(f->std);
    from.shift = pixel_shift(f->mean, f->std);
    from.population = fused_population(f, batch);
    from.eps = f->eps;
    return from;
}

/* ---- from slots to sums over patches, in three steps --------------------- */
/* Shared memory for the three steps. The block synchronises after each step.
 * Threads 0 to 80 take part. */

struct bn1_scratch {
    moment sums[MOMENTS];
    moment inside[TAPS][TAPS]; /* the sum over tap j, where tap k is inside */
};

static __device__ __forceinline__ void
bn1_add_slots(struct bn1_scratch *scratch_s, const struct bn1_from *from,
              int i) {
    if (i >= MOMENTS) return;
    moment sum = 0;
    for (int s = 0; s < from->count; s += 16) {
        moment part[16]; // loads that are in flight at the same time
#pragma unroll
        for (int j = 0; j < 16; j++)
            part[j] =
                s + j < from->count ? from->slots[(s + j) * MOMENTS + i] : 0;
#pragma unroll
        for (int j = 0; j < 16; j++) sum += part[j];
    }
    scratch_s->sums[i] = sum;
}

/* Return the sum of the pixels under tap j at the places where tap k is also
 * inside the image. */
static __device__ __forceinline__ moment zone_sum(const moment *zone_s, int j,
                                                  int k) {
    const int jy = j / 3, jx = j % 3, ky = k / 3, kx = k % 3;
    // Rows top..bottom are 0..27, without the first if a tap reads above the
    // image and the last if one reads below. They are moved by jy - 1, as tap j
    // is. Columns left..right are analogous.
    const int top = (jy == 0 || ky == 0) + jy - 1;
    const int bottom = SIDE1 - 1 - (jy == 2 || ky == 2) + jy - 1;
    const int left = (jx == 0 || kx == 0) + jx - 1;
    const int right = SIDE1 - 1 - (jx == 2 || kx == 2) + jx - 1;
    moment sum = 0;
#pragma unroll
    for (int row = 0; row < ZONES; row++)
#pragma unroll
        for (int column = 0; column < ZONES; column++) {
            const int y0 = row < 3 ? row : row + 23;
            const int x0 = column < 3 ? column : column + 23;
            // Zone 2 is always inside, since the range leaves out at most two
            // rows or columns.
            const bool inside = (row == 2 || (y0 >= top && y0 <= bottom)) &&
                                (column == 2 || (x0 >= left && x0 <= right));
            if (inside) sum += zone_s[row * ZONES + column];
        }
    return sum;
}

/* Return the number of the 28 places in one direction at which both taps are
 * inside. */
static __device__ __forceinline__ int both_inside(int j, int k) {
    return SIDE1 - (j == 0 || k == 0) - (j == 2 || k == 2);
}

static __device__ __forceinline__ void bn1_zones(struct bn1_scratch *scratch_s,
                                                 int i) {
    if (i >= TAPS * TAPS) return;
    scratch_s->inside[i / TAPS][i % TAPS] =
        zone_sum(scratch_s->sums + ZONE_SUMS, i / TAPS, i % TAPS);
}

static __device__ __forceinline__ void
bn1_patches(struct patch_sums *patch_s, const struct bn1_scratch *scratch_s,
            const struct bn1_from *from, int i) {
    const int j = i / TAPS, k = i % TAPS;
    if (i >= TAPS * TAPS || k < j) return;
    const double scale = from->scale, shift = from->shift;
    const double places = (double)both_inside(j / 3, k / 3) *
                          both_inside(j % 3, k % 3) * from->population;
    const moment a = scratch_s->inside[j][k], b = scratch_s->inside[k][j];
    const int pair = pair_of(j, k);
    patch_s->pp[pair] = scale * scale * (double)scratch_s->sums[pair] +
                        scale * shift * (double)(a + b) +
                        shift * shift * places;
    if (j == k) patch_s->p[j] = scale * (double)a + shift * places;
}

/* ---- from sums over patches to batch norm -------------------------------- */

static __device__ __forceinline__ double lanes_sum(double x) {
    for (int step = 16; step; step /= 2)
        x += __shfl_xor_sync(0xffffffff, x, step);
    return x;
}

/* Compute one channel's affine map with one warp. w_s has the channel's
 * weights, in shared memory. */
static __device__ __forceinline__ void
bn1_channel(struct bn1 *to, int channel, const struct patch_sums *patch_s,
            const float w_s[TAPS], float gamma, float beta,
            const struct bn1_from *from, int lane) {
    const double per_place = 1.0 / (from->population * PIXELS1);
    double sum = lane < TAPS ? w_s[lane] * patch_s->p[lane] : 0;
    double squares = 0;
#pragma unroll
    for (int i = lane; i < TAPS * TAPS; i += 32) {
        const int j = i / TAPS, k = i % TAPS;
        squares += (double)w_s[j] * w_s[k] *
                   patch_s->pp[j < k ? pair_of(j, k) : pair_of(k, j)];
    }
    const double mean = lanes_sum(sum) * per_place;
    const double var = lanes_sum(squares) * per_place - mean * mean;
    // For a constant image the exact variance is 0, but rounding may make it
    // negative.
    const double rstd = rsqrt((var > 0 ? var : 0) + from->eps);
    if (lane) return;
    const double scale = gamma * rstd;
    to->mean[channel] = mean;
    to->rstd[channel] = rstd;
    to->affine[channel].scale = (float)fabs(scale);
    to->affine[channel].shift = (float)(beta - mean * scale);
    to->affine[channel].sign = gamma > 0 ? 1.0f : gamma < 0 ? -1.0f : 0.0f;
}

/* Store the block's copy of the sums. */
static __device__ __forceinline__ void
bn1_keep(struct bn1 *to, const struct patch_sums *patch_s, int block, int i) {
    if (i < TAPS + PAIRS)
        ((double *)&to->patches[block])[i] = ((const double *)patch_s)[i];
}

#endif
