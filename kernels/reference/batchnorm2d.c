/* batchnorm2d.c -- batch normalisation in plain C, a channel at a time.
 *
 * The variance is the mean of the squared distances from the mean, computed in
 * a second pass. The one-pass formula mean(x^2) - mean(x)^2 loses every digit
 * if the mean is large compared with the spread. Sums are taken in double, so
 * their error does not grow with the batch. A channel is read three times, the
 * second and third time from the cache if it fits. */
#include <math.h>

#include "reference.h"

/* A channel of (n,c,h,w): n strips of `length` floats, `stride` apart. */
struct channel {
    size_t n, length, stride;
};

static double sum(const float *x, struct channel s) {
    double total = 0.0;
    for (size_t i = 0; i < s.n; i++) {
        const float *strip = x + i * s.stride;
#pragma omp simd reduction(+ : total)
        for (size_t j = 0; j < s.length; j++) total += strip[j];
    }
    return total;
}

static double sum_squares(const float *x, double mean, struct channel s) {
    double total = 0.0;
    for (size_t i = 0; i < s.n; i++) {
        const float *strip = x + i * s.stride;
#pragma omp simd reduction(+ : total)
        for (size_t j = 0; j < s.length; j++)
            total += (strip[j] - mean) * (strip[j] - mean);
    }
    return total;
}

/* Return the sum of dy * (x - mean). */
static double sum_products(const float *dy, const float *x, double mean,
                           struct channel s) {
    double total = 0.0;
    for (size_t i = 0; i < s.n; i++) {
        const float *a = dy + i * s.stride, *b = x + i * s.stride;
#pragma omp simd reduction(+ : total)
        for (size_t j = 0; j < s.length; j++) total += a[j] * (b[j] - mean);
    }
    return total;
}

int batchnorm2d_reference(float *y, float *mean, float *rstd, const float *x,
                          const float *weight, const float *bias, int n, int c,
                          int h, int w, float eps) {
    const size_t plane = (size_t)h * w;
    const struct channel s = {n, plane, c * plane};
    const double count = (double)n * plane;
    int interrupted = 0;
#pragma omp parallel for schedule(static) \
    reduction(| : interrupted) if (c * count > 1 << 14)
    for (int k = 0; k < c; k++) {
        if (interrupted || (interrupted = weft_interrupted())) continue;
        const double m = sum(x + k * plane, s) / count;
        const double var = sum_squares(x + k * plane, m, s) / count;
        mean[k] = (float)m;
        rstd[k] = (float)(1.0 / sqrt(var + eps));
        // Subtract the mean first: scale * x + shift would cancel if the mean
        // is large.
        const float scale = rstd[k] * weight[k], center = mean[k];
        const float shift = bias[k];
        for (size_t i = 0; i < s.n; i++) {
            const float *from = x + k * plane + i * s.stride;
            float *to = y + k * plane + i * s.stride;
#pragma omp simd
            for (size_t j = 0; j < plane; j++)
                to[j] = (from[j] - center) * scale + shift;
        }
    }
    return interrupted ? weft_fail(WEFT_EINTR, "batchnorm2d: Ctrl-C") : WEFT_OK;
}

/* Compute the gradients, with xhat = (x - mean) * rstd and N = n * h * w:
 *
 *     dbias   = sum of dy
 *     dweight = sum of dy * xhat
 *     dx      = weight * rstd * (dy - dbias / N - xhat * dweight / N)
 *
 * The last two terms are the effect of x on mean and rstd. */
int batchnorm2d_reference_backward(float *dx, float *dweight, float *dbias,
                                   const float *dy, const float *x,
                                   const float *weight, const float *mean,
                                   const float *rstd, int n, int c, int h,
                                   int w) {
    const size_t plane = (size_t)h * w;
    const struct channel s = {n, plane, c * plane};
    const double count = (double)n * plane;
    int interrupted = 0;
#pragma omp parallel for schedule(static) \
    reduction(| : interrupted) if (c * count > 1 << 14)
    for (int k = 0; k < c; k++) {
        if (interrupted || (interrupted = weft_interrupted())) continue;
        const size_t start = k * plane;
        const double db = sum(dy + start, s);
        const double dw =
            sum_products(dy + start, x + start, mean[k], s) * rstd[k];
        dbias[k] = (float)db;
        dweight[k] = (float)dw;
        const float scale = weight[k] * rstd[k], center = mean[k];
        const float a = (float)(db / count);
        const float b = (float)(dw * rstd[k] / count);
        for (size_t i = 0; i < s.n; i++) {
            const float *g = dy + start + i * s.stride;
            const float *from = x + start + i * s.stride;
            float *to = dx + start + i * s.stride;
#pragma omp simd
            for (size_t j = 0; j < plane; j++)
                to[j] = scale * (g[j] - a - (from[j] - center) * b);
        }
    }
    return interrupted ? weft_fail(WEFT_EINTR, "batchnorm2d: Ctrl-C") : WEFT_OK;
}
