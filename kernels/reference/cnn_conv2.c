/* cnn_conv2.c -- conv2, batch norm 2, ReLU and pool 2, forward and backward.
 *
 * Nine tenths of a step's arithmetic is here: three products of the same size,
 * each a sum over nine shifted images in blocked layout, by tile_fma().
 *
 * Forward: an image's raw output y2 is kept for the way back; while a block of
 * its channels is in the nearest cache, the statistics and the pool's winners
 * are taken. Batch norm increases where gamma > 0 and decreases where gamma
 * < 0, so the winner after it is the largest gamma * y2: the pool need not
 * wait for the statistics, and batch norm and ReLU run on the winners alone.
 *
 * Backward: batch norm's gradient,
 *
 *     dy = scale (g - dbeta / M - xhat dgamma / M),  xhat = (y - mean) rstd,
 *
 * with g at the winners and 0 elsewhere, is a factor times y plus a constant
 * plus, at the winners, scale g. It is written for one image at a time, used
 * for both gradients while it is near, and overwritten by the next image.
 */
#include <math.h>
#include <omp.h>
#include <string.h>

#include "cnn_model.h"

/* Register tiles, 2 * rows accumulators each. A row of 14 pixels is one tile
 * of 14 or three of 5; the gradient's tiles divide 3 * BLOCK. */
enum {
    PIXELS = VREGS == 32 ? 14 : 5,
    WEIGHT_ROWS = VREGS == 32 ? 12 : 6,
    SLICE = 3 * BLOCK /* kw and channel of an image's block: contiguous */
};

/* y (h,w,BLOCK) = one block of outputs of a 3x3 convolution of x (blocks,
 * h + 2, w + 2, BLOCK), with a border of zeros, by weight (blocks, 3, SLICE,
 * BLOCK). A tile reaching past its row's end computes pixels that nobody
 * stores. */
static void convolve(float *y, const float *x, const float *weight, int blocks,
                     int h, int w) {
    const ptrdiff_t pitch = (ptrdiff_t)(w + 2) * BLOCK;
    for (int row = 0; row < h; row++)
        for (int j = 0; j < w; j += PIXELS) {
            vfloat acc[PIXELS][2];
#pragma GCC unroll 16
            for (int p = 0; p < PIXELS; p++) acc[p][0] = acc[p][1] = (vfloat){0};
            for (int b = 0; b < blocks; b++)
                for (int kh = 0; kh < 3; kh++)
                    tile_fma(PIXELS, acc,
                             x + (b * (h + 2) + row + kh) * pitch + j * BLOCK,
                             BLOCK, 1, weight + (b * 3 + kh) * SLICE * BLOCK,
                             BLOCK, SLICE);
            float *to = y + ((ptrdiff_t)row * w + j) * BLOCK;
#pragma GCC unroll 16
            for (int p = 0; p < PIXELS; p++)
                if (j + p < w) {
                    vstore(to + p * BLOCK, acc[p][0]);
                    vstore(to + p * BLOCK + VLEN, acc[p][1]);
                }
        }
}

/* dweight (3, SLICE, BLOCK) += the gradient for one block of inputs x and one
 * of outputs dy, both (h + 2, w + 2, BLOCK), of one image. Rows of the tile
 * are (kw, input channel); the sum runs over the pixels. */
static void convolve_weight(float *dweight, const float *x, const float *dy,
                            int h, int w) {
    const ptrdiff_t pitch = (ptrdiff_t)(w + 2) * BLOCK;
    for (int kh = 0; kh < 3; kh++)
        for (int r = 0; r < SLICE; r += WEIGHT_ROWS) {
            vfloat acc[WEIGHT_ROWS][2];
#pragma GCC unroll 16
            for (int i = 0; i < WEIGHT_ROWS; i++)
                acc[i][0] = acc[i][1] = (vfloat){0};
            for (int row = 0; row < h; row++)
                tile_fma(WEIGHT_ROWS, acc, x + (row + kh) * pitch + r, 1, BLOCK,
                         dy + (row + 1) * pitch + BLOCK, BLOCK, w);
            float *to = dweight + (kh * SLICE + r) * BLOCK;
#pragma GCC unroll 16
            for (int i = 0; i < WEIGHT_ROWS; i++)
                for (int v = 0; v < 2; v++, to += VLEN)
                    vstore(to, vload(to) + acc[i][v]);
        }
}

/* sums (2, count), of y and y^2, += those of one image's block y (pixels,
 * BLOCK), for BLOCK channels. Squares are taken about the first pixel, which
 * is as near to the mean as any: no digits are lost when the mean is large. */
