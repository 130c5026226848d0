/* 12_short.cu -- matmul for few rows: short and wide (10x784x50000), down to a
 * vector times a matrix.
 *
 * Before:      this is the transpose of the case of 12_narrow.cu: with m = 10,
 *              a tile has 64 rows.
 * Idea:        this time b streams past once. Its rows run along n, so a thread
 *              takes four columns and walks down k. No sums are added across
 *              lanes. All lanes need the same numbers of a, which shared memory
 *              broadcasts to the warp. Since n / 4 threads are too few, the
 *              warps of a block divide k and add their sums at the end.
 * Prediction:  10x784x50000 moves the same 159 MB as 50000x784x10: 39 us.
 * Measured:    H200: 10x784x50000 61 us (cuBLAS 87), 1x4096x4096 20 (18). With
 *              16-bit numbers 1x4096x4096 11 (9.3 to 10). 10x784x50000 in 16
 *              bits takes 54, so rung tuned picks another rung, which takes 31
 *              (23). Tried: a division in the staging of a cost 10 us of 72.
 * Limit:       memory while m is small. Rows beyond 16 form further strips,
 *              each of which reads b again.
 * Lesson:      notebooks/08b_matmul_pipeline.ipynb */
/* g++: -O1 */
#include "awkward_sizes.h"

#include <math.h>

enum {
    WARPS = 8,
    THREADS = 32 * WARPS,
    QUAD = 4,          // columns per thread
    WIDTH = QUAD * 32, // columns per block
};

/* The rows of b in flight: DEEP per thread (64 bytes), STEP per block. */
template <typename T> struct flight {
    enum { DEEP = 16 / (int)sizeof(T), STEP = WARPS * DEEP };
};

/* Load the thread's next DEEP rows of b, starting at k0. Its columns are four
 * neighbours from `col` or, if rows do not start at multiples of a quad's
 * bytes, every 32nd column. Elements past row `length` - 1 or column n - 1 are
 * zeros. */
template <typename T>
static __device__ __forceinline__ void
load(struct numbers<T, QUAD> *b_r, const T *b, int k0, int length, size_t col,
     int n, int vectors, size_t pitch) {
#pragma unroll
    for (int d = 0; d < flight<T>::DEEP; d++) {
        b_r[d] = {};
        if (k0 + d >= length) continue;
        const T *const row = b + (size_t)(k0 + d) * pitch;
        if (vectors) {
            if (col < (size_t)n) b_r[d].load(row + col);
        } else {
#pragma unroll
            for (int i = 0; i < QUAD; i++)
                if (col + 32 * i < (size_t)n) b_r[d].at[i] = row[col + 32 * i];
        }
    }
}

/* A piece of a in shared memory, transposed, with DEPTH steps of k. Steps are
 * PITCH floats apart, so that 8 lanes write 16 bytes each to different
 * banks. */
template <int ROWS> struct piece {
    enum {
        DEPTH = ROWS > 12 ? 256 : 512,
        PITCH = ROWS % 8 ? ROWS : ROWS + 4,
        TOGETHER = ROWS < 4 ? ROWS : 4, // rows of c that are stored at a time
    };
};

/* Copy columns k0 .. k0 + DEPTH of rows of a (m,length), from row0, to shared
 * memory with k down the rows. Beyond the edges, write zeros up to the
 * end of a step. A thread copies all rows for one k, so the indices need no
 * division. */
template <typename T, int ROWS>
static __device__ __forceinline__ void
stage(float (*a_s)[piece<ROWS>::PITCH], const T *a, int m, int length,
      size_t row0, int k0, int trans_a, size_t pitch) {
    enum { STEP = flight<T>::STEP };
    const int left = length - k0, end = CEIL_DIV(left, STEP) * STEP;
    const size_t down = trans_a ? pitch : 1, across = trans_a ? 1 : pitch;
    a += k0 * down + row0 * across;
    for (int kk = threadIdx.x; kk < piece<ROWS>::DEPTH && kk < end;
         kk += THREADS) {
        float a_r[ROWS];
        load_across(a_r, a + kk * down, kk < left ? (int)(m - row0) : 0,
                    across);
#pragma unroll
        for (int r = 0; r < ROWS; r++) a_s[kk][r] = a_r[r];
    }
}

