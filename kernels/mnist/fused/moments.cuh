/* moments.cuh -- batch norm's statistics of conv1 without conv1's output.
 *
 * With one input channel, conv1's output at a pixel is w . p, with w the nine
 * weights of a channel and p the 3x3 patch around the pixel. So over the batch
 *
 *     mean = w . E        E[j]    = mean of p[j]            (9 numbers)
 *     var  = w' M w - mean^2    M[j][k] = mean of p[j] p[k]  (45: symmetric)
 *
 * for all channels. These are sums over the images alone, so they need not wait
 * for any weight.
 *
 * A weight vector that detects edges makes var a small difference of large
 * numbers. No accuracy is lost, however: pixels are integers, so their sums are
 * exact. p is 0 outside of the image, since padding applies to the normalised
 * pixel x = scale * q + shift, not to q in 0..255. With q = 0 outside, too,
 *
 *     sum p[j] p[k] = scale^2 Q + scale shift (A + B) + shift^2 N
 *
 * where Q is the sum of q[j] q[k], A the sum of q[j] where tap k is inside, and
 * B the sum of q[k] where tap j is inside. N is the number of places where both
 * taps are inside. A is the sum of the pixels in a rectangle that leaves out at
 * most two rows and columns at an edge. So only sums of pixels over zones are
 * needed in addition to the 45 sums Q. The zones are rows 0, 1, 2..25, 26, 27
 * times the same columns (25 sums).
 *
 * Limit:   four multiply-adds of bytes per instruction (dp4a): 48 instructions
 *          for four pixels. A float version needs 54 for each pixel. */
#ifndef WEFT_MOMENTS_H
#define WEFT_MOMENTS_H
#include "fused.h"

typedef unsigned long long moment; /* an exact sum */
enum { PAIRS = 45, ZONES = 5, ZONE_SUMS = PAIRS };

/* The number of slots for sums. The state of bn1.cuh follows them. */
enum { MOMENT_ROOM = MOMENT_SLOTS - 16 };

/* Return the index of the sum of q[j] q[k], j <= k. */
static __host__ __device__ __forceinline__ constexpr int pair_of(int j, int k) {
    return j * (2 * TAPS + 1 - j) / 2 + k - j;
}

/* The sums over the batch that bn1.cuh computes from the slots: the sums of
 * p[j], and of p[j] p[k] for j <= k. */
struct patch_sums {
    double p[TAPS], pp[PAIRS];
};

/* ---- sums over images ---------------------------------------------------- */

/* The part of an image that a lane processes. A warp processes one image. Its
 * lane 7 r + g has four columns, the first of which is 4 g, and processes rows
 * 7 r .. 7 r + 6 from top to bottom. Lanes 28 to 31 have no columns. */
struct strip {
    int g, r;
    bool owns;
    unsigned at0, at1, rest; /* masks of its columns, with a byte of 1 for each:
                                those of zones of one column (0 and 1, or 3 and
                                4), and those of zone 2 */
};

static __device__ __forceinline__ struct strip strip_of(int lane) {
    struct strip s;
    s.g = lane % 7, s.r = lane / 7, s.owns = lane < 28;
    s.at0 = s.g == 0 ? 0x1 : s.g == 6 ? 0x10000 : 0;
    s.at1 = s.at0 << 8;
    s.rest = 0x01010101 - s.at0 - s.at1;
    return s;
}

struct strip_sums {
    unsigned pair[PAIRS];
    // Sums over the strip's rows 0, 1, 2..4, 5 and 6. The outer rows are
    // separate zones if the strip is at the upper or the lower edge.
    unsigned at0[ZONES], at1[ZONES], rest[ZONES];
};

/* Set taps[kx] to the bytes of row y that are tap kx of four neighbouring
 * places: shifted left, unshifted, and shifted right. */
static __device__ __forceinline__ void row_taps(unsigned taps[3], unsigned word,
                                                struct strip s) {
    unsigned left = __shfl_up_sync(0xffffffff, word, 1);
    unsigned right = __shfl_down_sync(0xffffffff, word, 1);
    if (s.g == 0) left = 0;
    if (s.g == 6) right = 0;
    taps[0] = word << 8 | left >> 24;
    taps[1] = word;
    taps[2] = word >> 8 | right << 24;
}

/* Add the lane's strip of one image to the sums. words[y * 7 + g] contains
 * pixels 4 g to 4 g + 3 of row y. */
