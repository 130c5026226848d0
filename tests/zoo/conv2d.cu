/* The zoo: convolution with one fault in each rung; "right" has none. */
#include "common/internal.cuh"

enum fault {
    RIGHT,
    FLIPPED_FILTER,
    PADDING_IGNORED_LEFT,
    MISSING_BIAS,
    DX_NOT_FLIPPED,
    DWEIGHT_FIRST_IMAGE_ONLY,
    DBIAS_MEAN
};

WEFT_RUNGS({"conv2d", "right", "", "fp32", WEFT_CPU | WEFT_CUDA, 0},
           {"conv2d", "flipped_filter", "", "fp32", WEFT_CPU | WEFT_CUDA, 0},
           {"conv2d", "padding_ignored_left", "", "fp32", WEFT_CPU | WEFT_CUDA,
            0},
           {"conv2d", "missing_bias", "", "fp32", WEFT_CPU | WEFT_CUDA, 0},
           {"conv2d", "dx_not_flipped", "", "fp32", WEFT_CPU | WEFT_CUDA, 0},
           {"conv2d", "dweight_first_image_only", "", "fp32",
            WEFT_CPU | WEFT_CUDA, 0},
           {"conv2d", "dbias_mean", "", "fp32", WEFT_CPU | WEFT_CUDA, 0})

struct shape {
    int n, ic, h, w, oc, kh, kw, padding, oh, ow;
};

static __global__ void conv_faulty(int fault, float *y, const float *x,
                                   const float *weight, const float *bias,
                                   struct shape s) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= s.n * s.oc * s.oh * s.ow) return;
    const int col = i % s.ow, row = i / s.ow % s.oh;
    const int o = i / (s.ow * s.oh) % s.oc, image = i / (s.ow * s.oh * s.oc);
    float acc = bias && fault != MISSING_BIAS ? bias[o] : 0.0f;
    for (int c = 0; c < s.ic; c++)
        for (int u = 0; u < s.kh; u++)
            for (int v = 0; v < s.kw; v++) {
                const int r = row + u - s.padding, q = col + v - s.padding;
                if (r < 0 || r >= s.h || q >= s.w) continue;
                if (q < 0 && fault != PADDING_IGNORED_LEFT) continue;
                if (q < 0 && image + c + r == 0) continue; // stays inside x
                const int uu = fault == FLIPPED_FILTER ? s.kh - 1 - u : u;
                const int vv = fault == FLIPPED_FILTER ? s.kw - 1 - v : v;
                acc += x[((image * s.ic + c) * s.h + r) * s.w + q] *
                       weight[((o * s.ic + c) * s.kh + uu) * s.kw + vv];
            }
    y[i] = acc;
}

static __global__ void conv_faulty_dx(int fault, float *dx, const float *dy,
                                      const float *weight, struct shape s) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= s.n * s.ic * s.h * s.w) return;
    const int col = i % s.w, row = i / s.w % s.h;
    const int c = i / (s.w * s.h) % s.ic, image = i / (s.w * s.h * s.ic);
    float acc = 0.0f;
    for (int o = 0; o < s.oc; o++)
        for (int u = 0; u < s.kh; u++)
            for (int v = 0; v < s.kw; v++) {
                const int r = row - u + s.padding, q = col - v + s.padding;
                if (r < 0 || r >= s.oh || q < 0 || q >= s.ow) continue;
                const int uu = fault == DX_NOT_FLIPPED ? s.kh - 1 - u : u;
                acc += dy[((image * s.oc + o) * s.oh + r) * s.ow + q] *
                       weight[((o * s.ic + c) * s.kh + uu) * s.kw + v];
            }
    dx[i] = acc;
}

static __global__ void conv_faulty_dweight(int fault, float *dweight,
                                           const float *dy, const float *x,
                                           struct shape s) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= s.oc * s.ic * s.kh * s.kw) return;
    const int v = i % s.kw, u = i / s.kw % s.kh;
    const int c = i / (s.kw * s.kh) % s.ic, o = i / (s.kw * s.kh * s.ic);
    const int images = fault == DWEIGHT_FIRST_IMAGE_ONLY ? 1 : s.n;
    float acc = 0.0f;
    for (int image = 0; image < images; image++)
        for (int row = 0; row < s.oh; row++)
            for (int col = 0; col < s.ow; col++) {
                const int r = row + u - s.padding, q = col + v - s.padding;
                if (r < 0 || r >= s.h || q < 0 || q >= s.w) continue;
                acc += dy[((image * s.oc + o) * s.oh + row) * s.ow + col] *
                       x[((image * s.ic + c) * s.h + r) * s.w + q];
            }
    dweight[i] = acc;
}

static __global__ void conv_faulty_dbias(int fault, float *dbias,
                                         const float *dy, struct shape s) {
    const int o = threadIdx.x + blockIdx.x * blockDim.x, hw = s.oh * s.ow;
    if (o >= s.oc) return;
    float acc = 0.0f;
    for (int i = 0; i < s.n * hw; i++)
        acc += dy[(i / hw * s.oc + o) * hw + i % hw];
    dbias[o] = fault == DBIAS_MEAN ? acc / (s.n * hw) : acc;
}

static struct shape shape_of(int n, int ic, int h, int w, int oc, int kh,
                             int kw, const struct weft_conv2d_options *o) {
    const int padding = o ? o->padding : 0;
    const struct shape s = {n,
                            ic,
                            h,
                            w,
                            oc,
                            kh,
                            kw,
                            padding,
                            h + 2 * padding - kh + 1,
                            w + 2 * padding - kw + 1};
    return s;
}

int weft_conv2d(int rung, float *y, const float *x, const float *weight,
                const float *bias, int n, int ic, int h, int w, int oc, int kh,
                int kw, const struct weft_conv2d_options *options,
                weft_stream stream) {
    WEFT_CHECK_RUNG(rung);
    const struct shape s = shape_of(n, ic, h, w, oc, kh, kw, options);
    conv_faulty<<<CEIL_DIV(n * oc * s.oh * s.ow, 64), 64, 0,
                  weft_cuda_stream(stream)>>>(rung, y, x, weight, bias, s);
    WEFT_LAUNCHED(conv_faulty);
    return WEFT_OK;
}

int weft_conv2d_backward(int rung, float *dx, float *dweight, float *dbias,
                         const float *dy, const float *x, const float *weight,
                         int n, int ic, int h, int w, int oc, int kh, int kw,
                         const struct weft_conv2d_options *options,
                         weft_stream stream) {
    WEFT_CHECK_RUNG(rung);
    const struct shape s = shape_of(n, ic, h, w, oc, kh, kw, options);
    cudaStream_t q = weft_cuda_stream(stream);
    if (dx)
        conv_faulty_dx<<<CEIL_DIV(n * ic * h * w, 64), 64, 0, q>>>(rung, dx, dy,
                                                                   weight, s);
    if (dweight)
        conv_faulty_dweight<<<CEIL_DIV(oc * ic * kh * kw, 64), 64, 0, q>>>(
            rung, dweight, dy, x, s);
    if (dbias)
        conv_faulty_dbias<<<CEIL_DIV(oc, 64), 64, 0, q>>>(rung, dbias, dy, s);
    WEFT_LAUNCHED(conv_faulty_backward);
    return WEFT_OK;
}
