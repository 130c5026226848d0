/* layers.cu -- the CNN a layer at a time. In rungs "naive" and "tiled", every
 * layer is an op with the rung of that name, or with rung "naive" if it has
 * none. In rung "cudnn", it is the vendor's layer.
 *
 * Idea:    call the ops' public launchers one after the other, in the order
 *          that the lesson derives. Each layer reads its input from memory and
 *          writes its output there, in both directions.
 * Limit:   a step takes about forty launches, and nothing stays in registers or
 *          shared memory between them.
 * Lesson:  notebooks/15b_mnist_gpu.ipynb */
#include "common/internal.cuh"

#include <stdlib.h>
#include <string.h>

#include "cnn.h"
#include "common/checks.cuh"
#include "layer_ops.h"

/* Indices of a block's parameters in the table of parameters; see weft.h. */
enum { CONV_WEIGHT, CONV_BIAS, BN_WEIGHT, BN_BIAS, BLOCK_PARAMS };
enum { FC1_WEIGHT = 8, FC1_BIAS, FC2_WEIGHT, FC2_BIAS };

/* Convolution, batch norm, ReLU and pool, with the arrays of the backward
 * pass. */
struct block {
    int ic, oc, h, w; /* input and output channels; size of the images */
    float *conv, *bn, *relu, *pool;
    float *mean, *rstd;
    int32_t *argmax;
};

struct layers {
    struct weft_cnn_config config;
    struct cnn_memory memory;
    struct layer_ops ops;
    /* All parameters, one after the other, and all gradients, in the same
     * order. Parameter i and its gradient start at offset[i]. */
    float *params, *grads;
    size_t offset[WEFT_CNN_PARAMS + 1];

    float *x; /* the batch, normalised */
    int64_t *target;
    struct block blocks[2];
    int features; /* values per image after the second pool */
    float *fc1, *relu3, *logits, *prob;
    float *share; /* (1): in a step in parts, batch / total */
    /* In the backward pass each layer computes dx from dy. At most two such
     * gradients are needed at a time, so all layers alternate between two
     * arrays. */
    float *dy, *dx;
};

static float *param(const struct layers *n, int index) {
    return n->params + n->offset[index];
}

static float *grad(const struct layers *n, int index) {
    return n->grads + n->offset[index];
}

/* ---- memory -------------------------------------------------------------- */

#define TAKE(field, count)                                                    \
    WEFT_TRY(cnn_take(&n->memory, &(field), (count), sizeof *(field), #field, \
                      stream))

static int take_block(struct layers *n, struct block *b, weft_stream stream) {
    const size_t channels = (size_t)n->config.max_batch * b->oc;
    const size_t before = channels * b->h * b->w; // elements before the pool
    const size_t after = channels * (b->h / 2) * (b->w / 2);
    TAKE(b->conv, before);
    TAKE(b->bn, before);
    TAKE(b->relu, before);
    TAKE(b->pool, after);
    TAKE(b->argmax, after);
    TAKE(b->mean, b->oc);
    TAKE(b->rstd, b->oc);
    return WEFT_OK;
}

/* Return the largest number of elements of any layer's output. */
static size_t widest(const struct layers *n) {
    const struct weft_cnn_config *c = &n->config;
    size_t most = c->hidden > c->classes ? c->hidden : c->classes;
    for (int i = 0; i < 2; i++) {
        const struct block *b = &n->blocks[i];
        const size_t count = (size_t)b->oc * b->h * b->w;
        if (count > most) most = count;
    }
    return most * c->max_batch;
}

static int take_all(struct layers *n, weft_stream stream) {
    const struct weft_cnn_config *c = &n->config;
    const size_t batch = c->max_batch;
    const size_t count = n->offset[WEFT_CNN_PARAMS];
    TAKE(n->params, count);
    TAKE(n->grads, count);
    TAKE(n->x, batch * c->height * c->width);
    TAKE(n->target, batch);
    for (int i = 0; i < 2; i++) WEFT_TRY(take_block(n, &n->blocks[i], stream));
    TAKE(n->fc1, batch * c->hidden);
    TAKE(n->relu3, batch * c->hidden);
    TAKE(n->logits, batch * c->classes);
    TAKE(n->prob, batch * c->classes);
    TAKE(n->share, 1);
    TAKE(n->dy, widest(n));
    TAKE(n->dx, widest(n));
    for (int i = 0; i < 2; i++)
        WEFT_CUDA_TRY(cudaMemsetAsync(i ? n->grads : n->params, 0,
                                      count * sizeof *n->params,
                                      weft_cuda_stream(stream)));
    return WEFT_OK;
}

