/* conv2d.cu -- convolution (cross-correlation, as in every network) with any
 * filter and zero padding, stride 1, and its gradients.
 *
 * Naive
 * Idea:    one thread per element of the result. Forward, it sums over the ic *
 *          kh * kw pixels that its filter covers. Backward, each element
 *          collects the gradients of the outputs that it contributed to. For an
 *          input pixel, these are the outputs whose window contains it; for a
 *          weight, they are all output pixels of the batch. No two threads
 *          write to the same place, so the kernels need neither atomics nor
 *          zeroed outputs.
 * Limit:   two loads for each multiply-add, as in matmul's naive rung. In
 *          addition, dweight and dbias have few threads with long sums: 288
 *          threads for 32 filters of 3 x 3, which leave most of a GPU idle.
 * Error:   sums are taken one term after another in float, with n * h' * w'
 *          terms for dweight and dbias. The error is at most 1.01 2^-24 per
 *          term, relative to the same sum over absolute values.
 * Lesson:  notebooks/10a_backwards.ipynb */
#include "common/internal.cuh"

#include "../reference/reference.h"
#include "common/checks.cuh"
#include "tiled.h"

WEFT_RUNGS({"conv2d", "reference", "plain C, products of gathered columns",
            "fp32", WEFT_CPU, 0},
           {"conv2d", "naive", "one thread per output element", "fp32",
            WEFT_CPU | WEFT_CUDA, 0},
           {"conv2d", "tiled", "implicit matrix products of tiles", "fp32",
            WEFT_CPU | WEFT_CUDA, 0});

enum { REFERENCE, NAIVE, TILED };

/* Compute y (n,oc,oh,ow) from x (n,ic,h,w) and weight (oc,ic,kh,kw). */
static __global__ void conv2d_naive(float *y, const float *x,
                                    const float *weight, const float *bias,
                                    int n, int ic, int h, int w, int oc, int kh,
                                    int kw, int padding, int oh, int ow) {
    const size_t index = (size_t)blockIdx.x * blockDim.x + threadIdx.x;
    if (index >= (size_t)n * oc * oh * ow) return;
    const int col = (int)(index % ow), row = (int)(index / ow % oh);
    const size_t o = index / ow / oh % oc, image = index / ow / oh / oc;

    float acc = bias ? bias[o] : 0.0f;
    for (int c = 0; c < ic; c++)
        for (int r = 0; r < kh; r++)
            for (int s = 0; s < kw; s++) {
                const int i = row + r - padding, j = col + s - padding;
                if (i < 0 || i >= h || j < 0 || j >= w) continue; // padding
                acc += x[((image * ic + c) * h + i) * w + j] *
                       weight[((o * ic + c) * kh + r) * kw + s];
            }
    y[index] = acc;
}

/* Compute dx (n,ic,h,w). Filter position (r,s) maps pixel (row,col) to the
 * output pixel (row + padding - r, col + padding - s). */
static __global__ void conv2d_naive_dx(float *dx, const float *dy,
                                       const float *weight, int n, int ic,
                                       int h, int w, int oc, int kh, int kw,
                                       int padding, int oh, int ow) {
    const size_t index = (size_t)blockIdx.x * blockDim.x + threadIdx.x;
    if (index >= (size_t)n * ic * h * w) return;
    const int col = (int)(index % w), row = (int)(index / w % h);
    const size_t c = index / w / h % ic, image = index / w / h / ic;

    float acc = 0.0f;
    for (int o = 0; o < oc; o++)
        for (int r = 0; r < kh; r++)
            for (int s = 0; s < kw; s++) {
                const int i = row + padding - r, j = col + padding - s;
                if (i < 0 || i >= oh || j < 0 || j >= ow) continue;
                acc += dy[((image * oc + o) * oh + i) * ow + j] *
                       weight[(((size_t)o * ic + c) * kh + r) * kw + s];
            }
    dx[index] = acc;
}

/* Compute dweight (oc,ic,kh,kw). At output pixel (i,j), weight (o,c,r,s) was
 * multiplied by the input pixel (i + r - padding, j + s - padding). */
