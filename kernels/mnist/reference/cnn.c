/* cnn.c -- the plain C rung of the trainer, for training without a GPU.
 *
 * A step is a few passes over the batch. Each pass is one parallel loop over
 * images (or over rows of fc1's weight). It ends where the next pass needs a
 * sum over the whole batch:
 *
 *     gather | moments | conv1 bn1 relu1 pool1 | conv2, statistics, pool2 |
 *     bn2 relu2 | fc1 relu3 | fc2 | loss | back through fc2 | fc1 | sums of
 *     bn2 | back through pool2, bn2, conv2, pool1, relu1, bn1, conv1 | update
 *
 * Five things make it fast, each explained in its file:
 *
 *  1. Products run in registers, by tile_fma() of simd.h. The layout
 *     (cnn_model.h) makes all strides constants.
 *  2. conv2 needs 16 multiplications instead of 36 (cnn_winograd.h,
 *     cnn_conv2.c).
 *  3. Layers are fused while an image is still in registers or in the nearest
 *     cache.
 *  4. Algebra removes work. Batch norm 1 never reads conv1's output
 *     (cnn_batch.c, cnn_conv1.c). Pool 2 selects its winners before batch norm
 *     2 (cnn_conv2.c). A bias before a batch norm remains a parameter but is
 *     not used, since its gradient is exactly 0.
 *  5. The linear layers are updated where their gradients are computed
 *     (cnn_linear.c).
 *
 * Threads share the images in fixed parts, and their sums are added in a fixed
 * order. So the same number of threads gives the same bits. create() allocates
 * all memory in one piece. */
#include <omp.h>
#include <stdlib.h>
#include <string.h>

#include "cnn_model.h"
#include "reference/reference.h"

enum { ALIGN = 64 }; // a cache line, and the widest vector

/* ---- memory -------------------------------------------------------------- */

/* Return the next `count` items of `size` bytes from `base`. With base NULL,
 * only count the bytes. */
static void *take(struct cnn_model *m, char *base, size_t count, size_t size) {
    char *p = base ? base + m->bytes : NULL;
    m->bytes += (count * size + ALIGN - 1) / ALIGN * ALIGN;
    return p;
}

static float *floats(struct cnn_model *m, char *base, size_t count) {
    return take(m, base, count, sizeof(float));
}

static double *doubles(struct cnn_model *m, char *base, size_t count) {
    return take(m, base, count, sizeof(double));
}

static void lay_out_worker(struct cnn_model *m, struct cnn_worker *worker,
                           char *base) {
    const size_t c1 = m->size[1], c2 = m->size[5];
    worker->moments = doubles(m, base, MOMENTS * MOMENTS);
    worker->sums1 = doubles(m, base, (TAPS + 1) * c1);
    worker->sums2 = doubles(m, base, 2 * c2);
    worker->du2 = floats(m, base, m->size[4] / TAPS * POSITIONS);
    worker->v2 = floats(m, base, c1 * POSITIONS * m->room);
    worker->products2 = floats(m, base, c2 * POSITIONS * m->room);
    worker->dx1 = floats(m, base, cnn_x1_size(m));
}

/* Set every pointer of the model or, with base NULL, only count m->bytes.
 * Arrays that must start as zero come first. Return the size of these arrays in
 * bytes. */