static void set_sizes(struct layers *n, const struct weft_cnn_config *c) {
    struct block *b = n->blocks;
    n->config = *c;
    b[0].ic = 1;
    b[0].oc = b[1].ic = c->channels1;
    b[1].oc = c->channels2;
    for (int i = 0; i < 2; i++) {
        b[i].h = c->height >> i; // the first pool halves the size
        b[i].w = c->width >> i;
    }
    n->features = c->channels2 * (c->height / 4) * (c->width / 4);
    for (int i = 0; i < WEFT_CNN_PARAMS; i++)
        n->offset[i + 1] = n->offset[i] + cnn_param_count(c, i);
}

static void layers_destroy(void *state) {
    struct layers *n = (struct layers *)state;
#if WEFT_HAS_CUDNN
    vendor_destroy(n->ops.vendor);
#endif
    cnn_release(&n->memory);
    free(n);
}

static int create(void **state, const struct weft_cnn_config *config,
                  const char *rung, weft_stream stream) {
    struct layers *n = (struct layers *)calloc(1, sizeof *n);
    if (!n)
        return weft_fail(WEFT_ENOMEM, "weft_cnn: %zu bytes needed", sizeof *n);
    *state = n; // the caller frees *state, even after a failure
    set_sizes(n, config);
    WEFT_TRY(layer_ops_find(&n->ops, rung));
    return take_all(n, stream);
}

static int naive_create(void **state, const struct weft_cnn_config *config,
                        weft_stream stream) {
    return create(state, config, "naive", stream);
}

static int tiled_create(void **state, const struct weft_cnn_config *config,
                        weft_stream stream) {
    return create(state, config, "tiled", stream);
}

#if WEFT_HAS_CUDNN
static int cudnn_create(void **state, const struct weft_cnn_config *config,
                        weft_stream stream) {
    WEFT_TRY(create(state, config, "tiled", stream)); // loss and update use
                                                      // rung tiled
    return vendor_create(&((struct layers *)*state)->ops.vendor);
}
#endif

static size_t layers_bytes(const void *state) {
    const struct layers *n = (const struct layers *)state;
#if WEFT_HAS_CUDNN
    return n->memory.bytes + vendor_bytes(n->ops.vendor);
#else
    return n->memory.bytes;
#endif
}

static int layers_get(void *state, int kind, int index, float *out,
                      weft_stream stream) {
    struct layers *n = (struct layers *)state;
    const float *from =
        kind == WEFT_CNN_WEIGHT ? param(n, index) : grad(n, index);
    const size_t bytes =
        (n->offset[index + 1] - n->offset[index]) * sizeof *out;
    WEFT_CUDA_TRY(cudaMemcpyAsync(out, from, bytes, cudaMemcpyDeviceToHost,
                                  weft_cuda_stream(stream)));
    return WEFT_OK;
}

static int layers_set(void *state, int index, const float *in,
                      weft_stream stream) {
    struct layers *n = (struct layers *)state;
    const size_t bytes = (n->offset[index + 1] - n->offset[index]) * sizeof *in;
    WEFT_CUDA_TRY(cudaMemcpyAsync(param(n, index), in, bytes,
                                  cudaMemcpyHostToDevice,
                                  weft_cuda_stream(stream)));
    return WEFT_OK;
}

/* ---- the batch ----------------------------------------------------------- */

/* Compute x (batch,pixels) = (p / 255 - mean) / std of the images
 * order[0..batch), with one thread per pixel. Unless `labels` is NULL, also
 * copy the images' labels to target (batch). */
