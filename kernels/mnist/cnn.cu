/* cnn.cu -- weft_cnn: the table of rungs, creating and freeing a model, and its
 * weights.
 *
 * A context holds the state that all rungs of the CNN trainer share: checks,
 * data sets (data.cu), the order of the images, losses and the timer (step.cu).
 * A rung (cnn.h) owns weights, gradients and scratch memory and runs one step.
 * layers.cu runs the step layer by layer, and fused/ in a few kernels. All
 * memory is allocated before the first step is queued, and no step waits for
 * anything. So a rung may capture its step in a CUDA graph.
 *
 * Lesson:  notebooks/15a_mnist.ipynb */
#include <math.h>
#include <stdlib.h>

#include "context.cuh"
#include "layer_ops.h"

/* ---- rungs --------------------------------------------------------------- */

#if WEFT_HAS_CUDNN || !defined(__CUDACC__)
#define CUDNN_IDEA "the vendor's kernels: cuDNN and cuBLAS, a layer at a time"
#define CUDNN_TARGETS WEFT_CUDA
#else
#define CUDNN_IDEA "absent: built without cudnn.h and cublas_v2.h"
#define CUDNN_TARGETS 0
#endif

// Shared memory determines which GPUs run the fused rungs. They
// need 72 KB per block in fp32, 106 KB in 16 bits, 208 KB in tf32
// and 215 KB in Winograd's form. A block has 64 KB at compute
// capability 7.5, 163 KB at 8.0, 99 KB at 8.6 and 8.9, and 227 KB
// at 9.0.
WEFT_RUNGS({"mnist", "reference", "plain C, layers fused, vectorised", "fp32",
            WEFT_CPU, 0},
           {"mnist", "naive", "one naive kernel per layer", "fp32",
            WEFT_CPU | WEFT_CUDA, 0},
           {"mnist", "tiled", "better kernels, still one per layer", "fp32",
            WEFT_CPU | WEFT_CUDA, 0},
           {"mnist", "cudnn", CUDNN_IDEA, "fp32", CUDNN_TARGETS, 0},
           {"mnist", "fused", "eight kernels for the whole step", "fp32",
            WEFT_CPU | WEFT_CUDA, 80},
           {"mnist", "graph", "64 steps of them captured in one graph", "fp32",
            WEFT_CPU | WEFT_CUDA, 80},
           {"mnist", "pdl", "a kernel starts while the one before it ends",
            "fp32", WEFT_CUDA, 90},
           {"mnist", "winograd", "conv2 with 16 multiplications for 36", "fp32",
            WEFT_CPU | WEFT_CUDA, 90},
           {"mnist", "tf32", "tensor cores, 10 bits of every factor", "tf32",
            WEFT_CPU | WEFT_CUDA, 90},
           {"mnist", "bf16", "half the bytes, 7 bits of every factor", "bf16",
            WEFT_CPU | WEFT_CUDA, 90},
           {"mnist", "fp16", "half the bytes, 10 bits of every factor", "fp16",
            WEFT_CPU | WEFT_CUDA, 90});

/* The implementations, in the order of the table above. */
static const struct cnn_impl *const impls[] = {
#ifdef __CUDACC__
    NULL, // not reached: weft_check_rung() rejects the rung
#else
    &cnn_reference,
#endif
    &cnn_naive, &cnn_tiled,
#if WEFT_HAS_CUDNN
    &cnn_cudnn,
#else
    NULL, // also not reached
#endif
    &cnn_fused, &cnn_graph, &cnn_pdl,  &cnn_winograd,
    &cnn_tf32,  &cnn_bf16,  &cnn_fp16,
};

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

/* Check that an array is small enough: kernels count its elements with an
 * int. */
static int check_array(const char *what, double elements) {
    WEFT_REQUIRE(elements <= 2147483647.0,
                 "weft_cnn_create: %s has %.0f elements, want at most "
                 "2147483647",
                 what, elements);
    return WEFT_OK;
}

/* Batch norm needs two values per channel. With heights and widths of at least
 * 4, even a single image has four per channel in the smaller layer. */
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

/* Fill the zeroed context. After a failure, destroy() frees everything
 * allocated. */
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
    WEFT_TRY(cnn_grow_order(&cnn->order, c->max_batch, stream));
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
        return weft_fail(WEFT_ENOMEM, "weft_cnn_create: %zu bytes needed",
                         sizeof *made);
    made->impl = impls[rung];
    made->rung = rungs[rung].rung;
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
    if (cnn->parts.recorded) weft_cnn_abandon(cnn, cnn->parts.stream);
    int outside = cnn->device;
    cudaGetDevice(&outside);
    if (outside != cnn->device) cudaSetDevice(cnn->device);
    cudaDeviceSynchronize(); // steps may still read the memory that is freed
                             // next
    if (cnn->recording.exec) cudaGraphExecDestroy(cnn->recording.exec);
    if (cnn->state) cnn->impl->destroy(cnn->state);
    for (int i = 0; i < COUNT_OF(cnn->sets); i++)
        cnn_release(&cnn->sets[i].memory);
    cnn_release_order(&cnn->order);
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
    WEFT_TRY(cnn_check_idle(cnn, __func__));
    WEFT_TRY(check_param(cnn, __func__, index, in, count));
    WEFT_TRY(cnn->impl->set(cnn->state, index, in, stream));
    return weft_sync(stream);
}
