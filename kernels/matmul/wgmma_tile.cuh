/* wgmma_tile.cuh -- what the three wgmma rungs share: how c is cut into tiles
 * and in which order, the ring of stages that one thread keeps full, and how a
 * tile leaves the registers.
 *
 * A block is three warpgroups and stays for the whole product. One is the
 * producer: one of its threads asks TMA for the next stage of a and b as soon
 * as a place in the ring is free, and gives its registers away. The other two
 * multiply, each 64 of the tile's BM rows with the same b.
 *
 * Two blocks side by side (a cluster) work on tiles that share their columns:
 * each loads half of b's stage and sends it to both, so that b crosses from the
 * L2 cache once for two.
 *
 * Bytes:   of a stage, 128 of k of every row of a and b: with BN = 256 and
 *          bf16 48 KB for 128 x 256 x 64 multiply-adds, 1024 cycles of the
 *          tensor cores; with a cluster 32 KB from L2: 32 bytes a cycle. */
#ifndef WEFT_WGMMA_TILE_CUH
#define WEFT_WGMMA_TILE_CUH
#include "../hopper.cuh"
#include "matmul.h"
#include "wgmma.cuh"

enum {
    WARPGROUP = 128,
    WGMMA_THREADS = 3 * WARPGROUP,
    BM = 128,
    OWN_ROWS = 64, // of the tile, a consumer's
    // 65536 registers for 3 warpgroups: 168 each at the start
    PRODUCER_REGISTERS = 40,
    CONSUMER_REGISTERS = 232,
};

/* ---- which tile ---------------------------------------------------------- */

/* How the matrices of a batch are cut; an argument of the kernel. */
struct tiles {
    int m, n, k;
    int down, across;     /* clusters of tiles over m, tiles over n */
    int count;            /* of all matrices, in clusters */
    int k_steps;          /* stages for one tile */
    int strip;            /* rows of clusters that are walked together */
    int cluster;          /* 1 or 2 blocks, one below the other */
    int boxed;            /* whether TMA can store c */
    int a_moves, b_moves; /* 0 where all matrices of the batch are the same */
};

struct tile {
    int row0, col0, item;
};

/* The number-th tile. Blocks that run at the same time should share rows of a
 * and columns of b in the L2 cache, so they take neither a row nor a column of
 * tiles but a rectangle: t.strip down, then the next column. */
PTX_INLINE struct tile tile_at(const struct tiles &t, int number, int bn) {
    const int item = number / (t.down * t.across);
    const int inside = number % (t.down * t.across);
    const int strip = inside / (t.strip * t.across);
    const int left = inside % (t.strip * t.across);
    const int most = t.down - strip * t.strip;
    const int height = most < t.strip ? most : t.strip;
    const int cluster_row = strip * t.strip + left % height;
    const int row = cluster_row * t.cluster + (int)cluster_rank();
    return {row * BM, left / height * bn, item};
}

/* The calling block's first tile, and how far it is to the next. */
PTX_INLINE int first_tile(const struct tiles &t) {
    return (int)blockIdx.x / t.cluster;
}
PTX_INLINE int tile_step(const struct tiles &t) {
    return (int)gridDim.x / t.cluster;
}

PTX_INLINE void cluster_sync(int cluster) {
    if (cluster == 1) {
        __syncthreads();
    } else {
        cluster_arrive();
        cluster_wait();
    }
}

/* ---- the ring ------------------------------------------------------------ */

/* A place in the ring of STAGES, and the parity of its use: 0 at first. */
template <int STAGES> struct place {
    int stage = 0;
    unsigned parity = 0;

    __device__ __forceinline__ void next() {
        if (++stage < STAGES) return;
        stage = 0;
        parity ^= 1;
    }
};

/* Full when the bytes are there, empty when two consumers in every block of the
 * cluster have said so. All threads call it. */
template <int STAGES>
PTX_INLINE void start_ring(mbarrier *full, mbarrier *empty, int cluster) {
    if (threadIdx.x == 0) {
        for (int i = 0; i < STAGES; i++) {
            mbarrier_init(&full[i], 1);
            mbarrier_init(&empty[i], 2 * cluster);
        }
        fence_barrier_init();
    }
    cluster_sync(cluster);
}

/* A block stays until nobody reaches into its shared memory any more. */
PTX_INLINE void end_ring(int cluster) {
    tma_store_wait<0>();
    if (cluster > 1) cluster_sync(cluster);
}

/* Both consumers of both blocks are done with a stage, which the other block
 * fills as well: tell both producers. */
