/* cnn.cu -- weft_cnn: what is common to all rungs of the CNN trainer.
 *
 * Here are the checks, the data sets, the order of the images, the losses and
 * the timer; a rung (cnn.h) owns weights, gradients and scratch memory and
 * runs one step. All memory is taken before the first step is queued, and no
 * step waits for anything, so a rung may capture its step in a CUDA graph.
 * Lesson:  notebooks/15_mnist.ipynb
 */
#include "../internal.cuh"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cnn.h"
#ifndef __CUDACC__
#include "../reference/reference.h"
#endif

/* ---- rungs --------------------------------------------------------------- */

WEFT_RUNGS({"mnist", "reference", "plain C, layers fused, vectorised", "fp32",
            WEFT_CPU, 0},
           {"mnist", "naive", "one naive kernel per layer", "fp32",
            WEFT_CPU | WEFT_CUDA, 0});

/* In the order of the table above. */
static const struct cnn_impl *const impls[] = {
#ifdef __CUDACC__
    NULL, // weft_check_rung() refuses it first
#else
    &cnn_reference,
#endif
    &cnn_naive,
};

/* ---- a context ----------------------------------------------------------- */

enum { LOSSES = 65536, MAX_SECTIONS = 64 };

struct dataset {
    struct cnn_memory memory;
    uint8_t *images, *labels; /* labels may be NULL */
    int count;                /* 0: none was given */
};

/* The images that the queued steps take, in their order. */
struct order {
    struct cnn_memory memory;
    int32_t *device;    /* what the steps read */
    int32_t *host;      /* page-locked, so that the copy need not wait */
    int capacity;       /* of both */
    cudaEvent_t copied; /* `host` may be written again */
};

struct cnn_marks {
    cudaEvent_t events[MAX_SECTIONS + 1]; /* the start, the end of each */
    const char *names[MAX_SECTIONS];
    int made;  /* events that exist */
    int count; /* sections that ended, also those there was no room for */
    cudaError_t error;
};

struct weft_cnn {
    const struct cnn_impl *impl;
    void *state; /* the rung's */
    struct weft_cnn_config config;
    int device;
    struct cnn_memory memory;
    float *losses;            /* a ring: step i writes losses[i % LOSSES] */
    int64_t steps, collected; /* steps queued; of these handed out */
    float *logits;            /* (max_batch,classes) */
    struct dataset sets[2];   /* by weft_cnn_dataset */
    struct order order;
    cudaEvent_t done; /* the end of the last call's work */
    struct cnn_marks marks;
};

/* For the length of a call: the context's device is the current one, its work
 * follows that of the last call (which may have used another stream), and on
 * the CPU Ctrl-C is heard. */
struct visit {
    struct weft_watch watch;
    weft_cnn *cnn;
    cudaStream_t stream;
    int outside; /* the caller's device */
    cudaError_t error;

    visit(weft_cnn *visited, weft_stream on)
        : cnn(visited), stream(weft_cuda_stream(on)), outside(0) {
        error = cudaGetDevice(&outside);
        if (!error && outside != cnn->device)
            error = cudaSetDevice(cnn->device);
        if (!error) error = cudaStreamWaitEvent(stream, cnn->done, 0);
    }
    ~visit() {
        // A failure here is one of the work itself; weft_sync() reports that.
        cudaEventRecord(cnn->done, stream);
        if (outside != cnn->device) cudaSetDevice(outside);
    }
};

/* The first line of a function that queues work for `cnn`. */
#define CNN_VISIT(cnn, stream)                            \
    WEFT_REQUIRE(cnn, "%s: the model is NULL", __func__); \
    struct visit visit_(cnn, stream);                     \
    if (visit_.error) return weft_cuda_fail(visit_.error, __func__)

static int interrupted(void) {
#ifdef __CUDACC__
    return 0; // steps are queued, which is over in no time
#else
    return weft_interrupted();
#endif
}

/* ---- memory -------------------------------------------------------------- */

static int no_room(const char *what, size_t bytes) {
    size_t available = 0, total = 0;
    cudaGetLastError(); // not sticky: the next call starts clean
    cudaMemGetInfo(&available, &total);
    return weft_fail(WEFT_ENOMEM,
                     "weft_cnn: out of memory for %s: %zu bytes asked, %zu of "
                     "%zu are free",
                     what, bytes, available, total);
}

