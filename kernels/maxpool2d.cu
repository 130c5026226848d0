/* maxpool2d.cu -- maxima of adjacent windows.
 *
 * Naive
 * Idea:    forward, one thread per window reads its kh * kw pixels. Backward,
 *          one thread per pixel tests whether the pixel was the maximum of its
 *          window. So dx need not be zeroed first, and no two threads write to
 *          the same place.
 * Limit:   the memory's bandwidth, of which the forward pass uses only a part:
 *          neighbouring threads read pixels that are kw apart.
 * Lesson:  notebooks/10a_backwards.ipynb
 *
 * Tiled
 * Idea:    one thread per window in both directions. Backward, a thread reads
 *          its argmax and dy once, not once per pixel. A window of 2 x 2 takes
 *          two loads or stores of 2 floats. Divisions are 32 bits wide.
 * Limit:   the memory's bandwidth.
 * Lesson:  notebooks/15a_mnist.ipynb */
#include "common/internal.cuh"

#include "common/checks.cuh"
#include "reference/reference.h"

WEFT_RUNGS({"maxpool2d", "reference", "plain C, a row of windows at a time",
            "fp32", WEFT_CPU, 0},
           {"maxpool2d", "naive", "one thread per window", "fp32",
            WEFT_CPU | WEFT_CUDA, 0},
           {"maxpool2d", "tiled", "one thread per 2 x 2 window, both ways",
            "fp32", WEFT_CPU | WEFT_CUDA, 0});

enum { REFERENCE, NAIVE, TILED };

/* Pool planes = n * c images of one channel; oh = h / kh, ow = w / kw. One
 * thread computes one window. */
static __global__ void maxpool2d_naive(float *y, int32_t *argmax,
                                       const float *x, size_t planes, int h,
                                       int w, int oh, int ow, int kh, int kw) {
    const size_t index = (size_t)blockIdx.x * blockDim.x + threadIdx.x;
    if (index >= planes * oh * ow) return;
    const size_t col = index % ow, row = index / ow % oh;
    const size_t plane = index / ow / oh;
    const float *window = x + (plane * h + row * kh) * w + col * kw;

    float most = window[0];
    int where = 0;
    for (int i = 0; i < kh; i++)
        for (int j = 0; j < kw; j++) {
            const float value = window[(size_t)i * w + j];
            // A NaN, the only value that differs from itself, beats every
            // number, but not an earlier NaN.
            const int nan_wins = value != value && most == most;
            if (value > most || nan_wins) {
                most = value;
                where = i * kw + j;
            }
        }
    y[index] = most;
    argmax[index] = where;
}

static __global__ void maxpool2d_naive_dx(float *dx, const float *dy,
                                          const int32_t *argmax, size_t planes,
                                          int h, int w, int oh, int ow, int kh,
                                          int kw) {
    const size_t index = (size_t)blockIdx.x * blockDim.x + threadIdx.x;
    if (index >= planes * h * w) return;
    const int col = (int)(index % w), row = (int)(index / w % h);
    const size_t plane = index / w / h;

    float gradient = 0.0f;
    // The last rows and columns may belong to no window.
    if (row / kh < oh && col / kw < ow) {
        const size_t window = (plane * oh + row / kh) * ow + col / kw;
        if (argmax[window] == row % kh * kw + col % kw) gradient = dy[window];
    }
    dx[index] = gradient;
}

/* ---- tiled --------------------------------------------------------------- */

/* Pool windows of 2 x 2 that fill the image: `windows` in total, `ow` in a row
 * of windows. Window i of the batch starts at row 2 (i / ow), counted through
 * all planes, since no row is left over between two planes. */
static __global__ void maxpool2d_tiled(float *y, int32_t *argmax,
                                       const float *x, unsigned windows,
                                       unsigned ow) {
    const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= windows) return;
    const size_t top = (size_t)(i / ow) * 2 * ow + i % ow; // in pairs
    const float2 above = ((const float2 *)x)[top];
    const float2 below = ((const float2 *)x)[top + ow];
    const float values[4] = {above.x, above.y, below.x, below.y};
    float most = values[0];
    int where = 0;
    for (int k = 1; k < 4; k++) { // a NaN wins, as in rung naive
        const float value = values[k];
        if (value > most || (value != value && most == most)) {
            most = value;
            where = k;
        }
    }
    y[i] = most;
    argmax[i] = where;
}

static __global__ void maxpool2d_tiled_dx(float *dx, const float *dy,
                                          const int32_t *argmax,
                                          unsigned windows, unsigned ow) {
    const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= windows) return;
    const size_t top = (size_t)(i / ow) * 2 * ow + i % ow;
    const float d = dy[i];
    const int where = argmax[i];
    ((float2 *)dx)[top] =
        make_float2(where == 0 ? d : 0.0f, where == 1 ? d : 0.0f);
    ((float2 *)dx)[top + ow] =
        make_float2(where == 2 ? d : 0.0f, where == 3 ? d : 0.0f);
}

