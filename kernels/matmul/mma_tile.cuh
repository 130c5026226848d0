/* mma_tile.cuh -- code shared by the mma rungs: tiles in a ring of stages,
 * their fragments, and the stores of the sums.
 *
 * A stage has 128 bytes along k of every row of a, and the same steps of k of
 * b: 64 numbers of 16 bits, or 32 of tf32. In any precision it has STEPS = 4
 * steps of 32 bytes, each the depth of one instruction.
 *
 * Ring:    all threads start the copies of the stage that is STAGES - 1 ahead
 *          (by cp.async, which bypasses registers). One barrier per stage
 *          ensures that the next one is complete and the previous one free.
 * Banks:   a row of a is 128 bytes and covers all 32 banks. A matrix of
 *          ldmatrix is the same 16 bytes of 8 rows, which would take 8
 *          wavefronts. If 16-byte piece c of row r is stored at c ^ (r % 8), it
 *          takes 1. An ldmatrix_x4 then takes 4, the minimum for 512 bytes. The
 *          same holds for b's rows of 16-bit numbers. ldmatrix cannot transpose
 *          tf32, so lane (g,t) reads the word at row t, column g. Then 4 rows
 *          collide in 8 banks and take 4 wavefronts. With piece c at c ^ 2 (r %
 *          4), they take 1.
 * Ahead:   the fragments of the next step are loaded before this step's
 *          products begin, into the other half of `fragments`. */
#ifndef WEFT_MMA_TILE_CUH
#define WEFT_MMA_TILE_CUH
#include "common/ptx.cuh"
#include "matmul.h"

#include <cuda_pipeline.h>

enum { LINE = 128, SIXTEEN = 16, STEPS = 4, STRIP = 8 };

/* The shape of a block for numbers of type T. It computes BM x BN elements of
 * c, and each of its warps WM x WN of these, with STAGES stages. BLOCKS blocks
 * share a multiprocessor. */
template <class T_, int BM_, int BN_, int WM_, int WN_, int STAGES_,
          int BLOCKS_>
struct mma_shape {
    typedef T_ T;
    enum {
        BM = BM_,
        BN = BN_,
        WM = WM_,
        WN = WN_,
        STAGES = STAGES_,
        BLOCKS = BLOCKS_,
        WARPS_N = BN / WN,
        THREADS = BM / WM * WARPS_N * 32,
        EACH = SIXTEEN / (int)sizeof(T), // numbers in 16 bytes
        BK = LINE / (int)sizeof(T),
        K = BK / STEPS, // steps of k per instruction
        ROW_B = BN * (int)sizeof(T),
        STAGE_A = BM * LINE,
        STAGE = STAGE_A + BK * ROW_B, // size in bytes
        BYTES = STAGES * STAGE,
        LINES = THREADS / 8,               // rows of a copied at a time
        SIXTEENS_B = BN / EACH,            // 16-byte pieces in a row of b
        ROWS_B = THREADS / SIXTEENS_B,     // rows of b copied at a time
        SWIZZLED = sizeof(T) == 2 ? 8 : 4, // rows of b after which the swizzle
                                           // repeats
        DOWN = WM / 16,                    // instructions per warp
        ACROSS = WN / 8,                   //
    };
    static_assert(BM % LINES == 0 && BK % ROWS_B == 0, "whole copies");
    static_assert(LINES % 8 == 0 && ROWS_B % SWIZZLED == 0,
                  "a thread's copies are swizzled alike");
};

/* Return the position, within row `row` of b's tile, at which 16-byte piece
 * `sixteen` of that row is stored. */
template <class S> PTX_INLINE int swizzled_b(int row, int sixteen) {
    return sizeof(typename S::T) == 2 ? sixteen ^ row % 8
                                      : sixteen ^ row % 4 * 2;
}

/* ---- the block's tile ---------------------------------------------------- */

/* Find the block's tile. Tiles are numbered down a column of STRIP tiles, then
 * down the next column. So concurrent blocks share rows and columns in the L2
 * cache. */
template <class S>
PTX_INLINE void tile_of_block(int m, int n, int *row0, int *col0) {
    const int down = CEIL_DIV(m, S::BM), across = (n - 1) / S::BN + 1;
    const int strip = blockIdx.x / (STRIP * across);
    const int left = blockIdx.x % (STRIP * across);
    const int height = min(STRIP, down - strip * STRIP);
    *row0 = (strip * STRIP + left % height) * S::BM;
    *col0 = left / height * S::BN;
}

/* ---- the ring ------------------------------------------------------------ */

