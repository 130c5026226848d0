/* linear.cu -- a fully connected layer: y = x @ weight^T + bias.
 *
 * Naive
 * Idea:    one thread per element of the result, in both directions. Each of
 *          the three gradients is a matrix product or a sum over the batch, and
 *          each has a separate kernel.
 * Limit:   as in matmul's naive rung, two loads for each multiply-add. Forward,
 *          neighbouring threads read rows of weight that are `in` apart, so
 *          their loads do not coalesce. dbias has only `out` threads.
 * Error:   `in`, `out` or n terms are added one after another in float: at most
 *          1.01 2^-24 per term, relative to the same sum over absolute values.
 * Lesson:  notebooks/10a_backwards.ipynb
 *
 * Tiled
 * Idea:    one kernel with different strides computes all three products. A
 *          block stages tiles of both factors in shared memory, and a thread
 *          has 4 x 4 results in registers. If results are few and sums long (64
 *          x 128 sums of 3136 terms), there would be only a few such blocks. In
 *          that case a block takes only 8 x 8 results, and its threads share
 *          the terms of each.
 * Limit:   nothing is multiplied while loads wait; with 8 x 8 results a block
 *          reads a quarter of a float for each multiply-add from the L2 cache.
 * Error:   as above, but shared terms are added in shorter sequences.
 * Lesson:  notebooks/15b_mnist_gpu.ipynb */
#include "common/internal.cuh"

#include "common/checks.cuh"
#include "common/tiles.cuh"
#include "reference/reference.h"

WEFT_RUNGS({"linear", "reference", "plain C on the blocked matrix product",
            "fp32", WEFT_CPU, 0},
           {"linear", "naive", "one thread per output element", "fp32",
            WEFT_CPU | WEFT_CUDA, 0},
           {"linear", "tiled", "tiles in shared memory and in registers",
            "fp32", WEFT_CPU | WEFT_CUDA, 0});

enum { REFERENCE, NAIVE, TILED };

/* Compute y[row][col] = bias[col] + sum over i of x[row][i] *
 * weight[col][i]. */
static __global__ void linear_naive(float *y, const float *x,
                                    const float *weight, const float *bias,
                                    int n, int in, int out) {
    const size_t index = (size_t)blockIdx.x * blockDim.x + threadIdx.x;
    if (index >= (size_t)n * out) return;
    const size_t row = index / out, col = index % out;
    float acc = bias ? bias[col] : 0.0f;
    for (int i = 0; i < in; i++) acc += x[row * in + i] * weight[col * in + i];
    y[index] = acc;
}

/* Compute dx[row][i] = sum over the outputs of dy[row][col] *
 * weight[col][i]. */
static __global__ void linear_naive_dx(float *dx, const float *dy,
                                       const float *weight, int n, int in,
                                       int out) {
    const size_t index = (size_t)blockIdx.x * blockDim.x + threadIdx.x;
    if (index >= (size_t)n * in) return;
    const size_t row = index / in, i = index % in;
    float acc = 0.0f;
    for (int col = 0; col < out; col++)
        acc += dy[row * out + col] * weight[(size_t)col * in + i];
    dx[index] = acc;
}

/* Compute dweight[col][i] = sum over the batch of dy[row][col] * x[row][i]. */
static __global__ void linear_naive_dweight(float *dweight, const float *dy,
                                            const float *x, int n, int in,
                                            int out) {
    const size_t index = (size_t)blockIdx.x * blockDim.x + threadIdx.x;
    if (index >= (size_t)out * in) return;
    const size_t col = index / in, i = index % in;
    float acc = 0.0f;
    for (int row = 0; row < n; row++)
        acc += dy[(size_t)row * out + col] * x[(size_t)row * in + i];
    dweight[index] = acc;
}

/* Compute dbias[col] = sum over the batch of dy[row][col]. */
static __global__ void linear_naive_dbias(float *dbias, const float *dy, int n,
                                          int out) {
    const size_t col = (size_t)blockIdx.x * blockDim.x + threadIdx.x;
    if (col >= (size_t)out) return;
    float acc = 0.0f;
    for (int row = 0; row < n; row++) acc += dy[(size_t)row * out + col];
    dbias[col] = acc;
}

