/* 12_narrow.cu -- matmul for few columns: tall and narrow (50000x784x10), down
 * to a matrix times a vector.
 *
 * Before:      a block's tile of c is 64 or 128 columns wide. With n = 10 most
 *              of it lies beyond the edge, its multiply-adds are wasted.
 * Idea:        with so few columns every number of a is used n times, all of
 *              them by one thread, so a needs no shared memory: it streams past
 *              once, in order. LANES neighbours walk along ROWS rows of it in
 *              quads of four floats and keep ROWS x COLS sums each; the piece
 *              of b that they need lies in shared memory with k along its rows.
 *              At the end the lanes' sums are added.
 * Prediction:  50000x784x10 moves 157 MB of a, 2 MB of c: 37 us at 4.2 TB/s.
 *              Its 0.4 G multiply-adds take 13 us meanwhile, b's loads from
 *              shared memory (one for 4 ROWS multiply-adds) less.
 * Measured:    H200: 50000x784x10 59.7 us (cuBLAS 70.0), 50000x784x16 82.6
 *              (70.0); in a run before 4096x4096x1 23.1, 200000x784x4 178.
 * Limit:       memory, while COLS is small; columns beyond 16 are further
 *              strips, and each reads a again.
 * Lesson:      notebooks/08b_matmul_pipeline.ipynb
 */
/* g++: -O1 */
#include "../ptx.cuh"
#include "awkward.h"

#include <cuda_pipeline.h>

enum { THREADS = 256 };

/* Four numbers of a row: neighbours from `k` on, or, where rows do not start at
 * multiples of 16 bytes, every LANES-th. Zeros from `end` on. */
template <int LANES, bool VECTORS>
static __device__ __forceinline__ float4 quad(const float *row, int k,
                                              int end) {
    if (VECTORS)
        return k < end ? load16_ahead(row + k)
                       : make_float4(0.0f, 0.0f, 0.0f, 0.0f);
    return make_float4(k < end ? row[k] : 0.0f,
                       k < end - LANES ? row[k + LANES] : 0.0f,
                       k < end - 2 * LANES ? row[k + 2 * LANES] : 0.0f,
                       k < end - 3 * LANES ? row[k + 3 * LANES] : 0.0f);
}

/* Put rows k0 .. k0 + DEPTH of b (length,n), columns from col0 on, into shared
 * memory with k along the rows, in the order in which quad() takes it; zeros
 * beyond the edges, up to the end of a step. */
template <int COLS, int DEPTH, int LANES, bool VECTORS>
static __device__ __forceinline__ void
stage(float (*b_s)[DEPTH + 4], const float *b, int n, int length, int col0,
      int k0, int trans_b, size_t pitch) {
    const int steps = CEIL_DIV(length - k0, 4 * LANES);
    for (int i = threadIdx.x; i < COLS * DEPTH; i += THREADS) {
        // Neighbours read what lies side by side.
        const int j = trans_b ? i / DEPTH : i % COLS;
        const int kk = trans_b ? i % DEPTH : i / COLS;
        if (kk / (4 * LANES) >= steps) continue; // no step reads this
        const size_t row = (size_t)k0 + kk, col = (size_t)col0 + j;
        const int there = kk < length - k0 && col < (size_t)n;
        const size_t at = trans_b ? col * pitch + row : row * pitch + col;
        const int inside = kk % (4 * LANES);
        const int turned = inside % LANES * 4 + inside / LANES;
        float *const to = &b_s[j][VECTORS ? kk : kk - inside + turned];
        if (there)
            __pipeline_memcpy_async(to, b + at, 4); // nobody waits for one
        else
            *to = 0.0f;
    }
    __pipeline_commit();
    __pipeline_wait_prior(0); // but for all
}

/* The sum over groups of LANES lanes; every lane has it. */
template <int LANES>
static __device__ __forceinline__ float lanes_sum(float value) {
    for (int distance = LANES / 2; distance > 0; distance /= 2)
        value += __shfl_xor_sync(0xffffffffu, value, distance);
    return value;
}

