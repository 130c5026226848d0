/* 10_pipeline.cu -- matmul, rung 10: a ring of stages, blocks that stay, and
 * an order of tiles that the L2 cache likes.
 *
 * Before:  rung 9 waits at every step for copies it asked for one step ago,
 *          starts and ends a block for every tile of c, and takes the tiles row
 *          by row.
 * Idea:    - A ring of STAGES stages. Copies are asked for STAGES - 1 steps
 *            ahead, across the end of a tile: its stores hide behind the copies
 *            of the next one.
 *          - As many blocks as run at once; each takes every gridDim.x-th tile.
 *          - Tiles in groups of GROUP rows: those that run at once need few
 * rows of a and few columns of b.
 *          - 8 x 16 elements a thread: 24 floats from shared memory serve 128
 *            multiply-adds. a lies as in global memory, so 16 bytes are four
 *            columns of a row: a thread reads four k at once. What the next k
 *            needs is read before this one's multiply-adds.
 *          - They run in serpentine order, so that each shares an operand with
 *            the one before: the register file has two banks, and an operand
 *            that is kept is not read again.
 *          - Three shapes of tiles; launch() takes the one that leaves the
 *            busiest multiprocessor the least to do.
 * Limit:   every thread copies, waits and meets the others in a barrier. Rung
 * 11 has one thread ask for whole tiles and no barrier. Lesson:
 * notebooks/08b_matmul_pipeline.ipynb
 */
#include "../ptx.cuh"
#include "matmul.h"
#include <cuda_pipeline.h>

// ptxas reorders what it optimises further, and with it the register banks.
/* nvcc: -Xptxas=-O1 */

enum {
    BK = 16,          // of k a stage holds
    PITCH_A = BK + 4, // floats: 4 rows, 16 bytes each, are 16 banks
    LANES_M = 4,      // a warp is 4 x 8 lanes
    LANES_N = 8,      //
    GROUP = 8,        // rows of tiles
    ROUND = 8,        // k in a round of the inner loop: 16 KB of code
};

/* A block makes BM x BN of c, a thread TM x TN of that: TM rows LANES_M apart
 * and TN / 4 times four columns, LANES_N * 4 apart. */
template <int BM_, int BN_, int TM_, int TN_, int STAGES_, int BLOCKS_>
struct Shape {
    enum {
        BM = BM_,
        BN = BN_,
        TM = TM_,
        TN = TN_,
        STAGES = STAGES_,
        BLOCKS = BLOCKS_, // on a multiprocessor, if they have room
        WM = LANES_M * TM,
        WN = LANES_N * TN,
        THREADS = BM / WM * (BN / WN) * 32,
        STAGE = BM * PITCH_A + BK * BN, // floats
        BYTES = STAGES * STAGE * 4,
        QUADS = BK / 4,           // pieces of 16 bytes: in a row of a's tile,
        ROWS_A = THREADS / QUADS, // rows of it copied at once,
        COLS = BN / 4,            // in a row of b's,
        ROWS_B = THREADS / COLS,  // rows of that
    };
};

/* The tiles of c that a block makes, one after another. */
struct order {
    int down, across; /* tiles of a matrix */
    int tiles;        /* of all matrices */
};

/* Where tile `number` begins: its matrix, its row and column of tiles. */
static __device__ __forceinline__ void place_of(int number, const order &o,
                                                int *item, int *row, int *col) {
    *item = number / (o.down * o.across);
    number %= o.down * o.across;
    const int first = number / (GROUP * o.across) * GROUP; // row of the group
    const int rows = min(o.down - first, GROUP);
    number -= first * o.across;
    *row = first + number % rows;
    *col = number / rows;
}

/* 16 bytes, or zeros. */
static __device__ __forceinline__ void
copy_or_zeros(float *to, const float *from, bool inside) {
    __pipeline_memcpy_async(to, from, 16, inside ? 0 : 16);
}

/* Where the copies for the next stage come from. */
struct source {
    const float *a, *b; /* of the tile's matrix */
    unsigned row0, col0, k0;
    int tile;
};

/* Let *from begin with its tile. */
template <class S>
static __device__ __forceinline__ void
begin_tile(struct source *from, const float *a, const float *b,
           const struct order &o, const struct extras &x) {
    int item, row, col;
    place_of(from->tile, o, &item, &row, &col);
    from->a = a + item * x.step_a;
    from->b = b + item * x.step_b;
    from->row0 = row * S::BM;
    from->col0 = col * S::BN;
    from->k0 = 0;
}

