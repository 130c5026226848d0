/* parts.cu -- steps in parts, which several models take together, and their
 * CUDA graph. */
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

/* `least`: the smallest share. */
static int check_share(const weft_cnn *cnn, const char *function, int batch,
                       int least, int total, int sync_batchnorm) {
    WEFT_TRY(cnn_check_idle(cnn, function));
    WEFT_REQUIRE(batch >= least && batch <= cnn->config.max_batch,
                 "%s: a share of %d images, the model takes %d to %d", function,
                 batch, least, cnn->config.max_batch);
    WEFT_REQUIRE(total >= 1 && total >= batch,
                 "%s: a share of %d of %d images, want a total of at least %d",
                 function, batch, total, batch > 1 ? batch : 1);
    WEFT_TRY(cnn_check_labels(cnn, function));
    WEFT_REQUIRE(!sync_batchnorm || cnn->impl->syncs,
                 "%s: rung %s does not synchronise batch norm; reference and "
                 "the fused rungs do",
                 function, cnn->rung);
    return WEFT_OK;
}

/* Prepare `count` steps on `batch` images each, in the order on the target. */
static int prepare(weft_cnn *cnn, int64_t count, int batch,
                   weft_stream stream) {
    const struct dataset *set = &cnn->sets[WEFT_CNN_TRAIN];
    const struct cnn_run run = {set->images, set->labels, cnn->order.device,
                                cnn->losses, LOSSES,      cnn->steps,
                                count,       batch,       0};
    return cnn->impl->prepare ? cnn->impl->prepare(cnn->state, &run, stream)
                              : WEFT_OK;
}

static void start(weft_cnn *cnn, int batch, int total, int sync_batchnorm) {
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
}

int weft_cnn_begin(weft_cnn *cnn, const int32_t *order, int batch, int total,
                   int sync_batchnorm, weft_stream stream) {
    CNN_VISIT(cnn, stream);
    WEFT_TRY(check_share(cnn, __func__, batch, 0, total, sync_batchnorm));
    if (batch)
        WEFT_TRY(cnn_check_order(cnn, __func__, WEFT_CNN_TRAIN, order, batch));
    WEFT_TRY(cnn_check_interrupt(cnn));
    if (batch) WEFT_TRY(cnn_send_order(&cnn->order, order, batch, stream));
    WEFT_TRY(prepare(cnn, 1, batch, stream));
    start(cnn, batch, total, sync_batchnorm);
    return WEFT_OK;
}

int weft_cnn_next(weft_cnn *cnn, struct weft_cnn_ready *ready,
                  weft_stream stream) {
    CNN_VISIT_STEP(cnn, stream);
    WEFT_REQUIRE(ready, "%s: ready is NULL", __func__);
    memset(ready, 0, sizeof *ready); // kind is WEFT_CNN_DONE
    WEFT_TRY(check_step(cnn, __func__));
    struct parts *parts = &cnn->parts;
    WEFT_TRY(
        cnn->impl->part(cnn->state, &parts->at, &parts->share, ready, stream));
    if (ready->kind == WEFT_CNN_DONE) parts->progress = COMPLETE;
    return WEFT_OK;
}

/* End the capture; *exec receives the graph, or NULL after a failure. */
static int end_capture(struct parts *parts, cudaGraphExec_t *exec) {
    cudaGraph_t graph = NULL;
    *exec = NULL;
    parts->recorded = 0;
    WEFT_CUDA_TRY(
        cudaStreamEndCapture(weft_cuda_stream(parts->stream), &graph));
    const cudaError_t error = cudaGraphInstantiateWithFlags(exec, graph, 0);
    cudaGraphDestroy(graph);
    return error ? weft_cuda_fail(error, "cudaGraphInstantiate") : WEFT_OK;
}

static void free_recording(weft_cnn *cnn) {
    if (!cnn->recording.exec) return;
    cudaEventSynchronize(cnn->done); // it may still run
    cudaGraphExecDestroy(cnn->recording.exec);
    cnn->recording = {NULL, 0};
}

