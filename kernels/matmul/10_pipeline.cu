/* 10_pipeline.cu -- matmul, rung 10: a ring of stages, persistent blocks, and
 * an order of tiles that suits the L2 cache.
 *
 * Before:      rung 9 takes 16 wavefronts of shared memory for 16 cycles of
 *              multiply-adds, and a barrier for every 8 steps of k. Each block
 *              starts, fills its stages, multiplies, stores and ends for a
 *              single tile of c.
 * Idea:        - Keep STAGES stages in a ring. Copies start two or more steps
 *                ahead, even across the end of a tile: while its results are
 *                stored, the next tile's copies are in flight.
 *              - Launch as many blocks as run at the same time; each takes
 *                every gridDim.x-th tile. Tiles are ordered in groups of GROUP
 *                rows, so those computed at the same time share their rows of a
 *                and columns of b.
 *              - A thread computes 8 x 16 elements. a keeps its layout from
 *                global memory, so a copy moves 16 bytes, and a load takes four
 *                steps of k from a row. Operands of the next step are loaded
 *                before this step's multiply-adds.
 *              - The multiply-adds run back and forth along the rows. Each
 *                reuses an operand of the previous one, so the register file
 *                need not deliver it again.
 *              - Provide five shapes of tiles; launch() takes the one that
 *                occupies the busiest multiprocessor for the shortest time.
 * Prediction:  for 4 steps of k a warp issues 8 + 16 loads, which take 96
 *              wavefronts, and 128 cycles of multiply-adds. Shared memory no
 *              longer sets the pace: 0.9 of cuBLAS.
 * Measured:    H200, 4096^3: 40.6 -> 50.6 TFLOP/s; cuBLAS reaches 51.4. In
 *              SASS, 82 of 1024 multiply-adds wait for a register bank (lesson
 *              08b counts them). Tried: some 30 shapes and settings; at 4096,
 *              Large is the fastest.
 * Limit:       every thread copies and waits at barriers. In rung 11 one thread
 *              requests whole tiles, without a barrier.
 * Lesson:      notebooks/08b_matmul_pipeline.ipynb */
/* g++: -O1 */
#include "awkward_sizes.h"
#include "common/ptx.cuh"
#include "matmul.h"
#include <cuda_pipeline.h>

// At higher levels ptxas reorders the code, which undoes the assignment of
// registers to banks.
/* nvcc: -Xptxas=-O1 */

enum {
    LANES_M = 4, // a warp has 4 x 8 lanes
    LANES_N = 8, //
    GROUP = 8,   // rows of tiles in a group
    ROUND = 8,   // steps of k in a round of the inner loop: 16 KB of code
};

/* A block computes BM x BN elements of c, and a thread TM x TN of these. A
 * thread's TM rows are LANES_M apart; its TN / 4 groups of four columns are
 * LANES_N * 4 apart. */
template <int BM_, int BN_, int BK_, int TM_, int TN_, int STAGES_, int BLOCKS_>
struct Shape {
    enum {
        BM = BM_,
        BN = BN_,
        BK = BK_, // steps of k in a stage
        TM = TM_,
        TN = TN_,
        STAGES = STAGES_,
        BLOCKS = BLOCKS_, // blocks per multiprocessor, if they fit
        WM = LANES_M * TM,
        WN = LANES_N * TN,
        THREADS = BM / WM * (BN / WN) * 32,
        PITCH_A = BK + 4, // pitch in floats; lanes 4 rows apart use different
                          // banks
        STAGE = BM * PITCH_A + BK * BN, // size in floats
        BYTES = STAGES * STAGE * 4,
        QUADS = BK / 4,           // 16-byte pieces in a row of a's tile
        ROWS_A = THREADS / QUADS, // rows of a copied at a time
        COLS = BN / 4,            // pieces in a row of b's tile
        ROWS_B = THREADS / COLS,  // rows of b copied at a time
    };
};

/* The order in which blocks compute the tiles of c. */
struct order {
    int down, across; /* tiles per matrix */
    int tiles;        /* tiles of all matrices */
};

/* Find the place of tile `number`: *item receives its matrix, *row and *col its
 * row and column, in units of tiles. */
