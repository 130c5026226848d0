/* 12_short.cu -- matmul for few rows: short and wide (10x784x50000), down to a
 * vector times a matrix.
 *
 * Before:      12_narrow.cu's case lying on its side: a tile of 64 rows for
 *              m = 10.
 * Idea:        now b is the one that streams past once. Its rows run along n,
 *              so a thread takes four columns and walks down k: no sum has to
 *              be added across lanes, and all lanes want the same numbers of a,
 *              which shared memory gives to a whole warp at once. Since n / 4
 *              threads are too few, the warps of a block share k and add their
 *              sums at the end.
 * Prediction:  10x784x50000 moves the same 159 MB as 50000x784x10: 38 us.
 * Measured:    H200: 10x784x50000 72.0 us (cuBLAS 85.6); in a run before
 *              1x4096x4096 22.8.
 * Limit:       memory, while m is small; rows beyond 16 are further strips, and
 *              each reads b again.
 * Lesson:      notebooks/08b_matmul_pipeline.ipynb
 */
/* g++: -O1 */
#include "awkward.h"

#include <cuda_pipeline.h>

enum {
    WARPS = 8,
    THREADS = 32 * WARPS,
    WIDTH = 4 * 32, // columns of a block
    DEEP = 4,       // rows of b that a thread has under way
    STEP = WARPS * DEEP,
    DEPTH = 512, // rows of a, transposed, in shared memory at a time
};

/* Columns `col` .. of a row of b: four neighbours, or, where rows do not start
 * at multiples of 16 bytes, every 32nd. Zeros from column n on. */
static __device__ __forceinline__ float4 quad(const float *row, size_t col,
                                              size_t n, int vectors) {
    if (vectors)
        return col < n ? *(const float4 *)(row + col)
                       : make_float4(0.0f, 0.0f, 0.0f, 0.0f);
    return make_float4(col < n ? row[col] : 0.0f,
                       col + 32 < n ? row[col + 32] : 0.0f,
                       col + 64 < n ? row[col + 64] : 0.0f,
                       col + 96 < n ? row[col + 96] : 0.0f);
}

/* The thread's next DEEP rows of b, zeros from row `length` on. */
static __device__ __forceinline__ void load(float4 b_r[DEEP], const float *b,
                                            int k0, int length, size_t col,
                                            int n, int vectors, size_t pitch) {
    for (int d = 0; d < DEEP; d++) {
        const int row = k0 + d;
        b_r[d] = row < length
                     ? quad(b + (size_t)row * pitch, col, (size_t)n, vectors)
                     : make_float4(0.0f, 0.0f, 0.0f, 0.0f);
    }
}

/* Put columns k0 .. k0 + DEPTH of rows row0 .. of a (m,length) into shared
 * memory, k down the rows; zeros beyond the edges, up to the end of a step. */
template <int ROWS>
static __device__ __forceinline__ void
stage(float (*a_s)[ROWS], const float *a, int m, int length, size_t row0,
      int k0, int trans_a, size_t pitch) {
    const int steps = CEIL_DIV(length - k0, STEP);
    for (int i = threadIdx.x; i < ROWS * DEPTH; i += THREADS) {
        // Neighbours read what lies side by side: rows, or eights of a row,
        // whose places in shared memory lie 4 ROWS bytes apart.
        const int eight = i / (8 * ROWS) * 8 + i % 8;
        const int r = trans_a ? i % ROWS : i / 8 % ROWS;
        const int kk = trans_a ? i / ROWS : eight;
        if (kk / STEP >= steps) continue; // no step reads this
        const size_t row = row0 + r, col = (size_t)k0 + kk;
        const int there = kk < length - k0 && row < (size_t)m;
        const size_t at = trans_a ? col * pitch + row : row * pitch + col;
        if (there)
            __pipeline_memcpy_async(&a_s[kk][r], a + at, 4); // nobody waits
        else                                                 // for one
            a_s[kk][r] = 0.0f;
    }
    __pipeline_commit();
    __pipeline_wait_prior(0); // but for all
}

