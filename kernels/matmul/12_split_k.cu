/* 12_split_k.cu -- matmul for small m and n: k is divided among the blocks.
 *
 * Before:      at 64x100000x64, c is a single tile, so one multiprocessor of
 *              132 works. At 512x512x512 there are 16 tiles of 128 x 128.
 * Idea:        use small tiles and more blocks than tiles. Each block takes a
 *              part of k and stores its sums as a separate matrix. A second
 *              kernel adds these in a fixed order (partials.cu). So the result
 *              has the same bits each time, which atomic additions would not
 *              guarantee. Operands may be transposed and at any address.
 *              Numbers that run along k are copied one by one to their places
 *              in a transposed tile, by cp.async and so without registers.
 * Prediction:  the partial sums cost 8 bytes per element and part. 64x65536x64
 *              in 256 parts moves 8 MB (mostly in L2) in addition to 34 MB of a
 *              and b: 10 us. 512x512x512 in 4 parts: the multiply-adds would
 *              take 4.5 us, but 256 blocks on 132 multiprocessors reach 60 % of
 *              that rate, plus a launch.
 * Measured:    H200: 64x65536x64 29 us (cuBLAS 27), 512x512x512 14.9 (12.4),
 *              1000 batches of 32x32x32 4.7 (torch.bmm 5.5).
 * Limit:       a part must be deep enough to be worth a launch and the loading
 *              of a tile.
 * Lesson:      notebooks/08b_matmul_pipeline.ipynb */
/* g++: -O1 */
#include "awkward_sizes.h"

#include <cuda_pipeline.h>

enum { BK = 16, STAGES = 3, PAD = 4, SHALLOW = 256, SMALL_WORK = 1 << 24 };

/* An operand in the form in which a block reads it: tile rows (for b, these are
 * its columns) and steps of k. */
struct view {
    const float *array; /* address of the block's first tile row and first k */
    size_t pitch;
    int rows, length; /* rows and steps of k from `array` to the end */
    int k_runs;       /* 1: steps of k are adjacent; 0: tile rows are */
    int vectors;      /* whether 16 bytes may be copied at a time */
};

/* Copy COUNT floats (1 or 4) of a tile or, unless `there`, write zeros. */
template <int COUNT>
static __device__ __forceinline__ void copy(float *to, const float *from,
                                            bool there) {
    if (there)
        __pipeline_memcpy_async(to, from, COUNT * sizeof(float));
    else
        for (int i = 0; i < COUNT; i++) to[i] = 0.0f;
}

/* Copy a tile to to[k][row], with zeros beyond the edges. A tile that is
 * entirely INSIDE needs no bounds checks. */
template <int ROWS, int THREADS, bool INSIDE>
static __device__ __forceinline__ void load_tile(float (*to)[ROWS + PAD],
                                                 const struct view &v, int k0) {
    const int rows = v.rows, deep = v.length - k0;
    if (v.k_runs) {
        // The 8 lanes of a group copy neighbours along k, and the 4 groups copy
        // neighbouring rows. Each group reads 32 contiguous bytes of memory,
        // and a pitch of 4 banks spreads the lanes over 32 banks.
        enum { AT_ONCE = THREADS / 8 };
        const int lane = threadIdx.x % 8, first = threadIdx.x / 8;
        const float *from = v.array + first * v.pitch + (size_t)(k0 + lane);
#pragma unroll
        for (int row = first; row < ROWS + first; row += AT_ONCE) {
#pragma unroll
            for (int kk = 0; kk < BK; kk += 8)
                copy<1>(&to[lane + kk][row], from + kk,
                        INSIDE || (row < rows && lane + kk < deep));
            from += AT_ONCE * v.pitch;
        }
    } else if (v.vectors) {
        enum { AT_ONCE = THREADS / (ROWS / 4) };
        const int row = threadIdx.x % (ROWS / 4) * 4;
        const int first = threadIdx.x / (ROWS / 4);
        const float *from = v.array + (size_t)(k0 + first) * v.pitch + row;
#pragma unroll
        for (int kk = first; kk < BK + first; kk += AT_ONCE) {
            copy<4>(&to[kk][row], from, INSIDE || (row < rows && kk < deep));
            from += AT_ONCE * v.pitch;
        }
    } else {
        enum { AT_ONCE = THREADS / ROWS };
        const int row = threadIdx.x % ROWS, first = threadIdx.x / ROWS;
        const float *from = v.array + (size_t)(k0 + first) * v.pitch + row;
#pragma unroll 4 // more unrolling would cost too many registers
        for (int kk = first; kk < BK + first; kk += AT_ONCE) {
            copy<1>(&to[kk][row], from, INSIDE || (row < rows && kk < deep));
            from += AT_ONCE * v.pitch;
        }
    }
}