static __device__ __forceinline__ void place_of(int number, const order &o,
                                                int *item, int *row, int *col) {
    *item = number / (o.down * o.across);
    number %= o.down * o.across;
    // First row of the group.
    const int first = number / (GROUP * o.across) * GROUP;
    const int rows = min(o.down - first, GROUP);
    number -= first * o.across;
    *row = first + number % rows;
    *col = number / rows;
}

/* Addresses at which a thread's copies for the next stage begin. */
struct source {
    const float *a, *b;       /* addresses of the thread's first pieces */
    int rows_left, cols_left; /* elements from there to the edges of a and b */
    int k0, tile;
};

/* The pieces that a thread copies. Eight lanes copy eight rows of `a`. These
 * rows are S::PITCH_A apart and so cover all banks. */
template <class S> struct Share {
    static __device__ int row_a() {
        return threadIdx.x / (8 * S::QUADS) * 8 + threadIdx.x % 8;
    }
    static __device__ int col_a() { return threadIdx.x / 8 % S::QUADS * 4; }
    static __device__ int row_b() { return threadIdx.x / S::COLS; }
    static __device__ int col_b() { return threadIdx.x % S::COLS * 4; }
};

/* Move *from to the beginning of the current tile. */
template <class S>
static __device__ __forceinline__ void
begin_tile(struct source *from, const float *a, const float *b, int m, int n,
           const struct order &o, const struct extras &x) {
    int item, row, col;
    place_of(from->tile, o, &item, &row, &col);
    const size_t row_a = (size_t)row * S::BM + Share<S>::row_a();
    const size_t col_b = (size_t)col * S::BN + Share<S>::col_b();
    from->a = a + item * x.step_a + row_a * x.pitch_a + Share<S>::col_a();
    from->b = b + item * x.step_b + Share<S>::row_b() * x.pitch_b + col_b;
    from->rows_left = m - row * S::BM;
    from->cols_left = n - col * S::BN;
    from->k0 = 0;
}

/* Start copying a stage's tiles of a and b. WHOLE means that no part of them is
 * past an edge; otherwise the copies write zeros past an edge. */
template <class S, bool WHOLE>
static __device__ __forceinline__ void
copy_stage(float *stage, const struct source &from, int k,
           const struct extras &x) {
    const int k_left = k - from.k0;
    float *const a_s =
        stage + Share<S>::row_a() * S::PITCH_A + Share<S>::col_a();
#pragma unroll
    for (int i = 0; i < S::BM; i += S::ROWS_A) {
        const bool inside = WHOLE || (Share<S>::col_a() < k_left &&
                                      Share<S>::row_a() + i < from.rows_left);
        __pipeline_memcpy_async(a_s + i * S::PITCH_A, from.a + i * x.pitch_a,
                                16, inside ? 0 : 16);
    }
    float *const b_s = stage + S::BM * S::PITCH_A + Share<S>::row_b() * S::BN +
                       Share<S>::col_b();
#pragma unroll
    for (int i = 0; i < S::BK; i += S::ROWS_B) {
        const bool inside = WHOLE || (Share<S>::row_b() + i < k_left &&
                                      Share<S>::col_b() < from.cols_left);
        __pipeline_memcpy_async(b_s + i * S::BN, from.b + i * x.pitch_b, 16,
                                inside ? 0 : 16);
    }
}

/* Start copying the next stage of the block's work, if any is left, and advance
 * *from. */
template <class S>
static __device__ __forceinline__ void
ask(float *stage, struct source *from, const float *a, const float *b, int m,
    int n, int k, const struct order &o, const struct extras &x) {
    if (from->tile < o.tiles) {
        if (from->rows_left >= S::BM && from->cols_left >= S::BN &&
            k - from->k0 >= S::BK)
            copy_stage<S, true>(stage, *from, k, x);
        else
            copy_stage<S, false>(stage, *from, k, x);
        from->a += S::BK;
        from->b += S::BK * x.pitch_b;
        from->k0 += S::BK;
        if (from->k0 >= k) {
            from->tile += gridDim.x;
            begin_tile<S>(from, a, b, m, n, o, x);
        }
    }
    __pipeline_commit(); // empty groups count, too
}

