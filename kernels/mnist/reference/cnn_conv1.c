/* cnn_conv1.c -- conv1, batch norm 1, ReLU and pool 1, forward and backward.
 *
 * Forward: batch norm's statistics are known beforehand (cnn_batch.c). So scale
 * = gamma / sqrt(var + eps) is folded into the weights, and the shift into the
 * start of the sum. The convolution then yields batch norm's output. The four
 * outputs of a pooling window stay in registers. Only their maximum is stored,
 * with the winner's index for the backward pass.
 *
 * Backward: let g be the gradient at the pool's output where ReLU passed the
 * value. It is nonzero only at the winners, so with p the winner's patch
 *
 *     s = sum g p (nine numbers a channel)        dbeta = sum g
 *     dgamma = sum g xhat = rstd (w . s - mean dbeta)
 *
 * and batch norm's gradient, scale (g - dbeta / M - xhat dgamma / M) with M
 * pixels in the batch, summed over all pixels times their patches, is
 *
 *     dw = scale (s - dbeta / M sum p - dgamma / M sum xhat p)
 *     sum xhat p = rstd ((sum p p') w - mean sum p)
 *
 * where the sums of p and p p' are the moments again. The gradient of conv1's
 * output, four times the size of any other array of this pass, is never
 * computed. */
#include <math.h>

#include "cnn_model.h"

/* Compute batch norm's statistics of every channel, and the folded weights:
 * folded1 [block][TAPS + 1][BLOCK], in which row TAPS is the shift. */
static void fold(struct cnn_model *m) {
    const double count = (double)m->population * m->h0 * m->w0;
    const double *sum = m->moments + TAPS * MOMENTS;
    for (int c = 0; c < m->blocks1 * BLOCK; c++) {
        const float *w = m->weight[0] + c / BLOCK * TAPS * BLOCK + c % BLOCK;
        double mean = 0, var = 0;
        for (int t = 0; t < TAPS; t++) mean += w[t * BLOCK] * sum[t] / count;
        for (int t = 0; t < TAPS; t++)
            for (int u = 0; u < TAPS; u++) {
                const double cov = m->moments[t * MOMENTS + u] / count -
                                   sum[t] / count * (sum[u] / count);
                var += w[t * BLOCK] * cov * w[u * BLOCK];
            }
        // fmax() would turn a NaN into 0.
        const double rstd = 1 / sqrt((var < 0 ? 0 : var) + m->config.eps);
        const double scale = m->weight[2][c] * rstd;
        float *to = m->folded1 + c / BLOCK * (TAPS + 1) * BLOCK + c % BLOCK;
        for (int t = 0; t < TAPS; t++) to[t * BLOCK] = w[t * BLOCK] * scale;
        to[TAPS * BLOCK] = m->weight[3][c] - mean * scale;
        m->mean1[c] = mean;
        m->rstd1[c] = rstd;
        m->scale1[c] = scale;
    }
}

/* Compute one row of `count` pooling windows for VLEN channels. Nine weights
 * and four sums take 13 registers, which every machine has. x points at the
 * patch of the first window's first pixel. */
static void forward_row(float *top, uint8_t *arg, const float *x, int pitch,
                        const float *folded, int count) {
    vfloat w[TAPS];
    for (int t = 0; t < TAPS; t++) w[t] = vload(folded + t * BLOCK);
    const vfloat shift = vload(folded + TAPS * BLOCK);
    for (int j = 0; j < count; j++, x += 2, top += BLOCK, arg += BLOCK) {
        vfloat z[4] = {shift, shift, shift, shift}, largest;
#pragma GCC unroll 9
        for (int t = 0; t < TAPS; t++)
#pragma GCC unroll 4
            for (int i = 0; i < 4; i++)
                z[i] += w[t] * x[(i / 2 + t / 3) * pitch + i % 2 + t % 3];
        vint winner = cnn_winner(&largest, z);
        winner = vselect_int(largest <= 0.0f, (vint){0} + DEAD, winner);
        *(vbyte *)arg = __builtin_convertvector(winner, vbyte);
        vstore(top, cnn_relu(largest));
    }
}

void cnn_conv1_forward(struct cnn_model *m, int n) {
    const int pitch0 = m->w0 + 2, pitch1 = m->wp;
    fold(m);
#pragma omp parallel for schedule(static) num_threads(m->team)
    for (int i = 0; i < n; i++)
        for (int b = 0; b < m->blocks1; b++) {
            const float *folded = m->folded1 + b * (TAPS + 1) * BLOCK;
            const float *x = m->x0 + (size_t)i * (m->h0 + 2) * pitch0;
            float *top = m->x1 + i * cnn_x1_size(m) +
                         ((size_t)b * m->hp * pitch1 + pitch1 + 1) * BLOCK;
            uint8_t *arg =
                m->arg1 + ((size_t)i * m->blocks1 + b) * m->h1 * m->w1 * BLOCK;
            for (int y = 0; y < m->h1; y++)
                for (int v = 0; v < BLOCK; v += VLEN)
                    forward_row(top + (size_t)y * pitch1 * BLOCK + v,
                                arg + (size_t)y * m->w1 * BLOCK + v,
                                x + 2 * y * pitch0, pitch0, folded + v, m->w1);
        }
}