/* COLS columns of c (m,n) = a (m,k) @ b (k,n), a's rows side by side. */
template <int COLS, int ROWS, int LANES, bool VECTORS>
static __global__ void __launch_bounds__(THREADS, VECTORS &&COLS <= 10 ? 3 : 2)
    matmul_narrow(float *c, const float *a, const float *b, int m, int n, int k,
                  int depth, size_t step_part, int trans_b, int on_side,
                  struct extras x) {
    enum {
        STEP = 4 * LANES,
        DEPTH = COLS <= 8 ? 1024
        : COLS <= 12      ? 896
        : COLS == 16      ? 512
                          : 256,
        GROUPS = THREADS / LANES,
        HEIGHT = GROUPS * ROWS,
    };
    // A pitch of 4 more than a multiple of 32: 8 columns in 8 x 4 banks.
    __shared__ __align__(16) float b_s[COLS][DEPTH + 4];
    float (*const c_s)[COLS] =
        (float (*)[COLS]) & b_s[0][0]; // when b is used up
    own_matrix(&c, &a, &b, x);
    c += blockIdx.y * step_part;
    const int strips = (n - 1) / COLS + 1, group = threadIdx.x / LANES;
    const int lane = threadIdx.x % LANES;
    const int col0 = (int)(blockIdx.x % strips) * COLS;
    const size_t row0 = (size_t)(blockIdx.x / strips) * HEIGHT;
    const size_t begin = (size_t)blockIdx.y * depth;
    const int length =
        (size_t)k - begin < (size_t)depth ? (int)(k - begin) : depth;
    const int first = VECTORS ? 4 * lane : lane;
    b += begin * (trans_b ? 1 : x.pitch_b);

    // Group g takes rows g, g + GROUPS, ...; past the last one, that one again.
    const float *own[ROWS];
    float4 next[ROWS];
    for (int r = 0; r < ROWS; r++) {
        const size_t row = row0 + r * GROUPS + group;
        own[r] =
            a + (row < (size_t)m ? row : (size_t)m - 1) * x.pitch_a + begin;
        next[r] = quad<LANES, VECTORS>(own[r], first, length);
    }
    float sums[ROWS][COLS] = {};
    for (int k0 = 0; k0 < length; k0 += STEP) {
        const int at = k0 % DEPTH;
        if (at == 0) {
            __syncthreads(); // the piece before is read
            stage<COLS, DEPTH, LANES, VECTORS>(b_s, b, n, length, col0, k0,
                                               trans_b, x.pitch_b);
            __syncthreads(); // the piece is complete
        }
        float4 a_r[ROWS];
        for (int r = 0; r < ROWS; r++) {
            a_r[r] = next[r]; // the next step's are under way meanwhile
            next[r] = quad<LANES, VECTORS>(own[r], k0 + STEP + first, length);
        }
#pragma unroll
        for (int j = 0; j < COLS; j++) {
            const float4 b_r = *(const float4 *)&b_s[j][at + 4 * lane];
            for (int r = 0; r < ROWS; r++) {
                sums[r][j] += a_r[r].x * b_r.x;
                sums[r][j] += a_r[r].y * b_r.y;
                sums[r][j] += a_r[r].z * b_r.z;
                sums[r][j] += a_r[r].w * b_r.w;
            }
        }
    }
    __syncthreads(); // nobody reads b any more
#pragma unroll
    for (int r = 0; r < ROWS; r++)
#pragma unroll
        for (int j = 0; j < COLS; j++) {
            const float sum = lanes_sum<LANES>(sums[r][j]);
            if (lane == (r * COLS + j) % LANES)
                c_s[r * GROUPS + group][j] = sum;
        }
    __syncthreads();
    for (int i = threadIdx.x; i < HEIGHT * COLS; i += THREADS) {
        // Neighbours store side by side.
        const int r = on_side ? i % HEIGHT : i / COLS;
        const int j = on_side ? i / HEIGHT : i % COLS;
        const size_t row = row0 + r, col = (size_t)col0 + j;
        if (row < (size_t)m && col < (size_t)n)
            store_either_way(c, m, n, row, col, c_s[r][j], on_side, x);
    }
}

/* ---- which of them, and with how many blocks ------------------------------
 */