static __global__ void conv2d_naive_dweight(float *dweight, const float *dy,
                                            const float *x, int n, int ic,
                                            int h, int w, int oc, int kh,
                                            int kw, int padding, int oh,
                                            int ow) {
    const size_t index = (size_t)blockIdx.x * blockDim.x + threadIdx.x;
    if (index >= (size_t)oc * ic * kh * kw) return;
    const int s = (int)(index % kw), r = (int)(index / kw % kh);
    const size_t c = index / kw / kh % ic, o = index / kw / kh / ic;

    float acc = 0.0f;
    for (size_t image = 0; image < (size_t)n; image++)
        for (int i = 0; i < oh; i++)
            for (int j = 0; j < ow; j++) {
                const int row = i + r - padding, col = j + s - padding;
                if (row < 0 || row >= h || col < 0 || col >= w) continue;
                acc += dy[((image * oc + o) * oh + i) * ow + j] *
                       x[((image * ic + c) * h + row) * w + col];
            }
    dweight[index] = acc;
}

/* Compute dbias (oc), the sum of dy over images and pixels. */
static __global__ void conv2d_naive_dbias(float *dbias, const float *dy, int n,
                                          int oc, int oh, int ow) {
    const size_t o = (size_t)blockIdx.x * blockDim.x + threadIdx.x;
    if (o >= (size_t)oc) return;
    const size_t pixels = (size_t)oh * ow;
    float acc = 0.0f;
    for (size_t image = 0; image < (size_t)n; image++)
        for (size_t i = 0; i < pixels; i++)
            acc += dy[(image * oc + o) * pixels + i];
    dbias[o] = acc;
}

static int launch_naive_backward(float *dx, float *dweight, float *dbias,
                                 const float *dy, const float *x,
                                 const float *weight, int n, int ic, int h,
                                 int w, int oc, int kh, int kw, int padding,
                                 int oh, int ow, cudaStream_t stream) {
    if (dx) {
        conv2d_naive_dx<<<blocks_for((size_t)n * ic * h * w), THREADS, 0,
                          stream>>>(dx, dy, weight, n, ic, h, w, oc, kh, kw,
                                    padding, oh, ow);
        WEFT_LAUNCHED(conv2d_naive_dx);
    }
    if (dweight) {
        conv2d_naive_dweight<<<blocks_for((size_t)oc * ic * kh * kw), THREADS,
                               0, stream>>>(dweight, dy, x, n, ic, h, w, oc, kh,
                                            kw, padding, oh, ow);
        WEFT_LAUNCHED(conv2d_naive_dweight);
    }
    if (dbias) {
        conv2d_naive_dbias<<<blocks_for(oc), THREADS, 0, stream>>>(dbias, dy, n,
                                                                   oc, oh, ow);
        WEFT_LAUNCHED(conv2d_naive_dbias);
    }
    return WEFT_OK;
}

/* ---- launchers ----------------------------------------------------------- */

/* Check the sizes for both launchers, and compute *padding, *oh and *ow from
 * them. */
