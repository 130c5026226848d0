/* pack.cu -- one pass that copies an operand: transposed, or padded, or
 * both. */
#include "common/ptx.cuh"
#include "pack.h"

#include <string.h>

enum {
    LANES = 32, // threads along a row
    WARPS = 8,
    AT_ONCE = 4,      // rows that a thread loads at the same time
    SIDE = 2 * LANES, // side of a square tile that is transposed
    ROUNDS = SIDE * SIDE / (LANES * WARPS),
    MAX_GRID = 65535,
    ROOM_STEP = 256
};

/* A copy: `batch` matrices of rows x cols elements. */
struct copy {
    const void *from;
    size_t pitch, step; /* elements from row to row and from matrix to matrix */
    void *to;
    size_t to_pitch, to_step;
    int rows, cols, batch; /* size of `from` */
    int transposed;        /* 1: `to` has `cols` rows of `rows` elements */
    size_t bytes;          /* size of `to`; 0: there is nothing to copy */
};

/* The blocks for each matrix of a copy. If `down` is too few for all rows, each
 * block copies several pieces. */
struct blocks {
    unsigned across, down;
};

static struct blocks blocks_of(const struct copy *p) {
    if (!p->bytes) return {1, 0};
    const size_t across = p->transposed ? CEIL_DIV((size_t)p->cols, SIDE)
                                        : CEIL_DIV(p->to_pitch, LANES);
    const size_t down = p->transposed
                            ? CEIL_DIV(p->to_pitch, SIDE)
                            : CEIL_DIV((size_t)p->rows, WARPS * AT_ONCE);
    return {(unsigned)across,
            (unsigned)(down < MAX_GRID ? down : (size_t)MAX_GRID)};
}

/* Copy `from` (rows,cols) to `to` (rows,to_pitch), with zeros after each row:
 * columns starting at col0, and rows from row0 in steps of `further`. Rows that
 * need this copy start at any address, so numbers are copied one by one, but
 * several are in flight. */
template <typename T>
static __device__ __forceinline__ void copy_rows(const struct copy &p, T *to,
                                                 const T *from, size_t col0,
                                                 size_t row0, size_t further) {
    const size_t rows = (size_t)p.rows, cols = (size_t)p.cols;
    const size_t col = col0 + threadIdx.x;
    if (col >= p.to_pitch) return;
    for (row0 += threadIdx.y; row0 < rows; row0 += further) {
        T own[AT_ONCE];
        for (int i = 0; i < AT_ONCE; i++) {
            const size_t row = row0 + i * WARPS;
            own[i] =
                row < rows && col < cols ? from[row * p.pitch + col] : T(0);
        }
        for (int i = 0; i < AT_ONCE; i++) {
            const size_t row = row0 + i * WARPS;
            if (row < rows) to[row * p.to_pitch + col] = own[i];
        }
    }
}

/* Copy `from` (rows,cols), transposed, to `to` (cols,to_pitch), with zeros
 * after each row: columns starting at col0, and rows from row0 in steps of
 * `further`. A tile is read along its rows and written along its columns, 256
 * bytes of floats each. The pitch of SIDE + 1 spreads a column over 32
 * banks. */
template <typename T>
static __device__ __forceinline__ void
copy_transposed(const struct copy &p, T (*tile_s)[SIDE + 1], T *to,
                const T *from, size_t col0, size_t row0, size_t further) {
    const size_t rows = (size_t)p.rows, cols = (size_t)p.cols;
    for (; row0 < p.to_pitch; row0 += further) {
#pragma unroll
        for (int round = 0; round < ROUNDS; round++) {
            const int i = round / 2 * WARPS + threadIdx.y;
            const int j = round % 2 * LANES + threadIdx.x;
            const size_t row = row0 + i, col = col0 + j;
            const bool there = row < rows && col < cols;
            tile_s[i][j] = there ? from[row * p.pitch + col] : T(0);
        }
        __syncthreads(); // the tile is complete ...
#pragma unroll
        for (int round = 0; round < ROUNDS; round++) {
            const int i = round / 2 * WARPS + threadIdx.y;
            const int j = round % 2 * LANES + threadIdx.x;
            const size_t row = col0 + i, col = row0 + j;
            if (row < cols && col < p.to_pitch)
                to[row * p.to_pitch + col] = tile_s[j][i];
        }
        __syncthreads(); // ... and has been read
    }
}

/* The copies of both operands, with a's blocks first. One launch for two copies
 * saves 2 us. */
struct both {
    struct copy copies[2];
    struct blocks blocks[2];
};

template <typename T>
static __global__ void __launch_bounds__(LANES *WARPS, 4)
    pack_both(const __grid_constant__ struct both both) {
    __shared__ T tile_s[SIDE][SIDE + 1];
    const unsigned of_a = both.blocks[0].across * both.blocks[0].down;
    const int which = blockIdx.x < of_a ? 0 : 1;
    const unsigned block = blockIdx.x - (which ? of_a : 0);
    const struct copy &p = both.copies[which];
    const struct blocks &blocks = both.blocks[which];
    if (blockIdx.z >= (unsigned)p.batch) return;
    T *const to = (T *)p.to + blockIdx.z * p.to_step;
    const T *const from = (const T *)p.from + blockIdx.z * p.step;
    const size_t x = block % blocks.across, y = block / blocks.across;
    pdl_wait(); // earlier kernels have written the operands and read `to`
    if (p.transposed)
        copy_transposed(p, tile_s, to, from, x * SIDE, y * SIDE,
                        (size_t)blocks.down * SIDE);
    else
        copy_rows(p, to, from, x * LANES, y * WARPS * AT_ONCE,
                  (size_t)blocks.down * WARPS * AT_ONCE);
}