static int keep_recording(weft_cnn *cnn) {
    cudaGraphExec_t exec;
    cnn->parts.progress = NO_STEP;
    WEFT_TRY(end_capture(&cnn->parts, &exec));
    cnn->recording = {exec, cnn->parts.share.batch};
    return WEFT_OK;
}

int weft_cnn_update(weft_cnn *cnn, float lr, weft_stream stream) {
    CNN_VISIT_STEP(cnn, stream);
    WEFT_TRY(check_step(cnn, __func__));
    WEFT_REQUIRE(cnn->parts.progress == COMPLETE,
                 "%s: the step is not complete; call weft_cnn_next() until it "
                 "gives WEFT_CNN_DONE",
                 __func__);
    WEFT_TRY(cnn_check_rate(__func__, lr));
    WEFT_TRY(cnn->impl->update(cnn->state, lr, stream));
    if (cnn->parts.recorded) return keep_recording(cnn);
    cnn->parts.progress = NO_STEP;
    cnn->steps++;
    return WEFT_OK;
}

int weft_cnn_abandon(weft_cnn *cnn, weft_stream stream) {
    CNN_VISIT_STEP(cnn, stream);
    const int begun = cnn->parts.progress != NO_STEP;
    cnn->parts.progress = NO_STEP;
    if (cnn->parts.recorded) { // nothing has run
        cudaGraphExec_t exec;
        if (!end_capture(&cnn->parts, &exec)) cudaGraphExecDestroy(exec);
        return WEFT_OK;
    }
    free_recording(cnn);
    return begun && cnn->impl->abandon ? cnn->impl->abandon(cnn->state, stream)
                                       : WEFT_OK;
}

int weft_cnn_record(weft_cnn *cnn, int batch, int total, int sync_batchnorm,
                    weft_stream stream) {
    CNN_VISIT(cnn, stream);
    WEFT_REQUIRE(cnn->impl->prepare,
                 "%s: a step of rung %s cannot be recorded; those of the fused "
                 "rungs can",
                 __func__, cnn->rung);
    WEFT_TRY(check_share(cnn, __func__, batch, 1, total, sync_batchnorm));
    WEFT_REQUIRE(stream, "%s: the default stream cannot be captured", __func__);
    free_recording(cnn);
    WEFT_TRY(prepare(cnn, 0, batch, stream)); // it may allocate memory
    // The mode is relaxed for the reasons in fused/graph.cu.
    WEFT_CUDA_TRY(cudaStreamBeginCapture(weft_cuda_stream(stream),
                                         cudaStreamCaptureModeRelaxed));
    cnn->parts.recorded = 1;
    cnn->parts.stream = stream;
    start(cnn, batch, total, sync_batchnorm);
    return WEFT_OK;
}

int weft_cnn_replay(weft_cnn *cnn, const int32_t *order, int count,
                    weft_stream stream) {
    CNN_VISIT(cnn, stream);
    const struct recording *recording = &cnn->recording;
    WEFT_TRY(cnn_check_idle(cnn, __func__));
    WEFT_REQUIRE(recording->exec,
                 "%s: no step has been recorded; call weft_cnn_record()",
                 __func__);
    WEFT_TRY(cnn_check_labels(cnn, __func__));
    WEFT_TRY(cnn_check_order(cnn, __func__, WEFT_CNN_TRAIN, order, count));
    WEFT_REQUIRE(count % recording->batch == 0,
                 "%s: %d images, the recorded step takes a multiple of %d",
                 __func__, count, recording->batch);
    WEFT_TRY(cnn_send_order(&cnn->order, order, count, stream));
    const int64_t steps = count / recording->batch;
    WEFT_TRY(prepare(cnn, steps, recording->batch, stream));
    for (int64_t i = 0; i < steps; i++) {
        WEFT_TRY(cnn_check_interrupt(cnn));
        WEFT_CUDA_TRY(
            cudaGraphLaunch(recording->exec, weft_cuda_stream(stream)));
        cnn->steps++;
    }
    return WEFT_OK;
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