int cnn_take(struct cnn_memory *memory, void *pointer, size_t count,
             size_t size, const char *what, weft_stream stream) {
    const size_t bytes = count * size;
    size_t available = 0, total = 0;
    WEFT_REQUIRE(memory->count < CNN_PIECES, "weft_cnn: more than %d pieces",
                 CNN_PIECES);
    // Asked first because a CPU gives out more memory than it has, and then
    // ends the process that writes to it.
    WEFT_CUDA_TRY(cudaMemGetInfo(&available, &total));
    if (bytes > available) return no_room(what, bytes);
    void *piece = NULL;
    cudaError_t error = cudaMalloc(&piece, bytes);
    if (error == cudaErrorMemoryAllocation) return no_room(what, bytes);
    if (error) return weft_cuda_fail(error, what);
    memory->pieces[memory->count++] = piece;
    memory->bytes += bytes;
    WEFT_CUDA_TRY(
        cudaMemsetAsync(piece, 0xff, bytes, weft_cuda_stream(stream)));
    memcpy(pointer, &piece, sizeof piece);
    return WEFT_OK;
}

void cnn_release(struct cnn_memory *memory) {
    for (int i = 0; i < memory->count; i++) cudaFree(memory->pieces[i]);
    memset(memory, 0, sizeof *memory);
}

/* ---- the model's shape --------------------------------------------------- */

size_t cnn_param_count(const struct weft_cnn_config *config, int index) {
    const size_t c1 = config->channels1, c2 = config->channels2;
    const size_t hidden = config->hidden, classes = config->classes;
    const size_t features = c2 * (config->height / 4) * (config->width / 4);
    const size_t fc1 = hidden * features, fc2 = classes * hidden;
    const size_t counts[] = {c1 * 9, c1, c1,  c1,     c2 * c1 * 9, c2,
                             c2,     c2, fc1, hidden, fc2,         classes};
    return index >= 0 && index < WEFT_CNN_PARAMS ? counts[index] : 0;
}

const char *weft_cnn_param_name(int index) {
    static const char *const names[WEFT_CNN_PARAMS] = {
        "conv1.weight", "conv1.bias", "bn1.weight", "bn1.bias",
        "conv2.weight", "conv2.bias", "bn2.weight", "bn2.bias",
        "fc1.weight",   "fc1.bias",   "fc2.weight", "fc2.bias"};
    return index >= 0 && index < WEFT_CNN_PARAMS ? names[index] : NULL;
}

size_t weft_cnn_param_count(const weft_cnn *cnn, int index) {
    return cnn ? cnn_param_count(&cnn->config, index) : 0;
}

/* Kernels count the elements of one array with an int. */
static int check_array(const char *what, double elements) {
    WEFT_REQUIRE(elements <= 2147483647.0,
                 "weft_cnn_create: %s has %.0f elements, want at most "
                 "2147483647",
                 what, elements);
    return WEFT_OK;
}

/* Batch norm needs two values per channel: at heights and widths of 4 or more
 * even one image has four of them in the smaller of the two layers. */
static int check_config(const struct weft_cnn_config *c) {
    static const char *const want =
        "weft_cnn_create: %s = %d, want at least %d";
    const struct {
        const char *name;
        int value, least;
    } sizes[] = {
        {"height", c->height, 4},       {"width", c->width, 4},
        {"channels1", c->channels1, 1}, {"channels2", c->channels2, 1},
        {"hidden", c->hidden, 1},       {"classes", c->classes, 2},
        {"max_batch", c->max_batch, 1},
    };
    for (int i = 0; i < COUNT_OF(sizes); i++)
        WEFT_REQUIRE(sizes[i].value >= sizes[i].least, want, sizes[i].name,
                     sizes[i].value, sizes[i].least);
    WEFT_REQUIRE(c->classes <= 256,
                 "weft_cnn_create: classes = %d, want at most 256 since labels "
                 "are bytes",
                 c->classes);
    WEFT_REQUIRE(isfinite(c->eps) && c->eps > 0,
                 "weft_cnn_create: eps = %g, want more than 0", c->eps);
    WEFT_REQUIRE(isfinite(c->std) && c->std > 0,
                 "weft_cnn_create: std = %g, want more than 0", c->std);
    WEFT_REQUIRE(isfinite(c->mean), "weft_cnn_create: mean = %g, want a number",
                 c->mean);

    const double batch = c->max_batch, c1 = c->channels1, c2 = c->channels2;
    const double pixels = (double)c->height * c->width;
    const double features = c2 * (c->height / 4) * (c->width / 4);
    WEFT_TRY(check_array("the first convolution", batch * c1 * pixels));
    WEFT_TRY(check_array("the second convolution", batch * c2 * pixels / 4));
    WEFT_TRY(check_array("the first linear layer", batch * c->hidden));
    WEFT_TRY(check_array("conv2.weight", c1 * c2 * 9));
    WEFT_TRY(check_array("fc1.weight", c->hidden * features));
    return check_array("fc2.weight", (double)c->classes * c->hidden);
}

