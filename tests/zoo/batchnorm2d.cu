/* The zoo: batch norm with one fault in each rung; "right" has none. The
 * backward pass is right in all but the last two. */
#include "common/internal.cuh"

enum fault {
    RIGHT,
    ONE_PASS_VARIANCE,
    UNBIASED_VARIANCE,
    MISSING_EPS,
    DX_WITHOUT_MEAN,
    DX_WITHOUT_VARIANCE
};

WEFT_RUNGS(
    {"batchnorm2d", "right", "", "fp32", WEFT_CPU | WEFT_CUDA, 0},
    {"batchnorm2d", "one_pass_variance", "", "fp32", WEFT_CPU | WEFT_CUDA, 0},
    {"batchnorm2d", "unbiased_variance", "", "fp32", WEFT_CPU | WEFT_CUDA, 0},
    {"batchnorm2d", "missing_eps", "", "fp32", WEFT_CPU | WEFT_CUDA, 0},
    {"batchnorm2d", "dx_without_mean", "", "fp32", WEFT_CPU | WEFT_CUDA, 0},
    {"batchnorm2d", "dx_without_variance", "", "fp32", WEFT_CPU | WEFT_CUDA, 0})

/* Return the index of element i of channel ch; 0 <= i < n * hw. */
static __device__ size_t at(int i, int ch, int c, int hw) {
    return ((size_t)(i / hw) * c + ch) * hw + i % hw;
}

static __global__ void norm_faulty(int fault, float *y, float *mean,
                                   float *rstd, const float *x,
                                   const float *weight, const float *bias,
                                   int n, int c, int hw, float eps) {
    const int ch = threadIdx.x + blockIdx.x * blockDim.x, count = n * hw;
    if (ch >= c) return;
    float sum = 0.0f, squares = 0.0f;
    for (int i = 0; i < count; i++) sum += x[at(i, ch, c, hw)];
    const float m = sum / count;
    for (int i = 0; i < count; i++) {
        const float v = x[at(i, ch, c, hw)];
        squares += fault == ONE_PASS_VARIANCE ? v * v : (v - m) * (v - m);
    }
    float var = squares / (fault == UNBIASED_VARIANCE ? count - 1 : count);
    if (fault == ONE_PASS_VARIANCE) var -= m * m;
    const float r = 1.0f / sqrtf(fault == MISSING_EPS ? var : var + eps);
    mean[ch] = m, rstd[ch] = r;
    for (int i = 0; i < count; i++) {
        const size_t j = at(i, ch, c, hw);
        y[j] = (x[j] - m) * r * weight[ch] + bias[ch];
    }
}

static __global__ void
norm_faulty_backward(int fault, float *dx, float *dweight, float *dbias,
                     const float *dy, const float *x, const float *weight,
                     const float *mean, const float *rstd, int n, int c,
                     int hw) {
    const int ch = threadIdx.x + blockIdx.x * blockDim.x, count = n * hw;
    if (ch >= c) return;
    float db = 0.0f, dw = 0.0f;
    for (int i = 0; i < count; i++) {
        const size_t j = at(i, ch, c, hw);
        db += dy[j], dw += dy[j] * ((x[j] - mean[ch]) * rstd[ch]);
    }
    dbias[ch] = db, dweight[ch] = dw;
    if (fault == DX_WITHOUT_MEAN) db = 0.0f;
    if (fault == DX_WITHOUT_VARIANCE) dw = 0.0f;
    for (int i = 0; i < count; i++) {
        const size_t j = at(i, ch, c, hw);
        const float xhat = (x[j] - mean[ch]) * rstd[ch];
        dx[j] =
            weight[ch] * rstd[ch] * (dy[j] - db / count - xhat * dw / count);
    }
}

int weft_batchnorm2d(int rung, float *y, float *mean, float *rstd,
                     const float *x, const float *weight, const float *bias,
                     int n, int c, int h, int w, float eps,
                     weft_stream stream) {
    WEFT_CHECK_RUNG(rung);
    norm_faulty<<<CEIL_DIV(c, 32), 32, 0, weft_cuda_stream(stream)>>>(
        rung, y, mean, rstd, x, weight, bias, n, c, h * w, eps);
    WEFT_LAUNCHED(norm_faulty);
    return WEFT_OK;
}

int weft_batchnorm2d_backward(int rung, float *dx, float *dweight, float *dbias,
                              const float *dy, const float *x,
                              const float *weight, const float *mean,
                              const float *rstd, int n, int c, int h, int w,
                              weft_stream stream) {
    WEFT_CHECK_RUNG(rung);
    norm_faulty_backward<<<CEIL_DIV(c, 32), 32, 0, weft_cuda_stream(stream)>>>(
        rung, dx, dweight, dbias, dy, x, weight, mean, rstd, n, c, h * w);
    WEFT_LAUNCHED(norm_faulty_backward);
    return WEFT_OK;
}