static __global__ void gather(float *x, int64_t *target, const uint8_t *images,
                              const uint8_t *labels, const int32_t *order,
                              int batch, int pixels, float mean, float std) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= batch * pixels) return;
    const int image = order[i / pixels], pixel = i % pixels;
    const uint8_t p = images[(size_t)image * pixels + pixel];
    x[i] = (p / 255.0f - mean) / std;
    if (labels && pixel == 0) target[i / pixels] = labels[image];
}

static int load(struct layers *n, const uint8_t *images, const uint8_t *labels,
                const int32_t *order, int batch, weft_stream stream) {
    const struct weft_cnn_config *c = &n->config;
    const int pixels = c->height * c->width;
    gather<<<blocks_for((size_t)batch * pixels), THREADS, 0,
             weft_cuda_stream(stream)>>>(n->x, n->target, images, labels, order,
                                         batch, pixels, c->mean, c->std);
    WEFT_LAUNCHED(gather);
    return WEFT_OK;
}

/* ---- forward ------------------------------------------------------------- */

/* Queue a layer, then record the end of its section. */
#define LAYER(section, call)              \
    do {                                  \
        WEFT_RANGE(section);              \
        WEFT_TRY(call);                   \
        cnn_mark(marks, section, stream); \
    } while (0)

static int block_forward(struct layers *n, int which, const float *x, int batch,
                         struct cnn_marks *marks, weft_stream stream) {
    static const char *const sections[2][4] = {
        {"forward.conv1", "forward.bn1", "forward.relu1", "forward.pool1"},
        {"forward.conv2", "forward.bn2", "forward.relu2", "forward.pool2"}};
    const char *const *section = sections[which];
    const struct block *b = &n->blocks[which];
    const int first = which * BLOCK_PARAMS;
    const struct shape4 made = {batch, b->oc, b->h, b->w};

    LAYER(section[0],
          layer_conv2d(&n->ops, b->conv, x, param(n, first + CONV_WEIGHT),
                       param(n, first + CONV_BIAS), {batch, b->ic, b->h, b->w},
                       b->oc, stream));
    LAYER(section[1], layer_batchnorm2d(&n->ops, b->bn, b->mean, b->rstd,
                                        b->conv, param(n, first + BN_WEIGHT),
                                        param(n, first + BN_BIAS), made,
                                        n->config.eps, stream));
    LAYER(section[2], layer_relu(&n->ops, b->relu, b->bn, made, stream));
    LAYER(section[3],
          layer_maxpool2d(&n->ops, b->pool, b->argmax, b->relu, made, stream));
    return WEFT_OK;
}

/* Compute logits (batch,classes) of the batch in n->x. */
static int forward(struct layers *n, float *logits, int batch,
                   struct cnn_marks *marks, weft_stream stream) {
    const struct weft_cnn_config *c = &n->config;
    const struct block *b = n->blocks;
    WEFT_TRY(block_forward(n, 0, n->x, batch, marks, stream));
    WEFT_TRY(block_forward(n, 1, b[0].pool, batch, marks, stream));
    LAYER("forward.fc1", layer_linear(&n->ops, n->fc1, b[1].pool,
                                      param(n, FC1_WEIGHT), param(n, FC1_BIAS),
                                      batch, n->features, c->hidden, stream));
    LAYER("forward.relu3", layer_relu(&n->ops, n->relu3, n->fc1,
                                      {batch, c->hidden, 1, 1}, stream));
    LAYER("forward.fc2", layer_linear(&n->ops, logits, n->relu3,
                                      param(n, FC2_WEIGHT), param(n, FC2_BIAS),
                                      batch, c->hidden, c->classes, stream));
    return WEFT_OK;
}

/* ---- backward ------------------------------------------------------------ */

/* Make a layer's dx the dy of the layer before it. */
static void turn(struct layers *n) {
    float *made = n->dx;
    n->dx = n->dy;
    n->dy = made;
}

