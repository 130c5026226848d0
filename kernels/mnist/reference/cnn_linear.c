/* cnn_linear.c -- fc1, ReLU, fc2 and the loss, forward and backward.
 *
 * A layer's weight is stored (blocks of outputs, inputs, BLOCK outputs), its
 * activations (blocks of features, images, BLOCK features). The three products
 * then use the same register tile:
 *
 *     y  (image, output)  rows are images,  the sum runs over inputs
 *     dw (input, output)  rows are inputs,  the sum runs over images
 *     dx (input, image)   rows are inputs,  the sum runs over outputs
 *
 * The last product yields vectors of images, so it also needs dy with the
 * images innermost: dy_t (blocks of images, outputs, BLOCK images).
 *
 * fc1's weight, 1.6 MB, is more than all other weights together. The backward
 * pass reads it once. For a few rows at a time, it computes dx, sums the
 * gradient in registers, stores it and immediately updates the weight. */
#include <math.h>

#include "cnn_model.h"

struct layer {
    float *weight, *bias, *dweight, *dbias;
    int in, out; /* number of blocks of inputs and outputs */
};

static struct layer layer_of(const struct cnn_model *m, int index, int in,
                             int out) {
    return (struct layer){m->weight[index],
                          m->weight[index + 1],
                          m->gradient[index],
                          m->gradient[index + 1],
                          in,
                          out};
}

static struct layer fc1(const struct cnn_model *m) {
    return layer_of(m, 8, m->blocks_in, m->blocks_hidden);
}

static struct layer fc2(const struct cnn_model *m) {
    return layer_of(m, 10, m->blocks_hidden, m->blocks_out);
}

/* Compute one tile of y = x @ weight + bias, followed by ReLU if `relu`:
 * LINEAR_ROWS images, beginning at x and y, and one block of outputs. */
static void forward_tile(float *y, const float *x, const float *weight,
                         const float *bias, int in, int images, int relu) {
    vfloat acc[LINEAR_ROWS][2];
#pragma GCC unroll 16
    for (int r = 0; r < LINEAR_ROWS; r++) {
        acc[r][0] = vload(bias);
        acc[r][1] = vload(bias + VLEN);
    }
    for (int k = 0; k < in; k++)
        tile_fma(LINEAR_ROWS, acc, x + (size_t)k * images * BLOCK, BLOCK, 1,
                 weight + (size_t)k * BLOCK * BLOCK, BLOCK, BLOCK);
#pragma GCC unroll 16
    for (int r = 0; r < LINEAR_ROWS; r++)
        for (int v = 0; v < 2; v++)
            vstore(y + r * BLOCK + v * VLEN,
                   relu ? cnn_relu(acc[r][v]) : acc[r][v]);
}

/* Compute y = x @ weight + bias, followed by ReLU if `relu`. As far as
 * possible, a thread computes whole blocks of outputs, so that its part of the
 * weight stays in its cache. The last rows may be past the batch. */
static void forward(const struct cnn_model *m, const struct layer *l, float *y,
                    const float *x, int n, int relu) {
    const size_t block = (size_t)m->images * BLOCK;
#pragma omp parallel for collapse(2) schedule(static) num_threads(m->team)
    for (int o = 0; o < l->out; o++)
        for (ptrdiff_t i = 0; i < n; i += LINEAR_ROWS)
            forward_tile(y + o * block + i * BLOCK, x + i * BLOCK,
                         l->weight + o * l->in * (size_t)BLOCK * BLOCK,
                         l->bias + o * BLOCK, l->in, m->images, relu);
}

void cnn_fc1_forward(struct cnn_model *m, int n) {
    const struct layer l = fc1(m);
    forward(m, &l, m->hidden, m->x2, n, 1);
}

void cnn_fc2_forward(struct cnn_model *m, int n) {
    const struct layer l = fc2(m);
    forward(m, &l, m->logits, m->hidden, n, 0);
}

/* Return the loss of one image, and replace its logits with the gradient of the
 * mean loss of `total` images. The logits are `block` apart from one block of
 * classes to the next. The largest logit is subtracted first, so that no
 * exponential overflows. */
static float image_loss(float *logits, size_t block, int classes, int padded,
                        int label, int total) {
#define LOGIT(c) logits[(c) / BLOCK * block + (c) % BLOCK]
    float top = LOGIT(0), sum = 0;
    for (int c = 1; c < classes; c++)
        if (LOGIT(c) > top) top = LOGIT(c);
    const float own = LOGIT(label) - top;
    for (int c = 0; c < classes; c++) sum += LOGIT(c) = expf(LOGIT(c) - top);
    for (int c = 0; c < classes; c++)
        LOGIT(c) = (LOGIT(c) / sum - (c == label)) / total;
    for (int c = classes; c < padded; c++) LOGIT(c) = 0;
#undef LOGIT
    return logf(sum) - own;
}

/* Return the sum of the n images' losses divided by m->total, and replace the
 * logits with its gradient. */
float cnn_loss(struct cnn_model *m, const uint8_t *labels, const int32_t *order,
               int n) {
#pragma omp parallel for schedule(static) num_threads(m->team)
    for (int i = 0; i < n; i++)
        m->loss[i] =
            image_loss(m->logits + (size_t)i * BLOCK, (size_t)m->images * BLOCK,
                       m->config.classes, m->blocks_out * BLOCK,
                       labels[order[i]], m->total);
    double sum = 0;
    for (int i = 0; i < n; i++) sum += m->loss[i];
    return sum / m->total;
}

