/* cnn.h -- the interface that a rung of the CNN trainer implements.
 *
 * A weft_cnn (context.cuh) owns everything that all rungs share: checks, data
 * sets, the order of the images, losses, and timing. A rung owns weights,
 * gradients and scratch memory, in any layout it chooses, and runs steps. All
 * pointers are to memory of the rung's target unless a comment names the host.
 * Work is queued on `stream`. Functions that return int return a
 * weft_status. */
#ifndef WEFT_CNN_H
#define WEFT_CNN_H
#include "../weft.h"
#ifdef __cplusplus
extern "C" {
#endif

/* The record of the ends of a step's sections; NULL: no timing. */
struct cnn_marks;

/* Record the end of section `name` (a string constant; see weft_section). */
void cnn_mark(struct cnn_marks *marks, const char *name, weft_stream stream);

/* Return whether Ctrl-C was pressed during the call, which then ends with
 * WEFT_EINTR. The result is always 0 on a GPU, where queueing steps takes
 * almost no time. */
int cnn_interrupted(void);

/* A run of `count` steps on `batch` images each, one after the other. The first
 * step uses the images order[0..batch). Step i of the context writes losses[i %
 * ring]. */
struct cnn_run {
    const uint8_t *images, *labels;
    const int32_t *order;
    float *losses;
    int ring;
    int64_t first; /* index of the first of these steps */
    int64_t count;
    int batch;
    float lr;
};

/* One worker's share of a step that several workers take together: `batch` of
 * the step's `total` images. The gradients are those of the sum of the share's
 * losses divided by `total`, and *loss is that quotient. Batch norm's
 * statistics cover the share or, with sync_batchnorm, all images. */
struct cnn_share {
    const uint8_t *images, *labels;
    const int32_t *order; /* the share's images are order[0..batch) */
    float *loss;
    int batch, total, sync_batchnorm;
};

/* All gradients, as weft_cnn_gradients() describes them. */
struct cnn_buffer {
    float *data;
    size_t count;
    int block;
};

struct cnn_impl {
    /* Create the rung's state in *state and allocate all memory. After a
     * failure *state is NULL or a state that destroy() accepts. */
    int (*create)(void **state, const struct weft_cnn_config *config,
                  weft_stream stream);
    void (*destroy)(void *state);

    /* Take one training step on the images order[0..batch) of the data set
     * (images (count,height,width), labels (count)). *loss receives the mean
     * loss before the update. */
    int (*step)(void *state, float *loss, const uint8_t *images,
                const uint8_t *labels, const int32_t *order, int batch,
                float lr, struct cnn_marks *marks, weft_stream stream);

    /* Compute logits (count,classes) of the images order[0..count), which are
     * one batch. */
    int (*forward)(void *state, float *logits, const uint8_t *images,
                   const int32_t *order, int count, weft_stream stream);

    /* Copy parameter `index` or its gradient (kind: weft_cnn_kind) to the host
     * array `out`, or set the parameter from the host array `in`. Host arrays
     * have PyTorch's layout. */
    int (*get)(void *state, int kind, int index, float *out,
               weft_stream stream);
    int (*set)(void *state, int index, const float *in, weft_stream stream);

    /* Return the bytes of target memory that `state` holds. */
    size_t (*bytes)(const void *state);

    /* Run a step up to the next point where workers add something up, describe
     * it in *ready, and advance *at, which is 0 at first. update() subtracts lr
     * times the gradients from the weights. */
    int (*part)(void *state, int *at, const struct cnn_share *share,
                struct weft_cnn_ready *ready, weft_stream stream);
    int (*update)(void *state, float lr, weft_stream stream);
    struct cnn_buffer (*gradients)(const void *state);
    int syncs; /* whether part() supports sync_batchnorm */

    /* The following functions may be NULL. steps() queues many steps in one
     * call; *queued receives the number queued, even if one of them fails. */
    int (*steps)(void *state, const struct cnn_run *run, int64_t *queued,
                 weft_stream stream);

    /* Copy an array of the last pass, as described for weft_cnn_peek(). */
    int (*peek)(void *state, const char *name, int shape[4], float *out,
                size_t count, weft_stream stream);

    /* Restore what a step in parts has changed, for a step without an update.
     */
    int (*abandon)(void *state, weft_stream stream);

    /* Prepare steps in parts that take the images and store the losses of
     * *run, one after the other. It is called before every step or run. A rung
     * with this function ignores the pointers of cnn_share, and queues the same
     * work for each step, so that a step can be captured in a graph. */
    int (*prepare)(void *state, const struct cnn_run *run, weft_stream stream);
};

/* Return the number of floats in parameter `index` of a model of this shape. */
size_t cnn_param_count(const struct weft_cnn_config *config, int index);

/* Multiply the loss of a worker's images by their share of the whole batch,
 * `value`, and store that in *share: the factor of the loss's gradient. */
int cnn_scale_loss(float *loss, float *share, float value, weft_stream stream);

/* Memory on the target that is allocated piece by piece and freed together. */
enum { CNN_PIECES = 64 };
struct cnn_memory {
    void *pieces[CNN_PIECES];
    int count;
    size_t bytes;
};

/* Allocate `count` elements of `size` bytes, store their address in *pointer
 * (`pointer` is used as a void **), and set every byte to 0xff. So a float that
 * is read before it is written is a NaN. If the memory does not suffice, return
 * WEFT_ENOMEM with a message that contains `what` and the bytes requested;
 * `memory` keeps its earlier pieces. */
int cnn_take(struct cnn_memory *memory, void *pointer, size_t count,
             size_t size, const char *what, weft_stream stream);

/* Free all pieces. */
void cnn_release(struct cnn_memory *memory);

extern const struct cnn_impl cnn_reference; /* kernels/mnist/reference/cnn.c */
extern const struct cnn_impl cnn_naive;     /* kernels/mnist/layers.cu */
extern const struct cnn_impl cnn_tiled;     /* kernels/mnist/layers.cu */
extern const struct cnn_impl cnn_cudnn;     /* kernels/mnist/layers.cu, if
                                             * WEFT_HAS_CUDNN */
/* kernels/mnist/fused/fused.cu */
extern const struct cnn_impl cnn_fused, cnn_graph, cnn_pdl, cnn_winograd,
    cnn_tf32, cnn_bf16, cnn_fp16;

#ifdef __cplusplus
}
#endif
#endif
