/* wgmma_store.cuh -- the stores of a tile of c from the registers of a wgmma
 * rung.
 *
 * Before:  each lane stored its pairs directly, so a warp wrote to 8 lines at a
 *          time, 32 bytes of each. All multiprocessors stored at the same time,
 *          between two tiles, while the tensor cores were idle.
 * Idea:    keep two boxes of 32 columns in shared memory. While TMA stores one
 *          of them in whole lines, the threads write the other. If rows of c do
 *          not start at multiples of 16 bytes, warps store the lines instead.
 * Limit:   the tensor cores still wait: the 128 KB of a tile do not fit into
 *          shared memory with the ring. Without any stores bf16 would take 171
 *          us at 4096 and 1361 at 8192; cuBLAS takes 181 and 1414. With lines
 *          stored by warps, 4097x17x4097 takes 51 us, while 4096x17x4096 takes
 *          23. Storing two boxes together, with rows cut at 32-byte sectors,
 *          takes 103.
 *
 * Measured (H200, bf16, cool, relative to cuBLAS): 4096 from 0.963 to 0.985,
 * 8192 from 0.999 to 1.003, 5120x256x5120 from 0.78 to 0.97. With three stages
 * and four boxes instead of four stages and two boxes, 4096 reaches 0.947. */
#ifndef WEFT_WGMMA_STORE_CUH
#define WEFT_WGMMA_STORE_CUH
#include "wgmma_tile.cuh"

/* The places in c of a thread's accumulators: row and column of the first, and
 * the offsets of the rest. `TURNED`: for a rung that computes c^T.
 *
 * In that case wgmma's rows are columns of c, in a different order. Of 8 rows,
 * rows 0 to 3 are four neighbours and rows 4 to 7 are 16 columns further on.
 * The next 8 rows are 4 columns further on. So the lanes of turned_fragments()
 * read from different banks. */
template <int TURNED> struct spot {
    int row, col, rows, cols; // place of the first accumulator; size of c

    /* `thread`: the thread's index among both consumers. */
    __device__ __forceinline__ spot(const struct tile &at,
                                    const struct tiles &t, int thread) {
        const int warp = thread % WARPGROUP / 32;
        const int g = thread % 32 / 4, pair = thread % 4 * 2;
        const int first = thread / WARPGROUP * OWN_ROWS;
        if (TURNED) {
            row = at.col0 + pair;
            col = at.row0 + first + turned_row(warp, g);
            rows = t.n;
            cols = t.m;
        } else {
            row = at.row0 + first + warp * 16 + g;
            col = at.col0 + pair;
            rows = t.m;
            cols = t.n;
        }
    }

    /* Return the row offset of accumulator i. */
    static __device__ __forceinline__ int down(int i) {
        return TURNED ? i / 4 * 8 + i % 2 : i / 2 % 2 * 8;
    }
    static __device__ __forceinline__ int along(int i) {
        return TURNED ? i / 2 % 2 * 4 : i / 4 * 8 + i % 2;
    }
    __device__ __forceinline__ bool inside(int i) const {
        return row + down(i) < rows && col + along(i) < cols;
    }
    __device__ __forceinline__ size_t at(int i) const {
        return (size_t)(row + down(i)) * cols + col + along(i);
    }
};

/* Apply finish() to a consumer's part of a tile, one operation after another.
 * So an operation that a call does not use costs one branch in total. */
template <int TURNED, int COUNT>
PTX_INLINE void finish_tile(float (&acc)[COUNT], const float *c,
                            const spot<TURNED> &own, const struct extras &x) {
    if (x.alpha != 1.0f)
#pragma unroll
        for (int i = 0; i < COUNT; i++) acc[i] *= x.alpha;
    if (x.beta != 0.0f)
#pragma unroll
        for (int i = 0; i < COUNT; i++)
            if (own.inside(i)) acc[i] += x.beta * c[own.at(i)];
    if (x.bias)
#pragma unroll
        for (int i = 0; i < COUNT; i++)
            if (own.col + own.along(i) < own.cols)
                acc[i] += x.bias[own.col + own.along(i)];
    if (x.relu)
#pragma unroll
        for (int i = 0; i < COUNT; i++) acc[i] = acc[i] < 0.0f ? 0.0f : acc[i];
}

