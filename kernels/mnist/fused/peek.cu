/* peek.cu -- the arrays between the kernels of a fused step, for tests and for
 * the lesson that inspects them. */
#include <stdlib.h>
#include <string.h>

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "../context.cuh"
#include "fused_state.cuh"

enum element_kind { BYTES, FLOATS, ELEMENTS /* of the rung's precision */ };

/* An array of the last pass; unused sizes are 0. */
struct view {
    const char *name;
    const void *data;
    enum element_kind kind;
    int backward; /* whether only a step writes the array */
    int shape[4];
};

enum { VIEWS = 16 };

/* List all arrays of the last pass. */
static void list_views(const struct fused_state *s, struct view views[VIEWS]) {
    const struct fused *f = &s->last;
    const int b = s->batch;
    const struct view all[VIEWS] = {
        {"p1", f->p1, ELEMENTS, 0, {b, PIXELS2, C1}},
        {"code1", f->code1, BYTES, 0, {b, PIXELS2, C1}},
        {"c2", f->c2, ELEMENTS, 0, {b, PIXELS2, C2}},
        {"m2", f->m2, ELEMENTS, 0, {b, PIXELS3, C2}},
        {"code2", f->code2, BYTES, 0, {b, PIXELS3, C2}},
        {"sum2", f->sum2.data, FLOATS, 0, {f->sum2.count, 2, C2}},
        {"hidden", f->hidden.data, FLOATS, 0, {f->hidden.count, b, HIDDEN}},
        {"logits", f->logits, FLOATS, 0, {b, CLASSES}},
        {"h", f->h, FLOATS, 1, {b, HIDDEN}},
        {"dh", f->dh, ELEMENTS, 1, {b, HIDDEN}},
        {"head", f->head.data, FLOATS, 1, {f->head.count, HEAD}},
        {"dp2", f->dp2, ELEMENTS, 1, {b, PIXELS3, C2}},
        {"sum4", f->sum4.data, FLOATS, 1, {f->sum4.count, 2, C2}},
        {"dfc1", f->dfc1.data, FLOATS, 1, {f->dfc1.count, HIDDEN, PIXELS3, C2}},
        {"winners",
         f->winners.data,
         FLOATS,
         1,
         {f->winners.count, TAPS + 1, C1}},
        {"dw2", f->dw2.data, FLOATS, 1, {f->dw2.count, TAPS, C2, C1}},
    };
    memcpy(views, all, sizeof all);
}

static int find_view(const struct fused_state *s, const char *name,
                     struct view *found) {
    struct view views[VIEWS];
    char names[VIEWS * 12] = "";
    WEFT_REQUIRE(s->batch, "weft_cnn_peek: no step has been taken yet");
    list_views(s, views);
    for (int i = 0; i < VIEWS; i++) {
        *found = views[i];
        if (!strcmp(name, views[i].name)) {
            WEFT_REQUIRE(s->trained || !views[i].backward,
                         "weft_cnn_peek: the last pass was only forward, which "
                         "does not write %s",
                         name);
            return WEFT_OK;
        }
        strcat(strcat(names, i ? ", " : ""), views[i].name);
    }
    return weft_fail(WEFT_EINVAL, "weft_cnn_peek: no array '%s'; there are %s",
                     name, names);
}

static float widened(const struct view *v, enum precision precision,
                     const void *data, size_t i) {
    if (v->kind == BYTES) return ((const uint8_t *)data)[i];
    if (v->kind == ELEMENTS && precision == BF16)
        return __bfloat162float(((const __nv_bfloat16 *)data)[i]);
    if (v->kind == ELEMENTS && precision == FP16)
        return __half2float(((const __half *)data)[i]);
    return ((const float *)data)[i];
}

int fused_peek(void *state, const char *name, int shape[4], float *out,
               size_t count, weft_stream stream) {
    const struct fused_state *s = (const struct fused_state *)state;
    const enum precision precision = s->f.precision;
    struct view v;
    WEFT_TRY(find_view(s, name, &v));
    size_t elements = 1;
    for (int i = 0; i < 4; i++) {
        shape[i] = v.shape[i];
        if (v.shape[i]) elements *= v.shape[i];
    }
    if (!out) return WEFT_OK;
    WEFT_REQUIRE(count == elements,
                 "weft_cnn_peek: %zu floats for %s, which "
                 "has %zu",
                 count, name, elements);
    const size_t size = v.kind == BYTES                           ? 1
                        : v.kind == ELEMENTS && precision >= BF16 ? 2
                                                                  : 4;
    void *copy = malloc(elements * size);
    if (!copy)
        return weft_fail(WEFT_ENOMEM, "weft_cnn_peek: %zu bytes needed",
                         elements * size);
    cudaError_t error =
        cudaMemcpyAsync(copy, v.data, elements * size, cudaMemcpyDeviceToHost,
                        weft_cuda_stream(stream));
    int status =
        error ? weft_cuda_fail(error, "weft_cnn_peek") : weft_sync(stream);
    for (size_t i = 0; i < elements && !status; i++)
        out[i] = widened(&v, precision, copy, i);
    free(copy);
    return status;
}

int weft_cnn_peek(weft_cnn *cnn, const char *name, int *shape, float *out,
                  size_t count, weft_stream stream) {
    CNN_VISIT(cnn, stream);
    WEFT_REQUIRE(name && shape, "%s: the name or the shape is NULL", __func__);
    WEFT_REQUIRE(cnn->impl->peek,
                 "%s: this rung's arrays cannot be read; those of the fused "
                 "rungs can",
                 __func__);
    return cnn->impl->peek(cnn->state, name, shape, out, count, stream);
}
