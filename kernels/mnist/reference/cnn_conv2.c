/* cnn_conv2.c -- conv2, the statistics of batch norm 2, and pool 2, forward and
 * backward, in Winograd's form (cnn_winograd.h).
 *
 * This file contains most of a step's arithmetic: three products of the same
 * size, each with 16 small matrices per image. A tile's 2x2 outputs are a
 * window of pool 2, so all work around the products can stay in registers.
 *
 * Forward: a tile's outputs are stored for the backward pass, added to batch
 * norm's statistics, and compared for the pool. Batch norm increases where
 * gamma > 0 and decreases where gamma < 0, so the winner after it is the
 * largest gamma * y. Hence the pool need not wait for the statistics, and batch
 * norm and ReLU process only the winners (cnn_norm2.c).
 *
 * Backward: batch norm's gradient,
 *
 *     dy = scale (g - dbeta / M - xhat dgamma / M),  xhat = (y - mean) rstd,
 *
 * with g zero except at the winners, is a factor times y plus a constant and,
 * at the winner, plus scale g. A tile has four such vectors, which are
 * transformed immediately. The gradient of y is never stored as an image.
 *
 * The intermediate arrays of one image, half a megabyte, belong to a worker and
 * stay in its second-level cache (see struct cnn_worker). */
// Without these flags, a step's speed varies by 5 % with the addresses of the
// products' loops.
/* g++: -falign-functions=64 -falign-loops=64 */
#include <omp.h>
#include <string.h>

#include "cnn_model.h"

/* The height of the register tile of (tiles,channels) @ (channels,channels),
 * which has 2 * TILES sums. The 49 tiles of a 14x14 image leave only one of 5 *
 * 10 rows unused. */
enum { TILES = CNN_TILES };

/* Compute out (positions,room,BLOCK) = in (blocks,positions,room,BLOCK) @
 * weight (positions,blocks,BLOCK,BLOCK): one block of output channels from all
 * input channels. A position's weights stay in the nearest cache for all
 * tiles. */
static void multiply(float *out, const float *in, const float *weight,
                     int blocks, int room) {
    const ptrdiff_t plane = (ptrdiff_t)room * BLOCK;
    for (int p = 0; p < POSITIONS; p++)
        for (int t = 0; t < room; t += TILES) {
            vfloat acc[TILES][2];
#pragma GCC unroll 16
            for (int i = 0; i < TILES; i++) acc[i][0] = acc[i][1] = (vfloat){0};
            for (int b = 0; b < blocks; b++)
                tile_fma(TILES, acc,
                         in + (b * POSITIONS + p) * plane + t * BLOCK, BLOCK, 1,
                         weight + (ptrdiff_t)(p * blocks + b) * BLOCK * BLOCK,
                         BLOCK, BLOCK);
            float *to = out + p * plane + t * BLOCK;
#pragma GCC unroll 16
            for (int i = 0; i < TILES; i++) {
                vstore(to + i * BLOCK, acc[i][0]);
                vstore(to + i * BLOCK + VLEN, acc[i][1]);
            }
        }
}

/* Add v (tiles,BLOCK in)' @ dm (tiles,BLOCK out) to du (BLOCK in,BLOCK out). */
static void multiply_weight(float *du, const float *v, const float *dm,
                            int tiles) {
    for (int r = 0; r < BLOCK; r += LINEAR_ROWS) {
        vfloat acc[LINEAR_ROWS][2];
#pragma GCC unroll 16
        for (int i = 0; i < LINEAR_ROWS; i++)
            acc[i][0] = acc[i][1] = (vfloat){0};
        tile_fma(LINEAR_ROWS, acc, v + r, 1, BLOCK, dm, BLOCK, tiles);
        float *to = du + r * BLOCK;
#pragma GCC unroll 16
        for (int i = 0; i < LINEAR_ROWS; i++)
            for (int k = 0; k < 2; k++, to += VLEN)
                vstore(to, vload(to) + acc[i][k]);
    }
}