/* A thread's copies: its first 16-byte pieces of a and of b. */
template <class S> struct copies {
    typedef typename S::T T;
    const T *a, *b;    // addresses in the next stage to copy
    unsigned row, k_a; // of a: the thread's row in the matrix, and its first k
    unsigned k_b, col; // of b: its first k and its column
    int to_a, to_b;    // offsets in bytes into a stage

    __device__ __forceinline__ copies(const T *a_0, const T *b_0, int row0,
                                      int col0, const struct extras &x) {
        const int line = threadIdx.x / 8, deep = threadIdx.x / S::SIXTEENS_B;
        const int sixteen_a = threadIdx.x % 8;
        const int sixteen_b = threadIdx.x % S::SIXTEENS_B;
        row = row0 + line;
        k_a = sixteen_a * S::EACH;
        k_b = deep;
        col = col0 + sixteen_b * S::EACH;
        a = a_0 + row * x.pitch_a + k_a;
        b = b_0 + k_b * x.pitch_b + col;
        to_a = line * LINE + (sixteen_a ^ line % 8) * SIXTEEN;
        to_b = S::STAGE_A + deep * S::ROW_B +
               swizzled_b<S>(deep, sixteen_b) * SIXTEEN;
    }
    /* Start copying a stage and advance to the next one. Outside the matrices
     * the copies write zeros. Past the end of k there is nothing to copy. */
    __device__ __forceinline__ void ask(char *stage, unsigned m, unsigned n,
                                        unsigned k, const struct extras &x) {
#pragma unroll
        for (int i = 0; i < S::BM; i += S::LINES)
            __pipeline_memcpy_async(stage + to_a + i * LINE, a + i * x.pitch_a,
                                    SIXTEEN,
                                    row + i < m && k_a < k ? 0 : SIXTEEN);
#pragma unroll
        for (int i = 0; i < S::BK; i += S::ROWS_B)
            __pipeline_memcpy_async(stage + to_b + i * S::ROW_B,
                                    b + i * x.pitch_b, SIXTEEN,
                                    k_b + i < k && col < n ? 0 : SIXTEEN);
        a += S::BK;
        b += S::BK * x.pitch_b;
        k_a += S::BK;
        k_b += S::BK;
    }
};

/* ---- fragments ----------------------------------------------------------- */

/* A warp's operands in a step, in the layout of ptx.cuh. */
template <class S> struct fragments {
    uint32_t a[S::DOWN][4], b[S::ACROSS][2];
};

/* The byte offsets into a stage at which a lane reads. */
template <class S> struct places {
    int a, b[4];

    __device__ __forceinline__ places() {
        const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
        const int row = warp / S::WARPS_N * S::WM + lane % 16;
        const int col = warp % S::WARPS_N * S::WN;
        a = row * LINE + (lane / 16 ^ row % 8) * SIXTEEN;
        // The offsets of four neighbours differ in bits that are swizzled, so
        // each is stored. The next four are 128 bytes further on.
        for (int i = 0; i < 4; i++)
            b[i] = S::STAGE_A + (sizeof(typename S::T) == 2
                                     ? pairs(lane, col + i * 16)
                                     : words(lane, col + i * 8));
    }
    /* Return the offset for 16-bit numbers: lane l addresses row l % 16 of
     * columns col .. col + 7, or of the next 8, for two neighbouring
     * fragments. */
    static __device__ __forceinline__ int pairs(int lane, int col) {
        return lane % 16 * S::ROW_B +
               swizzled_b<S>(lane % 16, col / 8 + lane / 16) * SIXTEEN;
    }
    /* Return the offset for tf32: lane (g,t) reads row t, then row t + 4. */
    static __device__ __forceinline__ int words(int lane, int col) {
        const int at = col + lane / 4, t = lane % 4;
        return t * S::ROW_B + swizzled_b<S>(t, at / 4) * SIXTEEN + at % 4 * 4;
    }
};

/* Load the fragments of a step. */
template <class S>
PTX_INLINE void load(struct fragments<S> *f, const char *stage,
                     const struct places<S> &at, int step) {
#pragma unroll
    for (int i = 0; i < S::DOWN; i++)
        ldmatrix_x4(f->a[i], stage + i * 16 * LINE + (at.a ^ step * 32));
    const char *const b_s = stage + step * S::K * S::ROW_B;
    if (sizeof(typename S::T) == 2) {
#pragma unroll
        for (int j = 0; j < S::ACROSS; j += 2) {
            uint32_t two[4];
            ldmatrix_x4_trans(two, b_s + at.b[j / 2 % 4] + j / 8 * LINE);
            f->b[j][0] = two[0], f->b[j][1] = two[1];
            f->b[j + 1][0] = two[2], f->b[j + 1][1] = two[3];
        }
    } else {
#pragma unroll
        for (int j = 0; j < S::ACROSS; j++)
#pragma unroll
            for (int half = 0; half < 2; half++)
                f->b[j][half] = *(const uint32_t *)(b_s + half * 4 * S::ROW_B +
                                                    at.b[j % 4] + j / 4 * LINE);
    }
}

/* ---- a block ------------------------------------------------------------- */

/* Call take(fragments, step in its stage) with this warp's fragments for every
 * step of k, in order. The work of take() on one step overlaps with the loads
 * of the next. */