PTX_INLINE void release(mbarrier *empty, int cluster) {
    const unsigned rank = threadIdx.x % WARPGROUP;
    if (cluster == 1) {
        if (rank == 0) mbarrier_arrive(empty);
    } else if (rank < (unsigned)cluster) {
        mbarrier_arrive_at(empty, rank);
    }
}

/* Rows of a (or columns of b) and k of one stage, as bytes and boxes of T:
 * where k runs along the rows one box, else a box for every 64. */
template <typename T, int WIDTH, int BY_K> struct operand {
    enum {
        BK = WGMMA_ROW / sizeof(T),
        BYTES = WIDTH * WGMMA_ROW,
        // From one wgmma's k to the next: 32 bytes of a row, or rows.
        K_STEP = BY_K ? 32 : 32 / (int)sizeof(T) * WGMMA_ROW,
        APART = BK * WGMMA_ROW, // of two boxes that are not by k
    };

    /* Part `part` of `parts` of the stage at `to`, for `blocks` of the cluster
     * or, where parts is 1, only for this one. */
    static __device__ __forceinline__ void load(char *to, const tensor_map *map,
                                                mbarrier *full, int k0,
                                                int start, int item, int part,
                                                int parts) {
        if (BY_K) {
            const int from = WIDTH / parts * part;
            one_box(to + from * WGMMA_ROW, map, full, k0, start + from, item,
                    parts);
        } else {
            const int each = WIDTH / 64 / parts;
            for (int i = part * each; i < (part + 1) * each; i++)
                one_box(to + i * APART, map, full, start + 64 * i, k0, item,
                        parts);
        }
    }

    static __device__ __forceinline__ void
    one_box(char *to, const tensor_map *map, mbarrier *full, int col, int row,
            int item, int parts) {
        if (parts == 1)
            tma_load(to, map, full, col, row, item);
        else
            tma_load_multicast(to, map, full, col, row, item,
                               (unsigned short)((1 << parts) - 1));
    }

    /* The map of an array of `width` rows (columns) and k. */
    static int make_map(tensor_map *map, enum tensor_type type,
                        const void *data, int width, int k, size_t pitch,
                        int batch, size_t step, int parts) {
        if (batch == 1) step = 0; // not looked at, and may be odd
        const struct tensor array = {type,
                                     data,
                                     (size_t)(BY_K ? k : width),
                                     (size_t)(BY_K ? width : k),
                                     pitch,
                                     (size_t)batch,
                                     step};
        return tensor_map_make(map, &array,
                               BY_K ? tensor_box{BK, WIDTH / parts, 1}
                                    : tensor_box{64, BK, 1});
    }
};

/* One thread of the producer: keep the ring full, tile after tile. S: how the
 * rung's stages look; of STAGE bytes LOADED are a, then b. */
template <class S>
static __device__ __forceinline__ void
produce(const tensor_map *a_map, const tensor_map *b_map, char *stages,
        mbarrier *full, mbarrier *empty, const struct tiles &t) {
    place<S::STAGES> at;
    const int rank = (int)cluster_rank();
    for (int i = first_tile(t); i < t.count; i += tile_step(t)) {
        const struct tile to = tile_at(t, i, S::BN);
        for (int step = 0; step < t.k_steps; step++) {
            mbarrier_wait(&empty[at.stage], at.parity ^ 1);
            mbarrier *const bar = &full[at.stage];
            char *const a_s = stages + at.stage * S::STAGE;
            mbarrier_expect(bar, S::LOADED);
            const int k0 = step * S::a::BK;
            S::a::load(a_s, a_map, bar, k0, to.row0, to.item * t.a_moves, 0, 1);
            S::b::load(a_s + S::a::BYTES, b_map, bar, k0, to.col0,
                       to.item * t.b_moves, rank, t.cluster);
            at.next();
        }
    }
}

/* ---- c ------------------------------------------------------------------- */

/* finish() for a consumer's part of a tile, kind by kind: what a call does not
 * want costs one branch for all. `row`, `col`: of the thread's first element.
 */
template <int COUNT>
PTX_INLINE void finish_tile(float (&acc)[COUNT], const float *c,
                            const struct tiles &t, int row, int col,
                            const struct extras &x) {
    if (x.alpha != 1.0f)
#pragma unroll
        for (int i = 0; i < COUNT; i++) acc[i] *= x.alpha;
    if (x.beta != 0.0f)
#pragma unroll
        for (int i = 0; i < COUNT; i++) {
            const int at_row = row + i / 2 % 2 * 8,
                      at_col = col + i / 4 * 8 + i % 2;
            if (at_row < t.m && at_col < t.n)
                acc[i] += x.beta * c[(size_t)at_row * t.n + at_col];
        }
    if (x.bias)
#pragma unroll
        for (int i = 0; i < COUNT; i++) {
            const int at_col = col + i / 4 * 8 + i % 2;
            if (at_col < t.n) acc[i] += x.bias[at_col];
        }
    if (x.relu)
#pragma unroll
        for (int i = 0; i < COUNT; i++) acc[i] = acc[i] < 0.0f ? 0.0f : acc[i];
}