static size_t lay_out(struct cnn_model *m, char *base) {
    const size_t n = m->images, c1 = m->size[1], c2 = m->size[5];
    const size_t in = (size_t)m->blocks_in * BLOCK * n;
    // A vector may reach this far past the last image, with unused lanes.
    const size_t slack = VLEN;
    m->bytes = 0;
    for (int i = 0; i < WEFT_CNN_PARAMS; i++) {
        m->weight[i] = floats(m, base, m->size[i]);
        m->gradient[i] = floats(m, base, m->size[i]);
    }
    m->u2 = floats(m, base, m->size[4] / TAPS * POSITIONS);
    m->u2_t = floats(m, base, m->size[4] / TAPS * POSITIONS);
    m->x0 = floats(m, base, n * (m->h0 + 2) * (m->w0 + 2) + slack);
    m->x1 = floats(m, base, n * cnn_x1_size(m));
    for (int t = 0; t < m->threads; t++) lay_out_worker(m, m->worker + t, base);
    const size_t zeroed = m->bytes;
    m->arg1 = take(m, base, n * c1 * m->h1 * m->w1, 1);
    m->arg2 = take(m, base, n * c2 * m->h2 * m->w2, 1);
    m->y2 = floats(m, base, n * cnn_y2_size(m));
    m->top2 = floats(m, base, in);
    m->x2 = floats(m, base, in);
    m->dx2 = floats(m, base, in);
    m->hidden = floats(m, base, n * m->size[9]);
    m->dhidden = floats(m, base, n * m->size[9]);
    m->dhidden_t = floats(m, base, n * m->size[9]);
    m->logits = floats(m, base, n * m->size[11]);
    m->dlogits_t = floats(m, base, n * m->size[11]);
    m->loss = floats(m, base, n);
    m->folded1 = floats(m, base, (TAPS + 1) * c1);
    m->scale1 = floats(m, base, c1);
    m->scale2 = floats(m, base, c2);
    m->shift2 = floats(m, base, c2);
    m->moments = doubles(m, base, MOMENTS * MOMENTS);
    m->mean1 = doubles(m, base, c1);
    m->rstd1 = doubles(m, base, c1);
    m->mean2 = doubles(m, base, c2);
    m->rstd2 = doubles(m, base, c2);
    return zeroed;
}

static int blocks(int channels) {
    return (channels - 1) / BLOCK + 1; // cannot overflow
}

static void set_sizes(struct cnn_model *m, const struct weft_cnn_config *c) {
    m->config = *c;
    m->h0 = c->height, m->h1 = m->h0 / 2, m->h2 = m->h1 / 2;
    m->w0 = c->width, m->w1 = m->w0 / 2, m->w2 = m->w1 / 2;
    m->tiles_h = (m->h1 + 1) / 2, m->hp = 2 * m->tiles_h + 2;
    m->tiles_w = (m->w1 + 1) / 2, m->wp = 2 * m->tiles_w + 2;
    m->room = (m->tiles_h * m->tiles_w + CNN_TILES - 1) / CNN_TILES * CNN_TILES;
    m->blocks1 = blocks(c->channels1);
    m->blocks2 = blocks(c->channels2);
    m->blocks_in = m->blocks2 * m->h2 * m->w2;
    m->blocks_hidden = blocks(c->hidden);
    m->blocks_out = blocks(c->classes);
    // Add room for one more image. With a power of two, an image's values in
    // all feature blocks would share the same few sets of the cache.
    m->images = blocks(c->max_batch) * BLOCK + 1;
    // The number of threads may be raised later, but never beyond the number of
    // cores.
    m->threads = omp_get_num_procs();
    if (m->threads < omp_get_max_threads()) m->threads = omp_get_max_threads();
    cnn_param_sizes(m);
}

/* ---- the functions of cnn.h ---------------------------------------------- */

static void destroy(void *state) {
    struct cnn_model *m = state;
    if (!m) return;
    cnn_release(&m->memory);
    free(m->worker);
    free(m);
}

static int create(void **state, const struct weft_cnn_config *config,
                  weft_stream stream) {
    struct cnn_model *m = calloc(1, sizeof *m);
    *state = m;
    if (!m) return weft_fail(WEFT_ENOMEM, "cnn: no room for the model");
    set_sizes(m, config);
    m->worker = calloc(m->threads, sizeof *m->worker);
    if (!m->worker)
        return weft_fail(WEFT_ENOMEM, "cnn: no room for %d threads",
                         m->threads);
    lay_out(m, NULL);
    char *base = NULL;
    const int status =
        cnn_take(&m->memory, &base, m->bytes, 1, "the model", stream);
    if (status) return status;
    memset(base, 0, lay_out(m, base));
    return WEFT_OK;
}

