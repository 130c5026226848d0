/* cnn_norm2.c -- batch norm 2 and ReLU 2 on the winners of pool 2.
 *
 * cnn_conv2.c says why the pool comes first. So these run on a quarter of what
 * conv2 puts out; they also turn images around: top2 has an image's values
 * together, x2 and dx2, input of fc1, the values of one feature block.
 */
#include <math.h>
#include <omp.h>
#include <string.h>

#include "cnn_model.h"

/* Mean, 1 / standard deviation, and what makes them a scale and a shift. */
static void statistics(struct cnn_model *m, int n) {
    const int channels = m->blocks2 * BLOCK;
    const double count = (double)n * m->h1 * m->w1;
    for (int c = 0; c < channels; c++) {
        double sum = 0, squares = 0;
        for (int t = 0; t < m->team; t++) {
            sum += m->worker[t].sums2[c];
            squares += m->worker[t].sums2[channels + c];
        }
        const double mean = sum / count;
        // fmax() would turn a NaN into 0
        const double var = squares / count - mean * mean;
        m->mean2[c] = mean;
        m->rstd2[c] = 1 / sqrt((var < 0 ? 0 : var) + m->config.eps);
        m->scale2[c] = m->weight[6][c] * m->rstd2[c];
        m->shift2[c] = m->weight[7][c] - mean * m->scale2[c];
    }
}

/* x2 (blocks_in, images, BLOCK) = batch norm 2 and ReLU of top2 (n, blocks_in,
 * BLOCK). */
void cnn_norm2_forward(struct cnn_model *m, int n) {
    const int pixels = m->h2 * m->w2;
    statistics(m, n);
#pragma omp parallel for schedule(static) num_threads(m->team)
    for (int i = 0; i < n; i++)
        for (int k = 0; k < m->blocks_in; k++)
            for (int v = 0; v < BLOCK; v += VLEN) {
                const int c = k / pixels * BLOCK + v;
                const float *from =
                    m->top2 + ((size_t)i * m->blocks_in + k) * BLOCK + v;
                vstore(m->x2 + ((size_t)k * m->images + i) * BLOCK + v,
                       cnn_relu(vload(from) * vload(m->scale2 + c) +
                                vload(m->shift2 + c)));
            }
}

/* dbeta and dgamma: the sums of g and g xhat over the winners, g being dx2
 * where ReLU 2 let the value through, else 0. g then replaces top2: image by
 * image, as conv2's backward pass reads it. */
void cnn_norm2_backward(struct cnn_model *m, int n) {
    const int channels = m->blocks2 * BLOCK, pixels = m->h2 * m->w2;
    for (int t = 0; t < m->team; t++)
        memset(m->worker[t].sums2, 0, 2 * channels * sizeof(double));
#pragma omp parallel for schedule(static) num_threads(m->team)
    for (int i = 0; i < n; i++)
        for (int c = 0; c < channels; c += VLEN) {
            double *sums = m->worker[omp_get_thread_num()].sums2 + c;
            const int first = c / BLOCK * pixels, v = c % BLOCK;
            vfloat mean, sum = {0}, product = {0};
            for (int l = 0; l < VLEN; l++) mean[l] = m->mean2[c + l];
            for (int k = first; k < first + pixels; k++) {
                const size_t at = ((size_t)k * m->images + i) * BLOCK + v;
                float *top =
                    m->top2 + ((size_t)i * m->blocks_in + k) * BLOCK + v;
                const vfloat g = vselect(vload(m->x2 + at) > 0.0f,
                                         vload(m->dx2 + at), (vfloat){0});
                sum += g;
                product += g * (vload(top) - mean);
                vstore(top, g);
            }
            for (int l = 0; l < VLEN; l++) {
                sums[l] += sum[l];
                sums[channels + l] += product[l];
            }
        }
    for (int c = 0; c < channels; c++) {
        double dbeta = 0, dgamma = 0;
        for (int t = 0; t < m->team; t++) {
            dbeta += m->worker[t].sums2[c];
            dgamma += m->worker[t].sums2[channels + c] * m->rstd2[c];
        }
        m->gradient[5][c] = 0; // conv2's bias: as for conv1's
        m->gradient[6][c] = dgamma;
        m->gradient[7][c] = dbeta;
    }
}
