/* 12_k_groups.cu -- matmul: small tiles whose k is divided among groups of
 * warps.
 *
 * Before:  tiles of 256 x 128 read least, but a c of 1024 x 1024 has only 32 of
 *          them for 132 multiprocessors.
 * Idea:    with tiles of 64 x 128, there are 128 of them. Two warps would
 *          suffice for a tile, but would leave the multipliers waiting. So
 *          there are four groups of two warps, and each takes a quarter of
 *          every stage's k. At the end each group adds up a quarter of the rows
 *          from all four groups. 1025 x 1025 has 153 such tiles, one round and
 *          21 tiles: the 21 are cut along k and shared by six blocks each, so
 *          that the second round is short.
 * Prediction: a c of 1024 x 1024 keeps 128 of 132 multiprocessors busy instead
 *          of 32: nearly four times as fast as rung tma without cut tiles. 1025
 *          without cutting takes two rounds, twice as long as 1024.
 * Measured: H200: 1024^3 45.3 TFLOP/s (cuBLAS 38.8, tma 36.5). Through rung
 *          tuned: 1024^3 47 us, 1025^3, cut, 75 (cuBLAS 69), 1023^3, where a
 *          and b are copied, 54 (54). Tried: a fence in each step, 44.8 TFLOP/s
 *          at 1024.
 * Limit:   a stage of 64 x 128 has a quarter of the work of a stage of 256 x
 *          128 but costs as much waiting: 48.3 TFLOP/s at 4096, where tma
 *          reaches 55.9.
 * Lesson:  notebooks/08b_matmul_pipeline.ipynb */
/* g++: -O1 */
/* nvcc: -Xptxas=-O1 */
#include "tma_launch.cuh"

typedef shape<2, 1, 4, 8, 1> small; // 64 x 128
typedef small S;

enum {
    OWN_ROWS = TM / S::GROUPS, // rows of the tile that a thread adds up
    GROUP_THREADS = S::THREADS / S::GROUPS,
    HANDED = OWN_ROWS * TN, // sums that a thread passes to another
};

/* Return where this thread's part of the sums that group `from` passes to group
 * `to` is stored, GROUP_THREADS apart. Every group has a place for the sums of
 * each group. */
static __device__ __forceinline__ float *handed(float *sums_s, int to,
                                                int from) {
    return sums_s + (to * S::GROUPS + from) * HANDED * GROUP_THREADS +
           threadIdx.x % GROUP_THREADS;
}

/* Add up this group's rows from the sums of all groups. */
static __device__ __forceinline__ void add_groups(float sums[OWN_ROWS][TN],
                                                  float acc[TM][TN],
                                                  const struct own &own,
                                                  float *sums_s) {
#pragma unroll
    for (int to = 0; to < S::GROUPS; to++) {
        float *const place = handed(sums_s, to, own.group);
#pragma unroll
        for (int i = 0; i < HANDED; i++)
            place[i * GROUP_THREADS] = acc[to * OWN_ROWS + i / TN][i % TN];
    }
    __syncthreads();
#pragma unroll
    for (int i = 0; i < HANDED; i++) sums[i / TN][i % TN] = 0.0f;
#pragma unroll
    for (int from = 0; from < S::GROUPS; from++) {
        const float *const place = handed(sums_s, own.group, from);
        float sums_r[HANDED]; // load all before adding the first
#pragma unroll
        for (int i = 0; i < HANDED; i++) sums_r[i] = place[i * GROUP_THREADS];
#pragma unroll
        for (int i = 0; i < HANDED; i++) sums[i / TN][i % TN] += sums_r[i];
    }
}

/* Store the thread's rows like store_rows(), but rows of c may start at any
 * address. warp_s is 512 bytes of shared memory. */
static __device__ __forceinline__ void
store_odd(float *c, int m, int n, int row0, int col0, const struct own &own,
          float sums[OWN_ROWS][TN], float *warp_s, const struct extras &x) {
    const int lane = threadIdx.x % 32;
    const size_t row = (size_t)row0 + own.row - lane / 8;
    const size_t col = (size_t)col0 + own.col - lane % 8 * 4;
#pragma unroll
    for (int i = 0; i < OWN_ROWS; i++)
#pragma unroll
        for (int j = 0; j < TN; j += 4)
            store_by_rows(c, m, n, row + 8 * i, 1, col + 8 * j, &sums[i][j],
                          warp_s, x);
}

/* Return the block's tile, or its piece of a tile; uncut tiles come first. */
static __device__ __forceinline__ struct piece
piece_of_block(const struct work &w) {
    const int cut = (int)blockIdx.x - w.whole;
    if (cut < 0) return {(int)blockIdx.x, 0, w.steps};
    const int unit = share(w, cut), tile = unit / w.steps;
    return {w.whole + tile, unit - tile * w.steps,
            share(w, cut + 1) - tile * w.steps};
}

