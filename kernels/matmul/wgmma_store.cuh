/* wgmma_store.cuh -- how a tile of c leaves the registers of a wgmma rung.
 *
 * Before:  each lane stored its own pairs: a warp wrote to 8 lines at once, 32
 *          bytes of each, and all multiprocessors at the same time, between
 *          two tiles, while the tensor cores had nothing to do.
 * Idea:    two boxes of 32 columns in shared memory. While TMA takes one away,
 *          in whole lines, the threads write the other.
 * Limit:   the tensor cores still wait: 128 KB of a tile do not fit beside the
 *          ring. Without any stores bf16 would take 171 us at 4096 and 1361 at
 *          8192 where cuBLAS takes 181 and 1414.
 * Measured (H200, bf16, cool, of cuBLAS): 4096 from 0.963 to 0.985, 8192 from
 *          0.999 to 1.003, 5120x256x5120 from 0.78 to 0.97. Three stages and
 *          room for four boxes, instead of four and two: 0.947 at 4096. */
#ifndef WEFT_WGMMA_STORE_CUH
#define WEFT_WGMMA_STORE_CUH
#include "wgmma_tile.cuh"

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

#endif