static void add_statistics(double *sums, ptrdiff_t count, const float *y,
                           int pixels) {
    for (int v = 0; v < BLOCK; v += VLEN) {
        const vfloat about = vload(y + v);
        vfloat s[2] = {{0}}, q[2] = {{0}};
        for (int p = 0; p + 1 < pixels; p += 2)
            for (int k = 0; k < 2; k++) {
                const vfloat d = vload(y + (p + k) * BLOCK + v) - about;
                s[k] += d;
                q[k] += d * d;
            }
        if (pixels % 2) {
            const vfloat d = vload(y + (pixels - 1) * BLOCK + v) - about;
            s[0] += d;
            q[0] += d * d;
        }
        s[0] += s[1];
        q[0] += q[1];
        for (int c = 0; c < VLEN; c++) {
            const double a = about[c], d = s[0][c];
            sums[v + c] += d + pixels * a;
            sums[count + v + c] += q[0][c] + 2 * a * d + pixels * a * a;
        }
    }
}

/* top, arg (h / 2, w / 2, BLOCK): the winners of y (h, w, BLOCK). */
static void pool(float *top, uint8_t *arg, const float *y, const float *gamma,
                 int h, int w) {
    for (int row = 0; row + 1 < h; row += 2)
        for (int j = 0; j + 1 < w; j += 2)
            for (int v = 0; v < BLOCK; v += VLEN) {
                const float *from = y + ((ptrdiff_t)row * w + j) * BLOCK + v;
                const vfloat factor = vload(gamma + v);
                vfloat raw[4], z[4], largest;
                for (int i = 0; i < 4; i++) {
                    raw[i] = vload(from + (i / 2 * w + i % 2) * BLOCK);
                    z[i] = factor * raw[i];
                }
                const vint winner = cnn_winner(&largest, z);
                vfloat value = raw[0];
                for (int i = 1; i < 4; i++)
                    value = vselect(winner == i, raw[i], value);
                vstore(top + v, value);
                *(vbyte *)(arg + v) = __builtin_convertvector(winner, vbyte);
                if (v + VLEN == BLOCK) top += BLOCK, arg += BLOCK;
            }
}

void cnn_conv2_forward(struct cnn_model *m, int n) {
    const int h = m->h1, w = m->w1, channels = m->blocks2 * BLOCK;
    const size_t large = (size_t)h * w * BLOCK;
    const size_t small = (size_t)m->h2 * m->w2 * BLOCK;
    for (int t = 0; t < m->team; t++)
        memset(m->worker[t].sums2, 0, 2 * channels * sizeof(double));
#pragma omp parallel for schedule(static) num_threads(m->team)
    for (int i = 0; i < n; i++)
        for (int b = 0; b < m->blocks2; b++) {
            const size_t at = (size_t)i * m->blocks2 + b;
            convolve(m->y2 + at * large, m->x1 + i * cnn_x1_size(m),
                     m->weight[4] + (size_t)b * m->blocks1 * 3 * SLICE * BLOCK,
                     m->blocks1, h, w);
            add_statistics(m->worker[omp_get_thread_num()].sums2 + b * BLOCK,
                           channels, m->y2 + at * large, h * w);
            pool(m->top2 + at * small, m->arg2 + at * small, m->y2 + at * large,
                 m->weight[6] + b * BLOCK, h, w);
        }
}

/* Batch norm 2 and ReLU of the winners, as fc1's input: x2 (blocks_in,
 * images, BLOCK), where top2 is (n, blocks_in, BLOCK). */
void cnn_bn2_forward(struct cnn_model *m, int n) {
    const int channels = m->blocks2 * BLOCK, pixels = m->h2 * m->w2;
    const double count = (double)n * m->h1 * m->w1;
    for (int c = 0; c < channels; c++) {
        double sum = 0, squares = 0;
        for (int t = 0; t < m->team; t++) {
            sum += m->worker[t].sums2[c];
            squares += m->worker[t].sums2[channels + c];
        }
        const double mean = sum / count;
        const double var = fmax(squares / count - mean * mean, 0);
        m->mean2[c] = mean;
        m->rstd2[c] = 1 / sqrt(var + m->config.eps);
        m->scale2[c] = m->weight[6][c] * m->rstd2[c];
        m->shift2[c] = m->weight[7][c] - mean * m->scale2[c];
    }
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

/* Where ReLU 2 let image i's values of block k through, its dx2; else 0. */
SIMD_INLINE vfloat alive(const struct cnn_model *m, int i, int k, int v) {
    const size_t at = ((size_t)k * m->images + i) * BLOCK + v;
    return vselect(vload(m->x2 + at) > 0.0f, vload(m->dx2 + at), (vfloat){0});
}

/* dbeta and dgamma of batch norm 2: the sums of g and g xhat over winners. */
void cnn_bn2_backward(struct cnn_model *m, int n) {
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
                const vfloat g = alive(m, i, k, v);
                const size_t at = ((size_t)i * m->blocks_in + k) * BLOCK + v;
                sum += g;
                product += g * (vload(m->top2 + at) - mean);
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
        m->gradient[5][c] = 0; // as for conv1's bias
        m->gradient[6][c] = dgamma;
        m->gradient[7][c] = dbeta;
    }
}