/* Run the forward pass up to the logits. */
static void forward_pass(struct cnn_model *m, const uint8_t *images,
                         const int32_t *order, int n, struct cnn_marks *marks,
                         weft_stream stream) {
    const int threads = omp_get_max_threads();
    m->team = threads < m->threads ? threads : m->threads;
    cnn_gather(m, images, order, n);
    cnn_mark(marks, "batch", stream);
    cnn_patch_moments(m, n);
    cnn_conv1_forward(m, n);
    cnn_mark(marks, "forward.conv1+bn1+relu1+pool1", stream);
    cnn_conv2_forward(m, n);
    cnn_mark(marks, "forward.conv2+pool2", stream);
    cnn_norm2_forward(m, n);
    cnn_mark(marks, "forward.bn2+relu2", stream);
    cnn_fc1_forward(m, n);
    cnn_mark(marks, "forward.fc1+relu3", stream);
    cnn_fc2_forward(m, n);
    cnn_mark(marks, "forward.fc2", stream);
}

static int step(void *state, float *loss, const uint8_t *images,
                const uint8_t *labels, const int32_t *order, int batch,
                float lr, struct cnn_marks *marks, weft_stream stream) {
    struct cnn_model *m = state;
    forward_pass(m, images, order, batch, marks, stream);
    *loss = cnn_loss(m, labels, order, batch);
    cnn_mark(marks, "forward.loss", stream);
    cnn_fc2_backward(m, batch, lr);
    cnn_mark(marks, "backward.fc2+relu3", stream);
    cnn_fc1_backward(m, batch, lr);
    cnn_mark(marks, "backward.fc1", stream);
    cnn_norm2_backward(m, batch);
    cnn_mark(marks, "backward.relu2+bn2", stream);
    cnn_conv2_backward(m, batch);
    cnn_conv1_gradients(m, batch);
    cnn_mark(marks, "backward.pool2+conv2+pool1+relu1+bn1+conv1", stream);
    cnn_update(m, lr);
    cnn_mark(marks, "update", stream);
    return WEFT_OK;
}

static int forward(void *state, float *logits, const uint8_t *images,
                   const int32_t *order, int count, weft_stream stream) {
    struct cnn_model *m = state;
    const int classes = m->config.classes;
    forward_pass(m, images, order, count, NULL, stream);
    for (int i = 0; i < count; i++)
        for (int c = 0; c < classes; c++)
            logits[(size_t)i * classes + c] =
                m->logits[((size_t)c / BLOCK * m->images + i) * BLOCK +
                          c % BLOCK];
    return WEFT_OK;
}

static int get(void *state, int kind, int index, float *out,
               weft_stream stream) {
    (void)stream;
    const struct cnn_model *m = state;
    const float *from =
        kind == WEFT_CNN_GRADIENT ? m->gradient[index] : m->weight[index];
    const size_t count = cnn_param_count(&m->config, index);
    for (size_t i = 0; i < count; i++)
        out[i] = from[cnn_param_offset(m, index, i)];
    return WEFT_OK;
}

static int set(void *state, int index, const float *in, weft_stream stream) {
    (void)stream;
    struct cnn_model *m = state;
    const size_t count = cnn_param_count(&m->config, index);
    // A diverged step may have left NaNs in the padding.
    memset(m->weight[index], 0, m->size[index] * sizeof(float));
    for (size_t i = 0; i < count; i++)
        m->weight[index][cnn_param_offset(m, index, i)] = in[i];
    if (index == 4) cnn_transform_weight2(m);
    return WEFT_OK;
}

static size_t bytes(const void *state) {
    const struct cnn_model *m = state;
    return m->bytes + sizeof *m;
}

const struct cnn_impl cnn_reference = {create, destroy, step, forward, get,
                                       set,    bytes,   NULL, NULL};