static int check_sizes(int *padding, int *oh, int *ow, const char *function,
                       int n, int ic, int h, int w, int oc, int kh, int kw,
                       const struct weft_conv2d_options *options) {
    const struct {
        const char *name;
        int size;
    } sizes[] = {{"n", n},   {"ic", ic}, {"h", h},  {"w", w},
                 {"oc", oc}, {"kh", kh}, {"kw", kw}};
    for (int i = 0; i < COUNT_OF(sizes); i++)
        WEFT_REQUIRE(sizes[i].size >= 1, "%s: %s = %d, want at least 1",
                     function, sizes[i].name, sizes[i].size);
    *padding = options ? options->padding : 0;
    WEFT_REQUIRE(*padding >= 0, "%s: padding = %d, want at least 0", function,
                 *padding);
    // Compute in double, since the padded image may be too large for an int.
    const double padded_h = h + 2.0 * *padding, padded_w = w + 2.0 * *padding;
    WEFT_REQUIRE(padded_h <= 2147483647.0 && padded_w <= 2147483647.0,
                 "%s: padding %d makes the image %.0f x %.0f, sides at most "
                 "2147483647",
                 function, *padding, padded_h, padded_w);
    WEFT_REQUIRE(kh <= padded_h && kw <= padded_w,
                 "%s: the filter, %d x %d, is larger than the padded image, "
                 "%.0f x %.0f",
                 function, kh, kw, padded_h, padded_w);
    *oh = (int)padded_h - kh + 1;
    *ow = (int)padded_w - kw + 1;
    const struct {
        const char *name;
        double count, most;
    } arrays[] = {{"x", (double)n * ic * h * w, MAX_ELEMENTS},
                  {"y", (double)n * oc * *oh * *ow, MAX_ELEMENTS},
                  {"weight", (double)oc * ic * kh * kw, MAX_ELEMENTS},
                  {"one filter", (double)ic * kh * kw, 1073741824.0},
                  {"one turned filter", (double)oc * kh * kw, 1073741824.0}};
    for (int i = 0; i < COUNT_OF(arrays); i++)
        WEFT_REQUIRE(arrays[i].count <= arrays[i].most,
                     "%s: %s would have %.0f elements, at most %.0f", function,
                     arrays[i].name, arrays[i].count, arrays[i].most);
    return WEFT_OK;
}

int weft_conv2d(int rung, float *y, const float *x, const float *weight,
                const float *bias, int n, int ic, int h, int w, int oc, int kh,
                int kw, const struct weft_conv2d_options *options,
                weft_stream stream) {
    int padding = 0, oh = 0, ow = 0;
    WEFT_CHECK_RUNG(rung);
    WEFT_TRY(check_sizes(&padding, &oh, &ow, __func__, n, ic, h, w, oc, kh, kw,
                         options));
    CHECK_ARRAY(y);
    CHECK_ARRAY(x);
    CHECK_ARRAY(weight);
    switch (rung) {
    case REFERENCE:
        return WEFT_REFERENCE(conv2d_reference(y, x, weight, bias, n, ic, h, w,
                                               oc, kh, kw, options));
    case NAIVE:
        conv2d_naive<<<blocks_for((size_t)n * oc * oh * ow), THREADS, 0,
                       weft_cuda_stream(stream)>>>(
            y, x, weight, bias, n, ic, h, w, oc, kh, kw, padding, oh, ow);
        WEFT_LAUNCHED(conv2d_naive);
        return WEFT_OK;
    case TILED: {
        const struct conv2d_sizes sizes = {n,  ic, h,       w,  oc,
                                           kh, kw, padding, oh, ow};
        return conv2d_tiled_forward(y, x, weight, bias, &sizes,
                                    weft_cuda_stream(stream));
    }
    }
    return WEFT_OK;
}

int weft_conv2d_backward(int rung, float *dx, float *dweight, float *dbias,
                         const float *dy, const float *x, const float *weight,
                         int n, int ic, int h, int w, int oc, int kh, int kw,
                         const struct weft_conv2d_options *options,
                         weft_stream stream) {
    int padding = 0, oh = 0, ow = 0;
    WEFT_CHECK_RUNG(rung);
    WEFT_TRY(check_sizes(&padding, &oh, &ow, __func__, n, ic, h, w, oc, kh, kw,
                         options));
    CHECK_ARRAY(dy);
    if (dweight) CHECK_ARRAY(x);
    if (dx) CHECK_ARRAY(weight);
    switch (rung) {
    case REFERENCE:
        return WEFT_REFERENCE(conv2d_reference_backward(dx, dweight, dbias, dy,
                                                        x, weight, n, ic, h, w,
                                                        oc, kh, kw, options));
    case NAIVE:
        return launch_naive_backward(dx, dweight, dbias, dy, x, weight, n, ic,
                                     h, w, oc, kh, kw, padding, oh, ow,
                                     weft_cuda_stream(stream));
    case TILED: {
        const struct conv2d_sizes sizes = {n,  ic, h,       w,  oc,
                                           kh, kw, padding, oh, ow};
        return conv2d_tiled_backward(dx, dweight, dbias, dy, x, weight, &sizes,
                                     weft_cuda_stream(stream));
    }
    }
    return WEFT_OK;
}