/* The rows that a block takes, and its kernel. */
struct shape {
    int cols, rows, lanes;
    void (*kernels[2])(float *, const float *, const float *, int, int, int,
                       int, size_t, int, int, struct extras); /* [vectors] */
};
#define SHAPE(cols, rows, lanes)                       \
    {                                                  \
        cols, rows, lanes, {                           \
            matmul_narrow<cols, rows, lanes, false>,   \
                matmul_narrow<cols, rows, lanes, true> \
        }                                              \
    }
static const struct shape shapes[] = {
    SHAPE(1, 4, 32), SHAPE(2, 4, 32), SHAPE(4, 4, 32), SHAPE(8, 4, 8),
    SHAPE(10, 4, 8), SHAPE(12, 4, 8), SHAPE(16, 4, 8),
};

static double blocks_of(const struct product *q, const struct shape *s) {
    const int height = THREADS / s->lanes * s->rows;
    return (double)CEIL_DIV((size_t)q->m, height) *
           CEIL_DIV((size_t)q->n, s->cols);
}

/* The narrowest strip that holds n columns. */
static const struct shape *shape_of(const struct product *q) {
    int i = 0;
    while (i < COUNT_OF(shapes) - 1 && shapes[i].cols < q->n) i++;
    return &shapes[i];
}

static struct k_parts parts_of(const struct product *q) {
    const struct shape *const s = shape_of(q);
    return matmul_k_parts(q, blocks_of(q, s), 4.0 * matmul_multiprocessors(),
                          4 * s->lanes, 16 * s->lanes);
}

size_t matmul_narrow_scratch(const struct product *q) {
    return matmul_partials_bytes(q, parts_of(q).parts);
}

double matmul_narrow_us(const struct product *q) {
    const struct shape *const s = shape_of(q);
    const double bytes = 4.0 * q->m * q->k * q->batch * CEIL_DIV(q->n, s->cols);
    const double rate = s->cols <= 4 ? 26e3 : 17e3; // bytes per us, an SM
    return 4.0 + bytes / (rate * matmul_multiprocessors());
}

/* Whether all rows of a start at multiples of 16 bytes. */
static int has_vectors(const struct product *q) {
    const struct extras *const x = &q->extras;
    return q->k % 4 == 0 && x->pitch_a % 4 == 0 && (size_t)q->a % 16 == 0 &&
           (q->batch == 1 || x->step_a % 4 == 0);
}

/* The product by kernel `s`, k cut as `cut` says. */
static int start(const struct product *q, const struct shape *s,
                 struct k_parts cut, int on_side, cudaStream_t stream) {
    size_t step_part;
    const struct product part = matmul_part_of(q, cut.parts, &step_part);
    const dim3 grid((unsigned)blocks_of(q, s), (unsigned)cut.parts,
                    (unsigned)q->batch);
    const auto kernel = s->kernels[has_vectors(q)];
    kernel<<<grid, THREADS, 0, stream>>>(
        part.c, (const float *)q->a, (const float *)q->b, q->m, q->n, q->k,
        cut.depth, step_part, q->trans_b, on_side, part.extras);
    WEFT_LAUNCHED(matmul_narrow);
    const struct product whole = on_side ? matmul_on_its_side(q) : *q;
    return matmul_add_partials(&whole, cut.parts, stream);
}

int matmul_narrow_run(const struct product *q, int on_side,
                      cudaStream_t stream) {
    return start(q, shape_of(q), parts_of(q), on_side, stream);
}

static size_t scratch(const struct product *q) {
    if (!q->trans_a) return matmul_narrow_scratch(q);
    const struct product side = matmul_on_its_side(q);
    return matmul_short_scratch(&side);
}

static int launch(const struct product *q, cudaStream_t stream) {
    if (!q->trans_a) return matmul_narrow_run(q, 0, stream);
    const struct product side = matmul_on_its_side(q);
    return matmul_short_run(&side, 1, stream);
}

MATMUL_RUNG(narrow, "few columns: a streams past b in shared memory", "fp32",
            WEFT_CPU | WEFT_CUDA, 0, ANY_A | ANY_B, launch, scratch)