template <typename T>
static int launch_copies(const struct copy *a, const struct copy *b,
                         cudaStream_t stream) {
    const struct both both = {{*a, *b}, {blocks_of(a), blocks_of(b)}};
    unsigned blocks = 0, batch = 1;
    for (int i = 0; i < 2; i++) {
        const unsigned deep = (unsigned)both.copies[i].batch;
        blocks += both.blocks[i].across * both.blocks[i].down;
        if (both.blocks[i].down && deep > batch) batch = deep;
    }
    return launch_kernel(
        {"pack_both", dim3(blocks, 1, batch), dim3(LANES, WARPS), 0, stream, 1},
        pack_both<T>, both);
}

/* ---- the operands to copy, and their places ------------------------------ */

size_t matmul_element(const struct matmul_rung *rung) {
    // The names "fp16" and "bf16" end in the number of bits of an element.
    const char *precision = rung->line.precision;
    return strcmp(precision, "fp16") && strcmp(precision, "bf16") ? 4 : 2;
}

/* Return whether an operand has the alignment that ALIGNED requires. */
static int is_aligned(const void *array, size_t pitch, size_t step, int batch,
                      size_t element) {
    return (size_t)array % 16 == 0 && pitch * element % 16 == 0 &&
           (batch == 1 || step * element % 16 == 0);
}

/* Return the copy that an operand (rows,cols as stored) needs; its `bytes` is 0
 * if none is needed. */
static struct copy plan(const void *from, size_t pitch, size_t step, int rows,
                        int cols, int batch, int transposed, int aligned,
                        size_t element) {
    struct copy p = {from,
                     pitch,
                     step,
                     NULL,
                     0,
                     0,
                     rows,
                     cols,
                     step ? batch : 1, // identical matrices need only one copy
                     transposed,
                     0};
    if (!transposed &&
        (!aligned || is_aligned(from, pitch, step, batch, element)))
        return p;
    const size_t width = (size_t)(transposed ? rows : cols), by = 16 / element;
    p.to_pitch = aligned ? CEIL_DIV(width, by) * by : width;
    const size_t one = p.to_pitch * (size_t)(transposed ? cols : rows);
    p.to_step = step ? one : 0;
    p.bytes = CEIL_DIV(one * p.batch * element, ROOM_STEP) * ROOM_STEP;
    return p;
}

static struct copy plan_a(const struct product *q,
                          const struct matmul_rung *rung) {
    return plan(q->a, q->extras.pitch_a, q->extras.step_a,
                q->trans_a ? q->k : q->m, q->trans_a ? q->m : q->k, q->batch,
                q->trans_a && !(rung->needs & ANY_A), rung->needs & ALIGNED,
                matmul_element(rung));
}

static struct copy plan_b(const struct product *q,
                          const struct matmul_rung *rung) {
    const int transposed = rung->needs & B_BY_N
                               ? !q->trans_b
                               : q->trans_b && !(rung->needs & ANY_B);
    return plan(q->b, q->extras.pitch_b, q->extras.step_b,
                q->trans_b ? q->n : q->k, q->trans_b ? q->k : q->n, q->batch,
                transposed, rung->needs & ALIGNED, matmul_element(rung));
}

size_t matmul_pack_bytes(const struct product *q,
                         const struct matmul_rung *rung) {
    return plan_a(q, rung).bytes + plan_b(q, rung).bytes;
}

/* Replace an operand with its copy. */
static void take(struct copy *p, void *to, const void **array, size_t *pitch,
                 size_t *step, int *trans) {
    p->to = to;
    *array = to;
    *pitch = p->to_pitch;
    *step = p->to_step;
    if (p->transposed) *trans = !*trans;
}

static void take_both(struct product *q, struct copy *a, struct copy *b,
                      void *room) {
    if (a->bytes)
        take(a, room, &q->a, &q->extras.pitch_a, &q->extras.step_a,
             &q->trans_a);
    if (b->bytes)
        take(b, (char *)room + a->bytes, &q->b, &q->extras.pitch_b,
             &q->extras.step_b, &q->trans_b);
}

void matmul_pack_plan(struct product *q, const struct matmul_rung *rung,
                      void *room) {
    struct copy a = plan_a(q, rung), b = plan_b(q, rung);
    take_both(q, &a, &b, room);
}

int matmul_pack(struct product *q, const struct matmul_rung *rung, void *room,
                cudaStream_t stream) {
    struct copy a = plan_a(q, rung), b = plan_b(q, rung);
    take_both(q, &a, &b, room);
    if (!a.bytes && !b.bytes) return WEFT_OK;
    return matmul_element(rung) == 2 ? launch_copies<uint16_t>(&a, &b, stream)
                                     : launch_copies<uint32_t>(&a, &b, stream);
}