/* ---- building and freeing ------------------------------------------------ */

static void release_order(struct order *order) {
    cnn_release(&order->memory);
    if (order->host) cudaFreeHost(order->host);
    order->device = order->host = NULL;
    order->capacity = 0;
}

/* Make room for `count` indices. */
static int grow_order(struct order *order, int count, weft_stream stream) {
    if (count <= order->capacity) return WEFT_OK;
    release_order(order); // waits for the steps that read it
    WEFT_TRY(cnn_take(&order->memory, &order->device, count,
                      sizeof *order->device, "the order of the images",
                      stream));
    const size_t bytes = count * sizeof *order->host;
    cudaError_t error = cudaMallocHost((void **)&order->host, bytes);
    if (error == cudaErrorMemoryAllocation)
        return no_room("the order of the images, on the host", bytes);
    if (error) return weft_cuda_fail(error, "cudaMallocHost");
    order->capacity = count;
    return WEFT_OK;
}

/* Fill the zeroed context; what a failure leaves, destroy() frees. */
static int build(weft_cnn *cnn, weft_stream stream) {
    const struct weft_cnn_config *c = &cnn->config;
    WEFT_CUDA_TRY(cudaEventCreateWithFlags(&cnn->done, cudaEventDisableTiming));
    WEFT_CUDA_TRY(
        cudaEventCreateWithFlags(&cnn->order.copied, cudaEventDisableTiming));
    WEFT_TRY(cnn_take(&cnn->memory, &cnn->losses, LOSSES, sizeof(float),
                      "the losses", stream));
    WEFT_TRY(cnn_take(&cnn->memory, &cnn->logits,
                      (size_t)c->max_batch * c->classes, sizeof(float),
                      "the logits", stream));
    WEFT_TRY(grow_order(&cnn->order, c->max_batch, stream));
    WEFT_TRY(cnn->impl->create(&cnn->state, c, stream));
    return weft_sync(stream);
}

int weft_cnn_create(weft_cnn **cnn, int rung,
                    const struct weft_cnn_config *config, weft_stream stream) {
    WEFT_REQUIRE(cnn, "weft_cnn_create: cnn is NULL");
    *cnn = NULL;
    WEFT_CHECK_RUNG(rung);
    WEFT_REQUIRE(config, "weft_cnn_create: config is NULL");
    WEFT_TRY(check_config(config));
    weft_cnn *made = (weft_cnn *)calloc(1, sizeof *made);
    if (!made)
        return weft_fail(WEFT_ENOMEM, "weft_cnn_create: %zu bytes asked",
                         sizeof *made);
    made->impl = impls[rung];
    made->config = *config;
    cudaError_t error = cudaGetDevice(&made->device);
    int status =
        error ? weft_cuda_fail(error, "cudaGetDevice") : build(made, stream);
    if (status)
        weft_cnn_destroy(made);
    else
        *cnn = made;
    return status;
}

void weft_cnn_destroy(weft_cnn *cnn) {
    if (!cnn) return;
    int outside = cnn->device;
    cudaGetDevice(&outside);
    if (outside != cnn->device) cudaSetDevice(cnn->device);
    cudaDeviceSynchronize(); // steps may still read what is freed here
    if (cnn->state) cnn->impl->destroy(cnn->state);
    for (int i = 0; i < COUNT_OF(cnn->sets); i++)
        cnn_release(&cnn->sets[i].memory);
    release_order(&cnn->order);
    cnn_release(&cnn->memory);
    for (int i = 0; i < cnn->marks.made; i++)
        cudaEventDestroy(cnn->marks.events[i]);
    if (cnn->order.copied) cudaEventDestroy(cnn->order.copied);
    if (cnn->done) cudaEventDestroy(cnn->done);
    if (outside != cnn->device) cudaSetDevice(outside);
    free(cnn);
}