template <int ROWS, int THREADS>
static __device__ __forceinline__ void load(float (*to)[ROWS + PAD],
                                            const struct view &v, int k0) {
    if (v.rows >= ROWS && k0 + BK <= v.length)
        load_tile<ROWS, THREADS, true>(to, v, k0);
    else
        load_tile<ROWS, THREADS, false>(to, v, k0);
}

/* A block's tile of c is BM x BN. A thread computes TM x TN elements of it, in
 * pieces of 4 x 4 that are TY pieces apart (TX horizontally). So the elements
 * that a warp's lanes read at the same time are adjacent. */
template <int BM, int BN, int TM, int TN, int TY> struct tiling {
    enum {
        THREADS = BM * BN / (TM * TN),
        TX = 32 / TY, // number of lanes of a warp along a row
        WM = TY * TM, // rows and columns of a warp
        WN = TX * TN,
    };
};

/* Compute one part of k of c (m,n) = a (m,k) @ b (k,n). */
template <int BM, int BN, int TM, int TN, int TY>
static __global__ void
__launch_bounds__(tiling<BM, BN, TM, TN, TY>::THREADS,
                  384 / tiling<BM, BN, TM, TN, TY>::THREADS)
    matmul_split_k(float *c, const float *a, const float *b, int m, int n,
                   int k, int depth, size_t step_part, int trans_a, int trans_b,
                   int vectors_a, int vectors_b, struct extras x) {
    typedef tiling<BM, BN, TM, TN, TY> T;
    __shared__ __align__(16) float a_s[STAGES][BK][BM + PAD];
    __shared__ __align__(16) float b_s[STAGES][BK][BN + PAD];
    own_matrix(&c, &a, &b, x);
    c += (size_t)(blockIdx.x % CEIL_DIV(k, depth)) * step_part;
    const size_t begin = (size_t)(blockIdx.x % CEIL_DIV(k, depth)) * depth;
    const int length =
        (size_t)k - begin < (size_t)depth ? (int)(k - begin) : depth;
    const size_t row0 = (size_t)blockIdx.y * BM;
    const size_t col0 = (size_t)(blockIdx.x / CEIL_DIV(k, depth)) * BN;
    const struct view own_a = {
        a + (trans_a ? begin * x.pitch_a + row0 : row0 * x.pitch_a + begin),
        x.pitch_a,
        (int)(m - row0),
        length,
        !trans_a,
        vectors_a};
    const struct view own_b = {
        b + (trans_b ? col0 * x.pitch_b + begin : begin * x.pitch_b + col0),
        x.pitch_b,
        (int)(n - col0),
        length,
        trans_b,
        vectors_b};

    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    const int row = warp / (BN / T::WN) * T::WM + lane / T::TX * 4;
    const int col = warp % (BN / T::WN) * T::WN + lane % T::TX * 4;
    float sums[TM][TN] = {};
    pdl_wait(); // earlier kernels have written a and b

    const int tiles = CEIL_DIV(length, BK);
    for (int stage = 0; stage < STAGES - 1; stage++) {
        if (stage < tiles) {
            load<BM, T::THREADS>(a_s[stage], own_a, stage * BK);
            load<BN, T::THREADS>(b_s[stage], own_b, stage * BK);
        }
        __pipeline_commit();
    }
    for (int tile = 0; tile < tiles; tile++) {
        __pipeline_wait_prior(STAGES - 2); // this thread's copies are complete
                                           // ...
        __syncthreads(); // ... all threads' copies are complete, and the
                         // previous tile has been read
        const int ahead = tile + STAGES - 1;
        if (ahead < tiles) {
            load<BM, T::THREADS>(a_s[ahead % STAGES], own_a, ahead * BK);
            load<BN, T::THREADS>(b_s[ahead % STAGES], own_b, ahead * BK);
        }
        __pipeline_commit();
        const int stage = tile % STAGES;
#pragma unroll
        for (int kk = 0; kk < BK; kk++) {
            // If k is short, such as 17, most of the last tile is zeros, so
            // skip it.
            if (TM * TN <= 32 && kk % 4 == 0 && tile * BK + kk >= length) break;
            float a_r[TM], b_r[TN];
            for (int i = 0; i < TM; i += 4)
                *(float4 *)&a_r[i] =
                    *(const float4 *)&a_s[stage][kk][row + i * TY];
            for (int j = 0; j < TN; j += 4)
                *(float4 *)&b_r[j] =
                    *(const float4 *)&b_s[stage][kk][col + j * T::TX];
            for (int i = 0; i < TM; i++)
                for (int j = 0; j < TN; j++) sums[i][j] += a_r[i] * b_r[j];
        }
    }
    pdl_trigger(); // let the kernel that adds the parts start
    static_assert(T::TX == 8, "a warp is 4 pieces high and 8 wide");
    const bool vectors = takes_vectors(c, n);
    if (!vectors) __syncthreads(); // no thread reads the tiles any more
    float *const warp_s = &a_s[0][0][0] + warp * 32 * 4;
#pragma unroll
    for (int i = 0; i < TM; i++)
#pragma unroll
        for (int j = 0; j < TN; j += 4) {
            const size_t at_row = row0 + row + i / 4 * 4 * TY + i % 4;
            const size_t at_col = col0 + col + j * T::TX;
            if (vectors)
                store4(c, m, n, at_row, at_col, &sums[i][j], x);
            else
                store_by_rows(c, m, n, at_row - lane / 8 * 4, 4,
                              at_col - lane % 8 * 4, &sums[i][j], warp_s, x);
        }
}

