/* cnn_norm2.c -- batch norm 2 and ReLU 2 on the winners of pool 2.
 *
 * cnn_conv2.c explains why the pool comes first, so that these layers process
 * only a quarter of conv2's output. They also change the layout. In top2, the
 * values of an image are together. In x2, the input of fc1, and in dx2, the
 * values of a feature block are together. */
#include <math.h>
#include <omp.h>
#include <string.h>

#include "cnn_model.h"

/* The number of images that are processed together. Neighbouring images are
 * adjacent in x2 but far apart in top2. With a few at a time, neither array
 * wastes a cache line or page on one value. */
enum { GROUP = 8 };

/* Return the offset of block k of image i in top2, or in x2 and dx2. */
static size_t top_at(const struct cnn_model *m, int i, int k) {
    return ((size_t)i * m->blocks_in + k) * BLOCK;
}

static size_t x_at(const struct cnn_model *m, int i, int k) {
    return ((size_t)k * m->images + i) * BLOCK;
}

/* Compute the mean, 1 / standard deviation, and the scale and shift derived
 * from them. */
static void statistics(struct cnn_model *m) {
    const int channels = m->blocks2 * BLOCK;
    const double count = (double)m->population * m->h1 * m->w1;
    for (int c = 0; c < channels; c++) {
        const double mean = m->sum2[c] / count;
        // fmax() would turn a NaN into 0.
        const double var = m->sum2[channels + c] / count - mean * mean;
        m->mean2[c] = mean;
        m->rstd2[c] = 1 / sqrt((var < 0 ? 0 : var) + m->config.eps);
        m->scale2[c] = m->weight[6][c] * m->rstd2[c];
        m->shift2[c] = m->weight[7][c] - mean * m->scale2[c];
    }
}

/* Compute x2 (blocks_in,images,BLOCK): batch norm 2 and ReLU of top2
 * (n,blocks_in,BLOCK). */
void cnn_norm2_forward(struct cnn_model *m, int n) {
    const int pixels = m->h2 * m->w2;
    statistics(m);
#pragma omp parallel for schedule(static) num_threads(m->team)
    for (int first = 0; first < n; first += GROUP)
        for (int k = 0; k < m->blocks_in; k++)
            for (int i = first; i < first + GROUP && i < n; i++)
                for (int v = 0; v < BLOCK; v += VLEN) {
                    const int c = k / pixels * BLOCK + v;
                    const vfloat y = vload(m->top2 + top_at(m, i, k) + v);
                    vstore(m->x2 + x_at(m, i, k) + v,
                           cnn_relu(y * vload(m->scale2 + c) +
                                    vload(m->shift2 + c)));
                }
}

/* Process images [first,last) and VLEN channels, beginning with c. */
static void backward_group(struct cnn_model *m, double *sums, int first,
                           int last, int c) {
    const int pixels = m->h2 * m->w2, v = c % BLOCK;
    const int block = c / BLOCK * pixels;
    vfloat mean, sum = {0}, product = {0};
    for (int l = 0; l < VLEN; l++) mean[l] = m->mean2[c + l];
    for (int k = block; k < block + pixels; k++)
        for (int i = first; i < last; i++) {
            const size_t at = x_at(m, i, k) + v;
            float *top = m->top2 + top_at(m, i, k) + v;
            const vfloat g = vselect(vload(m->x2 + at) > 0.0f,
                                     vload(m->dx2 + at), (vfloat){0});
            sum += g;
            product += g * (vload(top) - mean);
            vstore(top, g);
        }
    for (int l = 0; l < VLEN; l++) {
        sums[c + l] += sum[l];
        sums[m->blocks2 * BLOCK + c + l] += product[l];
    }
}

/* Compute dbeta and dgamma, the sums of g and g xhat over the winners. g is dx2
 * if ReLU 2 passed the value, else 0. g then replaces top2, image by image, in
 * the order in which conv2's backward pass reads it. */
void cnn_norm2_backward(struct cnn_model *m, int n) {
    const int channels = m->blocks2 * BLOCK;
    for (int t = 0; t < m->team; t++)
        memset(m->worker[t].sums2, 0, 2 * channels * sizeof(double));
#pragma omp parallel for schedule(static) num_threads(m->team)
    for (int first = 0; first < n; first += GROUP)
        for (int c = 0; c < channels; c += VLEN)
            backward_group(m, m->worker[omp_get_thread_num()].sums2, first,
                           first + GROUP < n ? first + GROUP : n, c);
    for (int c = 0; c < channels; c++) {
        double dbeta = 0, dgamma = 0;
        for (int t = 0; t < m->team; t++) {
            dbeta += m->worker[t].sums2[c];
            dgamma += m->worker[t].sums2[channels + c] * m->rstd2[c];
        }
        m->dnorm2[c] = dbeta;
        m->dnorm2[channels + c] = dgamma;
        m->gradient[5][c] = 0; // conv2's bias has no gradient, like conv1's
        m->gradient[6][c] = dgamma;
        m->gradient[7][c] = dbeta;
    }
}