size_t weft_cnn_bytes(const weft_cnn *cnn) {
    if (!cnn) return 0;
    size_t bytes = cnn->memory.bytes + cnn->order.memory.bytes;
    for (int i = 0; i < COUNT_OF(cnn->sets); i++)
        bytes += cnn->sets[i].memory.bytes;
    return bytes + cnn->impl->bytes(cnn->state);
}

/* ---- weights and gradients ----------------------------------------------- */

static int check_param(const weft_cnn *cnn, const char *function, int index,
                       const void *array, size_t count) {
    WEFT_REQUIRE(index >= 0 && index < WEFT_CNN_PARAMS,
                 "%s: parameter %d, want 0 to %d", function, index,
                 WEFT_CNN_PARAMS - 1);
    const size_t want = cnn_param_count(&cnn->config, index);
    WEFT_REQUIRE(count == want, "%s: %zu floats for %s, which has %zu",
                 function, count, weft_cnn_param_name(index), want);
    WEFT_REQUIRE(array, "%s: the array for %s (%zu floats) is NULL", function,
                 weft_cnn_param_name(index), want);
    return WEFT_OK;
}

int weft_cnn_get(weft_cnn *cnn, int kind, int index, float *out, size_t count,
                 weft_stream stream) {
    CNN_VISIT(cnn, stream);
    WEFT_REQUIRE(kind == WEFT_CNN_WEIGHT || kind == WEFT_CNN_GRADIENT,
                 "%s: kind %d, want 0 (weight) or 1 (gradient)", __func__,
                 kind);
    WEFT_TRY(check_param(cnn, __func__, index, out, count));
    WEFT_TRY(cnn->impl->get(cnn->state, kind, index, out, stream));
    return weft_sync(stream);
}

int weft_cnn_set(weft_cnn *cnn, int index, const float *in, size_t count,
                 weft_stream stream) {
    CNN_VISIT(cnn, stream);
    WEFT_TRY(check_param(cnn, __func__, index, in, count));
    WEFT_TRY(cnn->impl->set(cnn->state, index, in, stream));
    return weft_sync(stream);
}

/* ---- data ---------------------------------------------------------------- */

static int check_set(const char *function, int set) {
    WEFT_REQUIRE(set == WEFT_CNN_TRAIN || set == WEFT_CNN_TEST,
                 "%s: data set %d, want 0 (train) or 1 (test)", function, set);
    return WEFT_OK;
}

static int check_labels(const uint8_t *labels, int count, int classes) {
    for (int i = 0; labels && i < count; i++)
        WEFT_REQUIRE(labels[i] < classes,
                     "weft_cnn_data: labels[%d] = %d, the model has %d classes",
                     i, labels[i], classes);
    return WEFT_OK;
}

static int copy_bytes(struct dataset *made, uint8_t **to, const uint8_t *from,
                      size_t bytes, const char *what, weft_stream stream) {
    WEFT_TRY(cnn_take(&made->memory, to, bytes, 1, what, stream));
    WEFT_CUDA_TRY(cudaMemcpyAsync(*to, from, bytes, cudaMemcpyHostToDevice,
                                  weft_cuda_stream(stream)));
    return WEFT_OK;
}

/* Fill the zeroed data set. */
static int copy_set(struct dataset *made, const uint8_t *images,
                    const uint8_t *labels, int count, size_t pixels,
                    weft_stream stream) {
    WEFT_TRY(copy_bytes(made, &made->images, images, count * pixels,
                        "the images of a data set", stream));
    if (labels)
        WEFT_TRY(copy_bytes(made, &made->labels, labels, count,
                            "the labels of a data set", stream));
    made->count = count;
    return weft_sync(stream); // the caller may now change its arrays
}

int weft_cnn_data(weft_cnn *cnn, int set, const uint8_t *images,
                  const uint8_t *labels, int count, weft_stream stream) {
    CNN_VISIT(cnn, stream);
    WEFT_TRY(check_set(__func__, set));
    WEFT_REQUIRE(count >= 1, "%s: %d images, want at least 1", __func__, count);
    WEFT_REQUIRE(images, "%s: the array of %d images is NULL", __func__, count);
    WEFT_TRY(check_labels(labels, count, cnn->config.classes));
    struct dataset made = {};
    const size_t pixels = (size_t)cnn->config.height * cnn->config.width;
    int status = copy_set(&made, images, labels, count, pixels, stream);
    // The old set goes only now: if there is no room for both, it stays.
    struct dataset *gone = status ? &made : &cnn->sets[set];
    cnn_release(&gone->memory);
    if (!status) cnn->sets[set] = made;
    return status;
}