/* Add up the image's windows in sum (TAPS + 1,BLOCK), for VLEN channels: g p[t]
 * in row t, and g in row TAPS. A window whose output ReLU zeroed has the winner
 * DEAD, which is none of the four. */
static void backward_image(double *sum, ptrdiff_t sum_row, const float *dx,
                           ptrdiff_t dx_row, const uint8_t *arg,
                           const float *x0, int pitch, int h, int w) {
    vfloat s[TAPS + 1];
    for (int t = 0; t <= TAPS; t++) s[t] = (vfloat){0};
    for (int y = 0; y < h; y++) {
        const float *x = x0 + 2 * y * pitch;
        for (int j = 0; j < w; j++, x += 2, arg += BLOCK) {
            const vint winner =
                __builtin_convertvector(*(const vbyte *)arg, vint);
            const vfloat g = vload(dx + y * dx_row + j * BLOCK);
#pragma GCC unroll 4
            for (int i = 0; i < 4; i++) {
                const vfloat mine = vselect(winner == i, g, (vfloat){0});
                s[TAPS] += mine;
#pragma GCC unroll 9
                for (int t = 0; t < TAPS; t++)
                    s[t] += mine * x[(i / 2 + t / 3) * pitch + i % 2 + t % 3];
            }
        }
    }
    for (int t = 0; t <= TAPS; t++)
        for (int c = 0; c < VLEN; c++) sum[t * sum_row + c] += s[t][c];
}

/* Add the contribution of image i, from its gradient worker->dx1, to
 * worker->sums1. */
void cnn_conv1_backward(struct cnn_model *m, struct cnn_worker *worker, int i) {
    const size_t windows = (size_t)m->h1 * m->w1 * BLOCK;
    const ptrdiff_t row = (ptrdiff_t)m->wp * BLOCK;
    for (int c = 0; c < m->blocks1 * BLOCK; c += VLEN) {
        const int b = c / BLOCK, v = c % BLOCK;
        backward_image(worker->sums1 + c, m->blocks1 * BLOCK,
                       worker->dx1 + (b * m->hp + 1) * row + BLOCK + v, row,
                       m->arg1 + ((size_t)i * m->blocks1 + b) * windows + v,
                       m->x0 + (size_t)i * (m->h0 + 2) * (m->w0 + 2), m->w0 + 2,
                       m->h1, m->w1);
    }
}

/* Compute sum1, the totals of the threads' sums. */
void cnn_conv1_sums(struct cnn_model *m) {
    for (size_t i = 0; i < (TAPS + 1) * m->size[1]; i++) {
        m->sum1[i] = 0;
        for (int t = 0; t < m->team; t++) m->sum1[i] += m->worker[t].sums1[i];
    }
}

/* Compute the gradients of conv1 and batch norm 1 from sum1 and the moments,
 * both of m->population images. The n images of this model have that share of
 * the gradients. The gradient of conv1's bias is exactly 0, since batch norm
 * removes the bias with the mean. */
void cnn_conv1_gradients(struct cnn_model *m, int n) {
    const double count = (double)m->population * m->h0 * m->w0;
    const double share = (double)n / m->population;
    const double *sum = m->moments + TAPS * MOMENTS;
    const int channels = m->blocks1 * BLOCK;
    for (int c = 0; c < channels; c++) {
        const size_t at = c / BLOCK * TAPS * BLOCK + c % BLOCK;
        const float *w = m->weight[0] + at;
        const double mean = m->mean1[c], rstd = m->rstd1[c];
        double s[TAPS + 1];
        for (int t = 0; t <= TAPS; t++) s[t] = m->sum1[t * channels + c];
        const double dbeta = s[TAPS];
        double dgamma = -mean * dbeta;
        for (int t = 0; t < TAPS; t++) dgamma += w[t * BLOCK] * s[t];
        dgamma *= rstd;
        for (int t = 0; t < TAPS; t++) {
            double xhat_p = -mean * sum[t];
            for (int u = 0; u < TAPS; u++)
                xhat_p += m->moments[t * MOMENTS + u] * w[u * BLOCK];
            xhat_p *= rstd;
            m->gradient[0][at + t * BLOCK] =
                share * (m->scale1[c] *
                         (s[t] - (dbeta * sum[t] + dgamma * xhat_p) / count));
        }
        m->gradient[1][c] = 0;
        m->gradient[2][c] = share * dgamma;
        m->gradient[3][c] = share * dbeta;
    }
}