enum { OUT_COLS = 32, OUT_BYTES = OWN_ROWS * WGMMA_ROW }; // size of a box of c

/* Write a box at box_s: 32 columns of a consumer's 64 rows. */
template <int COUNT>
PTX_INLINE void write_box(char *box_s, const float (&acc)[COUNT], int box,
                          const spot<0> &) {
    const int row = (int)threadIdx.x % WARPGROUP / 32 * 16 +
                    (int)threadIdx.x % 32 / 4,
              col = (int)threadIdx.x % 4 * 2;
#pragma unroll
    for (int i = 0; i < 8; i++) {
        const int from = box * 16 + 2 * i, half = i % 2;
        const int byte = (row + 8 * half) * WGMMA_ROW + i / 2 * 32 +
                         col * (int)sizeof(float);
        *(float2 *)(box_s + swizzled((unsigned)byte)) =
            make_float2(acc[from], acc[from + 1]);
    }
}

/* Write two boxes of 32 columns and 32 rows that are adjacent in c, for a
 * turned tile. The lanes of one instruction have rows 2 t + j and chunks c and
 * c ^ 4 of 16 bytes. Lanes with c ^ 4 use the other j; otherwise, rows 4 apart
 * would collide in a bank. */
template <int COUNT>
PTX_INLINE void write_box(char *box_s, const float (&acc)[COUNT], int box,
                          const spot<1> &) {
    const int thread = (int)threadIdx.x % WARPGROUP, pair = thread % 4 * 2;
    const int col = turned_row(thread / 32, thread % 32 / 4);
    const int other = thread % 32 / 16;
    char *const from = box_s + col / OUT_COLS * (OUT_BYTES / 2) +
                       col % OUT_COLS * (int)sizeof(float);
#pragma unroll
    for (int i = 0; i < 16; i++) {
        const int at = box * 16 + i;
        const int row = i / 4 * 8 + pair + (i % 2 ^ other);
        const int byte = (int)(from - box_s) + row * WGMMA_ROW +
                         spot<1>::along(i) * (int)sizeof(float);
        *(float *)(box_s + swizzled((unsigned)byte)) =
            other ? acc[at ^ 1] : acc[at];
    }
}

/* The place in c of a consumer's box. */
struct corner {
    int row, col;
};

/* Return where line `line` of 64 in a consumer's box begins. Lines are adjacent
 * rows of c or, for a turned tile, 32 rows of each of two boxes. */
PTX_INLINE struct corner line_at(int line, int box, const struct tile &at,
                                 const spot<0> &) {
    const int first = ((int)threadIdx.x / WARPGROUP - 1) * OWN_ROWS;
    return {at.row0 + first + line, at.col0 + box * OUT_COLS};
}
PTX_INLINE struct corner line_at(int line, int box, const struct tile &at,
                                 const spot<1> &) {
    const int first = ((int)threadIdx.x / WARPGROUP - 1) * OWN_ROWS;
    return {at.col0 + box * 32 + line % 32,
            at.row0 + first + line / 32 * OUT_COLS};
}

/* Store a box by TMA; one thread calls this. */
template <int TURNED>
PTX_INLINE void send_box(const tensor_map *c_map, const char *box_s, int box,
                         const struct tile &at, const spot<TURNED> &own) {
    for (int line = 0; line < OWN_ROWS; line += TURNED ? 32 : OWN_ROWS) {
        const struct corner to = line_at(line, box, at, own);
        tma_store(c_map, box_s + line * WGMMA_ROW, to.col, to.row, at.item);
    }
    tma_store_commit();
}

