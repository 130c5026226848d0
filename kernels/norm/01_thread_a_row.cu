/* 01_thread_a_row.cu -- layernorm and rmsnorm, rung 1: a thread per row.
 *
 * Idea:       a pass for the mean (layernorm only), a pass for the squares of
 *             the distances from it, and a pass that writes. The distances are
 *             small even if the numbers are large, so no digits cancel.
 *             Backward, one pass adds and another writes.
 * Prediction: layernorm reads each number three times, rmsnorm twice. A warp's
 *             threads read numbers that are a row apart: a sector of 32 bytes
 *             for every 4.
 * Limit:      the memory's bandwidth, of which an eighth is used. Rung 2 gives
 *             the row to a warp. */
#include "norm.cuh"

template <bool CENTRED> static __global__ void normalize_by_thread(normal n) {
    const size_t row = (size_t)blockIdx.x * THREADS + threadIdx.x;
    if (row >= n.rows) return;
    const size_t first = row * n.cols, end = first + n.cols;
    const float *const x = n.residual ? n.total : n.x;
    for (size_t i = first; n.residual && i < end; i++)
        n.total[i] = n.x[i] + n.residual[i];
    float mean = 0.0f, squares = 0.0f;
    for (size_t i = first; CENTRED && i < end; i++) mean += x[i];
    mean /= (float)n.cols;
    for (size_t i = first; i < end; i++)
        squares += (x[i] - mean) * (x[i] - mean);
    const float rstd = find_rstd(n, squares);
    for (size_t i = first; i < end; i++) {
        const float weight = n.weight ? n.weight[i - first] : 1.0f;
        const float bias = n.bias ? n.bias[i - first] : 0.0f;
        n.y[i] = (x[i] - mean) * rstd * weight + bias;
    }
    keep_moments(n, row, mean, rstd);
}

template <bool CENTRED>
static __global__ void differentiate_by_thread(normal_backward n) {
    const size_t row = (size_t)blockIdx.x * THREADS + threadIdx.x;
    if (row >= n.rows) return;
    const size_t first = row * n.cols;
    const float mean = CENTRED ? n.mean[row] : 0.0f, rstd = n.rstd[row];
    slopes sums = {0.0f, 0.0f};
    for (unsigned i = 0; i < n.cols; i++) {
        const float weight = n.weight ? n.weight[i] : 1.0f;
        const float g = n.dy[first + i] * weight;
        sums.plain += g;
        sums.scaled += g * ((n.x[first + i] - mean) * rstd);
    }
    const slopes means = find_means<CENTRED>(sums, n.cols);
    for (unsigned i = 0; i < n.cols; i++) {
        const float weight = n.weight ? n.weight[i] : 1.0f;
        const float g = n.dy[first + i] * weight;
        const float xhat = (n.x[first + i] - mean) * rstd;
        const float gradient = rstd * (g - means.plain - xhat * means.scaled);
        if (n.dx) n.dx[first + i] = gradient;
        if (n.dresidual) n.dresidual[first + i] = gradient;
    }
}

template <bool CENTRED>
static int launch(const normal &n, cudaStream_t stream) {
    normalize_by_thread<CENTRED><<<blocks_for(n.rows), THREADS, 0, stream>>>(n);
    WEFT_LAUNCHED(normalize_by_thread);
    return WEFT_OK;
}

template <bool CENTRED>
static int launch_backward(const normal_backward &n, cudaStream_t stream) {
    differentiate_by_thread<CENTRED>
        <<<blocks_for(n.rows), THREADS, 0, stream>>>(n);
    WEFT_LAUNCHED(differentiate_by_thread);
    return WEFT_OK;
}

int norm_thread_a_row(const normal &n, cudaStream_t stream) {
    return n.centred ? launch<true>(n, stream) : launch<false>(n, stream);
}

int norm_thread_a_row_backward(const normal_backward &n, cudaStream_t stream) {
    return n.centred ? launch_backward<true>(n, stream)
                     : launch_backward<false>(n, stream);
}