static int block_backward(struct layers *n, int which, const float *x,
                          int batch, struct cnn_marks *marks,
                          weft_stream stream) {
    static const char *const sections[2][4] = {
        {"backward.pool1", "backward.relu1", "backward.bn1", "backward.conv1"},
        {"backward.pool2", "backward.relu2", "backward.bn2", "backward.conv2"}};
    const char *const *section = sections[which];
    const struct block *b = &n->blocks[which];
    const int first = which * BLOCK_PARAMS;
    const struct shape4 made = {batch, b->oc, b->h, b->w};

    LAYER(section[0],
          layer_maxpool2d_backward(&n->ops, n->dx, n->dy, b->pool, b->relu,
                                   b->argmax, made, stream));
    turn(n);
    LAYER(section[1], layer_relu_backward(&n->ops, n->dx, n->dy, b->relu, b->bn,
                                          made, stream));
    turn(n);
    LAYER(section[2],
          layer_batchnorm2d_backward(&n->ops, n->dx, grad(n, first + BN_WEIGHT),
                                     grad(n, first + BN_BIAS), n->dy, b->conv,
                                     param(n, first + BN_WEIGHT), b->mean,
                                     b->rstd, made, n->config.eps, stream));
    turn(n);
    // The last convolution of the pass needs no dx, since nothing uses the
    // gradient of the images.
    LAYER(section[3],
          layer_conv2d_backward(&n->ops, which ? n->dx : NULL,
                                grad(n, first + CONV_WEIGHT),
                                grad(n, first + CONV_BIAS), n->dy, x,
                                param(n, first + CONV_WEIGHT),
                                {batch, b->ic, b->h, b->w}, b->oc, stream));
    turn(n);
    return WEFT_OK;
}

/* Compute the gradients of the linear layers from the softmax in n->prob, times
 * *dloss (NULL: 1). */
static int linear_backward(struct layers *n, const float *dloss, int batch,
                           struct cnn_marks *marks, weft_stream stream) {
    const struct weft_cnn_config *c = &n->config;
    const struct block *b = n->blocks;
    LAYER("backward.loss", weft_cross_entropy_backward(
                               n->ops.cross_entropy, n->dy, dloss, n->prob,
                               n->target, batch, c->classes, stream));
    LAYER("backward.fc2",
          layer_linear_backward(&n->ops, n->dx, grad(n, FC2_WEIGHT),
                                grad(n, FC2_BIAS), n->dy, n->relu3,
                                param(n, FC2_WEIGHT), batch, c->hidden,
                                c->classes, stream));
    turn(n);
    LAYER("backward.relu3",
          layer_relu_backward(&n->ops, n->dx, n->dy, n->relu3, n->fc1,
                              {batch, c->hidden, 1, 1}, stream));
    turn(n);
    LAYER("backward.fc1",
          layer_linear_backward(&n->ops, n->dx, grad(n, FC1_WEIGHT),
                                grad(n, FC1_BIAS), n->dy, b[1].pool,
                                param(n, FC1_WEIGHT), batch, n->features,
                                c->hidden, stream));
    turn(n);
    return WEFT_OK;
}

static int blocks_backward(struct layers *n, int batch, struct cnn_marks *marks,
                           weft_stream stream) {
    WEFT_TRY(block_backward(n, 1, n->blocks[0].pool, batch, marks, stream));
    return block_backward(n, 0, n->x, batch, marks, stream);
}

/* ---- a step -------------------------------------------------------------- */

static int zero(struct layers *n, weft_stream stream) {
    // The lab's ops overwrite their outputs and need no zeroed gradients.
    // PyTorch's ops add to the gradients, so a training loop zeroes them. For a
    // fair comparison, this step also zeroes them. It does so before the pass
    // rather than after the update, so that the last step's gradients can still
    // be read.
    WEFT_CUDA_TRY(cudaMemsetAsync(n->grads, 0,
                                  n->offset[WEFT_CNN_PARAMS] * sizeof *n->grads,
                                  weft_cuda_stream(stream)));
    return WEFT_OK;
}

/* Run the forward pass of a step, with the mean loss in *loss. */
static int forward_step(struct layers *n, float *loss, const uint8_t *images,
                        const uint8_t *labels, const int32_t *order, int batch,
                        struct cnn_marks *marks, weft_stream stream) {
    LAYER("batch", load(n, images, labels, order, batch, stream));
    LAYER("zero", zero(n, stream));
    WEFT_TRY(forward(n, n->logits, batch, marks, stream));
    LAYER("forward.loss",
          weft_cross_entropy(n->ops.cross_entropy, loss, n->prob, n->logits,
                             n->target, batch, n->config.classes, stream));
    return WEFT_OK;
}

