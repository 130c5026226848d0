/* norm.cuh -- the code that the rungs of layernorm and rmsnorm share.
 *
 * Both scale a row by 1 / sqrt(spread + eps). In layernorm, the spread is the
 * mean square of the distances from the row's mean, which is subtracted
 * (CENTRED). In rmsnorm it is the mean square of the numbers themselves. The
 * rungs are the same: 01_thread_a_row.cu to 07_cluster_a_row.cu, and
 * 08_weights.cu for the gradients of weight and bias. layernorm.cu and
 * rmsnorm.cu check the arguments.
 *
 * A row is x, or x + residual, which is stored in total. */
#ifndef WEFT_NORM_CUH
#define WEFT_NORM_CUH
#include "../common/internal.cuh"

#include "../common/checks.cuh"
#include "../common/launch.cuh"
#include "../common/rows.cuh"
#include "../common/scratch.cuh"

/* The arguments of the forward pass. */
struct normal {
    float *y;                   // (rows,cols)
    float *total;               // (rows,cols); NULL without residual
    float *mean;                // (rows); NULL in rmsnorm
    float *rstd;                // (rows)
    const float *x;             // (rows,cols)
    const float *residual;      // (rows,cols); NULL: none
    const float *weight, *bias; // (cols) each; NULL: ones, or zeros
    unsigned rows, cols;
    float eps;
    bool centred; // layernorm, not rmsnorm
};

/* The arguments of the backward pass. Each output may be NULL. */
struct normal_backward {
    float *dx, *dresidual;    // (rows,cols), the same numbers
    float *dweight, *dbias;   // (cols)
    const float *dy, *x;      // (rows,cols); x is total if there is a residual
    const float *weight;      // (cols); NULL: ones
    const float *mean, *rstd; // (rows); mean is NULL in rmsnorm
    unsigned rows, cols;
    bool centred;
};

/* The rungs of both ops, in the order of their tables. */
enum norm_rung {
    NORM_REFERENCE,
    NORM_THREAD_A_ROW,
    NORM_WARP_A_ROW,
    NORM_BLOCK_A_ROW,
    NORM_ROW_IN_SHARED,
    NORM_SPLIT_ROWS,
    NORM_ROW_IN_REGISTERS,
    NORM_CLUSTER_A_ROW,
    NORM_TUNED
};

/* Queue a pass by a rung; each returns a weft_status. The backward pass
 * includes the weights' gradients. op: the op's name, for messages. */
int weft_norm(const char *op, int rung, const normal &n, cudaStream_t stream);
int weft_norm_backward(const char *op, int rung, const normal_backward &n,
                       cudaStream_t stream);

int norm_thread_a_row(const normal &n, cudaStream_t stream);
int norm_thread_a_row_backward(const normal_backward &n, cudaStream_t stream);
int norm_warp_a_row(const normal &n, cudaStream_t stream);
int norm_warp_a_row_backward(const normal_backward &n, cudaStream_t stream);
int norm_block_a_row(const normal &n, cudaStream_t stream);
int norm_block_a_row_backward(const normal_backward &n, cudaStream_t stream);
int norm_row_in_shared(const normal &n, cudaStream_t stream);
int norm_row_in_shared_backward(const normal_backward &n, cudaStream_t stream);
int norm_split_rows(const char *op, const normal &n, cudaStream_t stream);
int norm_split_rows_backward(const char *op, const normal_backward &n,
                             cudaStream_t stream);
int norm_row_in_registers(const normal &n, cudaStream_t stream);
int norm_row_in_registers_backward(const normal_backward &n,
                                   cudaStream_t stream);
int norm_cluster_a_row(const char *op, const normal &n, cudaStream_t stream);
int norm_cluster_a_row_backward(const char *op, const normal_backward &n,
                                cudaStream_t stream);

/* Compute dweight and dbias, unless both are NULL. */
int norm_weights(const char *op, const normal_backward &n, cudaStream_t stream);

/* ---- moments ------------------------------------------------------------- */

/* Count of numbers so far, their mean, and the sum of squared distances from
 * it. In rmsnorm, the mean stays 0. */
struct moments {
    float count, mean, squares;
};

/* Merge the moments of two sets (Chan, Golub and LeVeque, Updating formulae and
 * a pairwise algorithm for computing sample variances, 1979). */