/* Compute v (blocks1,positions,room,BLOCK), the transformed tiles of an image x
 * (blocks1,hp,wp,BLOCK). */
static void transform_input(const struct cnn_model *m, float *v,
                            const float *x) {
    const ptrdiff_t plane = (ptrdiff_t)m->room * BLOCK;
    const ptrdiff_t row = (ptrdiff_t)m->wp * BLOCK;
    for (int c = 0; c < m->blocks1 * BLOCK; c += VLEN) {
        const float *image = x + c / BLOCK * m->hp * row + c % BLOCK;
        float *to = v + c / BLOCK * POSITIONS * plane + c % BLOCK;
        for (int r = 0; r < m->tiles_h; r++)
            for (int j = 0; j < m->tiles_w; j++, to += BLOCK) {
                const float *from = image + 2 * r * row + 2 * j * BLOCK;
                vfloat d[16];
#pragma GCC unroll 16
                for (int i = 0; i < 16; i++)
                    d[i] = vload(from + i / 4 * row + i % 4 * BLOCK);
                winograd_input(d);
#pragma GCC unroll 16
                for (int p = 0; p < 16; p++) vstore(to + p * plane, d[p]);
            }
    }
}

/* Compute the adjoint: add the tiles of dv (positions,room,BLOCK) to dx
 * (hp,wp,BLOCK), which has been cleared. Each tile is 4x4 and overlaps its
 * neighbours by two. */
static void transform_input_back(const struct cnn_model *m, float *dx,
                                 const float *dv) {
    const ptrdiff_t plane = (ptrdiff_t)m->room * BLOCK;
    const ptrdiff_t row = (ptrdiff_t)m->wp * BLOCK;
    for (int c = 0; c < BLOCK; c += VLEN) {
        const float *from = dv + c;
        for (int r = 0; r < m->tiles_h; r++)
            for (int j = 0; j < m->tiles_w; j++, from += BLOCK) {
                float *to = dx + 2 * r * row + 2 * j * BLOCK + c;
                vfloat d[16];
#pragma GCC unroll 16
                for (int p = 0; p < 16; p++) d[p] = vload(from + p * plane);
                winograd_input_back(d);
#pragma GCC unroll 16
                for (int i = 0; i < 16; i++) {
                    float *at = to + i / 4 * row + i % 4 * BLOCK;
                    vstore(at, vload(at) + d[i]);
                }
            }
    }
}

/* Return whether pixel i of tile (r,j) is inside the image. With odd sizes the
 * last tiles extend beyond it. */
SIMD_INLINE int inside(const struct cnn_model *m, int r, int j, int i) {
    return 2 * r + i / 2 < m->h1 && 2 * j + i % 2 < m->w1;
}

/* Return the index of tile (r,j)'s pooling window, or -1 if the window is cut
 * off. */
SIMD_INLINE ptrdiff_t window_of(const struct cnn_model *m, int r, int j) {
    return r < m->h2 && j < m->w2 ? (ptrdiff_t)r * m->w2 + j : -1;
}

/* Return the position of image i's part in y2, top2 and arg2, for channel
 * c. */
static size_t tiles_at(const struct cnn_model *m, int i, int c) {
    return ((size_t)i * m->blocks2 + c / BLOCK) * m->tiles_h * m->tiles_w * 4 *
               BLOCK +
           c % BLOCK;
}

static size_t windows_at(const struct cnn_model *m, int i, int c) {
    return ((size_t)i * m->blocks2 + c / BLOCK) * m->h2 * m->w2 * BLOCK +
           c % BLOCK;
}

/* Store the y with the largest gamma * y among a window's four, and its
 * index. */