static __device__ __forceinline__ void
strip_add(struct strip_sums *sums, const unsigned *words, struct strip s) {
    unsigned word[9], v[3][3];
#pragma unroll
    for (int i = 0; i < 9; i++) { // all loads are in flight together
        const int y = 7 * s.r + i - 1;
        const bool inside = s.owns && y >= 0 && y < SIDE1;
        word[i] = inside ? words[y * 7 + s.g] : 0;
    }
    row_taps(v[0], word[0], s);
    row_taps(v[1], word[1], s);
#pragma unroll
    for (int i = 0; i < 7; i++) {
        const int zone = i < 2 ? i : i < 5 ? 2 : i - 2;
        row_taps(v[2], word[i + 2], s);
        const unsigned *tap = &v[0][0];
#pragma unroll
        for (int j = 0; j < TAPS; j++)
#pragma unroll
            for (int k = j; k < TAPS; k++)
                sums->pair[pair_of(j, k)] =
                    __dp4a(tap[j], tap[k], sums->pair[pair_of(j, k)]);
        sums->at0[zone] = __dp4a(v[1][1], s.at0, sums->at0[zone]);
        sums->at1[zone] = __dp4a(v[1][1], s.at1, sums->at1[zone]);
        sums->rest[zone] = __dp4a(v[1][1], s.rest, sums->rest[zone]);
#pragma unroll
        for (int kx = 0; kx < 3; kx++) v[0][kx] = v[1][kx], v[1][kx] = v[2][kx];
    }
}

static __device__ __forceinline__ unsigned warp_sum(unsigned x) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
    return __reduce_add_sync(0xffffffff, x);
#else
    for (int step = 16; step; step /= 2)
        x += __shfl_xor_sync(0xffffffff, x, step);
    return x;
#endif
}

/* Store the warp's sums over all strips in warp_s (MOMENTS). */
static __device__ __forceinline__ void
strips_to_warp(unsigned *warp_s, const struct strip_sums *sums, struct strip s,
               int lane) {
#pragma unroll
    for (int i = 0; i < PAIRS; i++) {
        const unsigned sum = warp_sum(sums->pair[i]);
        if (lane == 0) warp_s[i] = sum;
    }
    const bool upper = s.r == 0, lower = s.r == 3;
    const bool left = s.g == 0, right = s.g == 6;
    const unsigned *const columns[3] = {sums->at0, sums->at1, sums->rest};
    unsigned zone[ZONES][3];
#pragma unroll
    for (int c = 0; c < 3; c++) {
        const unsigned *of = columns[c];
        zone[0][c] = upper ? of[0] : 0, zone[1][c] = upper ? of[1] : 0;
        zone[3][c] = lower ? of[3] : 0, zone[4][c] = lower ? of[4] : 0;
        zone[2][c] =
            of[2] + (upper ? 0 : of[0] + of[1]) + (lower ? 0 : of[3] + of[4]);
    }
#pragma unroll
    for (int row = 0; row < ZONES; row++)
#pragma unroll
        for (int column = 0; column < ZONES; column++) {
            const bool mine = column < 2 ? left : column > 2 ? right : true;
            const int part = column == 2 ? 2 : column < 2 ? column : column - 3;
            const unsigned sum = warp_sum(mine ? zone[row][part] : 0);
            if (lane == 0) warp_s[ZONE_SUMS + row * ZONES + column] = sum;
        }
}

/* Return the number of blocks of `warps` warps for a batch. The number is small
 * because bn1.cuh reads all slots. Each warp has two images, or up to 80 where
 * the blocks would exceed half of the multiprocessors. */
static inline int moment_blocks(const struct fused *f, int batch, int warps) {
    const int wanted = CEIL_DIV(batch, 2 * warps);
    const int least = CEIL_DIV(batch, 80 * warps);
    const int most = f->blocks / 2;
    int blocks = wanted < most ? wanted : most;
    if (blocks < least) blocks = least;
    return blocks < MOMENT_ROOM ? blocks : MOMENT_ROOM;
}

/* Do the whole work of the kernel for block `block` of `blocks`, with `warps`
 * warps. It stores the sums over its share of the images order[first .. first +
 * batch) in its slot (MOMENTS). A warp must process at most 80 images, since
 * otherwise 32 bits overflow; see moment_blocks(). warps_s holds warps *
 * MOMENTS numbers. head() has blocks that do this for the next batch, and
 * records that batch in the run. */
static __device__ __forceinline__ void
moments_role(moment *slots, unsigned *warps_s, const struct fused_run *run,
             int first, int batch, int block, int blocks, int warps) {
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const struct strip s = strip_of(lane);
    struct strip_sums sums = {};
    for (int n = block * warps + warp; n < batch; n += blocks * warps)
        strip_add(&sums,
                  (const unsigned *)(run->images +
                                     (size_t)run->order[first + n] * PIXELS1),
                  s);
    strips_to_warp(warps_s + warp * MOMENTS, &sums, s, lane);
    __syncthreads();
    for (int i = threadIdx.x; i < MOMENTS; i += 32 * warps) {
        moment sum = 0;
        for (int w = 0; w < warps; w++) sum += warps_s[w * MOMENTS + i];
        slots[block * MOMENTS + i] = sum;
    }
}

#endif
