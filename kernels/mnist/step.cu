/* step.cu -- the work of a weft_cnn: training, inference, and their timing. */
#include <math.h>

#include "context.cuh"
#ifndef __CUDACC__
#include "../reference/reference.h"
#endif

/* ---- steps --------------------------------------------------------------- */

static int check_batch(const weft_cnn *cnn, const char *function, int batch) {
    WEFT_REQUIRE(batch >= 1 && batch <= cnn->config.max_batch,
                 "%s: a batch of %d, the model takes 1 to %d", function, batch,
                 cnn->config.max_batch);
    return WEFT_OK;
}

int cnn_check_labels(const weft_cnn *cnn, const char *function) {
    const struct dataset *set = &cnn->sets[WEFT_CNN_TRAIN];
    WEFT_TRY(cnn_check_given(cnn, function, WEFT_CNN_TRAIN));
    WEFT_REQUIRE(set->labels, "%s: the training set's %d images have no labels",
                 function, set->count);
    return WEFT_OK;
}

int cnn_check_rate(const char *function, float lr) {
    WEFT_REQUIRE(isfinite(lr) && lr >= 0, "%s: lr = %g, want 0 or more",
                 function, lr);
    return WEFT_OK;
}

static int check_training(const weft_cnn *cnn, const char *function,
                          const int32_t *order, int count, int batch,
                          float lr) {
    WEFT_TRY(cnn_check_idle(cnn, function));
    WEFT_TRY(check_batch(cnn, function, batch));
    WEFT_TRY(cnn_check_order(cnn, function, WEFT_CNN_TRAIN, order, count));
    WEFT_TRY(cnn_check_labels(cnn, function));
    return cnn_check_rate(function, lr);
}

int cnn_interrupted(void) {
#ifdef __CUDACC__
    return 0;
#else
    return weft_interrupted();
#endif
}

int cnn_check_interrupt(const weft_cnn *cnn) {
    if (!cnn_interrupted()) return WEFT_OK;
    return weft_fail(WEFT_EINTR, "weft_cnn: Ctrl-C before step %lld",
                     (long long)cnn->steps);
}

/* Take one step on the `batch` images that begin at position `first` of the
 * order, which is already on the device. */
static int step(weft_cnn *cnn, int64_t first, int batch, float lr,
                struct cnn_marks *marks, weft_stream stream) {
    WEFT_RANGE("step");
    const struct dataset *set = &cnn->sets[WEFT_CNN_TRAIN];
    float *loss = cnn->losses + cnn->steps % LOSSES;
    WEFT_TRY(cnn_check_interrupt(cnn));
    WEFT_TRY(cnn->impl->step(cnn->state, loss, set->images, set->labels,
                             cnn->order.device + first, batch, lr, marks,
                             stream));
    cnn->steps++; // a failed step leaves no loss
    return WEFT_OK;
}

/* If the rung can queue many steps in one call, take all steps on whole
 * batches. Otherwise do nothing. */
static int whole_batches(weft_cnn *cnn, int count, int batch, float lr,
                         weft_stream stream) {
    const struct dataset *set = &cnn->sets[WEFT_CNN_TRAIN];
    struct cnn_run run = {set->images,   set->labels, cnn->order.device,
                          cnn->losses,   LOSSES,      cnn->steps,
                          count / batch, batch,       lr};
    int64_t queued = 0;
    if (!cnn->impl->steps || !run.count) return WEFT_OK;
    const int status = cnn->impl->steps(cnn->state, &run, &queued, stream);
    cnn->steps += queued;
    return status;
}

int weft_cnn_train(weft_cnn *cnn, const int32_t *order, int count, int batch,
                   float lr, weft_stream stream) {
    CNN_VISIT(cnn, stream);
    WEFT_TRY(check_training(cnn, __func__, order, count, batch, lr));
    WEFT_TRY(cnn_send_order(&cnn->order, order, count, stream));
    const int64_t before = cnn->steps;
    WEFT_TRY(whole_batches(cnn, count, batch, lr, stream));
    for (int64_t first = (cnn->steps - before) * batch; first < count;
         first += batch) {
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
        // Copy the losses up to the end of the ring, then the others from its
        // start.
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
    WEFT_TRY(cnn_check_idle(cnn, __func__));
    WEFT_TRY(cnn_check_set(__func__, set));
    WEFT_TRY(check_batch(cnn, __func__, count));
    WEFT_TRY(cnn_check_order(cnn, __func__, set, order, count));
    WEFT_REQUIRE(logits, "%s: the array for %d x %d logits is NULL", __func__,
                 count, cnn->config.classes);
    WEFT_TRY(cnn_send_order(&cnn->order, order, count, stream));
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
    // Skip the mark after an error or after too many sections.
    // weft_cnn_profile() reports either.
    if (i >= MAX_SECTIONS || marks->error) return;
    marks->names[i] = name;
    marks->error =
        cudaEventRecord(marks->events[i + 1], weft_cuda_stream(stream));
}

static int make_marks(struct cnn_marks *marks) {
    for (; marks->made < COUNT_OF(marks->events); marks->made++)
        WEFT_CUDA_TRY(cudaEventCreate(&marks->events[marks->made]));
    return WEFT_OK;
}

/* Compute the times between the marks of a finished step. */
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
    WEFT_TRY(cnn_send_order(&cnn->order, order, batch, stream));
    WEFT_TRY(weft_sync(stream)); // exclude earlier work from the time

    marks->count = 0;
    marks->error = cudaEventRecord(marks->events[0], weft_cuda_stream(stream));
    WEFT_TRY(step(cnn, 0, batch, lr, marks, stream));
    WEFT_TRY(weft_sync(stream));
    *count = marks->count;
    return read_marks(marks, sections, capacity);
}