/* Row and column of the calling thread's first element in the block's tile:
 * wgmma.cuh says where the others are. */
PTX_INLINE int own_row() {
    const int consumer = (int)threadIdx.x / WARPGROUP - 1;
    return consumer * OWN_ROWS + (int)threadIdx.x % WARPGROUP / 32 * 16 +
           (int)threadIdx.x % 32 / 4;
}
PTX_INLINE int own_col() { return (int)threadIdx.x % 4 * 2; }

/* Store a consumer's part of a tile from registers. Four lanes hold 8 columns
 * of a row: a warp writes to 8 lines at once, a sector of each. */
template <int COUNT>
PTX_INLINE void store_lanes(float *c, const float (&acc)[COUNT], int row,
                            int col, const struct tiles &t) {
    const bool pairs = t.n % 2 == 0 && (size_t)c % 8 == 0;
#pragma unroll
    for (int half = 0; half < 2; half++) {
        if (row + 8 * half >= t.m) break;
        float *const out = c + (size_t)(row + 8 * half) * t.n + col;
        if (pairs)
#pragma unroll
            for (int i = 0; i < COUNT / 4; i++) {
                if (col + 8 * i < t.n)
                    *(float2 *)(out + 8 * i) = make_float2(
                        acc[4 * i + 2 * half], acc[4 * i + 2 * half + 1]);
            }
        else
#pragma unroll
            for (int i = 0; i < COUNT / 4; i++) {
                if (col + 8 * i < t.n) out[8 * i] = acc[4 * i + 2 * half];
                if (col + 8 * i + 1 < t.n)
                    out[8 * i + 1] = acc[4 * i + 2 * half + 1];
            }
    }
}

enum { OUT_COLS = 32, OUT_BYTES = OWN_ROWS * WGMMA_ROW }; // of a box of c

/* The same by way of shared memory, 32 columns at a time, from where TMA takes
 * them away whole lines at a time while the threads write the next. BOXES: how
 * many there are room for at own_s. */
template <int BOXES, int COUNT>
PTX_INLINE void store_boxes(const tensor_map *c_map, char *own_s,
                            const float (&acc)[COUNT], const struct tile &at) {
    const int consumer =
        (int)threadIdx.x / WARPGROUP; // 1 or 2, and its barrier
    const int row = own_row() % OWN_ROWS;
    const bool leader = threadIdx.x % WARPGROUP == 0;
#pragma unroll
    for (int box = 0; box < COUNT / 16; box++) {
        char *const box_s = own_s + box % BOXES * OUT_BYTES;
        if (leader) tma_store_wait<BOXES - 1>(); // what was here has left
        named_barrier(consumer, WARPGROUP);
#pragma unroll
        for (int i = 0; i < 8; i++) {
            const int from = box * 16 + 2 * i, half = i % 2;
            const int byte = (row + 8 * half) * WGMMA_ROW + i / 2 * 32 +
                             own_col() * (int)sizeof(float);
            *(float2 *)(box_s + swizzled((unsigned)byte)) =
                make_float2(acc[from], acc[from + 1]);
        }
        fence_proxy_async();
        named_barrier(consumer, WARPGROUP);
        if (leader) {
            tma_store(c_map, box_s, at.col0 + box * OUT_COLS,
                      at.row0 + (consumer - 1) * OWN_ROWS, at.item);
            tma_store_commit();
        }
    }
}

/* Store a consumer's part of a tile, what the call wants besides done to it. */
template <class S>
PTX_INLINE void store_tile(float *c, const tensor_map *c_map, char *out_s,
                           float (&acc)[S::BN / 2], const struct tile &at,
                           const struct tiles &t, const struct extras &x) {
    c += at.item * x.step_c;
    const int row = at.row0 + own_row(), col = at.col0 + own_col();
    finish_tile(acc, c, t, row, col, x);
    const int consumer = (int)threadIdx.x / WARPGROUP - 1;
    if (t.boxed)
        store_boxes<S::BOXES>(c_map, out_s + consumer * S::BOXES * OUT_BYTES,
                              acc, at);
    else
        store_lanes(c, acc, row, col, t);
}

