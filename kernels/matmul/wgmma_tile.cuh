/* wgmma_tile.cuh -- code shared by the wgmma rungs: the division of c into
 * tiles, their order, and the ring of stages that one thread fills.
 * wgmma_store.cuh stores a tile from the registers; wgmma_launch.cuh launches
 * everything.
 *
 * A block has three warpgroups and persists for the whole product. One
 * warpgroup is the producer. One of its threads requests the next stage of a
 * and b from TMA as soon as a place in the ring is free. The producer gives
 * most of its registers to the others. The two other warpgroups, the consumers,
 * each multiply 64 of the tile's BM rows by the same b.
 *
 * A rung may compute c^T = b^T a^T instead ("turned"). In this file, a then
 * means b^T, b means a^T, and m means n; only wgmma_store.cuh uses c's real
 * layout.
 *
 * Two neighbouring blocks (a cluster) work on tiles that share their columns.
 * Each loads half of b's stage and sends it to both, so b is read from the L2
 * cache once for two blocks.
 *
 * Bytes:   a stage has 128 bytes along k of every row of a and b. With BN = 256
 *          and bf16 that is 48 KB for 128 x 256 x 64 multiply-adds, 1024 cycles
 *          of the tensor cores; with a cluster 32 KB from L2: 32 bytes a
 *          cycle. */
#ifndef WEFT_WGMMA_TILE_CUH
#define WEFT_WGMMA_TILE_CUH
#include "common/hopper.cuh"
#include "matmul.h"
#include "wgmma.cuh"

enum {
    WARPGROUP = 128,
    WGMMA_THREADS = 3 * WARPGROUP,
    BM = 128,
    OWN_ROWS = 64, // rows of the tile for each consumer
    // 65536 registers for 3 warpgroups: 168 per thread at the start.
    PRODUCER_REGISTERS = 40,
    CONSUMER_REGISTERS = 232,
};

/* ---- choosing a tile ----------------------------------------------------- */

/* The division of the matrices of a batch into tiles; an argument of the
 * kernel. */
struct tiles {
    int m, n, k;
    int width;            /* columns of a tile */
    int down, across;     /* clusters of tiles along m, tiles along n */
    int count;            /* clusters in all matrices */
    int k_steps;          /* stages for one tile */
    int whole;            /* number of leading tiles that are computed in one
                           * piece */
    int parts;            /* number of parts of k for each of the other tiles */
    int part_steps;       /* stages per part; the last part may have fewer */
    float *sums;          /* the parts' sums: see wgmma_parts.cuh */
    int strip;            /* rows of clusters that are traversed together */
    int cluster;          /* blocks in a cluster, 1 or 2, one below the other */
    int boxed;            /* whether TMA can store c: see make_c_map() */
    int a_moves, b_moves; /* 0 if all matrices of the batch are the same */
};

struct tile {
    int row0, col0, item;
};

/* A block's unit of work: stages `first` to `last` - 1 of a tile. */
struct piece {
    struct tile at;
    int first, last;
    int part; /* index among all parts, or -1 for a whole tile */
};

/* Return tile `number` for block `rank` of the cluster. Concurrent blocks
 * should share rows of a and columns of b in the L2 cache. So they compute
 * neither a row nor a column of tiles but a rectangle: t.strip tiles down, then
 * the next column. */
PTX_INLINE struct tile tile_at(const struct tiles &t, int number, int rank,
                               int bn) {
    const int item = number / (t.down * t.across);
    const int inside = number % (t.down * t.across);
    const int strip = inside / (t.strip * t.across);
    const int left = inside % (t.strip * t.across);
    const int most = t.down - strip * t.strip;
    const int height = most < t.strip ? most : t.strip;
    const int cluster_row = strip * t.strip + left % height;
    const int row = cluster_row * t.cluster + rank;
    return {row * BM, left / height * bn, item};
}