/* Store a box without TMA if c's alignment rules TMA out. All threads of a
 * consumer call this function, and each warp stores a line at a time. */
template <int TURNED>
PTX_INLINE void carry_box(float *c, const char *box_s, int box,
                          const struct tile &at, const spot<TURNED> &own) {
    const int lane = (int)threadIdx.x % 32;
#pragma unroll 4
    for (int line = (int)threadIdx.x % WARPGROUP / 32; line < OWN_ROWS;
         line += WARPGROUP / 32) {
        const struct corner to = line_at(line, box, at, own);
        const int byte = line * WGMMA_ROW + lane * (int)sizeof(float);
        if (to.row < own.rows && to.col + lane < own.cols)
            c[(size_t)to.row * own.cols + to.col + lane] =
                *(const float *)(box_s + swizzled((unsigned)byte));
    }
}

/* Store a consumer's part of a tile through shared memory, a box at a time:
 * while one is being stored, the threads write the next. BOXES: the number of
 * boxes that fit at own_s, at least 2. */
template <int BOXES, int TURNED, int COUNT>
PTX_INLINE void store_boxes(float *c, const tensor_map *c_map, int boxed,
                            char *own_s, const float (&acc)[COUNT],
                            const struct tile &at, const spot<TURNED> &own) {
    const int consumer =
        (int)threadIdx.x / WARPGROUP; // 1 or 2, also the number of the
                                      // consumer's barrier
    const bool leader = threadIdx.x % WARPGROUP == 0;
#pragma unroll
    for (int box = 0; box < COUNT / 16; box++) {
        char *const box_s = own_s + box % BOXES * OUT_BYTES;
        if (boxed) {
            if (leader) tma_store_wait<BOXES - 1>(); // box_s is free again
            named_barrier(consumer, WARPGROUP);
        }
        write_box(box_s, acc, box, own);
        fence_proxy_async();
        named_barrier(consumer, WARPGROUP);
        if (!boxed)
            carry_box(c, box_s, box, at, own);
        else if (leader)
            send_box(c_map, box_s, box, at, own);
    }
}

/* Store a consumer's part of a tile after applying the call's other
 * operations. */
template <class S, int TURNED>
PTX_INLINE void store_tile(float *c, const tensor_map *c_map, char *out_s,
                           float (&acc)[S::BN / 2], const struct tile &at,
                           const struct tiles &t, const struct extras &x) {
    c += at.item * x.step_c;
    const spot<TURNED> own(at, t, (int)threadIdx.x - WARPGROUP);
    finish_tile(acc, c, own, x);
    const int consumer = (int)threadIdx.x / WARPGROUP - 1;
    store_boxes<S::BOXES>(c, c_map, t.boxed,
                          out_s + consumer * S::BOXES * OUT_BYTES, acc, at,
                          own);
}

/* Return whether TMA can store c: rows and matrices must start at multiples of
 * 16 bytes. */
static inline int can_box(const struct product *q) {
    const size_t step = q->batch > 1 ? q->extras.step_c : 4;
    return q->n % 4 == 0 && (size_t)q->c % 16 == 0 && step && step % 4 == 0;
}

/* Make the map with which TMA stores c, whose layout is in q; t->boxed receives
 * whether TMA can store it. Returns a weft_status. */
static inline int make_c_map(tensor_map *map, const struct product *q,
                             int turned, struct tiles *t) {
    const struct tensor c = {TENSOR_FLOAT,    q->c,         (size_t)q->n,
                             (size_t)q->m,    (size_t)q->n, (size_t)q->batch,
                             q->extras.step_c};
    t->boxed = can_box(q);
    if (!t->boxed) {
        *map = tensor_map(); // unused
        return WEFT_OK;
    }
    return tensor_map_make(map, &c,
                           tensor_box{OUT_COLS, turned ? 32 : OWN_ROWS, 1});
}

#endif