static __global__ void __launch_bounds__(S::THREADS, S::BLOCKS)
    matmul_k_groups(float *c, const __grid_constant__ tensor_map a_map,
                    const __grid_constant__ tensor_map b_map, int m, int n,
                    const struct extras x, const struct work w) {
    extern __shared__ char raw_s[];
    __shared__ mbarrier full_s[S::STAGES], empty_s[S::STAGES];
    __shared__ unsigned before_s; // for add_pieces()
    __shared__ __align__(16) float out_s[S::WARPS * 128];
    const struct piece piece = piece_of_block(w);
    struct box box = {}; // the next box that thread 0 loads
    struct ring<S> ring = {(float *)aligned_1024(raw_s), full_s, empty_s, 0, 0};
    if (threadIdx.x == 0) {
        start_ring(ring);
        box.pieces = 1;
        open_box<S>(&box, piece, w, x);
    }
    __syncthreads();
    pdl_wait();
    if (threadIdx.x == 0)
#pragma unroll 1
        for (int s = 0; s < S::STAGES - 1; s++)
            fill_stage<S>(&box, ring, s, 0, &a_map, &b_map, w, x);

    const struct own own = own_part<S>();
    float acc[TM][TN];
    float4 a_r[2][TM], b_r[2][TN / 4];
    clear(acc);
    mbarrier_wait(&ring.full[0], 0);
    struct places at = open_stage<S>(a_r[0], b_r[0], ring.stage(), own);
    for (int left = piece.last - piece.first; left > 0; left--) {
        const int slot = ring.slot;
        if (threadIdx.x == 0)
            fill_stage<S>(&box, ring, slot ? slot - 1 : S::STAGES - 1,
                          slot ? ring.parity ^ 1 : ring.parity, &a_map, &b_map,
                          w, x);
        multiply_stage<S>(acc, a_r, b_r, &at, own, [&] {
            if (left > 1) {
                ring.next();
                mbarrier_wait(&ring.full[ring.slot], ring.parity);
            }
            return ring.stage();
        });
        __syncwarp();
        if (threadIdx.x % 32 == 0) mbarrier_arrive(&ring.empty[slot]);
    }
    __syncthreads(); // no thread reads the ring any more: reuse it for the sums
    float sums[OWN_ROWS][TN];
    add_groups(sums, acc, own, ring.stages);
    if (piece.last - piece.first < w.steps &&
        !add_pieces<OWN_ROWS, TN>(sums, blockIdx.x - w.whole, piece, w,
                                  &before_s))
        return;
    const struct place to = place_of<S::BM, S::BN>(piece.tile, w);
    c += to.z * x.step_c;
    const int row0 = to.row0 + own.group * OWN_ROWS * 8;
    if (takes_vectors(c, n))
        store_rows<S, OWN_ROWS>(c, m, n, row0, to.col0, own, sums, x);
    else
        store_odd(c, m, n, row0, to.col0, own, sums,
                  out_s + threadIdx.x / 32 * 128, x);
}

enum {
    MOST_PIECES = 8, // maximum number of pieces of a tile; one block adds them
    LEAST_STEPS = 2, // minimum number of steps in a piece
    WORTH = 1000000, // cut tiles only if that saves at least this many
                     // multiply-adds
};

/* Divide c into one tile per block. The tiles of the last round are cut along k
 * into enough pieces to keep all multiprocessors busy. */
static struct work small_work(const struct product *q) {
    struct work w = divide(q, S::BM, S::BN, BK, 1, 0);
    const int sms = matmul_multiprocessors(), left = w.tiles % sms;
    if (!left) return w;
    int pieces = sms / left < MOST_PIECES ? sms / left : MOST_PIECES;
    if (pieces > w.steps / LEAST_STEPS) pieces = w.steps / LEAST_STEPS;
    if (pieces < 2) return w;
    const double saved = w.steps - CEIL_DIV(w.steps, pieces);
    if (saved * S::BM * S::BN * BK < WORTH) return w;
    const int sharers = left * pieces;
    if (((double)left * w.steps + 1) * sharers > INT_MAX) return w;
    w.whole = w.tiles - left;
    w.units = left * w.steps;
    w.sharers = sharers;
    return w;
}

static size_t scratch(const struct product *q) {
    const struct work w = small_work(q);
    return work_bytes(&w, S::BM, S::BN, w.sharers);
}

static int launch(const struct product *q, cudaStream_t stream) {
    tensor_map a_map, b_map;
    WEFT_TRY(map_operands<S>(q, &a_map, &b_map));
    struct work w = small_work(q);
    WEFT_TRY(work_place(&w, q->scratch, stream));
    const dim3 grid((unsigned)(w.whole + w.sharers));
    const struct launch how = {"matmul_k_groups", grid,   dim3(S::THREADS),
                               S::SHARED_BYTES,   stream, w.units == 0};
    return launch_kernel(how, matmul_k_groups, q->c, a_map, b_map, q->m, q->n,
                         q->extras, w);
}

MATMUL_RUNG(k_groups, "groups of warps share a small tile's k", "fp32",
            WEFT_CPU | WEFT_CUDA, 90, ALIGNED, launch, scratch)
