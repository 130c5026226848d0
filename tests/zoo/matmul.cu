/* The zoo: matmul as a tiled kernel with one fault, which names its rung.
 * "right" and the right_ rungs of other precisions have no fault, so the
 * checker can refuse any other rung only for its own fault. */
#include "common/internal.cuh"

#define ZOO(ANIMAL)                                                \
    ANIMAL(RIGHT, right, "fp32")                                   \
    ANIMAL(ALL_NAN, all_nan, "fp32")                               \
    ANIMAL(ALL_ZEROS, all_zeros, "fp32")                           \
    ANIMAL(TRANSPOSED, transposed, "fp32")                         \
    ANIMAL(LAST_ROW_MISSING, last_row_missing, "fp32")             \
    ANIMAL(LAST_TILE_MISSING, last_tile_missing, "fp32")           \
    ANIMAL(MISSING_BARRIER, missing_barrier, "fp32")               \
    ANIMAL(MISSING_SECOND_BARRIER, missing_second_barrier, "fp32") \
    ANIMAL(MISSING_GUARD, missing_guard, "fp32")                   \
    ANIMAL(ROUNDED_TO_TF32, rounded_to_tf32, "fp32")               \
    ANIMAL(INPUT_OVERWRITTEN, input_overwritten, "fp32")           \
    ANIMAL(K_TAIL_DROPPED, k_tail_dropped, "fp32")                 \
    ANIMAL(PADDED_ON_ONE_SIDE, padded_on_one_side, "fp32")         \
    ANIMAL(ALIGNED_DOWN, aligned_down, "fp32")                     \
    ANIMAL(TRANS_B_IGNORED, trans_b_ignored, "fp32")               \
    ANIMAL(ALPHA_IGNORED, alpha_ignored, "fp32")                   \
    ANIMAL(ALPHA_ON_OLD_C, alpha_on_old_c, "fp32")                 \
    ANIMAL(OLD_C_TIMES_ZERO, old_c_times_zero, "fp32")             \
    ANIMAL(BIAS_PER_ROW, bias_per_row, "fp32")                     \
    ANIMAL(BIAS_OF_FIRST_TILE, bias_of_first_tile, "fp32")         \
    ANIMAL(OLD_C_OF_ANOTHER_TILE, old_c_of_another_tile, "fp32")   \
    ANIMAL(RELU_BEFORE_BETA, relu_before_beta, "fp32")             \
    ANIMAL(RELU_BEFORE_BIAS, relu_before_bias, "fp32")             \
    ANIMAL(NAN_SWALLOWED, nan_swallowed, "fp32")                   \
    ANIMAL(ONLY_THE_FIRST_MATRIX, only_the_first_matrix, "fp32")   \
    ANIMAL(GAPS_IGNORED, gaps_ignored, "fp32")                     \
    ANIMAL(GAPS_OVERWRITTEN, gaps_overwritten, "fp32")             \
    ANIMAL(SHARED_MATRIX_LEFT, shared_matrix_left, "fp32")         \
    ANIMAL(ZERO_SKIPPED, zero_skipped, "fp32")                     \
    ANIMAL(RIGHT_BF16, right_bf16, "bf16")                         \
    ANIMAL(SUMS_OF_16_BITS, sums_of_16_bits, "bf16")               \
    ANIMAL(RIGHT_TF32, right_tf32, "tf32")                         \
    ANIMAL(TF32_OF_8_BITS, tf32_of_8_bits, "tf32")                 \
    ANIMAL(RIGHT_3XTF32, right_3xtf32, "3xtf32")                   \
    ANIMAL(ONLY_THE_LARGE_PARTS, only_the_large_parts, "3xtf32")   \
    ANIMAL(INFINITY_SPLIT_TO_NAN, infinity_split_to_nan, "3xtf32")

#define FAULT_OF(fault, name, precision) fault,
enum fault { ZOO(FAULT_OF) };

