/* fused.cu -- the CNN, rungs "fused" to "fp16": few kernels for a whole step.
 *
 * Before:  rung "tiled" writes every layer's output to memory and reads it
 *          back, and launches some forty kernels for a step.
 * Idea:    a kernel does everything that can be done before a result of the
 *          whole batch is needed. fused.h lists the nine kernels that remain;
 *          head() does the work of the first one for the next step. Values that
 *          a kernel can recompute from its other inputs are never stored.
 * Limit:   the host launches the kernels one by one, which takes as long as a
 *          step on 64 images. Rungs "graph" and "pdl" change that.
 * Lesson:  notebooks/15b_mnist_gpu.ipynb
 *
 * The rungs differ in the number type of the products and in the way they
 * launch their kernels. The kernels are the same, except that rung "winograd"
 * has its own for conv2's products (winograd.cuh). */
#include <stdlib.h>
#include <string.h>

#include "fused_state.cuh"

/* ---- one step ------------------------------------------------------------ */

static __global__ void write_run(struct fused_run *to, struct fused_run run) {
    *to = run;
}

int fused_set_run(struct fused *f, const struct fused_run *run,
                  cudaStream_t stream) {
    // A kernel rather than a copy writes the run. The kernel's argument is read
    // before the call returns, so no thread waits, and a later call may pass
    // other values.
    write_run<<<1, 1, 0, stream>>>(f->run, *run);
    WEFT_LAUNCHED(write_run);
    return WEFT_OK;
}

int fused_queue(struct fused_state *s, const struct cnn_run *r,
                cudaStream_t stream) {
    struct fused_run run = {r->images, r->labels, r->order, r->losses, r->first,
                            0,         r->batch,  r->ring,  r->lr,     0};
    return fused_set_run(&s->f, &run, stream);
}

/* Queue one kernel and record the end of its section. */
#define SECTION(name, call)          \
    do {                             \
        WEFT_TRY(call);              \
        cnn_mark(marks, name, mark); \
    } while (0)

int fused_chain(struct fused *f, int batch, int before, int after,
                struct cnn_marks *marks, cudaStream_t stream) {
    const weft_stream mark = (weft_stream)stream;
    if (!before) SECTION("batch", fused_moments(f, batch, stream));
    f->ahead = after;
    SECTION("forward.conv1+bn1+relu1+pool1",
            fused_conv1(f, batch, before, stream));
    SECTION("forward.conv2+pool2", fused_conv2(f, batch, stream));
    SECTION("forward.bn2+relu2+fc1", fused_fc1(f, batch, stream));
    SECTION("forward.relu3+fc2+loss", fused_head(f, batch, 1, stream));
    SECTION("backward.fc1+relu2", fused_fc1_back(f, batch, stream));
    SECTION("backward.pool2+bn2+conv2+pool1+relu1+bn1+conv1",
            fused_conv2_dx(f, batch, stream));
    if (!f->dw2_made)
        SECTION("backward.conv2.weight", fused_conv2_dw(f, batch, stream));
    SECTION("update", fused_update(f, batch, stream));
    return WEFT_OK;
}

static void note(struct fused_state *s, const struct fused *f, int batch,
                 int trained) {
    s->last = *f;
    s->batch = batch;
    s->trained = trained;
}

static int fused_step(void *state, float *loss, const uint8_t *images,
                      const uint8_t *labels, const int32_t *order, int batch,
                      float lr, struct cnn_marks *marks, weft_stream stream) {
    struct fused_state *s = (struct fused_state *)state;
    cudaStream_t on = weft_cuda_stream(stream);
    struct fused_run run = {images, labels, order, loss, 0, 0, batch, 1, lr, 0};
    WEFT_TRY(fused_set_run(&s->f, &run, on));
    WEFT_TRY(fused_chain(&s->f, batch, 0, 0, marks, on));
    note(s, &s->f, batch, 1);
    return WEFT_OK;
}