template <bool CENTRED>
static __device__ __forceinline__ moments merge(moments a, moments b) {
    moments all = {a.count + b.count, 0.0f, a.squares + b.squares};
    if (!CENTRED || all.count == 0.0f) return all;
    const float share = b.count / all.count, distance = b.mean - a.mean;
    all.mean = a.mean + distance * share;
    // In this order, an empty set adds 0 to the moments of large numbers.
    all.squares += distance * (a.count * share) * distance;
    return all;
}

/* Return to every lane the merged moments of the warp's lanes. The squares are
 * those of all lanes, plus each lane's count times its mean's squared distance
 * from the merged mean. */
template <bool CENTRED>
static __device__ __forceinline__ moments merge_lanes(moments own) {
    moments all = {};
    if (CENTRED) {
        all.count = add_lanes(own.count);
        all.mean = add_lanes(own.count * own.mean) / fmaxf(all.count, 1.0f);
        const float distance = own.mean - all.mean;
        own.squares += own.count * distance * distance;
    }
    all.squares = add_lanes(own.squares);
    return all;
}

/* Return to each thread the merged moments of the COUNT warps of its block. The
 * next call needs different memory. */
template <bool CENTRED, int COUNT>
static __device__ __forceinline__ moments merge_warps(moments warp,
                                                      moments (&all_s)[COUNT]) {
    const int lane = threadIdx.x % WARP;
    if (lane == 0) all_s[threadIdx.x / WARP] = warp;
    __syncthreads(); // the moments of all warps are stored
    return merge_lanes<CENTRED>(lane < COUNT ? all_s[lane] : moments{});
}

/* ---- rows ---------------------------------------------------------------- */

/* Store a row's mean and rstd, by one of its threads. */
static __device__ __forceinline__ void keep_moments(const normal &n, size_t row,
                                                    float mean, float rstd) {
    if (n.mean) n.mean[row] = mean;
    n.rstd[row] = rstd;
}

static __device__ __forceinline__ float find_rstd(const normal &n,
                                                  float squares) {
    return 1.0f / sqrtf(squares / (float)n.cols + n.eps);
}

/* Load group j of a row that begins at element `first`, and store the sum with
 * the residual. Numbers past the end are 0. */
template <class Sharer>
static __device__ __forceinline__ four load_row(const normal &n, Sharer thread,
                                                size_t first, unsigned j) {
    four v = thread.load(n.x + first, j, n.cols, 0.0f);
    if (n.residual) {
        const four other = thread.load(n.residual + first, j, n.cols, 0.0f);
#pragma unroll
        for (int k = 0; k < 4; k++) v.at[k] += other.at[k];
        thread.store(n.total + first, j, n.cols, v);
    }
    return v;
}

/* Load group j of a row again. */
template <class Sharer>
static __device__ __forceinline__ four load_again(const normal &n,
                                                  Sharer thread, size_t first,
                                                  unsigned j) {
    return thread.load((n.residual ? n.total : n.x) + first, j, n.cols, 0.0f);
}

/* Load group j of weight or bias; if it is NULL, return `other` four times. */
template <class Sharer>
static __device__ __forceinline__ four load_scale(const float *scale,
                                                  Sharer thread, unsigned j,
                                                  unsigned cols, float other) {
    return scale ? thread.load(scale, j, cols, other)
                 : four{other, other, other, other};
}

static __device__ __forceinline__ four normalize_four(four v, float mean,
                                                      float rstd, four weight,
                                                      four bias) {
#pragma unroll
    for (int k = 0; k < 4; k++)
        v.at[k] = (v.at[k] - mean) * rstd * weight.at[k] + bias.at[k];
    return v;
}

/* Return the sum of squares of the distances from the mean in group j, without
 * the zeros past the end of a row of `cols` numbers. */
template <bool CENTRED, class Sharer>
static __device__ __forceinline__ float
add_squares(four v, float mean, Sharer thread, unsigned j, unsigned cols) {
#pragma unroll
    for (int k = 0; k < 4; k++)
        v.at[k] = CENTRED && thread.find(j, k) >= cols ? 0.0f : v.at[k] - mean;
    return dot_four(v, v);
}

/* Return the moments of group j. */
template <bool CENTRED, class Sharer>
static __device__ __forceinline__ moments find_moments(four v, Sharer thread,
                                                       unsigned j,
                                                       unsigned cols) {
    if (!CENTRED) return {0.0f, 0.0f, dot_four(v, v)};
    float count = 0.0f;
#pragma unroll
    for (int k = 0; k < 4; k++) count += thread.find(j, k) < cols;
    if (count == 0.0f) return moments{};
    const float mean = add_four(v) / count;
    return {count, mean, add_squares<CENTRED>(v, mean, thread, j, cols)};
}

