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
 *     (cnn_linear.c), except in a step in parts.
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
    m->weights = floats(m, base, m->parameters);
    m->gradients = floats(m, base, m->parameters);
    size_t at = 0;
    for (int i = 0; base && i < WEFT_CNN_PARAMS; i++) {
        m->weight[cnn_order[i]] = m->weights + at;
        m->gradient[cnn_order[i]] = m->gradients + at;
        at += m->size[cnn_order[i]];
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
    m->sum1 = doubles(m, base, (TAPS + 1) * c1);
    m->sum2 = doubles(m, base, 2 * c2);
    m->dnorm2 = doubles(m, base, 2 * c2);
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

/* One pass over the images of `share`. */
struct pass {
    struct cnn_model *m;
    const struct cnn_share *share;
    const float *lr; /* for fc1's and fc2's update during the backward pass */
    struct cnn_marks *marks;
    weft_stream stream;
};

/* Choose the sizes that stay the same during a pass. */
static void begin_pass(struct cnn_model *m, const struct cnn_share *share) {
    const int threads = omp_get_max_threads();
    m->team = threads < m->threads ? threads : m->threads;
    m->total = share->total;
    m->population = share->sync_batchnorm ? share->total : share->batch;
}

static void sum_patches(const struct pass *p) {
    cnn_gather(p->m, p->share->images, p->share->order, p->share->batch);
    cnn_mark(p->marks, "batch", p->stream);
    cnn_patch_moments(p->m, p->share->batch);
}

static void convolve(const struct pass *p) {
    cnn_conv1_forward(p->m, p->share->batch);
    cnn_mark(p->marks, "forward.conv1+bn1+relu1+pool1", p->stream);
    cnn_conv2_forward(p->m, p->share->batch);
    cnn_mark(p->marks, "forward.conv2+pool2", p->stream);
}

static void classify(const struct pass *p) {
    cnn_norm2_forward(p->m, p->share->batch);
    cnn_mark(p->marks, "forward.bn2+relu2", p->stream);
    cnn_fc1_forward(p->m, p->share->batch);
    cnn_mark(p->marks, "forward.fc1+relu3", p->stream);
    cnn_fc2_forward(p->m, p->share->batch);
    cnn_mark(p->marks, "forward.fc2", p->stream);
}

static void linear_backward(const struct pass *p) {
    const struct cnn_share *s = p->share;
    classify(p);
    *s->loss = cnn_loss(p->m, s->labels, s->order, s->batch);
    cnn_mark(p->marks, "forward.loss", p->stream);
    cnn_fc2_backward(p->m, s->batch, p->lr);
    cnn_mark(p->marks, "backward.fc2+relu3", p->stream);
    cnn_fc1_backward(p->m, s->batch, p->lr);
    cnn_mark(p->marks, "backward.fc1", p->stream);
}

static void norm2_backward(const struct pass *p) {
    cnn_norm2_backward(p->m, p->share->batch);
    cnn_mark(p->marks, "backward.relu2+bn2", p->stream);
}

static void convolve_backward(const struct pass *p) {
    cnn_conv2_backward(p->m, p->share->batch);
    cnn_conv2_gradients(p->m);
    cnn_conv1_sums(p->m);
}

static void conv1_gradients(const struct pass *p) {
    cnn_conv1_gradients(p->m, p->share->batch);
    cnn_mark(p->marks, "backward.pool2+conv2+pool1+relu1+bn1+conv1", p->stream);
}

/* The parts of a step. After each, workers may have to add up sums of batch
 * norm or gradients. */
static void (*const parts[])(const struct pass *) = {
    sum_patches,    convolve,          linear_backward,
    norm2_backward, convolve_backward, conv1_gradients,
};
enum { PARTS = sizeof parts / sizeof *parts };

/* Return what is ready after part `at`. */
static struct weft_cnn_ready ready_after(const struct cnn_model *m, int at) {
    const size_t linear = m->linear, moments = MOMENTS * MOMENTS;
    const size_t others = m->parameters - linear;
    const struct weft_cnn_ready all[PARTS] = {
        {WEFT_CNN_SUMS, m->moments, moments},
        {WEFT_CNN_SUMS, m->sum2, 2 * m->size[5]},
        {WEFT_CNN_RANGE, m->gradients, linear},
        {WEFT_CNN_SUMS, m->dnorm2, 2 * m->size[5]},
        {WEFT_CNN_SUMS, m->sum1, (TAPS + 1) * m->size[1]},
        {WEFT_CNN_RANGE, m->gradients + linear, others},
    };
    return all[at];
}

static int step(void *state, float *loss, const uint8_t *images,
                const uint8_t *labels, const int32_t *order, int batch,
                float lr, struct cnn_marks *marks, weft_stream stream) {
    struct cnn_model *m = state;
    const struct cnn_share all = {images, labels, order, loss, batch, batch, 0};
    const struct pass pass = {m, &all, &lr, marks, stream};
    begin_pass(m, &all);
    for (int i = 0; i < PARTS; i++) parts[i](&pass);
    cnn_update(m, m->linear, lr); // the backward pass updated the others
    cnn_mark(marks, "update", stream);
    return WEFT_OK;
}

static int part(void *state, int *at, const struct cnn_share *share,
                struct weft_cnn_ready *ready, weft_stream stream) {
    struct cnn_model *m = state;
    const struct pass pass = {m, share, NULL, NULL, stream};
    if (*at == 0) {
        begin_pass(m, share);
        if (!m->population) { // the parts have nothing to do
            *share->loss = 0;
            memset(m->gradients, 0, m->parameters * sizeof(float));
        }
    }
    *ready = (struct weft_cnn_ready){WEFT_CNN_DONE, NULL, 0};
    while (*at < PARTS) {
        if (m->population) parts[*at](&pass);
        *ready = ready_after(m, (*at)++);
        if (ready->kind == WEFT_CNN_RANGE || share->sync_batchnorm) break;
    }
    return WEFT_OK;
}

static int update(void *state, float lr, weft_stream stream) {
    (void)stream;
    cnn_update(state, 0, lr);
    return WEFT_OK;
}

static struct cnn_buffer gradients(const void *state) {
    const struct cnn_model *m = state;
    return (struct cnn_buffer){m->gradients, m->parameters, BLOCK};
}

static int forward(void *state, float *logits, const uint8_t *images,
                   const int32_t *order, int count, weft_stream stream) {
    struct cnn_model *m = state;
    const int classes = m->config.classes;
    const struct cnn_share all = {images, NULL, order, NULL, count, count, 0};
    const struct pass pass = {m, &all, NULL, NULL, stream};
    begin_pass(m, &all);
    sum_patches(&pass);
    convolve(&pass);
    classify(&pass);
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

const struct cnn_impl cnn_reference = {
    create, destroy,   step, forward, get,  set,  bytes, part,
    update, gradients, 1,    NULL,    NULL, NULL, NULL,
};