/* ROWS rows of c (m,n) = a (m,k) @ b (k,n), b's rows side by side. */
template <int ROWS>
static __global__ void __launch_bounds__(THREADS, ROWS > 4 ? 2 : 1)
    matmul_short(float *c, const float *a, const float *b, int m, int n, int k,
                 int depth, size_t step_part, int vectors, int trans_a,
                 int on_side, struct extras x) {
    __shared__ __align__(16) float a_s[DEPTH][ROWS];
    __shared__ __align__(16) float c_s[WARPS][WIDTH];
    own_matrix(&c, &a, &b, x);
    c += blockIdx.y * step_part;
    const int strips = (m - 1) / ROWS + 1;
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    const size_t row0 = (size_t)(blockIdx.x % strips) * ROWS;
    const size_t col0 = (size_t)(blockIdx.x / strips) * WIDTH;
    const size_t col = col0 + (vectors ? 4 * lane : lane);
    const size_t begin = (size_t)blockIdx.y * depth;
    const int length =
        (size_t)k - begin < (size_t)depth ? (int)(k - begin) : depth;
    a += begin * (trans_a ? x.pitch_a : 1);
    b += begin * x.pitch_b;

    float sums[ROWS][4] = {};
    float4 next[DEEP];
    load(next, b, warp * DEEP, length, col, n, vectors, x.pitch_b);
    for (int k0 = 0; k0 < length; k0 += STEP) {
        const int at = k0 % DEPTH + warp * DEEP;
        if (k0 % DEPTH == 0) {
            __syncthreads(); // the piece before is read
            stage<ROWS>(a_s, a, m, length, row0, k0, trans_a, x.pitch_a);
            __syncthreads(); // the piece is complete
        }
        float4 b_r[DEEP];
        for (int d = 0; d < DEEP; d++) b_r[d] = next[d];
        // The next step's are under way meanwhile.
        load(next, b, k0 + STEP + warp * DEEP, length, col, n, vectors,
             x.pitch_b);
        for (int d = 0; d < DEEP; d++)
            for (int r = 0; r < ROWS; r++) {
                const float a_r = a_s[at + d][r];
                sums[r][0] += a_r * b_r[d].x;
                sums[r][1] += a_r * b_r[d].y;
                sums[r][2] += a_r * b_r[d].z;
                sums[r][3] += a_r * b_r[d].w;
            }
    }
    for (int r = 0; r < ROWS; r++) {
        *(float4 *)&c_s[warp][4 * lane] =
            make_float4(sums[r][0], sums[r][1], sums[r][2], sums[r][3]);
        __syncthreads(); // a row's sums of all warps are there ...
        const int i = threadIdx.x;
        const size_t own = col0 + (vectors ? i : i / 4 + i % 4 * 32);
        if (i < WIDTH && own < (size_t)n && row0 + r < (size_t)m) {
            float sum = 0.0f;
            for (int w = 0; w < WARPS; w++) sum += c_s[w][i];
            store_either_way(c, m, n, row0 + r, own, sum, on_side, x);
        }
        __syncthreads(); // ... and read
    }
}

/* ---- which of them, and with how many blocks ------------------------------
 */

struct shape {
    int rows;
    void (*kernel)(float *, const float *, const float *, int, int, int, int,
                   size_t, int, int, int, struct extras);
};
static const struct shape shapes[] = {
    {1, matmul_short<1>}, {2, matmul_short<2>},   {4, matmul_short<4>},
    {8, matmul_short<8>}, {12, matmul_short<12>}, {16, matmul_short<16>},
};

/* The lowest strip that holds m rows. */
static const struct shape *shape_of(const struct product *q) {
    int i = 0;
    while (i < COUNT_OF(shapes) - 1 && shapes[i].rows < q->m) i++;
    return &shapes[i];
}

static double blocks_of(const struct product *q, const struct shape *s) {
    return (double)CEIL_DIV((size_t)q->n, WIDTH) *
           CEIL_DIV((size_t)q->m, s->rows);
}

static struct k_parts parts_of(const struct product *q) {
    const double blocks = blocks_of(q, shape_of(q));
    const int sms = matmul_multiprocessors();
    // More than two rounds of blocks, so that the last one is not half empty.
    const double wanted = blocks > 2 * sms ? 6 * sms : 4 * sms;
    return matmul_k_parts(q, blocks, wanted, STEP, 4 * STEP);
}

size_t matmul_short_scratch(const struct product *q) {
    return matmul_partials_bytes(q, parts_of(q).parts);
}

double matmul_short_us(const struct product *q) {
    const struct shape *const s = shape_of(q);
    const double bytes = 4.0 * q->n * q->k * q->batch * CEIL_DIV(q->m, s->rows);
    const double rate = s->rows <= 4 ? 29e3 : 16e3; // bytes per us, an SM
    return 4.0 + bytes / (rate * matmul_multiprocessors());
}

/* Whether all rows of b start at multiples of 16 bytes. */
static int has_vectors(const struct product *q) {
    const struct extras *const x = &q->extras;
    return q->n % 4 == 0 && x->pitch_b % 4 == 0 && (size_t)q->b % 16 == 0 &&
           (q->batch == 1 || x->step_b % 4 == 0);
}

/* The product by kernel `s`, k cut as `cut` says. */
static int start(const struct product *q, const struct shape *s,
                 struct k_parts cut, int on_side, cudaStream_t stream) {
    size_t step_part;
    const struct product part = matmul_part_of(q, cut.parts, &step_part);
    const dim3 grid((unsigned)blocks_of(q, s), (unsigned)cut.parts,
                    (unsigned)q->batch);
    const auto kernel = s->kernel;
    kernel<<<grid, THREADS, 0, stream>>>(
        part.c, (const float *)q->a, (const float *)q->b, q->m, q->n, q->k,
        cut.depth, step_part, has_vectors(q), q->trans_a, on_side, part.extras);
    WEFT_LAUNCHED(matmul_short);
    const struct product whole = on_side ? matmul_on_its_side(q) : *q;
    return matmul_add_partials(&whole, cut.parts, stream);
}

int matmul_short_run(const struct product *q, int on_side,
                     cudaStream_t stream) {
    return start(q, shape_of(q), parts_of(q), on_side, stream);
}

static size_t scratch(const struct product *q) {
    if (!q->trans_b) return matmul_short_scratch(q);
    const struct product side = matmul_on_its_side(q);
    return matmul_narrow_scratch(&side);
}

static int launch(const struct product *q, cudaStream_t stream) {
    if (!q->trans_b) return matmul_short_run(q, 0, stream);
    const struct product side = matmul_on_its_side(q);
    return matmul_narrow_run(&side, 1, stream);
}

MATMUL_RUNG(short, "few rows: b streams past a in shared memory", "fp32",
            WEFT_CPU | WEFT_CUDA, 0, ANY_A | ANY_B, launch, scratch)