/* Copy `from` (blocks of features, images, BLOCK features), of which the first
 * n images are valid, to `to` (blocks of images, features, BLOCK images). */
static void transpose(const struct cnn_model *m, float *to, const float *from,
                      int blocks, int n) {
    const size_t block = (size_t)m->images * BLOCK;
    const size_t panel = (size_t)blocks * BLOCK * BLOCK;
#pragma omp parallel for schedule(static) num_threads(m->team)
    for (int b = 0; b < blocks; b++)
        for (ptrdiff_t i = 0; i < n; i++) {
            float *column = to + i / BLOCK * panel + b * BLOCK * BLOCK;
            for (int f = 0; f < BLOCK; f++)
                column[f * BLOCK + i % BLOCK] = from[b * block + i * BLOCK + f];
        }
}

/* Compute dx for LINEAR_ROWS inputs and BLOCK images. dx and weight point at
 * the first input, dy_t at the first image. The last images may be past the
 * batch. */
static void backward_dx(float *dx, const float *weight, const float *dy_t,
                        const struct layer *l) {
    vfloat acc[LINEAR_ROWS][2];
    float part[LINEAR_ROWS][BLOCK];
#pragma GCC unroll 16
    for (int r = 0; r < LINEAR_ROWS; r++) acc[r][0] = acc[r][1] = (vfloat){0};
    for (int o = 0; o < l->out; o++)
        tile_fma(LINEAR_ROWS, acc, weight + o * l->in * (size_t)BLOCK * BLOCK,
                 BLOCK, 1, dy_t + o * BLOCK * BLOCK, BLOCK, BLOCK);
#pragma GCC unroll 16
    for (int r = 0; r < LINEAR_ROWS; r++)
        for (int v = 0; v < 2; v++) vstore(part[r] + v * VLEN, acc[r][v]);
    for (int i = 0; i < BLOCK; i++)
        for (int r = 0; r < LINEAR_ROWS; r++) dx[i * BLOCK + r] = part[r][i];
}

/* Compute the weight's gradient for LINEAR_ROWS inputs and one block of
 * outputs. Unless lr is NULL, update that part of the weight. */
static void backward_dw(float *dweight, float *weight, const float *x,
                        const float *dy, int n, const float *lr) {
    vfloat acc[LINEAR_ROWS][2];
#pragma GCC unroll 16
    for (int r = 0; r < LINEAR_ROWS; r++) acc[r][0] = acc[r][1] = (vfloat){0};
    tile_fma(LINEAR_ROWS, acc, x, 1, BLOCK, dy, BLOCK, n);
#pragma GCC unroll 16
    for (int r = 0; r < LINEAR_ROWS; r++)
        for (int v = 0; v < 2; v++) {
            const size_t at = r * BLOCK + v * VLEN;
            vstore(dweight + at, acc[r][v]);
            if (lr) vstore(weight + at, vload(weight + at) - *lr * acc[r][v]);
        }
}

/* Compute a layer's dx and gradients from dy and dy_t. Unless lr is NULL,
 * update the layer's parameters. */
static void backward(const struct cnn_model *m, const struct layer *l,
                     float *dx, const float *x, const float *dy,
                     const float *dy_t, int n, const float *lr) {
    const size_t block = (size_t)m->images * BLOCK;
#pragma omp parallel for schedule(static) num_threads(m->team)
    for (ptrdiff_t k = 0; k < (ptrdiff_t)l->in * BLOCK; k += LINEAR_ROWS) {
        const size_t at = k / BLOCK * block + k % BLOCK;
        for (ptrdiff_t i = 0; i < n; i += BLOCK)
            backward_dx(dx + at + i * BLOCK, l->weight + k * BLOCK,
                        dy_t + i * l->out * BLOCK, l);
        for (int o = 0; o < l->out; o++) {
            const size_t row = ((size_t)o * l->in * BLOCK + k) * BLOCK;
            backward_dw(l->dweight + row, l->weight + row, x + at,
                        dy + o * block, n, lr);
        }
    }
    for (int o = 0; o < l->out * BLOCK; o++) {
        double sum = 0;
        for (int i = 0; i < n; i++)
            sum += dy[o / BLOCK * block + (size_t)i * BLOCK + o % BLOCK];
        l->dbias[o] = sum;
        if (lr) l->bias[o] -= *lr * l->dbias[o];
    }
}

void cnn_fc2_backward(struct cnn_model *m, int n, const float *lr) {
    const struct layer l = fc2(m);
    transpose(m, m->dlogits_t, m->logits, l.out, n);
    backward(m, &l, m->dhidden, m->hidden, m->logits, m->dlogits_t, n, lr);
    for (int b = 0; b < l.in; b++) {
        float *dh = m->dhidden + (size_t)b * m->images * BLOCK;
        const float *h = m->hidden + (size_t)b * m->images * BLOCK;
        for (size_t i = 0; i < (size_t)n * BLOCK; i++)
            dh[i] = h[i] > 0 ? dh[i] : 0;
    }
    transpose(m, m->dhidden_t, m->dhidden, l.in, n);
}

void cnn_fc1_backward(struct cnn_model *m, int n, const float *lr) {
    const struct layer l = fc1(m);
    backward(m, &l, m->dx2, m->x2, m->dhidden, m->dhidden_t, n, lr);
}