/* ---- launching ----------------------------------------------------------- */

static inline int multiprocessors(int *count) {
    int device = 0;
    WEFT_CUDA_TRY(cudaGetDevice(&device));
    WEFT_CUDA_TRY(
        cudaDeviceGetAttribute(count, cudaDevAttrMultiProcessorCount, device));
    return WEFT_OK;
}

/* TMA wants rows and matrices in multiples of 16 bytes. */
static inline int can_box(const struct product *q) {
    const size_t step = q->batch > 1 ? q->extras.step_c : 4;
    return q->n % 4 == 0 && (size_t)q->c % 16 == 0 && step && step % 4 == 0;
}

static inline int make_c_map(tensor_map *map, const struct product *q) {
    const size_t step = q->batch > 1 ? q->extras.step_c : 0;
    const struct tensor c = {TENSOR_FLOAT, q->c,         (size_t)q->n,
                             (size_t)q->m, (size_t)q->n, (size_t)q->batch,
                             step};
    if (!can_box(q)) {
        *map = tensor_map(); // not looked at
        return WEFT_OK;
    }
    return tensor_map_make(map, &c, tensor_box{OUT_COLS, OWN_ROWS, 1});
}

/* q cut into tiles of BM x bn, bk of k to a stage. */
static inline struct tiles cut(const struct product *q, int bn, int bk,
                               int cluster) {
    struct tiles t = {q->m,
                      q->n,
                      q->k,
                      0,
                      0,
                      0,
                      0,
                      16 / cluster,
                      cluster,
                      can_box(q),
                      q->extras.step_a != 0,
                      q->extras.step_b != 0};
    t.down = CEIL_DIV(q->m, BM * cluster);
    t.across = CEIL_DIV(q->n, bn);
    t.count = t.down * t.across * q->batch;
    t.k_steps = CEIL_DIV(q->k, bk);
    return t;
}

/* Tiles of 256 columns need the fewest loads, but where there are few of them
 * multiprocessors stand idle. Cycles, roughly: of a stage's products (twice as
 * many bytes for each at 64 columns), and of starting and storing a tile. */
static inline double tile_cost(const struct product *q, int bn, int bk,
                               int sms) {
    const struct tiles t = cut(q, bn, bk, 1);
    const double step = bn == 256 ? 1024 : bn == 128 ? 576 : 384;
    const double each = t.k_steps * step + 2000 + 16.0 * bn;
    return (double)CEIL_DIV(t.count, sms) * each;
}

static inline int best_width(const struct product *q, int bk, int sms) {
    int best = 256;
    for (int bn = 128; bn >= 64; bn /= 2)
        if (tile_cost(q, bn, bk, sms) < tile_cost(q, best, bk, sms)) best = bn;
    return best;
}

/* A cluster pays where blocks come back for many long tiles; it waits for the
 * slower of two. The CPU target has none. */
static inline int best_cluster(const struct product *q, int bn, int bk,
                               int sms) {
    const struct tiles t = cut(q, bn, bk, 1);
    return !PTX_TWIN && q->m > BM && t.count > 2 * sms && t.k_steps >= 32 ? 2
                                                                          : 1;
}

/* The kernel on as many blocks as there are multiprocessors, or tiles. */
template <class... P, class... A>
static int launch_tiles(const char *name, void (*kernel)(P...), int threads,
                        const struct tiles &t, int sms, size_t shared,
                        cudaStream_t stream, A... arguments) {
    WEFT_CUDA_TRY(cudaFuncSetAttribute(
        kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)shared));
    const int clusters = sms / t.cluster;
    cudaLaunchAttribute side_by_side = {};
    side_by_side.id = cudaLaunchAttributeClusterDimension;
    side_by_side.val.clusterDim.x = (unsigned)t.cluster;
    side_by_side.val.clusterDim.y = side_by_side.val.clusterDim.z = 1;
    cudaLaunchConfig_t config = {};
    config.gridDim =
        dim3((unsigned)((t.count < clusters ? t.count : clusters) * t.cluster));
    config.blockDim = dim3((unsigned)threads);
    config.dynamicSmemBytes = shared;
    config.stream = stream;
    config.attrs = &side_by_side;
    config.numAttrs = t.cluster > 1 ? 1 : 0;
    const cudaError_t error = cudaLaunchKernelEx(&config, kernel, arguments...);
    cudaGetLastError(); // not sticky
    return error ? weft_cuda_fail(error, name) : WEFT_OK;
}
#endif