static int fused_steps(void *state, const struct cnn_run *r, int64_t *queued,
                       weft_stream stream) {
    struct fused_state *s = (struct fused_state *)state;
    cudaStream_t on = weft_cuda_stream(stream);
    WEFT_TRY(fused_queue(s, r, on));
    if (s->graphed) return fused_replay(s, r->batch, r->count, queued, on);
    for (int64_t i = 0; i < r->count; i++, ++*queued) {
        WEFT_TRY(
            fused_chain(&s->f, r->batch, i > 0, i + 1 < r->count, NULL, on));
        if (cnn_interrupted()) // the kernels that compute the loss may not have
                               // finished
            return weft_fail(WEFT_EINTR, "weft_cnn: Ctrl-C in step %lld",
                             (long long)(r->first + i));
    }
    note(s, &s->f, r->batch, 1);
    return WEFT_OK;
}

static int fused_forward(void *state, float *logits, const uint8_t *images,
                         const int32_t *order, int count, weft_stream stream) {
    struct fused_state *s = (struct fused_state *)state;
    cudaStream_t on = weft_cuda_stream(stream);
    struct fused_run run = {images, NULL, order, NULL, 0, 0, count, 1, 0, 0};
    struct fused *f = &s->f;
    WEFT_TRY(fused_set_run(f, &run, on));
    WEFT_TRY(fused_moments(f, count, on));
    WEFT_TRY(fused_conv1(f, count, 0, on));
    WEFT_TRY(fused_conv2(f, count, on));
    WEFT_TRY(fused_fc1(f, count, on));
    WEFT_TRY(fused_head(f, count, 0, on));
    note(s, f, count, 0);
    const size_t bytes = sizeof *logits * count * CLASSES;
    WEFT_CUDA_TRY(cudaMemcpyAsync(logits, f->logits, bytes,
                                  cudaMemcpyDeviceToDevice, on));
    return WEFT_OK;
}

/* ---- memory -------------------------------------------------------------- */