/* ---- choosing the kernel and the number of blocks ------------------------ */

struct shape {
    int rows, cols, threads;
    void (*kernel)(float *, const float *, const float *, int, int, int, int,
                   size_t, int, int, int, int, struct extras);
};
#define SHAPE(BM, BN, TM, TN, TY)                 \
    {BM, BN, tiling<BM, BN, TM, TN, TY>::THREADS, \
     matmul_split_k<BM, BN, TM, TN, TY>}
static const struct shape small = SHAPE(32, 32, 4, 4, 4);
static const struct shape flat = SHAPE(64, 64, 8, 4, 4);
static const struct shape deep = SHAPE(64, 64, 8, 8, 4);

/* Return small tiles if larger ones would leave multiprocessors idle even with
 * k in parts. Otherwise, return 8 x 4 results per thread if a tile ends before
 * its ring is full, or if n is not a multiple of 4. In all other cases, return
 * 8 x 8 results per thread. */
static const struct shape *shape_of(const struct product *q) {
    const double work = (double)q->m * q->n * q->k;
    if ((q->m <= 32 && q->n <= 32) || work * q->batch <= SMALL_WORK)
        return &small;
    return q->k <= SHALLOW || q->n % 4 ? &flat : &deep;
}

static double tiles_of(const struct product *q) {
    const struct shape *const s = shape_of(q);
    return (double)CEIL_DIV((size_t)q->m, s->rows) *
           CEIL_DIV((size_t)q->n, s->cols);
}

static struct k_parts parts_of(const struct product *q) {
    return matmul_k_parts(q, tiles_of(q), 4.0 * matmul_multiprocessors(), BK,
                          2 * BK);
}

static size_t scratch(const struct product *q) {
    return matmul_partials_bytes(q, parts_of(q).parts);
}

double matmul_split_k_us(const struct product *q) {
    const struct shape *const s = shape_of(q);
    const double sms = matmul_multiprocessors();
    const struct k_parts cut = parts_of(q);
    const double blocks = tiles_of(q) * cut.parts * q->batch;
    const double rounds = (double)CEIL_DIV((size_t)blocks, (size_t)sms);
    // The rates in multiply-adds and in bytes per microsecond and
    // multiprocessor; if n is not a multiple of 4, numbers move one by one.
    const double rate = q->n % 4 ? 108e3 : 165e3;
    const double stored = q->n % 4 ? 12e3 : 16e3;
    const double sums = rounds * s->rows * s->cols * cut.depth / rate;
    const double stores = 4.0 * q->m * q->n * q->batch * cut.parts;
    return 3.0 + (cut.parts > 1 ? 2.0 : 0.0) + sums + stores / (stored * sms);
}

static int launch(const struct product *q, cudaStream_t stream) {
    const struct extras *const x = &q->extras;
    const struct shape *const s = shape_of(q);
    const struct k_parts cut = parts_of(q);
    dim3 grid = matmul_grid(q, s->rows, s->cols);
    grid.x *= cut.parts;
    return launch_parts(
        "matmul_split_k", s->kernel, grid, s->threads, q, cut, 0, stream,
        q->trans_a, q->trans_b,
        has_vectors<float>(q->a, x->pitch_a, x->step_a, q->m, q->batch, 4),
        has_vectors<float>(q->b, x->pitch_b, x->step_b, q->n, q->batch, 4));
}

MATMUL_RUNG(split_k, "small c: blocks share k, a second kernel adds", "fp32",
            WEFT_CPU | WEFT_CUDA, 0, ANY_A | ANY_B, launch, scratch)