static int launch_naive_backward(float *dx, float *dweight, float *dbias,
                                 const float *dy, const float *x,
                                 const float *weight, int n, int in, int out,
                                 cudaStream_t stream) {
    if (dx) {
        linear_naive_dx<<<blocks_for((size_t)n * in), THREADS, 0, stream>>>(
            dx, dy, weight, n, in, out);
        WEFT_LAUNCHED(linear_naive_dx);
    }
    if (dweight) {
        linear_naive_dweight<<<blocks_for((size_t)out * in), THREADS, 0,
                               stream>>>(dweight, dy, x, n, in, out);
        WEFT_LAUNCHED(linear_naive_dweight);
    }
    if (dbias) {
        linear_naive_dbias<<<blocks_for(out), THREADS, 0, stream>>>(dbias, dy,
                                                                    n, out);
        WEFT_LAUNCHED(linear_naive_dbias);
    }
    return WEFT_OK;
}

/* ---- tiled --------------------------------------------------------------- */

/* A factor of a product: element (line,k), where k runs along the sum's depth,
 * is data[line * line_stride + k * k_stride]. */
struct factor {
    const float *data;
    size_t line_stride, k_stride;
    int lines;
};

/* Load tile_s[k][line] = element (first + line, k0 + k) for k < depth, or zero
 * if the factor has no such line. Lanes run along the direction that is
 * contiguous in memory. */
template <int LINES, int PITCH>
static __device__ void load_tile(float (*tile_s)[PITCH], struct factor from,
                                 int first, int k0, int depth) {
    enum { STEP = TILE_THREADS / 32, TURNS = LINES * TILE_DEPTH / 32 / STEP };
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const bool along_k = from.k_stride == 1;
#pragma unroll
    for (int i = 0; i < TURNS; i++) {
        const int turn = i * STEP + warp;
        // A warp takes 32 lines at one k, or 4 lines at 8 steps of k: whole
        // sectors of 32 bytes in both cases.
        const int line = along_k ? turn % (LINES / 4) * 4 + lane % 4
                                 : turn % (LINES / 32) * 32 + lane;
        const int k =
            along_k ? turn / (LINES / 4) * 8 + lane / 4 : turn / (LINES / 32);
        if (k < depth)
            tile_s[k][line] =
                first + line < from.lines
                    ? from.data[(first + line) * from.line_stride +
                                (k0 + k) * from.k_stride]
                    : 0.0f;
    }
}

/* Compute result (left.lines,right.lines) = sum over k of left[row][k] *
 * right[col][k], plus bias[col]. A block computes TILE_ROWS x TILE_COLS
 * results. */
static __global__ void linear_tiled(float *result, struct factor left,
                                    struct factor right, const float *bias,
                                    int terms) {
    __shared__ __align__(16) float left_s[TILE_DEPTH][LEFT_PITCH];
    __shared__ __align__(16) float right_s[TILE_DEPTH][RIGHT_PITCH];
    const int across = (right.lines - 1) / TILE_COLS + 1;
    const int first_row = blockIdx.x / across * TILE_ROWS;
    const int first_col = blockIdx.x % across * TILE_COLS;

    float sums[4][4] = {};
    for (int k0 = 0; k0 < terms; k0 += TILE_DEPTH) {
        const int depth = terms - k0 < TILE_DEPTH ? terms - k0 : TILE_DEPTH;
        load_tile<TILE_ROWS>(left_s, left, first_row, k0, depth);
        load_tile<TILE_COLS>(right_s, right, first_col, k0, depth);
        __syncthreads(); // both tiles are complete ...
        multiply_tiles(sums, left_s, right_s, depth);
        __syncthreads(); // ... and have been read
    }

    for (int i = 0; i < 4; i++)
        for (int j = 0; j < 4; j++) {
            const int row = first_row + own_row() + i;
            const int col = first_col + own_col() + j;
            if (row < left.lines && col < right.lines)
                result[(size_t)row * right.lines + col] =
                    sums[i][j] + (bias ? bias[col] : 0.0f);
        }
}