/* dy (h + 2, w + 2, BLOCK), whose border stays zero = the gradient of image
 * i's y2, VLEN channels from c on: factor y + constant, and at the winners
 * scale g. */
static void norm_gradient(float *dy, const struct cnn_model *m, int n, int i,
                          int c) {
    const int h = m->h1, w = m->w1, v = c % BLOCK;
    const double count = (double)n * h * w;
    const size_t block = (size_t)i * m->blocks2 + c / BLOCK;
    const float *y = m->y2 + block * h * w * BLOCK + v;
    const uint8_t *arg = m->arg2 + block * m->h2 * m->w2 * BLOCK + v;
    const vfloat scale = vload(m->scale2 + c);
    vfloat factor, constant;
    for (int l = 0; l < VLEN; l++) {
        const double f = -(double)m->scale2[c + l] * m->rstd2[c + l] *
                         m->gradient[6][c + l] / count;
        factor[l] = f;
        constant[l] = -m->scale2[c + l] * m->gradient[7][c + l] / count -
                      f * m->mean2[c + l];
    }
    for (int row = 0; row < h; row++) {
        float *to = dy + ((row + 1) * (w + 2) + 1) * BLOCK + v;
        const float *from = y + (size_t)row * w * BLOCK;
        for (int j = 0; j < w; j++)
            vstore(to + j * BLOCK, factor * vload(from + j * BLOCK) + constant);
    }
    int k = c / BLOCK * m->h2 * m->w2;
    for (int row = 0; row < m->h2; row++)
        for (int j = 0; j < m->w2; j++, k++, arg += BLOCK) {
            const vfloat g = scale * alive(m, i, k, v);
            const vint winner =
                __builtin_convertvector(*(const vbyte *)arg, vint);
            float *to = dy + ((2 * row + 1) * (w + 2) + 2 * j + 1) * BLOCK + v;
            for (int p = 0; p < 4; p++) {
                float *at = to + (p / 2 * (w + 2) + p % 2) * BLOCK;
                vstore(at, vload(at) + vselect(winner == p, g, (vfloat){0}));
            }
        }
}

/* All that follows from y2's gradient, image by image: conv2's weight gradient
 * (per worker), the gradient of x1, and from it conv1's sums. */
static void backward_image(struct cnn_model *m, struct cnn_worker *worker,
                           int n, int i) {
    const int h = m->h1, w = m->w1;
    const ptrdiff_t padded = (ptrdiff_t)(h + 2) * (w + 2) * BLOCK;
    const float *x = m->x1 + i * cnn_x1_size(m);
    for (int c = 0; c < m->blocks2 * BLOCK; c += VLEN)
        norm_gradient(worker->dy2 + c / BLOCK * padded, m, n, i, c);
    for (int o = 0; o < m->blocks2; o++)
        for (int b = 0; b < m->blocks1; b++)
            convolve_weight(worker->dweight2 +
                                (size_t)(o * m->blocks1 + b) * 3 * SLICE * BLOCK,
                            x + b * padded, worker->dy2 + o * padded, h, w);
    for (int b = 0; b < m->blocks1; b++)
        convolve(worker->dx1 + (size_t)b * h * w * BLOCK, worker->dy2,
                 m->flipped2 + (size_t)b * m->blocks2 * 3 * SLICE * BLOCK,
                 m->blocks2, h, w);
    cnn_conv1_backward(m, worker, i);
}

void cnn_conv2_backward(struct cnn_model *m, int n) {
    for (int t = 0; t < m->team; t++) {
        memset(m->worker[t].sums1, 0,
               (TAPS + 1) * m->blocks1 * BLOCK * sizeof(double));
        memset(m->worker[t].dweight2, 0, m->size[4] * sizeof(float));
    }
#pragma omp parallel for schedule(static) num_threads(m->team)
    for (int i = 0; i < n; i++)
        backward_image(m, &m->worker[omp_get_thread_num()], n, i);
}
