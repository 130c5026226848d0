/* parts.cu -- steps in parts, which several models take together. */
#include <string.h>

#include "context.cuh"

int cnn_check_idle(const weft_cnn *cnn, const char *function) {
    WEFT_REQUIRE(cnn->parts.progress == NO_STEP,
                 "%s: the step on %d of %d images that weft_cnn_begin() began "
                 "has not ended; call weft_cnn_update() or weft_cnn_abandon()",
                 function, cnn->parts.share.batch, cnn->parts.share.total);
    return WEFT_OK;
}

static int check_step(const weft_cnn *cnn, const char *function) {
    WEFT_REQUIRE(cnn->parts.progress != NO_STEP,
                 "%s: no step has begun; call weft_cnn_begin()", function);
    return WEFT_OK;
}

static int check_share(const weft_cnn *cnn, const char *function,
                       const int32_t *order, int batch, int total) {
    WEFT_REQUIRE(batch >= 0 && batch <= cnn->config.max_batch,
                 "%s: a share of %d images, the model takes 0 to %d", function,
                 batch, cnn->config.max_batch);
    WEFT_REQUIRE(total >= 1 && total >= batch,
                 "%s: a share of %d of %d images, want a total of at least %d",
                 function, batch, total, batch > 1 ? batch : 1);
    WEFT_TRY(cnn_check_labels(cnn, function));
    return batch ? cnn_check_order(cnn, function, WEFT_CNN_TRAIN, order, batch)
                 : WEFT_OK;
}

int weft_cnn_begin(weft_cnn *cnn, const int32_t *order, int batch, int total,
                   int sync_batchnorm, weft_stream stream) {
    CNN_VISIT(cnn, stream);
    WEFT_TRY(cnn_check_idle(cnn, __func__));
    WEFT_TRY(check_share(cnn, __func__, order, batch, total));
    WEFT_REQUIRE(!sync_batchnorm || cnn->impl->syncs,
                 "%s: rung %s does not synchronise batch norm; reference, "
                 "fused, graph, pdl, winograd, tf32, bf16 and fp16 do",
                 __func__, cnn->rung);
    WEFT_TRY(cnn_check_interrupt(cnn));
    if (batch) WEFT_TRY(cnn_send_order(&cnn->order, order, batch, stream));
    const struct dataset *set = &cnn->sets[WEFT_CNN_TRAIN];
    cnn->parts.share = {set->images,
                        set->labels,
                        cnn->order.device,
                        cnn->losses + cnn->steps % LOSSES,
                        batch,
                        total,
                        sync_batchnorm != 0};
    cnn->parts.at = 0;
    cnn->parts.progress = BEGUN;
    return WEFT_OK;
}

int weft_cnn_next(weft_cnn *cnn, struct weft_cnn_ready *ready,
                  weft_stream stream) {
    CNN_VISIT(cnn, stream);
    WEFT_REQUIRE(ready, "%s: ready is NULL", __func__);
    memset(ready, 0, sizeof *ready); // kind is WEFT_CNN_DONE
    WEFT_TRY(check_step(cnn, __func__));
    struct parts *parts = &cnn->parts;
    WEFT_TRY(
        cnn->impl->part(cnn->state, &parts->at, &parts->share, ready, stream));
    if (ready->kind == WEFT_CNN_DONE) parts->progress = COMPLETE;
    return WEFT_OK;
}

int weft_cnn_update(weft_cnn *cnn, float lr, weft_stream stream) {
    CNN_VISIT(cnn, stream);
    WEFT_TRY(check_step(cnn, __func__));
    WEFT_REQUIRE(cnn->parts.progress == COMPLETE,
                 "%s: the step is not complete; call weft_cnn_next() until it "
                 "gives WEFT_CNN_DONE",
                 __func__);
    WEFT_TRY(cnn_check_rate(__func__, lr));
    WEFT_TRY(cnn->impl->update(cnn->state, lr, stream));
    cnn->parts.progress = NO_STEP;
    cnn->steps++;
    return WEFT_OK;
}

int weft_cnn_abandon(weft_cnn *cnn, weft_stream stream) {
    CNN_VISIT(cnn, stream);
    const int begun = cnn->parts.progress != NO_STEP;
    cnn->parts.progress = NO_STEP;
    return begun && cnn->impl->abandon ? cnn->impl->abandon(cnn->state, stream)
                                       : WEFT_OK;
}

int weft_cnn_gradients(weft_cnn *cnn, float **buffer, size_t *count,
                       int *block) {
    WEFT_REQUIRE(cnn, "%s: the model is NULL", __func__);
    WEFT_REQUIRE(buffer && count && block,
                 "%s: buffer = %p, count = %p, block = %p, want addresses",
                 __func__, (void *)buffer, (void *)count, (void *)block);
    const struct cnn_buffer all = cnn->impl->gradients(cnn->state);
    *buffer = all.data;
    *count = all.count;
    *block = all.block;
    return WEFT_OK;
}

static __global__ void scale_loss(float *loss, float *share, float value) {
    *share = value;
    *loss *= value;
}

int cnn_scale_loss(float *loss, float *share, float value, weft_stream stream) {
    scale_loss<<<1, 1, 0, weft_cuda_stream(stream)>>>(loss, share, value);
    WEFT_LAUNCHED(scale_loss);
    return WEFT_OK;
}