enum { SIDE = 8 }; // side of a block's square of results if there are few

/* Compute y[row][col] = bias[col] + sum over i of x[row][i] * weight[col][i]. A
 * block computes SIDE x SIDE results, and each of its threads sums over every
 * THREADS-th i. */
static __global__ void linear_tiled_few(float *y, const float *x,
                                        const float *weight, const float *bias,
                                        int n, int in, int out) {
    __shared__ float sums_s[SIDE * SIDE][33];
    const int across = (out - 1) / SIDE + 1;
    const int first_row = blockIdx.x / across * SIDE;
    const int first_col = blockIdx.x % across * SIDE;

    float sums[SIDE * SIDE] = {};
    for (int i = threadIdx.x; i < in; i += THREADS) {
        float x_r[SIDE];
#pragma unroll
        for (int r = 0; r < SIDE; r++)
            x_r[r] =
                first_row + r < n ? x[(size_t)(first_row + r) * in + i] : 0;
#pragma unroll
        for (int c = 0; c < SIDE; c++) {
            const size_t col = first_col + c;
            const float w = col < (size_t)out ? weight[col * in + i] : 0.0f;
#pragma unroll
            for (int r = 0; r < SIDE; r++) sums[r * SIDE + c] += x_r[r] * w;
        }
    }

    const float sum = block_totals<SIDE * SIDE>(sums, sums_s);
    const int row = first_row + threadIdx.x / SIDE;
    const int col = first_col + threadIdx.x % SIDE;
    if (threadIdx.x < SIDE * SIDE && row < n && col < out)
        y[(size_t)row * out + col] = sum + (bias ? bias[col] : 0.0f);
}

enum { BIAS_COLS = 32, BIAS_ROWS = 32, BIAS_LOADS = 4 };

/* Compute dbias[col] = sum over the batch of dy[row][col]. A block computes
 * BIAS_COLS columns, and each warp adds every BIAS_ROWS-th row of these. */
static __global__ void linear_tiled_dbias(float *dbias, const float *dy, int n,
                                          int out) {
    __shared__ float sums_s[BIAS_ROWS][BIAS_COLS];
    const int tx = threadIdx.x % BIAS_COLS, ty = threadIdx.x / BIAS_COLS;
    const size_t col = (size_t)blockIdx.x * BIAS_COLS + tx;
    float sum = 0.0f;
    for (size_t first = ty; first < (size_t)n; first += BIAS_LOADS * BIAS_ROWS)
#pragma unroll
        for (int i = 0; i < BIAS_LOADS; i++) {
            const size_t row = first + i * BIAS_ROWS;
            sum +=
                row < (size_t)n && col < (size_t)out ? dy[row * out + col] : 0;
        }
    sums_s[ty][tx] = sum;
    __syncthreads(); // the sums of all warps are stored
    if (ty > 0 || col >= (size_t)out) return;
    for (int i = 1; i < BIAS_ROWS; i++) sum += sums_s[i][tx];
    dbias[col] = sum;
}

static size_t tiles_of(size_t rows, size_t cols, int tile_rows, int tile_cols) {
    return CEIL_DIV(rows, tile_rows) * CEIL_DIV(cols, tile_cols);
}

static int launch_tiled(float *result, struct factor left, struct factor right,
                        const float *bias, int terms, cudaStream_t stream) {
    const size_t tiles =
        tiles_of(left.lines, right.lines, TILE_ROWS, TILE_COLS);
    linear_tiled<<<(unsigned)tiles, TILE_THREADS, 0, stream>>>(
        result, left, right, bias, terms);
    WEFT_LAUNCHED(linear_tiled);
    return WEFT_OK;
}