SIMD_INLINE void pool(float *top, uint8_t *arg, const vfloat y[4],
                      vfloat gamma) {
    const vfloat z[4] = {gamma * y[0], gamma * y[1], gamma * y[2],
                         gamma * y[3]};
    vfloat largest, value = y[0];
    const vint winner = cnn_winner(&largest, z);
#pragma GCC unroll 4
    for (int k = 1; k < 4; k++) value = vselect(winner == k, y[k], value);
    vstore(top, value);
    *(vbyte *)arg = __builtin_convertvector(winner, vbyte);
}

/* Compute image i's y2, its statistics and its pooling winners from the
 * products of VLEN channels, beginning with c. The sums use each pixel's
 * difference from the first pixel, which is a cheap estimate of the mean.
 * Squares of the values themselves would lose digits if the mean is large. */
static void transform_output(struct cnn_model *m, double *sums,
                             const float *products, int i, int c) {
    const ptrdiff_t plane = (ptrdiff_t)m->room * BLOCK;
    const size_t windows = windows_at(m, i, c);
    const float *from = products + c % BLOCK;
    float *y2 = m->y2 + tiles_at(m, i, c);
    const vfloat gamma = vload(m->weight[6] + c);
    vfloat about = {0}, sum = {0}, squares = {0};
    for (int r = 0; r < m->tiles_h; r++)
        for (int j = 0; j < m->tiles_w; j++, from += BLOCK, y2 += 4 * BLOCK) {
            const ptrdiff_t at = window_of(m, r, j) * BLOCK;
            vfloat p[16], y[4];
#pragma GCC unroll 16
            for (int k = 0; k < 16; k++) p[k] = vload(from + k * plane);
            winograd_output(y, p);
            if (r + j == 0) about = y[0];
#pragma GCC unroll 4
            for (int k = 0; k < 4; k++) {
                vstore(y2 + k * BLOCK, y[k]);
                if (!inside(m, r, j, k)) continue;
                sum += y[k] - about;
                squares += (y[k] - about) * (y[k] - about);
            }
            if (at >= 0)
                pool(m->top2 + windows + at, m->arg2 + windows + at, y, gamma);
        }
    const double pixels = (double)m->h1 * m->w1;
    for (int l = 0; l < VLEN; l++) {
        const double a = about[l], d = sum[l];
        sums[c + l] += d + pixels * a;
        sums[m->blocks2 * BLOCK + c + l] +=
            squares[l] + a * (2 * d + pixels * a);
    }
}

void cnn_conv2_forward(struct cnn_model *m, int n) {
    const size_t weights = (size_t)POSITIONS * m->blocks1 * BLOCK * BLOCK;
    for (int t = 0; t < m->team; t++)
        memset(m->worker[t].sums2, 0, 2 * m->size[5] * sizeof(double));
#pragma omp parallel for schedule(static) num_threads(m->team)
    for (int i = 0; i < n; i++) {
        const struct cnn_worker *worker = &m->worker[omp_get_thread_num()];
        transform_input(m, worker->v2, m->x1 + i * cnn_x1_size(m));
        for (int o = 0; o < m->blocks2; o++) {
            multiply(worker->products2, worker->v2, m->u2 + o * weights,
                     m->blocks1, m->room);
            for (int c = 0; c < BLOCK; c += VLEN)
                transform_output(m, worker->sums2, worker->products2, i,
                                 o * BLOCK + c);
        }
    }
    for (size_t c = 0; c < 2 * m->size[5]; c++) {
        m->sum2[c] = 0;
        for (int t = 0; t < m->team; t++) m->sum2[c] += m->worker[t].sums2[c];
    }
}

/* Compute `factor` and `constant` for VLEN channels, beginning with c. Batch
 * norm's gradient is factor * y + constant + scale * g. */
static void norm_gradient(const struct cnn_model *m, int c, vfloat *factor,
                          vfloat *constant) {
    const double count = (double)m->population * m->h1 * m->w1;
    for (int l = 0; l < VLEN; l++) {
        const double scale = m->scale2[c + l] / count;
        const float dbeta = m->dnorm2[c + l];
        const float dgamma = m->dnorm2[m->blocks2 * BLOCK + c + l];
        const double f = -scale * m->rstd2[c + l] * dgamma;
        (*factor)[l] = f;
        (*constant)[l] = -scale * dbeta - f * m->mean2[c + l];
    }
}