/* Compute ROWS rows of c (m,n) = a (m,k) @ b (k,n), b not transposed. */
template <typename T, int ROWS>
static __global__ void __launch_bounds__(THREADS, ROWS > 4 ? 2 : 1)
    matmul_short(float *c, const T *a, const T *b, int m, int n, int k,
                 int depth, size_t step_part, int vectors, int trans_a,
                 int on_side, struct extras x) {
    enum { DEEP = flight<T>::DEEP, STEP = flight<T>::STEP };
    enum { DEPTH = piece<ROWS>::DEPTH, TOGETHER = piece<ROWS>::TOGETHER };
    __shared__ __align__(16) float a_s[DEPTH][piece<ROWS>::PITCH];
    __shared__ __align__(16) float c_s[TOGETHER][WARPS][WIDTH];
    own_matrix(&c, &a, &b, x);
    c += blockIdx.y * step_part;
    const int strips = (m - 1) / ROWS + 1;
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    const size_t row0 = (size_t)(blockIdx.x % strips) * ROWS;
    const size_t col0 = (size_t)(blockIdx.x / strips) * WIDTH;
    const size_t col = col0 + (vectors ? QUAD * lane : lane);
    const size_t begin = (size_t)blockIdx.y * depth;
    const int length =
        (size_t)k - begin < (size_t)depth ? (int)(k - begin) : depth;
    a += begin * (trans_a ? x.pitch_a : 1);
    b += begin * x.pitch_b;
    pdl_wait(); // earlier kernels have written a and b

    float sums[ROWS][QUAD] = {};
    struct numbers<T, QUAD> next[DEEP];
    load(next, b, warp * DEEP, length, col, n, vectors, x.pitch_b);
    for (int k0 = 0; k0 < length; k0 += STEP) {
        const int at = k0 % DEPTH + warp * DEEP;
        if (k0 % DEPTH == 0) {
            __syncthreads(); // the previous piece has been read
            stage<T, ROWS>(a_s, a, m, length, row0, k0, trans_a, x.pitch_a);
            __syncthreads(); // the piece is complete
        }
        struct numbers<T, QUAD> b_r[DEEP];
        for (int d = 0; d < DEEP; d++) b_r[d] = next[d];
        // Keep the next step's loads in flight at the same time.
        load(next, b, k0 + STEP + warp * DEEP, length, col, n, vectors,
             x.pitch_b);
#pragma unroll
        for (int d = 0; d < DEEP; d++)
            for (int r = 0; r < ROWS; r++) {
                const float a_r = a_s[at + d][r];
                for (int i = 0; i < QUAD; i++)
                    sums[r][i] += a_r * (float)b_r[d].at[i];
            }
    }
    pdl_trigger(); // let the kernel that adds the parts start
#pragma unroll
    for (int r0 = 0; r0 < ROWS; r0 += TOGETHER) {
#pragma unroll
        for (int r = 0; r < TOGETHER; r++)
            *(float4 *)&c_s[r][warp][4 * lane] =
                make_float4(sums[r0 + r][0], sums[r0 + r][1], sums[r0 + r][2],
                            sums[r0 + r][3]);
        __syncthreads(); // all warps have stored the sums of these rows ...
        for (int j = threadIdx.x; j < TOGETHER * WIDTH; j += THREADS) {
            const int i = j % WIDTH, r = j / WIDTH;
            const size_t own = col0 + (vectors ? i : i / 4 + i % 4 * 32);
            if (own >= (size_t)n || row0 + r0 + r >= (size_t)m) continue;
            float sum = 0.0f;
            for (int w = 0; w < WARPS; w++) sum += c_s[r][w][i];
            store_either_way(c, m, n, row0 + r0 + r, own, sum, on_side, x);
        }
        __syncthreads(); // ... and they have been read
    }
}

/* ---- choosing the kernel and the number of blocks ------------------------ */

template <typename T> struct shape {
    int rows;
    void (*kernel)(float *, const T *, const T *, int, int, int, int, size_t,
                   int, int, int, struct extras);
};

