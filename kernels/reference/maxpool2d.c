/* maxpool2d.c -- maxima of windows in plain C, a row of windows at a time. The
 * outer loop runs over the positions in a window, and the inner loop over the
 * windows of the row. So the code suits windows of any size. */
#include "reference.h"

/* Pool a row of `ow` windows. x points to the first of their pixel rows, each
 * of which has w pixels. */
static void pool_row(float *restrict y, int32_t *restrict argmax,
                     const float *restrict x, int w, int ow, int kh, int kw) {
    for (int col = 0; col < ow; col++) {
        y[col] = x[(size_t)col * kw];
        argmax[col] = 0;
    }
    for (int k = 1; k < kh * kw; k++) {
        const float *row = x + (size_t)(k / kw) * w + k % kw;
        for (int col = 0; col < ow; col++) {
            const float value = row[(size_t)col * kw], most = y[col];
            // The second condition: a NaN beats every number, but not an
            // earlier NaN.
            const int wins =
                (value > most) | ((value != value) & (most == most));
            y[col] = wins ? value : most;
            argmax[col] = wins ? k : argmax[col];
        }
    }
}

int maxpool2d_reference(float *y, int32_t *argmax, const float *x, int n, int c,
                        int h, int w, int kh, int kw) {
    const int oh = h / kh, ow = w / kw;
    const size_t planes = (size_t)n * c;
    int interrupted = 0;
#pragma omp parallel for schedule(static) \
    reduction(| : interrupted) if ((double)planes * h * w > 1 << 14)
    for (size_t i = 0; i < planes; i++) {
        if (interrupted || (interrupted = weft_interrupted())) continue;
        for (int row = 0; row < oh; row++) {
            const size_t to = (i * oh + row) * ow;
            pool_row(y + to, argmax + to, x + (i * h + (size_t)row * kh) * w, w,
                     ow, kh, kw);
        }
    }
    return interrupted ? weft_fail(WEFT_EINTR, "maxpool2d: Ctrl-C") : WEFT_OK;
}

/* Write row `i` of dx within a row of windows: dy at the maximum, else 0. */
static void spread_row(float *restrict dx, const float *restrict dy,
                       const int32_t *restrict argmax, int i, int w, int ow,
                       int kw) {
    for (int col = 0; col < ow; col++)
        for (int j = 0; j < kw; j++)
            dx[(size_t)col * kw + j] =
                argmax[col] == i * kw + j ? dy[col] : 0.0f;
    for (int col = ow * kw; col < w; col++) dx[col] = 0.0f; // no window
}

int maxpool2d_reference_backward(float *dx, const float *dy,
                                 const int32_t *argmax, int n, int c, int h,
                                 int w, int kh, int kw) {
    const int oh = h / kh, ow = w / kw;
    const size_t planes = (size_t)n * c;
    int interrupted = 0;
#pragma omp parallel for schedule(static) \
    reduction(| : interrupted) if ((double)planes * h * w > 1 << 14)
    for (size_t p = 0; p < planes; p++) {
        if (interrupted || (interrupted = weft_interrupted())) continue;
        for (int row = 0; row < h; row++) {
            const size_t from = (p * oh + row / kh) * ow;
            float *to = dx + (p * h + row) * w;
            if (row < oh * kh)
                spread_row(to, dy + from, argmax + from, row % kh, w, ow, kw);
            else
                for (int col = 0; col < w; col++) to[col] = 0.0f;
        }
    }
    return interrupted ? weft_fail(WEFT_EINTR, "maxpool2d: Ctrl-C") : WEFT_OK;
}