/* ---- gradients of a row -------------------------------------------------- */

/* The sums over a row of g and of g * xhat, where g = dy * weight and xhat = (x
 * - mean) * rstd. In rmsnorm, the first sum is not used. */
struct slopes {
    float plain, scaled;
};

/* Return g and xhat of four numbers in the places of dy and x. */
static __device__ __forceinline__ void
scale_both(four *dy, four *x, four weight, float mean, float rstd) {
#pragma unroll
    for (int k = 0; k < 4; k++) {
        dy->at[k] *= weight.at[k];
        x->at[k] = (x->at[k] - mean) * rstd;
    }
}

/* Return dx = rstd * (g - mean(g) - xhat * mean(g * xhat)), where the first
 * mean is 0 in rmsnorm. */
static __device__ __forceinline__ four slope_four(four g, four xhat,
                                                  slopes means, float rstd) {
#pragma unroll
    for (int k = 0; k < 4; k++)
        g.at[k] = rstd * (g.at[k] - means.plain - xhat.at[k] * means.scaled);
    return g;
}

/* Return the means of a row from the sums of its numbers. */
template <bool CENTRED>
static __device__ __forceinline__ slopes find_means(slopes sums,
                                                    unsigned cols) {
    return {CENTRED ? sums.plain / (float)cols : 0.0f,
            sums.scaled / (float)cols};
}

/* Return to each thread the sums over its block of COUNT warps. */
template <bool CENTRED, int COUNT>
static __device__ __forceinline__ slopes add_threads(slopes sums,
                                                     float (&sums_s)[COUNT]) {
    if (CENTRED) sums.plain = add_threads(sums.plain, sums_s);
    sums.scaled = add_threads(sums.scaled, sums_s);
    return sums;
}

template <class Sharer>
static __device__ __forceinline__ void
store_gradient(const normal_backward &n, Sharer thread, size_t first,
               unsigned j, four gradient) {
    if (n.dx) thread.store(n.dx + first, j, n.cols, gradient);
    if (n.dresidual) thread.store(n.dresidual + first, j, n.cols, gradient);
}

/* Load g and xhat of group j of a row that begins at element `first`. */
template <class Sharer>
static __device__ __forceinline__ void
load_both(const normal_backward &n, Sharer thread, size_t row, size_t first,
          unsigned j, four *g, four *xhat) {
    *g = thread.load(n.dy + first, j, n.cols, 0.0f);
    *xhat = thread.load(n.x + first, j, n.cols, 0.0f);
    const four weight = load_scale(n.weight, thread, j, n.cols, 1.0f);
    scale_both(g, xhat, weight, n.mean ? n.mean[row] : 0.0f, n.rstd[row]);
}

/* ---- parts of rows ------------------------------------------------------- */

/* Return the arguments for `count` columns, starting at `start`. The distance
 * between rows does not change. */
static __device__ __forceinline__ normal take_part(normal n, unsigned start,
                                                   unsigned count) {
    n.y += start, n.x += start, n.cols = count;
    if (n.residual) n.residual += start, n.total += start;
    if (n.weight) n.weight += start;
    if (n.bias) n.bias += start;
    return n;
}

static __device__ __forceinline__ normal_backward take_part(normal_backward n,
                                                            unsigned start,
                                                            unsigned count) {
    n.dy += start, n.x += start, n.cols = count;
    if (n.dx) n.dx += start;
    if (n.dresidual) n.dresidual += start;
    if (n.weight) n.weight += start;
    return n;
}

/* ---- launches ------------------------------------------------------------ */

/* Return whether rows of all arrays begin at multiples of 16 bytes. */
static inline bool rows_are_aligned(const normal &n) {
    return rows_are_aligned(n.y, n.x, n.weight, n.cols) &&
           rows_are_aligned(n.total, n.residual, n.bias, n.cols);
}

static inline bool rows_are_aligned(const normal_backward &n) {
    return rows_are_aligned(n.dx, n.dresidual, n.weight, n.cols) &&
           rows_are_aligned(n.dy, n.x, n.x, n.cols);
}

/* Return a grid of blocks that take several rows each: enough to keep the
 * device busy, at most `most`. On the CPU target, the number is constant. */
static inline unsigned count_busy(unsigned most) {
#ifdef __CUDACC__
    const unsigned blocks = 4 * device_has(cudaDevAttrMultiProcessorCount);
#else
    const unsigned blocks = 2;
#endif
    return blocks < most ? blocks : most;
}

#endif
