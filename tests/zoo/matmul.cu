/* The zoo: matmul as a tiled kernel that is right but for one fault, which its
 * rung is named after. "right" has none, so that each of the others can only be
 * refused for its own. */
#include "internal.cuh"

enum fault {
    RIGHT,
    ALL_NAN,
    ALL_ZEROS,
    TRANSPOSED,
    LAST_ROW_MISSING,
    LAST_TILE_MISSING,
    MISSING_BARRIER,
    MISSING_SECOND_BARRIER,
    MISSING_GUARD,
    ROUNDED_TO_TF32,
    INPUT_OVERWRITTEN
};

WEFT_RUNGS({"matmul", "right", "", "fp32", WEFT_CPU | WEFT_CUDA, 0},
           {"matmul", "all_nan", "", "fp32", WEFT_CPU | WEFT_CUDA, 0},
           {"matmul", "all_zeros", "", "fp32", WEFT_CPU | WEFT_CUDA, 0},
           {"matmul", "transposed", "", "fp32", WEFT_CPU | WEFT_CUDA, 0},
           {"matmul", "last_row_missing", "", "fp32", WEFT_CPU | WEFT_CUDA, 0},
           {"matmul", "last_tile_missing", "", "fp32", WEFT_CPU | WEFT_CUDA, 0},
           {"matmul", "missing_barrier", "", "fp32", WEFT_CPU | WEFT_CUDA, 0},
           {"matmul", "missing_second_barrier", "", "fp32",
            WEFT_CPU | WEFT_CUDA, 0},
           {"matmul", "missing_guard", "", "fp32", WEFT_CPU | WEFT_CUDA, 0},
           {"matmul", "rounded_to_tf32", "", "fp32", WEFT_CPU | WEFT_CUDA, 0},
           {"matmul", "input_overwritten", "", "fp32", WEFT_CPU | WEFT_CUDA, 0})

enum { TILE = 8 };

/* x with 10 bits of mantissa, as the tensor cores' tf32 has. */
static __device__ float tf32(float x) {
    unsigned bits;
    memcpy(&bits, &x, sizeof bits);
    bits = (bits + 0x1000u) & ~0x1fffu;
    memcpy(&x, &bits, sizeof bits);
    return x;
}

template <int FAULT>
static __global__ void matmul_faulty(float *c, const float *a, const float *b,
                                     int m, int n, int k, int a_row, int a_col,
                                     int b_row, int b_col, float alpha,
                                     float beta) {
    __shared__ float a_s[TILE][TILE], b_s[TILE][TILE];
    const int tx = threadIdx.x, ty = threadIdx.y;
    const int row = blockIdx.y * TILE + ty, col = blockIdx.x * TILE + tx;
    const int last = FAULT == LAST_TILE_MISSING && k > TILE ? k - TILE : k;

    float acc = 0.0f;
    for (int k0 = 0; k0 < last; k0 += TILE) {
        float x = 0.0f, y = 0.0f;
        if (row < m && k0 + tx < k) x = a[row * a_row + (k0 + tx) * a_col];
        if (k0 + ty < k && col < n) y = b[(k0 + ty) * b_row + col * b_col];
        a_s[ty][tx] = FAULT == ROUNDED_TO_TF32 ? tf32(x) : x;
        b_s[ty][tx] = FAULT == ROUNDED_TO_TF32 ? tf32(y) : y;
        if (FAULT != MISSING_BARRIER) __syncthreads();
        for (int i = 0; i < TILE; i++) acc += a_s[ty][i] * b_s[i][tx];
        if (FAULT != MISSING_SECOND_BARRIER) __syncthreads();
    }
    if (FAULT == MISSING_GUARD ? row >= m + TILE : row >= m || col >= n) return;
    if (FAULT == LAST_ROW_MISSING && row == m - 1) return;
    float *out =
        &c[FAULT == TRANSPOSED ? (row * n + col) % n * m + (row * n + col) / n
                               : row * n + col];
    *out = FAULT == ALL_NAN     ? NAN
           : FAULT == ALL_ZEROS ? 0.0f
           : beta == 0.0f       ? alpha * acc
                                : alpha * acc + beta * *out;
    if (FAULT == INPUT_OVERWRITTEN && row == 0 && col == 0)
        ((float *)a)[m * k - 1] = 0.0f;
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
    struct weft_matmul_options plain = {};
    plain.alpha = 1.0f;
    const struct weft_matmul_options *o = options ? options : &plain;
    const dim3 grid(CEIL_DIV(n, TILE), CEIL_DIV(m, TILE)), block(TILE, TILE);
    const int a_row = o->trans_a ? 1 : k, a_col = o->trans_a ? m : 1;
    const int b_row = o->trans_b ? 1 : n, b_col = o->trans_b ? k : 1;
    cudaStream_t s = weft_cuda_stream(stream);
#define FAULTY(fault)                                                     \
    case fault:                                                           \
        matmul_faulty<fault><<<grid, block, 0, s>>>(                      \
            c, (const float *)a, (const float *)b, m, n, k, a_row, a_col, \
            b_row, b_col, o->alpha, o->beta);                             \
        break
    switch (rung) {
        FAULTY(RIGHT);
        FAULTY(ALL_NAN);
        FAULTY(ALL_ZEROS);
        FAULTY(TRANSPOSED);
        FAULTY(LAST_ROW_MISSING);
        FAULTY(LAST_TILE_MISSING);
        FAULTY(MISSING_BARRIER);
        FAULTY(MISSING_SECOND_BARRIER);
        FAULTY(MISSING_GUARD);
        FAULTY(ROUNDED_TO_TF32);
        FAULTY(INPUT_OVERWRITTEN);
    }
    WEFT_LAUNCHED(matmul_faulty);
    return WEFT_OK;
}
