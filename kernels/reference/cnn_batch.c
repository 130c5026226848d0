/* cnn_batch.c -- gather the batch, and the statistics of its 3x3 patches.
 *
 * conv1 has one input channel, so its output at a pixel is w . p, a product of
 * the channel's nine weights with the patch p around that pixel. Then
 *
 *     mean = w . E[p]     var = w' (E[p p'] - E[p] E[p]') w
 *
 * for every channel: batch norm's statistics follow from nine sums and 45
 * products a pixel, before conv1 has run, and so conv1, batch norm, ReLU and
 * pool become one pass (cnn_conv1.c). The backward pass needs them again.
 */
#include <omp.h>
#include <string.h>

#include "cnn_model.h"

/* x0 = (p / 255 - mean) / std inside; its border has been zero since create.
 * 256 possible values: a table keeps the divisions out of the loop. */
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

/* sum (TAPS + 1, TAPS) += over the pixels of one image: row t < TAPS, column
 * u >= t: p[t] p[u]; row TAPS: p[u]. Vectors run along x; lanes past the edge
 * are cleared. The three passes over t keep at most 3 * 9 sums in registers,
 * an image's sums are floats, the batch's are doubles. */
static void image_moments(double *sum, const float *x0, int h, int w) {
    const int pitch = w + 2;
    vfloat products[TAPS][TAPS], sums[TAPS];
    memset(products, 0, sizeof products);
    memset(sums, 0, sizeof sums);
    for (int y = 0; y < h; y++)
        for (int x = 0; x < w; x += VLEN) {
            const vint inside = viota() < w - x;
            vfloat p[TAPS];
#pragma GCC unroll 9
            for (int t = 0; t < TAPS; t++) {
                p[t] = vload(x0 + (y + t / 3) * pitch + x + t % 3);
                p[t] = vselect(inside, p[t], (vfloat){0});
                sums[t] += p[t];
            }
#pragma GCC unroll 9
            for (int t = 0; t < TAPS; t++)
#pragma GCC unroll 9
                for (int u = t; u < TAPS; u++) products[t][u] += p[t] * p[u];
        }
    for (int t = 0; t < TAPS; t++) {
        for (int u = t; u < TAPS; u++)
            sum[t * TAPS + u] += vsum(products[t][u]);
        sum[TAPS * TAPS + t] += vsum(sums[t]);
    }
}

/* moments (TAPS + 1, TAPS): rows 0 to 8 are the sum of p p' over all pixels of
 * the batch, row 9 is the sum of p. */
void cnn_patch_moments(struct cnn_model *m, int n) {
    const size_t count = (TAPS + 1) * TAPS;
    const size_t image = (size_t)(m->h0 + 2) * (m->w0 + 2);
    for (int t = 0; t < m->team; t++)
        memset(m->worker[t].moments, 0, count * sizeof(double));
#pragma omp parallel for schedule(static) num_threads(m->team)
    for (int i = 0; i < n; i++)
        image_moments(m->worker[omp_get_thread_num()].moments,
                      m->x0 + i * image, m->h0, m->w0);
    memset(m->moments, 0, count * sizeof(double));
    for (int t = 0; t < m->team; t++)
        for (size_t i = 0; i < count; i++)
            m->moments[i] += m->worker[t].moments[i];
    for (int t = 1; t < TAPS; t++)
        for (int u = 0; u < t; u++)
            m->moments[t * TAPS + u] = m->moments[u * TAPS + t];
}