/* Load four steps of k of each of a thread's rows of a. */
template <class S>
static __device__ __forceinline__ void load_a(float4 a_r[S::TM],
                                              const float *a_s) {
#pragma unroll
    for (int r = 0; r < S::TM; r++)
        a_r[r] = *(const float4 *)(a_s + r * LANES_M * S::PITCH_A);
}

/* Load a thread's columns of b. */
template <class S>
static __device__ __forceinline__ void load_b(float4 b_r[S::TN / 4],
                                              const float *b_s) {
#pragma unroll
    for (int s = 0; s < S::TN / 4; s++)
        b_r[s] = *(const float4 *)(b_s + s * LANES_N * 4);
}

static __device__ __forceinline__ float part(const float4 &four, int i) {
    return i == 0 ? four.x : i == 1 ? four.y : i == 2 ? four.z : four.w;
}

/* Add column i of a_r times b_r to acc, back and forth along the columns. */
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

/* Compute c (m,n) = a (m,k) @ b (k,n), row-major. */
template <class S>
static __global__ void __launch_bounds__(S::THREADS, S::BLOCKS)
    matmul_pipeline(float *c, const float *a, const float *b, int m, int n,
                    int k, struct order o, struct extras x) {
    extern __shared__ __align__(16) float ring[];
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    const int ty = warp / (S::BN / S::WN) * S::WM + lane / LANES_N;
    const int tx = warp % (S::BN / S::WN) * S::WN + lane % LANES_N * 4;
    const float *const a_0 = ring + ty * S::PITCH_A;
    const float *const b_0 = ring + S::BM * S::PITCH_A + tx;

    struct source from;
    from.tile = blockIdx.x;
    begin_tile<S>(&from, a, b, m, n, o, x);
    for (int s = 0; s < S::STAGES; s++)
        ask<S>(ring + s * S::STAGE, &from, a, b, m, n, k, o, x);
    __pipeline_wait_prior(S::STAGES - 1);
    __syncthreads(); // the first stage is complete

    float4 a_r[2][S::TM], b_r[2][S::TN / 4];
    load_a<S>(a_r[0], a_0);
    load_b<S>(b_r[0], b_0);
    int stage = 0; // the stage being read
    for (int tile = blockIdx.x; tile < o.tiles; tile += gridDim.x) {
        float acc[S::TM][S::TN] = {};
        for (int left = k; left > 0; left -= S::BK) {
#pragma unroll 1
            for (int k0 = 0; k0 < S::BK; k0 += ROUND) {
                int at = stage * S::STAGE, next = k0 + ROUND;
#pragma unroll
                for (int i = 0; i < ROUND; i++) {
                    const int here = i + 1 < ROUND;
                    if (!here && next == S::BK) {
                        // All of this stage is in registers, so continue with
                        // the next stage.
                        __pipeline_wait_prior(S::STAGES - 2);
                        __syncthreads();
                        ask<S>(ring + at, &from, a, b, m, n, k, o, x);
                        // The last stage has no successor and is read again.
                        if (left > S::BK || tile + (int)gridDim.x < o.tiles)
                            stage = (stage + 1) % S::STAGES;
                        at = stage * S::STAGE;
                        next = 0;
                    }
                    const int deep = here ? k0 + i + 1 : next;
                    if (i % 4 == 3)
                        load_a<S>(a_r[(i / 4 + 1) % 2], a_0 + at + deep);
                    load_b<S>(b_r[(i + 1) % 2], b_0 + at + deep * S::BN);
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

/* ---- choosing a shape ---------------------------------------------------- */

template <class S> static struct order order_of(const struct product *q) {
    const int down = CEIL_DIV(q->m, S::BM), across = (q->n - 1) / S::BN + 1;
    return {down, across, down * across * q->batch};
}

/* Return the number of blocks of this shape that a multiprocessor holds, 0 if
 * none fits. */
template <class S> static int blocks_of(void) {
    const auto kernel = matmul_pipeline<S>;
    int blocks = 0;
    if (S::BYTES <= device_has(cudaDevAttrMaxSharedMemoryPerBlockOptin) &&
        cudaFuncSetAttribute(kernel,
                             cudaFuncAttributeMaxDynamicSharedMemorySize,
                             S::BYTES) == cudaSuccess)
        cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, kernel,
                                                      S::THREADS, S::BYTES);
    return blocks;
}

/* A shape's speed relative to Large: with full multiprocessors, and with a
 * single block on a multiprocessor. The first three are fitted to runs on an
 * H200; the last two are estimated from their loads per multiply-add. */
struct speed {
    double full, one;
};
static const struct speed large_speed = {1.0, 1.0}, medium_speed = {0.96, 0.42},
                          small_speed = {0.86, 0.35}, tall_speed = {0.62, 0.2},
                          wide_speed = {0.75, 0.2};

/* Return the time of the busiest multiprocessor if `blocks` run at the same
 * time, measured in elements of c at Large's rate. */
template <class S>
static double cost(const struct product *q, int blocks, struct speed speed) {
    if (blocks == 0) return 1e300;
    const int tiles = CEIL_DIV(order_of<S>(q).tiles, matmul_multiprocessors());
    const int last = tiles % blocks; // tiles in the last round; all other
                                     // rounds are full
    double time = (tiles - last) / speed.full;
    if (last)
        time += last / speed.full > 1 / speed.one ? last / speed.full
                                                  : 1 / speed.one;
    return time * S::BM * S::BN;
}

template <class S>
static int launch_shape(const struct product *q, cudaStream_t stream) {
    const struct order o = order_of<S>(q);
    int blocks = blocks_of<S>() * matmul_multiprocessors();
    if (blocks > o.tiles) blocks = o.tiles;
    matmul_pipeline<S><<<blocks, S::THREADS, S::BYTES, stream>>>(
        q->c, (const float *)q->a, (const float *)q->b, q->m, q->n, q->k, o,
        q->extras);
    WEFT_LAUNCHED(matmul_pipeline);
    return WEFT_OK;
}

typedef Shape<128, 256, 32, 8, 16, 3, 1> Large;
typedef Shape<64, 128, 16, 8, 16, 3, 4> Medium;
typedef Shape<64, 64, 16, 8, 8, 3, 6> Small;
typedef Shape<128, 32, 16, 8, 4, 3, 4> Tall; // for products of up to 32 columns
                                             // ...
typedef Shape<32, 128, 16, 8, 8, 3, 6> Wide; // ... or of up to 32 rows

enum { LARGE_RATE = 197000 }; // multiply-adds per us and multiprocessor

double matmul_pipeline_us(const struct product *q) {
    const double costs[] = {cost<Large>(q, Large::BLOCKS, large_speed),
                            cost<Medium>(q, Medium::BLOCKS, medium_speed),
                            cost<Small>(q, Small::BLOCKS, small_speed),
                            cost<Tall>(q, Tall::BLOCKS, tall_speed),
                            cost<Wide>(q, Wide::BLOCKS, wide_speed)};
    double least = costs[0];
    for (double one : costs)
        if (one < least) least = one;
    return 6.0 + least * q->k / LARGE_RATE;
}

static int launch(const struct product *q, cudaStream_t stream) {
    const struct {
        double cost;
        int (*launch)(const struct product *q, cudaStream_t stream);
    } shapes[] = {
        {cost<Large>(q, blocks_of<Large>(), large_speed), launch_shape<Large>},
        {cost<Medium>(q, blocks_of<Medium>(), medium_speed),
         launch_shape<Medium>},
        {cost<Small>(q, blocks_of<Small>(), small_speed), launch_shape<Small>},
        {cost<Tall>(q, blocks_of<Tall>(), tall_speed), launch_shape<Tall>},
        {cost<Wide>(q, blocks_of<Wide>(), wide_speed), launch_shape<Wide>},
    };
    int best = 0;
    for (int i = 1; i < COUNT_OF(shapes); i++)
        if (shapes[i].cost < shapes[best].cost) best = i;
    return shapes[best].launch(q, stream);
}

MATMUL_RUNG(pipeline, "a ring of stages, blocks that stay, grouped tiles",
            "fp32", WEFT_CPU | WEFT_CUDA, 0, ALIGNED, launch, NULL)