/* ---- the order of the images --------------------------------------------- */

static int check_order(const weft_cnn *cnn, const char *function, int set,
                       const int32_t *order, int count) {
    static const char *const names[] = {"training", "test"};
    const int images = cnn->sets[set].count;
    WEFT_REQUIRE(images, "%s: there is no %s set yet; weft_cnn_data() gives it",
                 function, names[set]);
    WEFT_REQUIRE(count >= 1, "%s: %d images, want at least 1", function, count);
    WEFT_REQUIRE(order, "%s: the order of %d images is NULL", function, count);
    for (int i = 0; i < count; i++)
        WEFT_REQUIRE(order[i] >= 0 && order[i] < images,
                     "%s: order[%d] = %d, the %s set has images 0 to %d",
                     function, i, order[i], names[set], images - 1);
    return WEFT_OK;
}

static int check_batch(const weft_cnn *cnn, const char *function, int batch) {
    WEFT_REQUIRE(batch >= 1 && batch <= cnn->config.max_batch,
                 "%s: a batch of %d, the model takes 1 to %d", function, batch,
                 cnn->config.max_batch);
    return WEFT_OK;
}

static int check_training(const weft_cnn *cnn, const char *function,
                          const int32_t *order, int count, int batch,
                          float lr) {
    WEFT_TRY(check_batch(cnn, function, batch));
    WEFT_TRY(check_order(cnn, function, WEFT_CNN_TRAIN, order, count));
    WEFT_REQUIRE(cnn->sets[WEFT_CNN_TRAIN].labels,
                 "%s: the training set's %d images have no labels", function,
                 cnn->sets[WEFT_CNN_TRAIN].count);
    WEFT_REQUIRE(isfinite(lr) && lr >= 0, "%s: lr = %g, want 0 or more",
                 function, lr);
    return WEFT_OK;
}

/* Copy the order to the device, without waiting for the steps queued before. */
static int send_order(struct order *to, const int32_t *order, int count,
                      weft_stream stream) {
    WEFT_TRY(grow_order(to, count, stream));
    WEFT_CUDA_TRY(cudaEventSynchronize(to->copied));
    memcpy(to->host, order, count * sizeof *order);
    WEFT_CUDA_TRY(cudaMemcpyAsync(to->device, to->host, count * sizeof *order,
                                  cudaMemcpyHostToDevice,
                                  weft_cuda_stream(stream)));
    WEFT_CUDA_TRY(cudaEventRecord(to->copied, weft_cuda_stream(stream)));
    return WEFT_OK;
}

/* ---- steps --------------------------------------------------------------- */

/* One step on the images at `first` of the order that was sent. */
static int step(weft_cnn *cnn, int64_t first, int batch, float lr,
                struct cnn_marks *marks, weft_stream stream) {
    const struct dataset *set = &cnn->sets[WEFT_CNN_TRAIN];
    float *loss = cnn->losses + cnn->steps % LOSSES;
    if (interrupted())
        return weft_fail(WEFT_EINTR, "weft_cnn: Ctrl-C before step %lld",
                         (long long)cnn->steps);
    WEFT_TRY(cnn->impl->step(cnn->state, loss, set->images, set->labels,
                             cnn->order.device + first, batch, lr, marks,
                             stream));
    cnn->steps++; // a step that failed leaves no loss
    return WEFT_OK;
}

int weft_cnn_train(weft_cnn *cnn, const int32_t *order, int count, int batch,
                   float lr, weft_stream stream) {
    CNN_VISIT(cnn, stream);
    WEFT_TRY(check_training(cnn, __func__, order, count, batch, lr));
    WEFT_TRY(send_order(&cnn->order, order, count, stream));
    for (int64_t first = 0; first < count; first += batch) {
        const int64_t left = count - first;
        WEFT_TRY(step(cnn, first, left < batch ? (int)left : batch, lr, NULL,
                      stream));
    }
    return WEFT_OK;
}