/* Ask for a stage's tiles of a and b. Past the end of k they are zeros; past
 * the other edges the last row and columns again, whose products nobody stores.
 */
template <class S>
static __device__ __forceinline__ void
copy_stage(float *stage, const struct source &from, unsigned m, unsigned k,
           const struct extras &x) {
    // Eight lanes take eight rows of a: PITCH_A apart these are all banks.
    const unsigned quad = threadIdx.x / 8 % S::QUADS * 4;
    const unsigned row = threadIdx.x / (8 * S::QUADS) * 8 + threadIdx.x % 8;
#pragma unroll
    for (unsigned i = 0; i < S::BM; i += S::ROWS_A)
        copy_or_zeros(stage + (row + i) * PITCH_A + quad,
                      from.a + min(from.row0 + row + i, m - 1) * x.pitch_a +
                          from.k0 + quad,
                      from.k0 + quad < k);
    float *const b_s = stage + S::BM * PITCH_A;
    const unsigned deep = threadIdx.x / S::COLS,
                   col = threadIdx.x % S::COLS * 4;
    const unsigned col_b = min(from.col0 + col, (unsigned)x.pitch_b - 4);
#pragma unroll
    for (unsigned i = 0; i < BK; i += S::ROWS_B)
        copy_or_zeros(b_s + (deep + i) * S::BN + col,
                      from.b + (from.k0 + deep + i) * x.pitch_b + col_b,
                      from.k0 + deep + i < k);
}

/* Ask for the next stage of the block's work, if there is more, and go on. */
template <class S>
static __device__ __forceinline__ void
ask(float *stage, struct source *from, const float *a, const float *b, int m,
    int k, const struct order &o, const struct extras &x) {
    if (from->tile < o.tiles) {
        copy_stage<S>(stage, *from, m, k, x);
        from->k0 += BK;
        if (from->k0 >= (unsigned)k) {
            from->tile += gridDim.x;
            begin_tile<S>(from, a, b, o, x);
        }
    }
    __pipeline_commit(); // an empty group counts, too
}

/* A thread's rows of a, four k of each. */
template <int TM>
static __device__ __forceinline__ void load_a(float4 a_r[TM],
                                              const float *a_s) {
#pragma unroll
    for (int r = 0; r < TM; r++)
        a_r[r] = *(const float4 *)(a_s + r * LANES_M * PITCH_A);
}

/* A thread's columns of b. */
template <int TN>
static __device__ __forceinline__ void load_b(float4 b_r[TN / 4],
                                              const float *b_s) {
#pragma unroll
    for (int s = 0; s < TN / 4; s++)
        b_r[s] = *(const float4 *)(b_s + s * LANES_N * 4);
}

static __device__ __forceinline__ float part(const float4 &four, int i) {
    return i == 0 ? four.x : i == 1 ? four.y : i == 2 ? four.z : four.w;
}

/* acc += column i of a_r times b_r, to and fro along the columns. */
template <int TM, int TN>
static __device__ __forceinline__ void multiply(float acc[TM][TN],
                                                const float4 a_r[TM], int i,
                                                const float4 b_r[TN / 4]) {
#pragma unroll
    for (int r = 0; r < TM; r++)
#pragma unroll
        for (int j = 0; j < TN; j++) {
            const int s = r % 2 ? TN - 1 - j : j;
            multiply_add(&acc[r][s], part(a_r[r], i), part(b_r[s / 4], s % 4));
        }
}