static int launch_tiled_forward(float *y, const float *x, const float *weight,
                                const float *bias, int n, int in, int out,
                                cudaStream_t stream) {
    enum { FEW_TILES = 64, LONG_SUM = 256 };
    const struct factor left = {x, (size_t)in, 1, n};
    const struct factor right = {weight, (size_t)in, 1, out};
    if (in < LONG_SUM || tiles_of(n, out, TILE_ROWS, TILE_COLS) > FEW_TILES)
        return launch_tiled(y, left, right, bias, in, stream);
    linear_tiled_few<<<(unsigned)tiles_of(n, out, SIDE, SIDE), THREADS, 0,
                       stream>>>(y, x, weight, bias, n, in, out);
    WEFT_LAUNCHED(linear_tiled_few);
    return WEFT_OK;
}

static int launch_tiled_backward(float *dx, float *dweight, float *dbias,
                                 const float *dy, const float *x,
                                 const float *weight, int n, int in, int out,
                                 cudaStream_t stream) {
    const size_t in_row = in, out_row = out;
    if (dx)
        WEFT_TRY(launch_tiled(dx, {dy, out_row, 1, n}, {weight, 1, in_row, in},
                              NULL, out, stream));
    if (dweight)
        WEFT_TRY(launch_tiled(dweight, {dy, 1, out_row, out},
                              {x, 1, in_row, in}, NULL, n, stream));
    if (dbias) {
        linear_tiled_dbias<<<CEIL_DIV((unsigned)out, BIAS_COLS),
                             BIAS_COLS * BIAS_ROWS, 0, stream>>>(dbias, dy, n,
                                                                 out);
        WEFT_LAUNCHED(linear_tiled_dbias);
    }
    return WEFT_OK;
}

/* ---- launchers ----------------------------------------------------------- */

int weft_linear(int rung, float *y, const float *x, const float *weight,
                const float *bias, int n, int in, int out, weft_stream stream) {
    WEFT_CHECK_RUNG(rung);
    CHECK_SIZE(n);
    CHECK_SIZE(in);
    CHECK_SIZE(out);
    CHECK_COUNT(x, (double)n * in);
    CHECK_COUNT(weight, (double)out * in);
    CHECK_COUNT(y, (double)n * out);
    CHECK_ARRAY(y);
    CHECK_ARRAY(x);
    CHECK_ARRAY(weight);
    switch (rung) {
    case REFERENCE:
        return WEFT_REFERENCE(linear_reference(y, x, weight, bias, n, in, out));
    case NAIVE:
        linear_naive<<<blocks_for((size_t)n * out), THREADS, 0,
                       weft_cuda_stream(stream)>>>(y, x, weight, bias, n, in,
                                                   out);
        WEFT_LAUNCHED(linear_naive);
        return WEFT_OK;
    case TILED:
        return launch_tiled_forward(y, x, weight, bias, n, in, out,
                                    weft_cuda_stream(stream));
    }
    return WEFT_OK;
}

int weft_linear_backward(int rung, float *dx, float *dweight, float *dbias,
                         const float *dy, const float *x, const float *weight,
                         int n, int in, int out, weft_stream stream) {
    WEFT_CHECK_RUNG(rung);
    CHECK_SIZE(n);
    CHECK_SIZE(in);
    CHECK_SIZE(out);
    CHECK_COUNT(x, (double)n * in);
    CHECK_COUNT(weight, (double)out * in);
    CHECK_COUNT(dy, (double)n * out);
    CHECK_ARRAY(dy);
    if (dweight) CHECK_ARRAY(x);
    if (dx) CHECK_ARRAY(weight);
    switch (rung) {
    case REFERENCE:
        return WEFT_REFERENCE(linear_reference_backward(dx, dweight, dbias, dy,
                                                        x, weight, n, in, out));
    case NAIVE:
        return launch_naive_backward(dx, dweight, dbias, dy, x, weight, n, in,
                                     out, weft_cuda_stream(stream));
    case TILED:
        return launch_tiled_backward(dx, dweight, dbias, dy, x, weight, n, in,
                                     out, weft_cuda_stream(stream));
    }
    return WEFT_OK;
}
