/* 12_narrow.cu -- matmul for few columns: tall and narrow (50000x784x10), down
 * to a matrix times a vector.
 *
 * Before:      a block's tile of c is 64 or 128 columns wide. With n = 10, most
 *              of it is beyond the edge, and its multiply-adds are wasted.
 * Idea:        with so few columns, each number of a is used n times, always by
 *              the same thread. So a needs no shared memory and streams past
 *              once, in order. LANES neighbouring threads walk along ROWS rows
 *              of a in quads of four floats and keep ROWS x COLS sums each.
 *              Shared memory holds the piece of b that they need, with k along
 *              its rows. At the end the lanes' sums are added.
 * Prediction:  50000x784x10 moves 157 MB of a, 2 MB of c: 39 us at the 4.1 TB/s
 *              that a copy reaches. The 0.4 G multiply-adds take 13 us of that
 *              time, and b's loads from shared memory (one for 4 ROWS
 *              multiply-adds) take less.
 * Measured:    H200: 50000x784x10 52 us (cuBLAS 70), 4096x4096x1 24 (22). The
 *              same kernel with 16-bit numbers: 32 (46) and 10 (10).
 * Limit:       memory while COLS is small. Columns beyond 16 form further
 *              strips, each of which reads a again.
 * Lesson:      notebooks/08b_matmul_pipeline.ipynb */
/* g++: -O1 */
#include "awkward_sizes.h"

#include <math.h>

enum { THREADS = 256 };

/* The 16 bytes of a row that a lane loads at a time. */
template <typename T> struct sixteen {
    enum { EACH = 16 / (int)sizeof(T) };
    typedef struct numbers<T, EACH> numbers;
};

/* Load EACH numbers of a row: neighbours from `k`, or every LANES-th number if
 * rows do not start at multiples of 16 bytes. Numbers at or past `end` are
 * zeros. */
template <typename T, int LANES, bool VECTORS>
static __device__ __forceinline__ typename sixteen<T>::numbers
take(const T *row, int k, int end) {
    typename sixteen<T>::numbers found;
    if (VECTORS) {
        if (k < end) found.load(row + k);
    } else {
#pragma unroll
        for (int i = 0; i < sixteen<T>::EACH; i++)
            if (k < end - i * LANES) found.at[i] = row[k + i * LANES];
    }
    return found;
}

/* Return the index in a row of b_s of number i of a step of EACH * LANES
 * numbers. The row has the first four numbers of lane 0, of lane 1, ..., then
 * the next four of lane 0, ... */
template <typename T, int LANES, bool VECTORS>
static __device__ __forceinline__ int place(int i) {
    const int lane = VECTORS ? i / sixteen<T>::EACH : i % LANES;
    const int own = VECTORS ? i % sixteen<T>::EACH : i / LANES;
    return (own / 4 * LANES + lane) * 4 + own % 4;
}

/* Copy rows k0 .. k0 + DEPTH of b (length,n), starting at column col0, to
 * shared memory with k along the rows, in the order that take() uses. Beyond
 * the edges, write zeros up to the end of a step. A thread copies all columns
 * for one k, so the indices need no division. */
template <typename T, int COLS, int DEPTH, int LANES, bool VECTORS>
static __device__ __forceinline__ void
stage(float (*b_s)[DEPTH + 4], const T *b, int n, int length, int col0, int k0,
      int trans_b, size_t pitch) {
    enum { STEP = sixteen<T>::EACH * LANES };
    const int left = length - k0, end = CEIL_DIV(left, STEP) * STEP;
    const size_t down = trans_b ? 1 : pitch, across = trans_b ? pitch : 1;
    b += k0 * down + col0 * across;
    for (int kk = threadIdx.x; kk < DEPTH && kk < end; kk += THREADS) {
        float b_r[COLS];
        load_across(b_r, b + kk * down, kk < left ? n - col0 : 0, across);
        const int to = kk / STEP * STEP + place<T, LANES, VECTORS>(kk % STEP);
#pragma unroll
        for (int j = 0; j < COLS; j++) b_s[j][to] = b_r[j];
    }
}

/* Return to every lane the sum over its group of LANES lanes. */
template <int LANES>
static __device__ __forceinline__ float lanes_sum(float value) {
    for (int distance = LANES / 2; distance > 0; distance /= 2)
        value += __shfl_xor_sync(0xffffffffu, value, distance);
    return value;
}

/* Compute COLS columns of c (m,n) = a (m,k) @ b (k,n), where a is not
 * transposed. */