/* c (m,n) = a (m,k) @ b (k,n), row-major. */
template <class S>
static __global__ void __launch_bounds__(S::THREADS, S::BLOCKS)
    matmul_pipeline(float *c, const float *a, const float *b, int m, int n,
                    int k, struct order o, struct extras x) {
    extern __shared__ __align__(16) float ring[];
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    const int ty = warp / (S::BN / S::WN) * S::WM + lane / LANES_N;
    const int tx = warp % (S::BN / S::WN) * S::WN + lane % LANES_N * 4;
    const float *const a_0 = ring + ty * PITCH_A;
    const float *const b_0 = ring + S::BM * PITCH_A + tx;

    struct source from;
    from.tile = blockIdx.x;
    begin_tile<S>(&from, a, b, o, x);
    for (int s = 0; s < S::STAGES; s++)
        ask<S>(ring + s * S::STAGE, &from, a, b, m, k, o, x);
    __pipeline_wait_prior(S::STAGES - 1);
    __syncthreads(); // the first stage is there

    float4 a_r[2][S::TM], b_r[2][S::TN / 4];
    load_a<S::TM>(a_r[0], a_0);
    load_b<S::TN>(b_r[0], b_0);
    int stage = 0; // the one being read
    for (int tile = blockIdx.x; tile < o.tiles; tile += gridDim.x) {
        float acc[S::TM][S::TN] = {};
        for (int left = k; left > 0; left -= BK) {
#pragma unroll 1
            for (int k0 = 0; k0 < BK; k0 += ROUND) {
                int at = stage * S::STAGE, next = k0 + ROUND;
#pragma unroll
                for (int i = 0; i < ROUND; i++) {
                    const int here = i + 1 < ROUND;
                    if (!here && next == BK) {
                        // This stage is in registers: on to the next one.
                        __pipeline_wait_prior(S::STAGES - 2);
                        __syncthreads();
                        ask<S>(ring + at, &from, a, b, m, k, o, x);
                        stage = stage + 1 < S::STAGES ? stage + 1 : 0;
                        at = stage * S::STAGE;
                        next = 0;
                    }
                    const int deep = here ? k0 + i + 1 : next;
                    if (i % 4 == 3)
                        load_a<S::TM>(a_r[(i / 4 + 1) % 2], a_0 + at + deep);
                    load_b<S::TN>(b_r[(i + 1) % 2], b_0 + at + deep * S::BN);
                    multiply<S::TM, S::TN>(acc, a_r[i / 4 % 2], i % 4,
                                           b_r[i % 2]);
                }
            }
        }
        int item, row, col;
        place_of(tile, o, &item, &row, &col);
#pragma unroll
        for (int r = 0; r < S::TM; r++)
#pragma unroll
            for (int s = 0; s < S::TN; s += 4)
                store4(c + item * x.step_c, m, n,
                       (size_t)row * S::BM + ty + r * LANES_M,
                       (size_t)col * S::BN + tx + s * LANES_N, &acc[r][s], x);
    }
}

/* ---- which shape --------------------------------------------------------- */

static int attribute(cudaDeviceAttr which) {
    int device = 0, value = 0;
    cudaGetDevice(&device);
    cudaDeviceGetAttribute(&value, which, device);
    return value;
}

template <class S> static struct order order_of(const struct product *q) {
    const int down = CEIL_DIV(q->m, S::BM), across = (q->n - 1) / S::BN + 1;
    return {down, across, down * across * q->batch};
}

template <class S>
static int launch_shape(const struct product *q, cudaStream_t stream) {
    const struct order o = order_of<S>(q);
    const auto kernel = matmul_pipeline<S>;
    int blocks = 0;
    WEFT_CUDA_TRY(cudaFuncSetAttribute(
        kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, S::BYTES));
    WEFT_CUDA_TRY(cudaOccupancyMaxActiveBlocksPerMultiprocessor(
        &blocks, kernel, S::THREADS, S::BYTES));
    blocks *= attribute(cudaDevAttrMultiProcessorCount);
    if (blocks > o.tiles) blocks = o.tiles;
    kernel<<<blocks, S::THREADS, S::BYTES, stream>>>(q->c, (const float *)q->a,
                                                     (const float *)q->b, q->m,
                                                     q->n, q->k, o, q->extras);
    WEFT_LAUNCHED(matmul_pipeline);
    return WEFT_OK;
}

/* How long the busiest multiprocessor has to do with tiles of this shape, in
 * elements of c at the rate that the largest shape reaches; `rate` is this
 * one's part of that, measured. */
template <class S> static double cost(const struct product *q, double rate) {
    if (S::BYTES > attribute(cudaDevAttrMaxSharedMemoryPerBlockOptin))
        return 1e300;
    const int all = attribute(cudaDevAttrMultiProcessorCount);
    return CEIL_DIV(order_of<S>(q).tiles, all) * (double)(S::BM * S::BN) / rate;
}

typedef Shape<256, 128, 8, 16, 3, 1> Large;
typedef Shape<128, 128, 8, 16, 3, 2> Medium;
typedef Shape<64, 64, 8, 4, 3, 4> Small;

static int launch(const struct product *q, cudaStream_t stream) {
    const double large = cost<Large>(q, 1.0), medium = cost<Medium>(q, 0.95),
                 small = cost<Small>(q, 0.75);
    if (large <= medium && large <= small)
        return launch_shape<Large>(q, stream);
    if (medium <= small) return launch_shape<Medium>(q, stream);
    return launch_shape<Small>(q, stream);
}

MATMUL_RUNG(pipeline, "a ring of stages, blocks that stay, grouped tiles",
            "fp32", WEFT_CPU | WEFT_CUDA, 0, ALIGNED, launch, NULL)
