/* pack.cu -- one pass over an operand: transposed, or padded, or both. */
#include "pack.h"

#include <string.h>

enum {
    LANES = 32, // threads side by side
    WARPS = 8,
    AT_ONCE = 4,      // rows that a thread has under way
    SIDE = 2 * LANES, // of a tile that is transposed
    ROUNDS = SIDE * SIDE / (LANES * WARPS),
    MAX_GRID = 65535,
    ROOM_STEP = 256
};

/* A copy: `batch` matrices of rows x cols elements. */
struct copy {
    const void *from;
    size_t pitch, step; /* elements from row to row, matrix to matrix */
    void *to;
    size_t to_pitch, to_step;
    int rows, cols, batch; /* of `from` */
    int transposed;        /* `to` has cols rows of `rows` elements */
    size_t bytes;          /* of all of `to` */
};

/* to (rows,to_pitch) = from (rows,cols), zeros behind it. Rows that need this
 * start anywhere, so floats are copied one by one, but several at a time. */
template <typename T>
static __global__ void copy_rows(T *to, size_t to_pitch, size_t to_step,
                                 const T *from, size_t pitch, size_t step,
                                 int rows, int cols) {
    to += blockIdx.z * to_step;
    from += blockIdx.z * step;
    const size_t col = (size_t)blockIdx.x * LANES + threadIdx.x;
    if (col >= to_pitch) return;
    const size_t height = WARPS * AT_ONCE;
    for (size_t row0 = blockIdx.y * height + threadIdx.y; row0 < (size_t)rows;
         row0 += gridDim.y * height) {
        T own[AT_ONCE];
        for (int i = 0; i < AT_ONCE; i++) {
            const size_t row = row0 + i * WARPS;
            const bool there = row < (size_t)rows && col < (size_t)cols;
            own[i] = there ? from[row * pitch + col] : T(0);
        }
        for (int i = 0; i < AT_ONCE; i++) {
            const size_t row = row0 + i * WARPS;
            if (row < (size_t)rows) to[row * to_pitch + col] = own[i];
        }
    }
}

/* to (cols,to_pitch) = from (rows,cols) transposed, zeros behind it. A tile is
 * read along its rows and written along its columns, 256 bytes of floats each;
 * the pitch of SIDE + 1 keeps a column in 32 banks. */
template <typename T>
static __global__ void copy_transposed(T *to, size_t to_pitch, size_t to_step,
                                       const T *from, size_t pitch, size_t step,
                                       int rows, int cols) {
    __shared__ T tile_s[SIDE][SIDE + 1];
    to += blockIdx.z * to_step;
    from += blockIdx.z * step;
    const size_t tiles = CEIL_DIV(to_pitch, SIDE);
    const size_t col0 = (size_t)blockIdx.x * SIDE;
    for (size_t tile = blockIdx.y; tile < tiles; tile += gridDim.y) {
        const size_t row0 = tile * SIDE;
#pragma unroll
        for (int round = 0; round < ROUNDS; round++) {
            const int i = round / 2 * WARPS + threadIdx.y;
            const int j = round % 2 * LANES + threadIdx.x;
            const size_t row = row0 + i, col = col0 + j;
            const bool there = row < (size_t)rows && col < (size_t)cols;
            tile_s[i][j] = there ? from[row * pitch + col] : T(0);
        }
        __syncthreads(); // the tile is complete ...
#pragma unroll
        for (int round = 0; round < ROUNDS; round++) {
            const int i = round / 2 * WARPS + threadIdx.y;
            const int j = round % 2 * LANES + threadIdx.x;
            const size_t row = col0 + i, col = row0 + j;
            if (row < (size_t)cols && col < to_pitch)
                to[row * to_pitch + col] = tile_s[j][i];
        }
        __syncthreads(); // ... and read
    }
}

template <typename T>
static int launch_copy(const struct copy *p, cudaStream_t stream) {
    const dim3 block(LANES, WARPS);
    const size_t across = p->transposed ? CEIL_DIV((size_t)p->cols, SIDE)
                                        : CEIL_DIV(p->to_pitch, LANES);
    const size_t down = p->transposed
                            ? CEIL_DIV(p->to_pitch, SIDE)
                            : CEIL_DIV((size_t)p->rows, WARPS * AT_ONCE);
    const dim3 grid((unsigned)across,
                    (unsigned)(down < MAX_GRID ? down : (size_t)MAX_GRID),
                    (unsigned)p->batch);
    const auto kernel = p->transposed ? copy_transposed<T> : copy_rows<T>;
    kernel<<<grid, block, 0, stream>>>((T *)p->to, p->to_pitch, p->to_step,
                                       (const T *)p->from, p->pitch, p->step,
                                       p->rows, p->cols);
    WEFT_LAUNCHED(matmul_pack);
    return WEFT_OK;
}

/* ---- which operands, and where to -----------------------------------------
 */

size_t matmul_element(const struct matmul_rung *rung) {
    // "fp16" and "bf16" end in the bits that an element has.
    const char *precision = rung->line.precision;
    return strcmp(precision, "fp16") && strcmp(precision, "bf16") ? 4 : 2;
}

/* Whether an operand lies as a rung with ALIGNED wants it. */
static int is_aligned(const void *array, size_t pitch, size_t step, int batch,
                      size_t element) {
    return (size_t)array % 16 == 0 && pitch * element % 16 == 0 &&
           (batch == 1 || step * element % 16 == 0);
}

/* The copy that an operand (rows,cols as stored) needs; bytes 0: none. */
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
                     step ? batch : 1, // all the same: one is enough
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

/* Let an operand be its copy. */
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
    const struct copy *const both[] = {&a, &b};
    for (const struct copy *p : both) {
        if (!p->bytes) continue;
        WEFT_TRY(matmul_element(rung) == 2 ? launch_copy<uint16_t>(p, stream)
                                           : launch_copy<uint32_t>(p, stream));
    }
    return WEFT_OK;
}
