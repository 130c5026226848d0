/* cnn_batch.c -- the gathering of a batch, and the statistics of its 3x3
 * patches.
 *
 * conv1 has one input channel, so its output at a pixel is w . p, a product of
 * the channel's nine weights with the patch p around that pixel. Then
 *
 *     mean = w . E[p]     var = w' (E[p p'] - E[p] E[p]') w
 *
 * for every channel. So batch norm's statistics follow from nine sums and 45
 * products per pixel, before conv1 runs. Hence conv1, batch norm, ReLU and pool
 * become one pass (cnn_conv1.c). The backward pass needs these sums again. */
#include <omp.h>
#include <string.h>

#include "cnn_model.h"

/* Compute x0 = (p / 255 - mean) / std inside its border, which create() has set
 * to zero. A table of the 256 possible values keeps the divisions out of the
 * loop. */
void cnn_gather(struct cnn_model *m, const uint8_t *images,
                const int32_t *order, int n) {
    const int h = m->h0, w = m->w0, pitch = w + 2;
    float pixel[256];
    for (int p = 0; p < 256; p++)
        pixel[p] = (p / 255.0f - m->config.mean) / m->config.std;
#pragma omp parallel for schedule(static) num_threads(m->team)
    for (int i = 0; i < n; i++) {
        const uint8_t *from = images + (size_t)order[i] * h * w;
        float *to = m->x0 + (size_t)i * (h + 2) * pitch + pitch + 1;
        for (int y = 0; y < h; y++, from += w, to += pitch)
            for (int x = 0; x < w; x++) to[x] = pixel[from[x]];
    }
}

/* Add p[t] p[u] of all pixels of one image to element (t,u) of sum
 * (MOMENTS,MOMENTS), for first <= t < last and u >= t. p is a patch with a 1
 * appended. The vectors run along x, and lanes past the edge are cleared. */
SIMD_INLINE void add_products(double *sum, const float *x0, int h, int w,
                              int first, int last) {
    const int pitch = w + 2;
    vfloat products[MOMENTS][MOMENTS];
    for (int t = first; t < last; t++)
        for (int u = t; u < MOMENTS; u++) products[t][u] = (vfloat){0};
    for (int y = 0; y < h; y++)
        for (int x = 0; x < w; x += VLEN) {
            const vint inside = viota() < w - x;
            vfloat p[MOMENTS];
#pragma GCC unroll 9
            for (int t = first; t < TAPS; t++)
                p[t] =
                    vselect(inside, vload(x0 + (y + t / 3) * pitch + x + t % 3),
                            (vfloat){0});
            p[TAPS] = vsplat(1.0f);
#pragma GCC unroll 9
            for (int t = first; t < last; t++)
#pragma GCC unroll 10
                for (int u = t; u < MOMENTS; u++) products[t][u] += p[t] * p[u];
        }
    for (int t = first; t < last; t++)
        for (int u = t; u < MOMENTS; u++)
            sum[t * MOMENTS + u] += vsum(products[t][u]);
}

/* All 54 sums of an image would overflow the registers, so there are three
 * passes, with 19, 21 and 14 sums. They are added in float over an image and in
 * double over the batch. */
static void add_image(double *sum, const float *x0, int h, int w) {
    add_products(sum, x0, h, w, 0, 2);
    add_products(sum, x0, h, w, 2, 5);
    add_products(sum, x0, h, w, 5, TAPS);
}

/* Compute moments (MOMENTS,MOMENTS), the sum of p p' over all pixels of the
 * batch. p[TAPS] is 1, so row TAPS is the sum of the patches. */
void cnn_patch_moments(struct cnn_model *m, int n) {
    const size_t count = MOMENTS * MOMENTS;
    const size_t image = (size_t)(m->h0 + 2) * (m->w0 + 2);
    for (int t = 0; t < m->team; t++)
        memset(m->worker[t].moments, 0, count * sizeof(double));
#pragma omp parallel for schedule(static) num_threads(m->team)
    for (int i = 0; i < n; i++)
        add_image(m->worker[omp_get_thread_num()].moments, m->x0 + i * image,
                  m->h0, m->w0);
    memset(m->moments, 0, count * sizeof(double));
    for (int t = 0; t < m->team; t++)
        for (size_t i = 0; i < count; i++)
            m->moments[i] += m->worker[t].moments[i];
    for (int t = 1; t < MOMENTS; t++)
        for (int u = 0; u < t; u++)
            m->moments[t * MOMENTS + u] = m->moments[u * MOMENTS + t];
}