/* Compute products (positions,room,BLOCK), the transformed gradient of image
 * i's y2, for VLEN channels, beginning with c. */
static void transform_output_back(const struct cnn_model *m, float *products,
                                  int i, int c) {
    const ptrdiff_t plane = (ptrdiff_t)m->room * BLOCK;
    const uint8_t *arg = m->arg2 + windows_at(m, i, c);
    const float *top = m->top2 + windows_at(m, i, c);
    const float *y2 = m->y2 + tiles_at(m, i, c);
    const vfloat scale = vload(m->scale2 + c);
    float *to = products + c % BLOCK;
    vfloat factor, constant;
    norm_gradient(m, c, &factor, &constant);
    for (int r = 0; r < m->tiles_h; r++)
        for (int j = 0; j < m->tiles_w; j++, to += BLOCK, y2 += 4 * BLOCK) {
            const ptrdiff_t at = window_of(m, r, j) * BLOCK;
            vint winner = {0};
            vfloat g = {0}, dy[4], p[16];
            if (at >= 0) {
                winner =
                    __builtin_convertvector(*(const vbyte *)(arg + at), vint);
                g = scale * vload(top + at);
            }
#pragma GCC unroll 4
            for (int k = 0; k < 4; k++) {
                dy[k] = factor * vload(y2 + k * BLOCK) + constant +
                        vselect(winner == k, g, (vfloat){0});
                if (!inside(m, r, j, k)) dy[k] = (vfloat){0};
            }
            winograd_output_back(p, dy);
#pragma GCC unroll 16
            for (int k = 0; k < 16; k++) vstore(to + k * plane, p[k]);
        }
}

/* Compute everything that depends on y2's gradient for image i: conv2's weight
 * gradient (per worker), the gradient of x1, and conv1's sums. */
static void backward_image(struct cnn_model *m, struct cnn_worker *worker,
                           int i) {
    const ptrdiff_t plane = (ptrdiff_t)m->room * BLOCK;
    const ptrdiff_t image = (ptrdiff_t)m->hp * m->wp * BLOCK;
    transform_input(m, worker->v2, m->x1 + i * cnn_x1_size(m));
    for (int c = 0; c < m->blocks2 * BLOCK; c += VLEN)
        transform_output_back(
            m, worker->products2 + c / BLOCK * POSITIONS * plane, i, c);
    float *du = worker->du2;
    for (int o = 0; o < m->blocks2; o++)
        for (int p = 0; p < POSITIONS; p++)
            for (int b = 0; b < m->blocks1; b++, du += BLOCK * BLOCK)
                multiply_weight(du, worker->v2 + (b * POSITIONS + p) * plane,
                                worker->products2 + (o * POSITIONS + p) * plane,
                                m->tiles_h * m->tiles_w);
    memset(worker->dx1, 0, m->blocks1 * image * sizeof(float));
    for (int b = 0; b < m->blocks1; b++) {
        multiply(worker->v2, worker->products2,
                 m->u2_t + (size_t)b * POSITIONS * m->blocks2 * BLOCK * BLOCK,
                 m->blocks2, m->room);
        transform_input_back(m, worker->dx1 + b * image, worker->v2);
    }
    cnn_conv1_backward(m, worker, i);
}

void cnn_conv2_backward(struct cnn_model *m, int n) {
    for (int t = 0; t < m->team; t++) {
        memset(m->worker[t].sums1, 0, (TAPS + 1) * m->size[1] * sizeof(double));
        memset(m->worker[t].du2, 0,
               m->size[4] / TAPS * POSITIONS * sizeof(float));
    }
#pragma omp parallel for schedule(static) num_threads(m->team)
    for (int i = 0; i < n; i++)
        backward_image(m, &m->worker[omp_get_thread_num()], i);
}