template <typename T, int COLS, int ROWS, int LANES, bool VECTORS>
static __global__ void __launch_bounds__(THREADS,
                                         sixteen<T>::EACH *COLS <= 40 ? 3 : 2)
    matmul_narrow(float *c, const T *a, const T *b, int m, int n, int k,
                  int depth, size_t step_part, int trans_b, int on_side,
                  struct extras x) {
    enum {
        EACH = sixteen<T>::EACH,
        STEP = EACH * LANES,
        DEPTH = COLS <= 4 ? 1024
        : COLS <= 10      ? 896
                          : 512,
        GROUPS = THREADS / LANES,
        HEIGHT = GROUPS * ROWS,
    };
    // The pitch is 4 more than a multiple of 32, so 8 columns use 8 x 4
    // different banks.
    __shared__ __align__(16) float b_s[COLS][DEPTH + 4];
    float (*const c_s)[COLS] =
        (float (*)[COLS]) & b_s[0][0]; // reuse b_s when b has been read
    own_matrix(&c, &a, &b, x);
    c += blockIdx.y * step_part;
    const int strips = (n - 1) / COLS + 1, group = threadIdx.x / LANES;
    const int lane = threadIdx.x % LANES;
    const int col0 = (int)(blockIdx.x % strips) * COLS;
    const size_t row0 = (size_t)(blockIdx.x / strips) * HEIGHT;
    const size_t begin = (size_t)blockIdx.y * depth;
    const int length =
        (size_t)k - begin < (size_t)depth ? (int)(k - begin) : depth;
    const int first = VECTORS ? EACH * lane : lane;
    b += begin * (trans_b ? 1 : x.pitch_b);
    pdl_wait(); // earlier kernels have written a and b

    // Group g takes rows g, g + GROUPS, ...; past the end it reads the last row
    // again.
    const T *own[ROWS];
    typename sixteen<T>::numbers next[ROWS];
    for (int r = 0; r < ROWS; r++) {
        const size_t row = row0 + r * GROUPS + group;
        own[r] =
            a + (row < (size_t)m ? row : (size_t)m - 1) * x.pitch_a + begin;
        next[r] = take<T, LANES, VECTORS>(own[r], first, length);
    }
    float sums[ROWS][COLS] = {};
    for (int k0 = 0; k0 < length; k0 += STEP) {
        const int at = k0 % DEPTH;
        if (at == 0) {
            __syncthreads(); // the previous piece has been read
            stage<T, COLS, DEPTH, LANES, VECTORS>(b_s, b, n, length, col0, k0,
                                                  trans_b, x.pitch_b);
            __syncthreads(); // the piece is complete
        }
        typename sixteen<T>::numbers a_r[ROWS];
        for (int r = 0; r < ROWS; r++) {
            a_r[r] = next[r]; // at the same time, the next step's loads are in
                              // flight
            next[r] =
                take<T, LANES, VECTORS>(own[r], k0 + STEP + first, length);
        }
#pragma unroll
        for (int i = 0; i < EACH; i += 4)
#pragma unroll
            for (int j = 0; j < COLS; j++) {
                const float4 b_r =
                    *(const float4 *)&b_s[j][at + i * LANES + 4 * lane];
                for (int r = 0; r < ROWS; r++) {
                    sums[r][j] += (float)a_r[r].at[i] * b_r.x;
                    sums[r][j] += (float)a_r[r].at[i + 1] * b_r.y;
                    sums[r][j] += (float)a_r[r].at[i + 2] * b_r.z;
                    sums[r][j] += (float)a_r[r].at[i + 3] * b_r.w;
                }
            }
    }
    pdl_trigger();   // let the kernel that adds the parts start
    __syncthreads(); // no thread reads b any more
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
        // Let neighbouring threads store neighbouring elements.
        const int r = on_side ? i % HEIGHT : i / COLS;
        const int j = on_side ? i / HEIGHT : i % COLS;
        const size_t row = row0 + r, col = (size_t)col0 + j;
        if (row < (size_t)m && col < (size_t)n)
            store_either_way(c, m, n, row, col, c_s[r][j], on_side, x);
    }
}

/* ---- choosing the kernel and the number of blocks ------------------------ */