template <class S, class Take>
PTX_INLINE void for_each_step(char *ring, copies<S> from, int m, int n, int k,
                              const struct extras &x, const Take &take) {
    const struct places<S> at;
    const int stages = (k - 1) / S::BK + 1;
#pragma unroll
    for (int s = 0; s < S::STAGES - 1; s++) {
        if (s < stages) from.ask(ring + s * S::STAGE, m, n, k, x);
        __pipeline_commit(); // empty groups count, too
    }
    __pipeline_wait_prior(S::STAGES - 2);
    __syncthreads(); // the first stage is complete

    struct fragments<S> f[2];
    load<S>(&f[0], ring, at, 0);
    char *stage = ring, *free = ring + (S::STAGES - 1) * S::STAGE;
    char *const end = ring + S::BYTES;
    for (int s = 0; s < stages; s++) {
#pragma unroll
        for (int step = 0; step < STEPS; step++) {
            if (step == STEPS - 1) {
                // All of this stage is in registers, so continue with the next
                // stage.
                __pipeline_wait_prior(S::STAGES - 2);
                __syncthreads();
                free = stage;
                if (s + 1 < stages)
                    stage = stage + S::STAGE == end ? ring : stage + S::STAGE;
            }
            // After the last stage, this loads the first step again, which
            // nothing uses.
            load<S>(&f[(step + 1) % 2], stage, at, (step + 1) % STEPS);
            if (step == 0) {
                if (s + S::STAGES - 1 < stages) from.ask(free, m, n, k, x);
                __pipeline_commit();
            }
            take(f[step % 2], step);
        }
    }
}

/* Store one instruction's sums (16,8) to c, starting at (row,col). Two lanes
 * that hold neighbouring pairs of two rows exchange them, so that each lane has
 * four sums of one row. */
PTX_INLINE void store_sums(float *c, int m, int n, size_t row, size_t col,
                           const float sums[4], const struct extras &x) {
    const int lane = threadIdx.x % 32;
    const bool odd = lane % 2;
    const float first =
        __shfl_xor_sync(0xffffffffu, odd ? sums[0] : sums[2], 1);
    const float second =
        __shfl_xor_sync(0xffffffffu, odd ? sums[1] : sums[3], 1);
    const float four[4] = {odd ? first : sums[0], odd ? second : sums[1],
                           odd ? sums[2] : first, odd ? sums[3] : second};
    store4(c, m, n, row + lane / 4 + (odd ? 8 : 0), col + lane % 4 / 2 * 4,
           four, x);
}

/* Store the warp's sums to c; the block begins at (row0,col0). */
template <class S>
PTX_INLINE void store_warp(float *c, int m, int n, int row0, int col0,
                           const float sums[S::DOWN][S::ACROSS][4],
                           const struct extras &x) {
    const int warp = threadIdx.x / 32;
    const size_t row = row0 + warp / S::WARPS_N * S::WM;
    const size_t col = (size_t)col0 + warp % S::WARPS_N * S::WN;
#pragma unroll
    for (int i = 0; i < S::DOWN; i++)
#pragma unroll
        for (int j = 0; j < S::ACROSS; j++)
            store_sums(c, m, n, row + i * 16, col + j * 8, sums[i][j], x);
}

/* Add a b to the sums for all of a warp's fragments. `mma` is a function of
 * ptx.cuh. */
template <class S, class Mma>
PTX_INLINE void multiply(float sums[S::DOWN][S::ACROSS][4],
                         const struct fragments<S> &f, const Mma &mma) {
#pragma unroll
    for (int i = 0; i < S::DOWN; i++)
#pragma unroll
        for (int j = 0; j < S::ACROSS; j++) {
            // Go back and forth, so that each product shares an operand with
            // the one before.
            const int across = i % 2 ? S::ACROSS - 1 - j : j;
            mma(sums[i][across], f.a[i], f.b[across]);
        }
}

/* ---- launching ----------------------------------------------------------- */

template <class S> static double tiles_of(const struct product *q) {
    return (double)CEIL_DIV(q->m, S::BM) * ((q->n - 1) / S::BN + 1);
}

/* Return the time of the busiest multiprocessor, in elements of c at the rate
 * of the largest shape. `rate`: this shape's rate relative to the largest's. */
template <class S> static double cost_of(const struct product *q, double rate) {
    if (S::BYTES > device_has(cudaDevAttrMaxSharedMemoryPerBlockOptin))
        return 1e300;
    const int sms = device_has(cudaDevAttrMultiProcessorCount);
    const double tiles = tiles_of<S>(q) * q->batch;
    return (double)(long long)((tiles + sms - 1) / sms) * S::BM * S::BN / rate;
}

enum best { LARGE, MEDIUM, SMALL };

/* Return which of three shapes finishes first, according to the measured
 * rates. */
template <class L, class M, class S>
static enum best best_of(const struct product *q) {
    const double large = cost_of<L>(q, 1.0), medium = cost_of<M>(q, 0.95),
                 small = cost_of<S>(q, 0.68);
    if (large <= medium && large <= small) return LARGE;
    return medium <= small ? MEDIUM : SMALL;
}

#endif