/* Return the lowest strip that holds m rows. */
template <typename T>
static const struct shape<T> *shape_of(const struct product *q) {
    static const struct shape<T> shapes[] = {
        {1, matmul_short<T, 1>}, {4, matmul_short<T, 4>},
            {8, matmul_short<T, 8>}, {12, matmul_short<T, 12>},
            {16, matmul_short<T, 16>},
    };
    int i = 0;
    while (i < COUNT_OF(shapes) - 1 && shapes[i].rows < q->m) i++;
    return &shapes[i];
}

template <typename T> static double blocks_of(const struct product *q) {
    return (double)CEIL_DIV((size_t)q->n, WIDTH) *
           CEIL_DIV((size_t)q->m, shape_of<T>(q)->rows);
}

template <typename T> static struct k_parts parts_of(const struct product *q) {
    const double blocks = blocks_of<T>(q);
    const int sms = matmul_multiprocessors();
    // Start more than two rounds of blocks, so that a half-empty last round
    // costs little.
    const double wanted = blocks > 2 * sms ? 6 * sms : 4 * sms;
    return matmul_k_parts(q, blocks, wanted, flight<T>::STEP,
                          4 * flight<T>::STEP);
}

template <typename T> size_t matmul_short_scratch(const struct product *q) {
    return matmul_partials_bytes(q, parts_of<T>(q).parts);
}

/* Return whether one load can fetch a thread's four columns. */
template <typename T> static int vectors_of(const struct product *q) {
    return has_vectors<T>(q->b, q->extras.pitch_b, q->extras.step_b, q->n,
                          q->batch, QUAD);
}

template <typename T> double matmul_short_us(const struct product *q) {
    const struct shape<T> *const s = shape_of<T>(q);
    const double numbers =
        (double)q->n * q->k * q->batch * CEIL_DIV(q->m, s->rows);
    // The rates in bytes (or in numbers, if these are loaded one by one) and in
    // multiply-adds per microsecond and multiprocessor.
    const double read =
        vectors_of<T>(q) ? numbers * sizeof(T) / 30e3 : numbers / 3e3;
    const double sums = numbers * s->rows / 70e3;
    return 3.5 + fmax(read, sums) / matmul_multiprocessors();
}

template <typename T>
int matmul_short_run(const struct product *q, int on_side,
                     cudaStream_t stream) {
    const struct k_parts cut = parts_of<T>(q);
    const dim3 grid((unsigned)blocks_of<T>(q), (unsigned)cut.parts,
                    (unsigned)q->batch);
    return launch_parts("matmul_short", shape_of<T>(q)->kernel, grid, THREADS,
                        q, cut, on_side, stream, vectors_of<T>(q), q->trans_a,
                        on_side);
}

template <typename T> static size_t scratch(const struct product *q) {
    if (!q->trans_b) return matmul_short_scratch<T>(q);
    const struct product side = matmul_on_its_side(q);
    return matmul_narrow_scratch<T>(&side);
}

template <typename T>
static int launch(const struct product *q, cudaStream_t stream) {
    if (!q->trans_b) return matmul_short_run<T>(q, 0, stream);
    const struct product side = matmul_on_its_side(q);
    return matmul_narrow_run<T>(&side, 1, stream);
}

/* Instantiate the functions that 12_narrow.cu and 40_tuned.cu use. */
#define SHORT(T)                                                     \
    template int matmul_short_run<T>(const struct product *, int,    \
                                     cudaStream_t);                  \
    template size_t matmul_short_scratch<T>(const struct product *); \
    template double matmul_short_us<T>(const struct product *);
SHORT(float)
SHORT(__half)
SHORT(__nv_bfloat16)

MATMUL_RUNG(short, "few rows: b streams past a in shared memory", "fp32",
            WEFT_CPU | WEFT_CUDA, 0, ANY_A | ANY_B, launch<float>,
            scratch<float>)

/* These are not on the ladder; 40_tuned.cu uses them. */
MATMUL_RUNG(short_fp16, "few rows: b streams past a in shared memory", "fp16",
            WEFT_CPU | WEFT_CUDA, 0, ANY_A | ANY_B, launch<__half>,
            scratch<__half>)
MATMUL_RUNG(short_bf16, "few rows: b streams past a in shared memory", "bf16",
            WEFT_CPU | WEFT_CUDA, 0, ANY_A | ANY_B, launch<__nv_bfloat16>,
            scratch<__nv_bfloat16>)