#define LINE_OF(fault, name, precision) \
    {"matmul", #name, "", precision, WEFT_CPU | WEFT_CUDA, 0},
WEFT_RUNGS(ZOO(LINE_OF));

enum { TILE = 8 };

struct sizes {
    int m, n, k, a_row, a_col, b_row, b_col;
    size_t step_a, step_b, step_c;
    float alpha, beta;
    const float *bias;
    int relu;
};

/* Return x rounded to that many bits of mantissa: 10 for tf32, 7 for bf16. */
static __device__ float rounded(float x, int bits_kept) {
    unsigned bits;
    memcpy(&bits, &x, sizeof bits);
    if ((bits & 0x7f800000u) == 0x7f800000u) return x; // infinite, or a NaN
    const unsigned rest = (1u << (23 - bits_kept)) - 1;
    bits = (bits + rest / 2 + 1) & ~rest;
    memcpy(&x, &bits, sizeof bits);
    return x;
}

static __device__ float element(const float *x, size_t i) { return x[i]; }

static __device__ float element(const uint16_t *x, size_t i) {
    const unsigned bits = (unsigned)x[i] << 16; // the upper half of a float
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

/* Return a * b as a rung of FAULT's precision computes it. */
template <int FAULT> static __device__ float multiply(float a, float b) {
    if (FAULT == ZERO_SKIPPED && a == 0.0f) return 0.0f;
    if (FAULT == ROUNDED_TO_TF32 || FAULT == RIGHT_TF32 ||
        FAULT == ONLY_THE_LARGE_PARTS)
        return rounded(a, 10) * rounded(b, 10);
    if (FAULT == TF32_OF_8_BITS) return rounded(a, 7) * rounded(b, 7);
    if (FAULT != RIGHT_3XTF32 && FAULT != INFINITY_SPLIT_TO_NAN) return a * b;
    const float a0 = rounded(a, 10), b0 = rounded(b, 10);
    if (FAULT == RIGHT_3XTF32 && !isfinite(a0 * b0)) return a0 * b0;
    const float a1 = rounded(a - a0, 10), b1 = rounded(b - b0, 10);
    return a0 * b0 + (a0 * b1 + a1 * b0);
}

/* Return the new value of element (row,col) of c, from its sum of products. */
template <int FAULT>
static __device__ float finish(float sum, const float *c, size_t row,
                               size_t col, const struct sizes &s) {
    const size_t another = FAULT == OLD_C_OF_ANOTHER_TILE && col >= TILE
                               ? row * s.n + col - TILE
                               : row * s.n + col;
    float value = FAULT == ALPHA_IGNORED ? sum : s.alpha * sum;
    if (FAULT == RELU_BEFORE_BETA && s.relu && value < 0.0f) value = 0.0f;
    if (FAULT == ALPHA_ON_OLD_C && s.beta != 0.0f)
        value = s.alpha * (sum + s.beta * c[another]);
    else if (FAULT == OLD_C_TIMES_ZERO || s.beta != 0.0f)
        value += s.beta * c[another];
    if (FAULT == RELU_BEFORE_BIAS && s.relu && value < 0.0f) value = 0.0f;
    if (s.bias && FAULT == BIAS_PER_ROW)
        value += s.bias[row < (size_t)s.n ? row : 0];
    else if (s.bias)
        value += s.bias[FAULT == BIAS_OF_FIRST_TILE ? col % TILE : col];
    if (FAULT == NAN_SWALLOWED && s.relu) return fmaxf(value, 0.0f);
    const bool last = FAULT != RELU_BEFORE_BETA && FAULT != RELU_BEFORE_BIAS;
    return last && s.relu && value < 0.0f ? 0.0f : value;
}

/* Move the pointers to the block's own matrix of the batch. */
template <int FAULT, typename T>
static __device__ void own_matrix(float **c, const T **a, const T **b,
                                  const struct sizes &s) {
    const size_t size = (size_t)s.m * s.k;
    const int z = FAULT == ONLY_THE_FIRST_MATRIX ? 0 : blockIdx.z;
    *c += blockIdx.z * s.step_c;
    const bool packed = FAULT == GAPS_IGNORED && s.step_a;
    *a += z * (packed ? size : s.step_a);
    const bool left = FAULT == SHARED_MATRIX_LEFT && !s.step_b;
    *b += z * (left ? 1 : s.step_b);
}

template <int FAULT, typename T>
static __global__ void matmul_faulty(float *c, const T *a, const T *b,
                                     struct sizes s) {
    __shared__ float a_s[TILE][TILE], b_s[TILE][TILE];
    own_matrix<FAULT>(&c, &a, &b, s);
    const int tx = threadIdx.x, ty = threadIdx.y, m = s.m, n = s.n, k = s.k;
    const int row = blockIdx.y * TILE + ty, col = blockIdx.x * TILE + tx;
    int last = k;
    if (FAULT == LAST_TILE_MISSING && k > TILE) last = k - TILE;
    if (FAULT == K_TAIL_DROPPED && k > 4) last = k / 4 * 4;
    if (FAULT == ALIGNED_DOWN) a = (const T *)((size_t)a / 16 * 16);

    float acc = 0.0f;
    for (int k0 = 0; k0 < last; k0 += TILE) {
        float x = 0.0f, y = 0.0f;
        const size_t at = (size_t)row * s.a_row + (size_t)(k0 + tx) * s.a_col;
        const bool inside = FAULT == PADDED_ON_ONE_SIDE
                                ? at < (size_t)m * k
                                : row < m && k0 + tx < last;
        if (inside) x = element(a, at);
        if (k0 + ty < last && col < n)
            y = element(b, (k0 + ty) * s.b_row + col * s.b_col);
        a_s[ty][tx] = x;
        b_s[ty][tx] = y;
        if (FAULT != MISSING_BARRIER) __syncthreads();
        for (int i = 0; i < TILE; i++) {
            acc += multiply<FAULT>(a_s[ty][i], b_s[i][tx]);
            if (FAULT == SUMS_OF_16_BITS) acc = rounded(acc, 7);
        }
        if (FAULT != MISSING_SECOND_BARRIER) __syncthreads();
    }
    if (FAULT == MISSING_GUARD ? row >= m + TILE : row >= m || col >= n) return;
    if (FAULT == LAST_ROW_MISSING && row == m - 1) return;
    const size_t at = (size_t)row * n + col;
    float *out = &c[FAULT == TRANSPOSED ? at % n * m + at / n : at];
    *out = FAULT == ALL_NAN     ? NAN
           : FAULT == ALL_ZEROS ? 0.0f
                                : finish<FAULT>(acc, c, row, col, s);
    if (FAULT == GAPS_OVERWRITTEN && row == m - 1 && col == n - 1 &&
        s.step_c > at + 1)
        out[1] = 0.0f;
    if (FAULT == INPUT_OVERWRITTEN && row == 0 && col == 0)
        ((T *)a)[m * k - 1] = 0;
}

template <int FAULT, typename T>
static int launch(float *c, const void *a, const void *b, int batch,
                  const struct sizes &s, cudaStream_t stream) {
    const dim3 grid((unsigned)CEIL_DIV(s.n, TILE),
                    (unsigned)CEIL_DIV(s.m, TILE), (unsigned)batch);
    matmul_faulty<FAULT><<<grid, dim3(TILE, TILE), 0, stream>>>(
        c, (const T *)a, (const T *)b, s);
    WEFT_LAUNCHED(matmul_faulty);
    return WEFT_OK;
}

int weft_matmul_workspace(int rung, size_t *bytes, const void *, const void *,
                          int, int, int, const struct weft_matmul_options *) {
    WEFT_CHECK_RUNG(rung);
    *bytes = 0;
    return WEFT_OK;
}

int weft_matmul(int rung, float *c, const void *a, const void *b, int m, int n,
                int k, const struct weft_matmul_options *options,
                weft_stream stream) {
    WEFT_CHECK_RUNG(rung);
    struct weft_matmul_options o = {};
    o.alpha = 1.0f;
    if (options) o = *options;
    if (rung == TRANS_B_IGNORED) o.trans_b = 0;
    const struct sizes s = {m,
                            n,
                            k,
                            o.trans_a ? 1 : k,
                            o.trans_a ? m : 1,
                            o.trans_b ? 1 : n,
                            o.trans_b ? k : 1,
                            (size_t)o.stride_a,
                            (size_t)o.stride_b,
                            (size_t)o.stride_c,
                            o.alpha,
                            o.beta,
                            o.bias,
                            o.relu};
    const int batch = o.batch ? o.batch : 1;
    cudaStream_t on = weft_cuda_stream(stream);
    if (rung == RIGHT_BF16)
        return launch<RIGHT_BF16, uint16_t>(c, a, b, batch, s, on);
    if (rung == SUMS_OF_16_BITS)
        return launch<SUMS_OF_16_BITS, uint16_t>(c, a, b, batch, s, on);
#define LAUNCH(fault, name, precision) \
    if (rung == fault) return launch<fault, float>(c, a, b, batch, s, on);
    ZOO(LAUNCH)
    return WEFT_EINVAL;
}

/* These kernels need not be fast, and -O1 compiles them sooner than -O3. */
/* g++: -O1 */