/* The size of the part that a block computes, and its kernel. */
template <typename T> struct shape {
    int cols, rows, lanes;
    void (*kernels[2])(float *, const T *, const T *, int, int, int, int,
                       size_t, int, int, struct extras); // [vectors]
};
#define SHAPE(cols, rows, lanes)                          \
    {                                                     \
        cols, rows, lanes, {                              \
            matmul_narrow<T, cols, rows, lanes, false>,   \
                matmul_narrow<T, cols, rows, lanes, true> \
        }                                                 \
    }

/* Return the narrowest strip that holds n columns. */
template <typename T>
static const struct shape<T> *shape_of(const struct product *q) {
    static const struct shape<T> shapes[] = {
        SHAPE(1, 4, 32), SHAPE(4, 4, 32), SHAPE(10, 4, 8), SHAPE(16, 4, 8)
    };
    int i = 0;
    while (i < COUNT_OF(shapes) - 1 && shapes[i].cols < q->n) i++;
    return &shapes[i];
}

template <typename T> static double blocks_of(const struct product *q) {
    const struct shape<T> *const s = shape_of<T>(q);
    const int height = THREADS / s->lanes * s->rows;
    return (double)CEIL_DIV((size_t)q->m, height) *
           CEIL_DIV((size_t)q->n, s->cols);
}

template <typename T> static struct k_parts parts_of(const struct product *q) {
    const int step = sixteen<T>::EACH * shape_of<T>(q)->lanes;
    return matmul_k_parts(q, blocks_of<T>(q), 4.0 * matmul_multiprocessors(),
                          step, 4 * step);
}

template <typename T> size_t matmul_narrow_scratch(const struct product *q) {
    return matmul_partials_bytes(q, parts_of<T>(q).parts);
}

template <typename T> double matmul_narrow_us(const struct product *q) {
    const struct shape<T> *const s = shape_of<T>(q);
    const double numbers =
        (double)q->m * q->k * q->batch * CEIL_DIV(q->n, s->cols);
    // The rates in bytes and in multiply-adds per microsecond and
    // multiprocessor.
    const double read = numbers * sizeof(T) / 26e3,
                 sums = numbers * s->cols / 85e3;
    return 3.5 + fmax(read, sums) / matmul_multiprocessors();
}

template <typename T>
int matmul_narrow_run(const struct product *q, int on_side,
                      cudaStream_t stream) {
    const struct shape<T> *const s = shape_of<T>(q);
    const struct k_parts cut = parts_of<T>(q);
    const dim3 grid((unsigned)blocks_of<T>(q), (unsigned)cut.parts,
                    (unsigned)q->batch);
    const int vectors =
        has_vectors<T>(q->a, q->extras.pitch_a, q->extras.step_a, q->k,
                       q->batch, sixteen<T>::EACH);
    return launch_parts("matmul_narrow", s->kernels[vectors], grid, THREADS, q,
                        cut, on_side, stream, q->trans_b, on_side);
}

template <typename T> static size_t scratch(const struct product *q) {
    if (!q->trans_a) return matmul_narrow_scratch<T>(q);
    const struct product side = matmul_on_its_side(q);
    return matmul_short_scratch<T>(&side);
}

template <typename T>
static int launch(const struct product *q, cudaStream_t stream) {
    if (!q->trans_a) return matmul_narrow_run<T>(q, 0, stream);
    const struct product side = matmul_on_its_side(q);
    return matmul_short_run<T>(&side, 1, stream);
}

/* Instantiate the functions that 12_short.cu and 40_tuned.cu use. */
#define NARROW(T)                                                     \
    template int matmul_narrow_run<T>(const struct product *, int,    \
                                      cudaStream_t);                  \
    template size_t matmul_narrow_scratch<T>(const struct product *); \
    template double matmul_narrow_us<T>(const struct product *);
NARROW(float)
NARROW(__half)
NARROW(__nv_bfloat16)

MATMUL_RUNG(narrow, "few columns: a streams past b in shared memory", "fp32",
            WEFT_CPU | WEFT_CUDA, 0, ANY_A | ANY_B, launch<float>,
            scratch<float>)

/* These are not on the ladder; 40_tuned.cu uses them. */
MATMUL_RUNG(narrow_fp16, "few columns: a streams past b in shared memory",
            "fp16", WEFT_CPU | WEFT_CUDA, 0, ANY_A | ANY_B, launch<__half>,
            scratch<__half>)
MATMUL_RUNG(narrow_bf16, "few columns: a streams past b in shared memory",
            "bf16", WEFT_CPU | WEFT_CUDA, 0, ANY_A | ANY_B,
            launch<__nv_bfloat16>, scratch<__nv_bfloat16>)
