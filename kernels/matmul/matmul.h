/* matmul.h -- declarations shared by the rungs of the matmul ladder.
 *
 * A rung is one file: its kernel, the function that launches it, and at the end
 * its line of the table,
 *
 *     MATMUL_RUNG(tiled, "tiles in shared memory", "fp32",
 *                 WEFT_CPU | WEFT_CUDA, 0, PLAIN, launch, NULL)
 *
 * which matmul.cu lists by name. All rungs compute
 *
 *     c (m,n) = finish(alpha * a (m,k) @ b (k,n) + beta * c + bias)
 *
 * for every matrix of a batch, and accept any sizes. */
#ifndef WEFT_MATMUL_H
#define WEFT_MATMUL_H
#include "common/launch.cuh"

/* A kernel's arguments other than the arrays and their sizes. */
struct extras {
    size_t step_a, step_b, step_c; /* elements from one matrix of a batch to the
                                    * next; block z processes matrix z */
    size_t pitch_a, pitch_b; /* elements from one stored row to the next: k and
                                n unless rows were padded; c's pitch is n */
    float alpha, beta;       /* with beta 0 the old c is never read */
    const float *bias;       /* (n); NULL: no bias */
    int relu;                /* 1: negative results finally become 0 */
};

/* One call of weft_matmul() that has passed the checks. */
struct product {
    float *c;
    const void *a, *b; /* float, or 16-bit floats for the bf16 and fp16 rungs */
    int m, n, k;
    int trans_a, trans_b; /* 1: stored transposed; only if the rung accepts that
                           * layout */
    int batch;            /* at least 1 */
    struct extras extras;
    void *scratch; /* at least the number of bytes that the rung's scratch()
                    * returned */
};

/* The layout of a and b that a rung needs. If they have a different layout,
 * matmul.cu first copies them (pack.h): transposed, padded, or both. */
enum needs {
    PLAIN = 0,   /* a (m,k) and b (k,n), any address, rows without gaps */
    ANY_A = 1,   /* also accepts a stored (k,m): q->trans_a */
    ANY_B = 2,   /* also accepts b stored (n,k): q->trans_b */
    B_BY_N = 4,  /* the rung requires b stored (n,k): q->trans_b is always 1 */
    ALIGNED = 8, /* requires addresses, pitches and batch steps in multiples of
                  * 16 bytes */
};

/* A rung: its entry in weft_rungs(), and how matmul.cu launches it. */
struct matmul_rung {
    struct weft_rung line;
    int needs;
    int (*launch)(const struct product *q, cudaStream_t stream);
    size_t (*scratch)(const struct product *q); /* in bytes; NULL: needs none */
};

#define MATMUL_RUNG(name, idea, precision, targets, sm, needs, launch, \
                    scratch)                                           \
    extern const struct matmul_rung matmul_##name##_rung;              \
    const struct matmul_rung matmul_##name##_rung = {                  \
        {"matmul", #name, idea, precision, targets, sm},               \
        needs,                                                         \
        launch,                                                        \
        scratch};

/* Return the grid for blocks of `rows` x `cols` elements of c, with the batch
 * in z. */
static inline dim3 matmul_grid(const struct product *q, int rows, int cols) {
    return dim3((unsigned)CEIL_DIV(q->n, cols), (unsigned)CEIL_DIV(q->m, rows),
                (unsigned)q->batch);
}

/* ---- in a kernel --------------------------------------------------------- */

/* Move the three pointers to the block's matrix of the batch. */
template <typename T>
static __device__ __forceinline__ void
own_matrix(float **c, const T **a, const T **b, const struct extras &x) {
    *c += blockIdx.z * x.step_c;
    *a += blockIdx.z * x.step_a;
    *b += blockIdx.z * x.step_b;
}

/* Return element (row,col) of a matrix (rows,cols), or 0 outside it, which adds
 * nothing to a sum of products. Rows and columns are below 2^32, so an address
 * costs one 32-bit multiplication; with size_t it would cost three. */