/* pieces() returns the number of pieces, piece_at() the piece `number`. */
__host__ __device__ inline int pieces(const struct tiles &t) {
    return t.whole + (t.count - t.whole) * t.parts;
}
PTX_INLINE struct piece piece_at(const struct tiles &t, int number, int bn) {
    const int rank = (int)cluster_rank();
    if (number < t.whole)
        return {tile_at(t, number, rank, bn), 0, t.k_steps, -1};
    const int part = number - t.whole;
    const int first = part % t.parts * t.part_steps;
    const int left = t.k_steps - first;
    return {tile_at(t, t.whole + part / t.parts, rank, bn), first,
            first + (left < t.part_steps ? left : t.part_steps), part};
}

/* Return the number of the calling block's first piece, and the step to its
 * next one. */
PTX_INLINE int first_piece(const struct tiles &t) {
    return (int)blockIdx.x / t.cluster;
}
PTX_INLINE int piece_step(const struct tiles &t) {
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

/* A place in the ring of STAGES, and the parity of its use, which starts at
 * 0. */
template <int STAGES> struct place {
    int stage = 0;
    unsigned parity = 0;

    __device__ __forceinline__ void next() {
        if (++stage < STAGES) return;
        stage = 0;
        parity ^= 1;
    }
};

/* Initialise the ring. A stage is full when its bytes have arrived, and empty
 * when two consumers in every block of the cluster have reported. All threads
 * call this function. Until it returns, the previous kernel may still run. */
template <int STAGES>
PTX_INLINE void start_ring(mbarrier *full, mbarrier *empty,
                           const tensor_map *a_map, const tensor_map *b_map,
                           int cluster) {
    if (threadIdx.x == 0) {
        tensor_map_fetch(a_map);
        tensor_map_fetch(b_map);
        for (int i = 0; i < STAGES; i++) {
            mbarrier_init(&full[i], 1);
            mbarrier_init(&empty[i], 2 * cluster);
        }
        fence_barrier_init();
    }
    cluster_sync(cluster);
    pdl_wait(); // earlier kernels have written a and b
}

/* Keep the block alive until no other block accesses its shared memory. */
PTX_INLINE void end_ring(int cluster) {
    tma_store_wait<0>();
    if (cluster > 1) cluster_sync(cluster);
}

/* Report to the producers of both blocks that this consumer has read a stage,
 * since the other block also fills the stage. */
PTX_INLINE void release(mbarrier *empty, int cluster) {
    const unsigned rank = threadIdx.x % WARPGROUP;
    if (rank < (unsigned)cluster) mbarrier_arrive_at(empty, rank);
}

/* A stage of an operand: WIDTH rows of a (or columns of b) x BK of k, of type
 * T. If k runs along the rows, TMA loads one box, otherwise a box for every 128
 * bytes. */
template <typename T, int WIDTH, int BY_K> struct operand {
    enum {
        BK = WGMMA_ROW / sizeof(T),
        ACROSS = BK, // rows of a in a box in which k does not run along the
                     // rows
        BYTES = WIDTH * WGMMA_ROW,
        // The bytes from one wgmma's k to the next one's: 32 in a row, or whole
        // rows.
        K_STEP = BY_K ? 32 : 32 / (int)sizeof(T) * WGMMA_ROW,
        APART = BK * WGMMA_ROW, // distance between such boxes
    };

    /* Load part `part` of `parts` of the stage at `to`. Every block of the
     * cluster receives it or, if parts is 1, only the calling block. */
    static __device__ __forceinline__ void load(char *to, const tensor_map *map,
                                                mbarrier *full, int k0,
                                                int start, int item, int part,
                                                int parts) {
        if (BY_K) {
            const int from = WIDTH / parts * part;
            one_box(to + from * WGMMA_ROW, map, full, k0, start + from, item,
                    parts);
        } else {
            const int each = WIDTH / ACROSS / parts;
            for (int i = part * each; i < (part + 1) * each; i++)
                one_box(to + i * APART, map, full, start + ACROSS * i, k0, item,
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

    /* Make the map of an array of `width` rows (or columns) x k. Returns a
     * weft_status. */
    static int make_map(tensor_map *map, enum tensor_type type,
                        const void *data, int width, int k, size_t pitch,
                        int batch, size_t step, int parts) {
        const struct tensor array = {type,
                                     data,
                                     (size_t)(BY_K ? k : width),
                                     (size_t)(BY_K ? width : k),
                                     pitch,
                                     (size_t)batch,
                                     step};
        return tensor_map_make(map, &array,
                               BY_K ? tensor_box{BK, WIDTH / parts, 1}
                                    : tensor_box{ACROSS, BK, 1});
    }
};

/* ---- a in registers, from a tile whose rows do not run along k ----------- */

/* Return the row, of a consumer's 64, that serves as row g of wgmma for warp
 * `warp`. Row g + 8 is four rows further on. */
PTX_INLINE int turned_row(int warp, int g) {
    return warp / 2 * 32 + warp % 2 * 8 + g / 4 * 16 + g % 4;
}

/* Load the calling thread's part of 64 rows x 32 of k in the layout of
 * wgmma_tf32(). The boxes have 32 rows and are stored one k after another, 128
 * bytes each. The lanes of one load have k = t and chunks c and c ^ 4 of 16
 * bytes. The swizzle turns these into chunks c ^ t and c ^ t ^ 4, which cover
 * all 32 banks without conflicts. With rows in order the chunks would be c and
 * c ^ 1, and would collide in pairs. */
static __device__ __forceinline__ void turned_fragments(uint32_t a_r[4][4],
                                                        const char *a_s) {
    const int thread = (int)threadIdx.x % WARPGROUP, t = thread % 4;
    const int row = turned_row(thread / 32, thread % 32 / 4);
    const char *const box = a_s + row / 32 * (32 * WGMMA_ROW);
#pragma unroll
    for (int q = 0; q < 4; q++)
#pragma unroll
        for (int i = 0; i < 4; i++) {
            const int k = t + i / 2 * 4, at = row % 32 + i % 2 * 4;
            a_r[q][i] = *(
                const uint32_t *)(box + q * WGMMA_GROUP +
                                  swizzled((unsigned)(k * WGMMA_ROW + at * 4)));
        }
}

/* Do the work of the single producer thread: keep the ring full, piece after
 * piece. S describes the rung's stages. The LOADED bytes of a stage are a, then
 * b. With a lo_map, b's low parts follow, in b's layout.
 *
 * Every other piece reads its k backwards, since the L2 cache still has the
 * parts that the blocks read last. */
template <class S>
static __device__ __forceinline__ void
produce(const tensor_map *a_map, const tensor_map *b_map, char *stages,
        mbarrier *full, mbarrier *empty, const struct tiles &t,
        const tensor_map *lo_map = NULL) {
    place<S::STAGES> at;
    const int rank = (int)cluster_rank();
    bool back = false;
    for (int i = first_piece(t); i < pieces(t); i += piece_step(t)) {
        const struct piece p = piece_at(t, i, S::BN);
        const int a_item = p.at.item * t.a_moves;
        const int b_item = p.at.item * t.b_moves;
        for (int step = p.first; step < p.last; step++) {
            mbarrier_wait(&empty[at.stage], at.parity ^ 1);
            mbarrier *const bar = &full[at.stage];
            char *const a_s = stages + at.stage * S::STAGE;
            char *const b_s = a_s + S::a::BYTES;
            mbarrier_expect(bar, S::LOADED);
            const int k0 =
                (back ? p.first + p.last - 1 - step : step) * S::a::BK;
            S::a::load(a_s, a_map, bar, k0, p.at.row0, a_item, 0, 1);
            S::b::load(b_s, b_map, bar, k0, p.at.col0, b_item, rank, t.cluster);
            if (lo_map)
                S::b::load(b_s + S::b::BYTES, lo_map, bar, k0, p.at.col0,
                           b_item, rank, t.cluster);
            at.next();
        }
        back = !back;
    }
}

#endif