/* Return whether the tiled kernels can handle these arrays and sizes. If not,
 * rung tiled runs the kernels of rung naive. */
static int pairs(const void *x, size_t planes, int h, int w, int kh, int kw) {
    const size_t windows = planes * (h / 2) * (w / 2);
    return kh == 2 && kw == 2 && h % 2 == 0 && w % 2 == 0 &&
           windows <= 0xffffffff - THREADS &&
           (uintptr_t)x % sizeof(float2) == 0;
}

/* Check the sizes for both launchers. */
static int check_sizes(const char *function, int n, int c, int h, int w, int kh,
                       int kw) {
    const struct {
        const char *name;
        int size;
    } sizes[] = {{"n", n}, {"c", c},   {"h", h},
                 {"w", w}, {"kh", kh}, {"kw", kw}};
    for (int i = 0; i < COUNT_OF(sizes); i++)
        WEFT_REQUIRE(sizes[i].size >= 1, "%s: %s = %d, want at least 1",
                     function, sizes[i].name, sizes[i].size);
    WEFT_REQUIRE(kh <= h && kw <= w,
                 "%s: the window, %d x %d, is larger than the image, %d x %d",
                 function, kh, kw, h, w);
    WEFT_REQUIRE((double)kh * kw <= 2147483647.0,
                 "%s: a window of %.0f pixels, more than argmax can count",
                 function, (double)kh * kw);
    const double count = (double)n * c * h * w;
    WEFT_REQUIRE(count <= MAX_ELEMENTS,
                 "%s: x would have %.0f elements, at most %.0f", function,
                 count, MAX_ELEMENTS);
    return WEFT_OK;
}

int weft_maxpool2d(int rung, float *y, int32_t *argmax, const float *x, int n,
                   int c, int h, int w, int kh, int kw, weft_stream stream) {
    WEFT_CHECK_RUNG(rung);
    WEFT_TRY(check_sizes(__func__, n, c, h, w, kh, kw));
    CHECK_ARRAY(y);
    CHECK_ARRAY(argmax);
    CHECK_ARRAY(x);
    const size_t planes = (size_t)n * c;
    const int oh = h / kh, ow = w / kw;
    if (rung == TILED && !pairs(x, planes, h, w, kh, kw)) rung = NAIVE;
    switch (rung) {
    case REFERENCE:
        return WEFT_REFERENCE(
            maxpool2d_reference(y, argmax, x, n, c, h, w, kh, kw));
    case NAIVE:
        maxpool2d_naive<<<blocks_for(planes * oh * ow), THREADS, 0,
                          weft_cuda_stream(stream)>>>(y, argmax, x, planes, h,
                                                      w, oh, ow, kh, kw);
        WEFT_LAUNCHED(maxpool2d_naive);
        return WEFT_OK;
    case TILED:
        maxpool2d_tiled<<<blocks_for(planes * oh * ow), THREADS, 0,
                          weft_cuda_stream(stream)>>>(
            y, argmax, x, (unsigned)(planes * oh * ow), ow);
        WEFT_LAUNCHED(maxpool2d_tiled);
    }
    return WEFT_OK;
}

int weft_maxpool2d_backward(int rung, float *dx, const float *dy,
                            const int32_t *argmax, int n, int c, int h, int w,
                            int kh, int kw, weft_stream stream) {
    WEFT_CHECK_RUNG(rung);
    WEFT_TRY(check_sizes(__func__, n, c, h, w, kh, kw));
    CHECK_ARRAY(dx);
    CHECK_ARRAY(dy);
    CHECK_ARRAY(argmax);
    const size_t planes = (size_t)n * c;
    const size_t windows = planes * (h / kh) * (w / kw);
    if (rung == TILED && !pairs(dx, planes, h, w, kh, kw)) rung = NAIVE;
    switch (rung) {
    case REFERENCE:
        return WEFT_REFERENCE(
            maxpool2d_reference_backward(dx, dy, argmax, n, c, h, w, kh, kw));
    case NAIVE:
        maxpool2d_naive_dx<<<blocks_for(planes * h * w), THREADS, 0,
                             weft_cuda_stream(stream)>>>(
            dx, dy, argmax, planes, h, w, h / kh, w / kw, kh, kw);
        WEFT_LAUNCHED(maxpool2d_naive_dx);
        return WEFT_OK;
    case TILED:
        maxpool2d_tiled_dx<<<blocks_for(windows), THREADS, 0,
                             weft_cuda_stream(stream)>>>(
            dx, dy, argmax, (unsigned)windows, w / 2);
        WEFT_LAUNCHED(maxpool2d_tiled_dx);
    }
    return WEFT_OK;
}
