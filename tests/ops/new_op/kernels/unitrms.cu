/* unitrms.cu -- divides each row by its root mean square, times a weight.
 *
 * Naive
 * Idea:    one thread for each row or, for the weight's gradient, each column.
 * Limit:   neighbors in a warp read d numbers apart: nothing is coalesced.
 */
#include "common/internal.cuh"

#include "common/checks.cuh"

WEFT_RUNGS({"unitrms", "reference", "plain C, row by row", "fp32", WEFT_CPU, 0},
           {"unitrms", "naive", "one thread per row", "fp32",
            WEFT_CPU | WEFT_CUDA, 0});

enum { REFERENCE, NAIVE };

/* ---- a row, for both rungs ------------------------------------------------
 */

static inline __host__ __device__ void normalise(float *y, float *rstd,
                                                 const float *x,
                                                 const float *weight, int d,
                                                 float eps) {
    float sum = 0.0f;
    for (int j = 0; j < d; j++) sum += x[j] * x[j];
    *rstd = 1.0f / sqrtf(sum / d + eps);
    for (int j = 0; j < d; j++) y[j] = x[j] * *rstd * weight[j];
}

static inline __host__ __device__ void normalise_dx(float *dx, const float *dy,
                                                    const float *x,
                                                    const float *weight,
                                                    float rstd, int d) {
    float sum = 0.0f;
    for (int j = 0; j < d; j++) sum += dy[j] * weight[j] * (x[j] * rstd);
    const float mean = sum / d;
    for (int j = 0; j < d; j++)
        dx[j] = rstd * (dy[j] * weight[j] - x[j] * rstd * mean);
}

static inline __host__ __device__ float normalise_dweight(const float *dy,
                                                          const float *x,
                                                          const float *rstd,
                                                          int n, int d, int j) {
    float sum = 0.0f;
    for (int i = 0; i < n; i++)
        sum += dy[(size_t)i * d + j] * (x[(size_t)i * d + j] * rstd[i]);
    return sum;
}

/* ---- naive ----------------------------------------------------------------
 */

static __global__ void unitrms_naive(float *y, float *rstd, const float *x,
                                     const float *weight, int n, int d,
                                     float eps) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    const size_t row = (size_t)i * d;
    normalise(y + row, rstd + i, x + row, weight, d, eps);
}

static __global__ void unitrms_naive_dx(float *dx, const float *dy,
                                        const float *x, const float *weight,
                                        const float *rstd, int n, int d) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    const size_t row = (size_t)i * d;
    normalise_dx(dx + row, dy + row, x + row, weight, rstd[i], d);
}

static __global__ void unitrms_naive_dweight(float *dweight, const float *dy,
                                             const float *x, const float *rstd,
                                             int n, int d) {
    const int j = blockIdx.x * blockDim.x + threadIdx.x;
    if (j < d) dweight[j] = normalise_dweight(dy, x, rstd, n, d, j);
}

/* ---- plain C ---------------------------------------------------------------
 */

#ifndef __CUDACC__
static int unitrms_reference(float *y, float *rstd, const float *x,
                             const float *weight, int n, int d, float eps) {
#pragma omp parallel for schedule(static) if ((size_t)n * d > 1 << 15)
    for (int i = 0; i < n; i++) {
        const size_t row = (size_t)i * d;
        normalise(y + row, rstd + i, x + row, weight, d, eps);
    }
    return WEFT_OK;
}

static int unitrms_reference_backward(float *dx, float *dweight,
                                      const float *dy, const float *x,
                                      const float *weight, const float *rstd,
                                      int n, int d) {
    for (int i = 0; i < n; i++) {
        const size_t row = (size_t)i * d;
        normalise_dx(dx + row, dy + row, x + row, weight, rstd[i], d);
    }
    for (int j = 0; j < d; j++)
        dweight[j] = normalise_dweight(dy, x, rstd, n, d, j);
    return WEFT_OK;
}
#endif

/* ---- launchers -------------------------------------------------------------
 */

int weft_unitrms(int rung, float *y, float *rstd, const float *x,
                 const float *weight, int n, int d, float eps,
                 weft_stream stream) {
    WEFT_CHECK_RUNG(rung);
    CHECK_SIZE(n);
    CHECK_SIZE(d);
    WEFT_REQUIRE(eps >= 0.0f, "%s: eps = %g, want at least 0", __func__, eps);
    CHECK_COUNT(x, (double)n * d);
    CHECK_ARRAY(y);
    CHECK_ARRAY(rstd);
    CHECK_ARRAY(x);
    CHECK_ARRAY(weight);
    if (rung == REFERENCE)
        return WEFT_REFERENCE(unitrms_reference(y, rstd, x, weight, n, d, eps));
    unitrms_naive<<<blocks_for(n), THREADS, 0, weft_cuda_stream(stream)>>>(
        y, rstd, x, weight, n, d, eps);
    WEFT_LAUNCHED(unitrms_naive);
    return WEFT_OK;
}

int weft_unitrms_backward(int rung, float *dx, float *dweight, const float *dy,
                          const float *x, const float *weight,
                          const float *rstd, int n, int d, weft_stream stream) {
    WEFT_CHECK_RUNG(rung);
    CHECK_SIZE(n);
    CHECK_SIZE(d);
    CHECK_COUNT(x, (double)n * d);
    CHECK_ARRAY(dx);
    CHECK_ARRAY(dweight);
    CHECK_ARRAY(dy);
    CHECK_ARRAY(x);
    CHECK_ARRAY(weight);
    CHECK_ARRAY(rstd);
    if (rung == REFERENCE)
        return WEFT_REFERENCE(
            unitrms_reference_backward(dx, dweight, dy, x, weight, rstd, n, d));
    unitrms_naive_dx<<<blocks_for(n), THREADS, 0, weft_cuda_stream(stream)>>>(
        dx, dy, x, weight, rstd, n, d);
    WEFT_LAUNCHED(unitrms_naive_dx);
    unitrms_naive_dweight<<<blocks_for(d), THREADS, 0,
                            weft_cuda_stream(stream)>>>(dweight, dy, x, rstd, n,
                                                        d);
    WEFT_LAUNCHED(unitrms_naive_dweight);
    return WEFT_OK;
}