#define TAKE(field, count, size) \
    WEFT_TRY(cnn_take(&s->memory, &(f->field), (count), (size), #field, stream))

static int take_slots(struct fused_state *s, size_t batch, weft_stream stream) {
    struct fused *f = &s->f;
    // The maximum over all batch sizes of slots times images.
    const size_t rows = batch <= 256 ? 28 * batch : 7168;
    const size_t most = 4 * batch > rows ? 4 * batch : rows;
    TAKE(moments.data, MOMENT_SLOTS * MOMENTS, sizeof(double));
    TAKE(sum2.data, SUM2_SLOTS * 2 * C2, sizeof(float));
    TAKE(sum2_total, 2 * C2, sizeof(double));
    TAKE(hidden.data, most * HIDDEN, sizeof(float));
    TAKE(head.data, HEAD_SLOTS * HEAD, sizeof(float));
    TAKE(sum4.data, SUM4_SLOTS * 2 * C2, sizeof(float));
    TAKE(dfc1.data, (size_t)dfc1_slots(batch) * HIDDEN * FEATURES,
         sizeof(float));
    TAKE(winners.data, WINNER_SLOTS * (TAPS + 1) * C1, sizeof(float));
    TAKE(dw2.data, DW2_SLOTS * TAPS * C2 * C1, sizeof(float));
    return WEFT_OK;
}

static int take_all(struct fused_state *s, size_t batch, weft_stream stream) {
    struct fused *f = &s->f;
    const size_t element = f->precision >= BF16 ? 2 : sizeof(float);
    TAKE(run, 1, sizeof *f->run);
    TAKE(params, PARAMS, sizeof(float));
    TAKE(grads, PARAMS, sizeof(float));
    TAKE(conv2_f, TAPS * C2 * C1, element);
    TAKE(conv2_b, TAPS * C2 * C1, element);
    f->fc1_s = f->params + FC1_W;
    if (f->precision != FP32) TAKE(fc1_s, HIDDEN * FEATURES, element);
    TAKE(p1, batch * PIXELS2 * C1, element);
    TAKE(code1, batch * PIXELS2 * C1, 1);
    TAKE(c2, batch * PIXELS2 * C2, element);
    TAKE(m2, batch * FEATURES, element);
    TAKE(code2, batch * FEATURES, 1);
    TAKE(h, batch * HIDDEN, sizeof(float));
    TAKE(logits, batch * CLASSES, sizeof(float));
    TAKE(dh, batch * HIDDEN, element);
    TAKE(dp2, batch * FEATURES, element);
    TAKE(dy_numbers, FUSED_DY_BYTES, 1);
    return take_slots(s, batch, stream);
}

/* Zero all weights and gradients. */
static int clear(struct fused *f, cudaStream_t stream) {
    const size_t bytes = PARAMS * sizeof(float);
    WEFT_CUDA_TRY(cudaMemsetAsync(f->params, 0, bytes, stream));
    WEFT_CUDA_TRY(cudaMemsetAsync(f->grads, 0, bytes, stream));
    return fused_shadows(f, stream);
}

static int check_shape(const struct weft_cnn_config *c) {
    WEFT_REQUIRE(
        c->height == SIDE1 && c->width == SIDE1 && c->channels1 == C1 &&
            c->channels2 == C2 && c->hidden == HIDDEN && c->classes == CLASSES,
        "weft_cnn_create: a fused rung is made for images of %dx%d, %d and %d "
        "channels, %d hidden, %d classes; this model has %dx%d, %d and %d, %d, "
        "%d",
        SIDE1, SIDE1, C1, C2, HIDDEN, CLASSES, c->height, c->width,
        c->channels1, c->channels2, c->hidden, c->classes);
    return WEFT_OK;
}

/* Find the number of the device's multiprocessors, and whether it launches
 * kernels early. */
static int ask_device(struct fused *f) {
#ifdef __CUDACC__
    int device, major;
    WEFT_CUDA_TRY(cudaGetDevice(&device));
    WEFT_CUDA_TRY(cudaDeviceGetAttribute(
        &f->blocks, cudaDevAttrMultiProcessorCount, device));
    WEFT_CUDA_TRY(cudaDeviceGetAttribute(
        &major, cudaDevAttrComputeCapabilityMajor, device));
    f->pdl = f->pdl && major >= 9;
#else
    f->blocks = 8; // few, so that blocks get several images even in small
                   // batches
#endif
    return WEFT_OK;
}

static void fused_destroy(void *state) {
    struct fused_state *s = (struct fused_state *)state;
    fused_free_graphs(s);
    cnn_release(&s->memory);
    free(s);
}

/* Create a rung of this precision. GRAPHED: whether it runs from graphs; PDL:
 * whether it launches kernels early; WINOGRAD: whether conv2 has that form. */
template <enum precision PRECISION, int GRAPHED, int PDL, int WINOGRAD>
static int create(void **state, const struct weft_cnn_config *config,
                  weft_stream stream) {
    WEFT_TRY(check_shape(config));
    struct fused_state *s = (struct fused_state *)calloc(1, sizeof *s);
    if (!s)
        return weft_fail(WEFT_ENOMEM, "weft_cnn: %zu bytes needed", sizeof *s);
    *state = s; // the caller frees *state, even after a failure
    s->f.precision = PRECISION;
    s->f.pdl = PDL;
    s->f.winograd = WINOGRAD;
    s->f.eps = config->eps;
    s->f.mean = config->mean;
    s->f.std = config->std;
    s->graphed = GRAPHED;
    WEFT_TRY(ask_device(&s->f));
    WEFT_TRY(take_all(s, config->max_batch, stream));
    WEFT_TRY(clear(&s->f, weft_cuda_stream(stream)));
    return fused_rehearse(s, config->max_batch);
}

static size_t fused_bytes(const void *state) {
    return ((const struct fused_state *)state)->memory.bytes;
}

/* ---- weights and gradients ----------------------------------------------- */

/* The place and layout of a parameter. PyTorch's array is (outer,rows,columns);
 * this rung's array is (outer,columns,rows). With one column they are the
 * same. */
static const struct layout {
    int at, outer, rows, columns;
} layouts[WEFT_CNN_PARAMS] = {
    {CONV1_W, 1, C1, TAPS},
    {CONV1_B, 1, C1, 1},
    {BN1_W, 1, C1, 1},
    {BN1_B, 1, C1, 1},
    {CONV2_W, 1, C2 * C1, TAPS},
    {CONV2_B, 1, C2, 1},
    {BN2_W, 1, C2, 1},
    {BN2_B, 1, C2, 1},
    {FC1_W, HIDDEN, C2, PIXELS3},
    {FC1_B, 1, HIDDEN, 1},
    {FC2_W, 1, CLASSES * HIDDEN, 1},
    {FC2_B, 1, CLASSES, 1},
};

/* Compute out (outer,columns,rows) from in (outer,rows,columns). */
static void transpose(float *out, const float *in, int outer, int rows,
                      int columns) {
    for (int o = 0; o < outer; o++, in += rows * columns)
        for (int j = 0; j < columns; j++)
            for (int i = 0; i < rows; i++) *out++ = in[i * columns + j];
}

static int fused_get(void *state, int kind, int index, float *out,
                     weft_stream stream) {
    const struct fused_state *s = (const struct fused_state *)state;
    const struct layout *l = &layouts[index];
    const size_t bytes = sizeof *out * (size_t)l->outer * l->rows * l->columns;
    const float *from = kind == WEFT_CNN_WEIGHT ? s->f.params : s->f.grads;
    float *ours = (float *)malloc(bytes);
    if (!ours)
        return weft_fail(WEFT_ENOMEM, "weft_cnn: %zu bytes needed", bytes);
    cudaError_t error =
        cudaMemcpyAsync(ours, from + l->at, bytes, cudaMemcpyDeviceToHost,
                        weft_cuda_stream(stream));
    int status =
        error ? weft_cuda_fail(error, "weft_cnn_get") : weft_sync(stream);
    if (!status) transpose(out, ours, l->outer, l->columns, l->rows);
    free(ours);
    return status;
}

static int fused_set(void *state, int index, const float *in,
                     weft_stream stream) {
    struct fused_state *s = (struct fused_state *)state;
    const struct layout *l = &layouts[index];
    const size_t bytes = sizeof *in * (size_t)l->outer * l->rows * l->columns;
    float *ours = (float *)malloc(bytes);
    if (!ours)
        return weft_fail(WEFT_ENOMEM, "weft_cnn: %zu bytes needed", bytes);
    transpose(ours, in, l->outer, l->rows, l->columns);
    cudaError_t error =
        cudaMemcpyAsync(s->f.params + l->at, ours, bytes,
                        cudaMemcpyHostToDevice, weft_cuda_stream(stream));
    int status =
        error ? weft_cuda_fail(error, "weft_cnn_set") : weft_sync(stream);
    free(ours);
    if (!status && l->columns > 1) // this matrix may have a second copy, which
                                   // must be updated
        status = fused_shadows(&s->f, weft_cuda_stream(stream));
    return status;
}

/* ---- rungs --------------------------------------------------------------- */

#define RUNG(name, precision, graphed, pdl, winograd) \
    extern const struct cnn_impl name;                \
    const struct cnn_impl name = {                    \
        create<precision, graphed, pdl, winograd>,    \
        fused_destroy,                                \
        fused_step,                                   \
        fused_forward,                                \
        fused_get,                                    \
        fused_set,                                    \
        fused_bytes,                                  \
        fused_part,                                   \
        fused_part_update,                            \
        fused_gradients,                              \
        1,                                            \
        fused_steps,                                  \
        fused_peek,                                   \
        fused_part_abandon,                           \
        fused_part_prepare,                           \
    }

RUNG(cnn_fused, FP32, 0, 0, 0);
RUNG(cnn_graph, FP32, 1, 0, 0);
RUNG(cnn_pdl, FP32, 1, 1, 0);
RUNG(cnn_winograd, FP32, 1, 1, 1);
RUNG(cnn_tf32, TF32, 1, 1, 0);
RUNG(cnn_bf16, BF16, 1, 1, 0);
RUNG(cnn_fp16, FP16, 1, 1, 0);