static __device__ __forceinline__ float load_or_zero(const float *from,
                                                     int rows, int cols,
                                                     unsigned row,
                                                     unsigned col) {
    return row < (unsigned)rows && col < (unsigned)cols
               ? from[(size_t)row * (unsigned)cols + col]
               : 0.0f;
}

/* Return four elements of a row, starting at (row,col), where col is a multiple
 * of 4. The matrix's rows are `pitch` floats apart and end in zeros, as ALIGNED
 * guarantees. */
static __device__ __forceinline__ float4 load4_or_zero(const float *from,
                                                       size_t pitch, int rows,
                                                       int cols, unsigned row,
                                                       unsigned col) {
    return row < (unsigned)rows && col < (unsigned)cols
               ? *(const float4 *)(from + (size_t)row * (unsigned)pitch + col)
               : make_float4(0.0f, 0.0f, 0.0f, 0.0f);
}

/* Return the final value of an element of c. `sum`: the sum of the products;
 * `old`: the element's previous value (read by the caller if beta is not 0);
 * `col`: the element's column. */
static __device__ __forceinline__ float finish(float sum, float old, size_t col,
                                               const struct extras &x) {
    float value = x.alpha * sum;
    if (x.beta != 0.0f) value += x.beta * old;
    if (x.bias) value += x.bias[col];
    return x.relu && value < 0.0f ? 0.0f : value; // a NaN stays a NaN
}

/* Store element (row,col) of c (m,n) from the sum of its products. */
static __device__ __forceinline__ void store(float *c, int n, size_t row,
                                             size_t col, float sum,
                                             const struct extras &x) {
    float *const out = c + row * n + col;
    *out = finish(sum, x.beta != 0.0f ? *out : 0.0f, col, x);
}

/* Return whether rows of c start at multiples of 16 bytes, as store4()'s
 * vectors require. */
static __device__ __forceinline__ bool takes_vectors(const float *c, int n) {
    return n % 4 == 0 && (size_t)c % 16 == 0;
}

/* Store the warp's part of c: 4 rows, `apart` from each other, and 32 columns,
 * starting at (row,col). Rows may have any address. Lane l holds four columns
 * of row l / 8, starting at 4 (l % 8). If each lane stored its own four,
 * neighbouring lanes would write 16 bytes apart, which costs four times the
 * traffic. So the lanes exchange the elements through warp_s, 512 bytes of
 * shared memory, and store whole rows. */
static __device__ __forceinline__ void
store_by_rows(float *c, int m, int n, size_t row, int apart, size_t col,
              const float sums[4], float *warp_s, const struct extras &x) {
    const int lane = threadIdx.x % 32;
    *(float4 *)(warp_s + lane * 4) =
        make_float4(sums[0], sums[1], sums[2], sums[3]);
    __syncwarp(); // all numbers are stored ...
    const bool plain = x.beta == 0.0f && !x.bias && !x.relu;
#pragma unroll
    for (int y = 0; y < 4; y++, row += apart) {
        if (row >= (size_t)m || col + lane >= (size_t)n) continue;
        const float sum = warp_s[y * 32 + lane];
        if (plain)
            c[row * n + col + lane] = x.alpha * sum;
        else
            store(c, n, row, col + lane, sum, x);
    }
    __syncwarp(); // ... and have been read
}

/* Store those of the four elements starting at (row,col) that are inside c. */
static __device__ __forceinline__ void store4(float *c, int m, int n,
                                              size_t row, size_t col,
                                              const float sums[4],
                                              const struct extras &x) {
    if (row >= (size_t)m) return;
    if (takes_vectors(c, n) && col + 4 <= (size_t)n) {
        float4 *const out = (float4 *)(c + row * n + col);
        float4 old = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
        if (x.beta != 0.0f) old = *out;
        *out = make_float4(finish(sums[0], old.x, col, x),
                           finish(sums[1], old.y, col + 1, x),
                           finish(sums[2], old.z, col + 2, x),
                           finish(sums[3], old.w, col + 3, x));
        return;
    }
    for (int i = 0; i < 4; i++)
        if (col + i < (size_t)n) store(c, n, row, col + i, sums[i], x);
}

#endif