int weft_cnn_losses(weft_cnn *cnn, float *out, int capacity, int *count,
                    weft_stream stream) {
    CNN_VISIT(cnn, stream);
    WEFT_REQUIRE(count, "%s: count is NULL", __func__);
    const int64_t oldest = cnn->steps - cnn->collected > LOSSES
                               ? cnn->steps - LOSSES
                               : cnn->collected;
    *count = (int)(cnn->steps - oldest);
    WEFT_REQUIRE(*count <= capacity, "%s: %d losses, room for %d", __func__,
                 *count, capacity);
    WEFT_REQUIRE(out || !*count, "%s: the array for %d losses is NULL",
                 __func__, *count);
    for (int64_t i = oldest; i < cnn->steps;) {
        // As far as the ring's end, then the rest from its start.
        const int64_t at = i % LOSSES, left = cnn->steps - i;
        const int64_t run = left < LOSSES - at ? left : LOSSES - at;
        WEFT_CUDA_TRY(cudaMemcpyAsync(out + (i - oldest), cnn->losses + at,
                                      run * sizeof *out, cudaMemcpyDeviceToHost,
                                      weft_cuda_stream(stream)));
        i += run;
    }
    WEFT_TRY(weft_sync(stream));
    cnn->collected = cnn->steps;
    return WEFT_OK;
}

int weft_cnn_forward(weft_cnn *cnn, int set, const int32_t *order, int count,
                     float *logits, weft_stream stream) {
    CNN_VISIT(cnn, stream);
    WEFT_TRY(check_set(__func__, set));
    WEFT_TRY(check_batch(cnn, __func__, count));
    WEFT_TRY(check_order(cnn, __func__, set, order, count));
    WEFT_REQUIRE(logits, "%s: the array for %d x %d logits is NULL", __func__,
                 count, cnn->config.classes);
    WEFT_TRY(send_order(&cnn->order, order, count, stream));
    WEFT_TRY(cnn->impl->forward(cnn->state, cnn->logits, cnn->sets[set].images,
                                cnn->order.device, count, stream));
    WEFT_CUDA_TRY(cudaMemcpyAsync(
        logits, cnn->logits, sizeof *logits * count * cnn->config.classes,
        cudaMemcpyDeviceToHost, weft_cuda_stream(stream)));
    return weft_sync(stream);
}

/* ---- timing -------------------------------------------------------------- */

void cnn_mark(struct cnn_marks *marks, const char *name, weft_stream stream) {
    if (!marks) return;
    const int i = marks->count++;
    if (i >= MAX_SECTIONS || marks->error) return; // weft_cnn_profile() tells
    marks->names[i] = name;
    marks->error =
        cudaEventRecord(marks->events[i + 1], weft_cuda_stream(stream));
}

static int make_marks(struct cnn_marks *marks) {
    for (; marks->made < COUNT_OF(marks->events); marks->made++)
        WEFT_CUDA_TRY(cudaEventCreate(&marks->events[marks->made]));
    return WEFT_OK;
}

/* The times between the marks of a step that is done. */
static int read_marks(const struct cnn_marks *marks,
                      struct weft_section *sections, int capacity) {
    if (marks->error) return weft_cuda_fail(marks->error, "cudaEventRecord");
    const int room = capacity < MAX_SECTIONS ? capacity : MAX_SECTIONS;
    WEFT_REQUIRE(marks->count <= room,
                 "weft_cnn_profile: %d sections, room for %d", marks->count,
                 room);
    for (int i = 0; i < marks->count; i++) {
        float ms;
        WEFT_CUDA_TRY(
            cudaEventElapsedTime(&ms, marks->events[i], marks->events[i + 1]));
        sections[i].name = marks->names[i];
        sections[i].us = ms * 1000;
    }
    return WEFT_OK;
}

int weft_cnn_profile(weft_cnn *cnn, const int32_t *order, int batch, float lr,
                     struct weft_section *sections, int capacity, int *count,
                     weft_stream stream) {
    CNN_VISIT(cnn, stream);
    struct cnn_marks *marks = &cnn->marks;
    WEFT_REQUIRE(count, "%s: count is NULL", __func__);
    *count = 0;
    WEFT_REQUIRE(sections && capacity >= 1,
                 "%s: no room for sections (%p, capacity %d)", __func__,
                 (void *)sections, capacity);
    WEFT_TRY(check_training(cnn, __func__, order, batch, batch, lr));
    WEFT_TRY(make_marks(marks));
    WEFT_TRY(send_order(&cnn->order, order, batch, stream));
    WEFT_TRY(weft_sync(stream)); // so that no earlier work is timed

    marks->count = 0;
    marks->error = cudaEventRecord(marks->events[0], weft_cuda_stream(stream));
    WEFT_TRY(step(cnn, 0, batch, lr, marks, stream));
    WEFT_TRY(weft_sync(stream));
    *count = marks->count;
    return read_marks(marks, sections, capacity);
}