/* Update the parameters. They are in one array, so one launch updates all of
 * them. */
static int layers_update(void *state, float lr, weft_stream stream) {
    struct layers *n = (struct layers *)state;
    return weft_sgd(n->ops.sgd, n->params, n->grads, n->offset[WEFT_CNN_PARAMS],
                    lr, stream);
}

static int layers_step(void *state, float *loss, const uint8_t *images,
                       const uint8_t *labels, const int32_t *order, int batch,
                       float lr, struct cnn_marks *marks, weft_stream stream) {
    struct layers *n = (struct layers *)state;
    WEFT_TRY(
        forward_step(n, loss, images, labels, order, batch, marks, stream));
    WEFT_TRY(linear_backward(n, NULL, batch, marks, stream));
    WEFT_TRY(blocks_backward(n, batch, marks, stream));
    LAYER("update", layers_update(n, lr, stream));
    return WEFT_OK;
}

/* ---- a step in parts ----------------------------------------------------- */

static int run_to_blocks(struct layers *n, const struct cnn_share *s,
                         weft_stream stream) {
    WEFT_TRY(forward_step(n, s->loss, s->images, s->labels, s->order, s->batch,
                          NULL, stream));
    WEFT_TRY(
        cnn_scale_loss(s->loss, n->share, (float)s->batch / s->total, stream));
    return linear_backward(n, n->share, s->batch, NULL, stream);
}

/* Without images, the gradients and the loss are 0. */
static int clear(struct layers *n, const struct cnn_share *s,
                 weft_stream stream) {
    WEFT_CUDA_TRY(
        cudaMemsetAsync(s->loss, 0, sizeof *s->loss, weft_cuda_stream(stream)));
    return zero(n, stream);
}

/* The gradients become complete in two ranges: the linear layers, the blocks.
 */
static int layers_part(void *state, int *at, const struct cnn_share *share,
                       struct weft_cnn_ready *ready, weft_stream stream) {
    struct layers *n = (struct layers *)state;
    const size_t blocks = n->offset[FC1_WEIGHT];
    const struct weft_cnn_ready ranges[] = {
        {WEFT_CNN_RANGE, n->grads + blocks,
         n->offset[WEFT_CNN_PARAMS] - blocks},
        {WEFT_CNN_RANGE, n->grads, blocks},
        {WEFT_CNN_DONE, NULL, 0},
    };
    if (*at == 0)
        WEFT_TRY(share->batch ? run_to_blocks(n, share, stream)
                              : clear(n, share, stream));
    else if (*at == 1 && share->batch)
        WEFT_TRY(blocks_backward(n, share->batch, NULL, stream));
    *ready = ranges[*at];
    if (*at < COUNT_OF(ranges) - 1) ++*at;
    return WEFT_OK;
}

static struct cnn_buffer layers_gradients(const void *state) {
    const struct layers *n = (const struct layers *)state;
    return {n->grads, n->offset[WEFT_CNN_PARAMS], 1};
}

static int layers_forward(void *state, float *logits, const uint8_t *images,
                          const int32_t *order, int count, weft_stream stream) {
    struct layers *n = (struct layers *)state;
    WEFT_TRY(load(n, images, NULL, order, count, stream));
    return forward(n, logits, count, NULL, stream);
}

#define RUNG(name, create)         \
    const struct cnn_impl name = { \
        create,                    \
        layers_destroy,            \
        layers_step,               \
        layers_forward,            \
        layers_get,                \
        layers_set,                \
        layers_bytes,              \
        layers_part,               \
        layers_update,             \
        layers_gradients,          \
        0,                         \
        NULL,                      \
        NULL,                      \
        NULL,                      \
        NULL,                      \
    }

RUNG(cnn_naive, naive_create);
RUNG(cnn_tiled, tiled_create);
#if WEFT_HAS_CUDNN
RUNG(cnn_cudnn, cudnn_create);
#endif
