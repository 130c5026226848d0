/* fused_state.cuh -- the state that a fused rung keeps from one call to the
 * next. The files that run the rung share it. These are fused.cu (memory,
 * weights, the chain of kernels), graph.cu (many steps in one launch), and
 * peek.cu (the arrays between the kernels). */
#ifndef WEFT_FUSED_STATE_CUH
#define WEFT_FUSED_STATE_CUH
#include "fused.h"

/* Each new batch size requires a capture. The graphs of the last GRAPHS_KEPT
 * sizes are kept. */
enum { GRAPHS_KEPT = 4, GRAPH_SIZES = 3 };

/* The captured steps of one batch size. */
struct fused_graph {
    int batch;
    int64_t used;   /* number of the launch that last used it */
    struct fused f; /* `f` with the slots that these steps write */
    cudaGraphExec_t execs[GRAPH_SIZES]; /* NULL: not needed so far */
};

struct fused_state {
    struct fused f;
    int graphed; /* whether to run steps from graphs */
    struct cnn_memory memory;

    cudaStream_t capture; /* stream on which steps are captured, but never
                           * run */
    struct fused_graph graphs[GRAPHS_KEPT];
    int64_t launches;

    float *draft; /* (PARAMS): the weights that the kernels of a step in parts
                   * read and may change; NULL before the first such step */
    double *sums; /* (WINNERS): sums of batch norm that workers add up */

    struct fused last; /* `f` after the last pass */
    int batch;         /* batch size of that pass; 0: none so far */
    int trained;       /* whether that pass was a step, not only forward */
};

/* ---- fused.cu ------------------------------------------------------------ */

/* Set *f->run on the target. Return a weft_status. */
int fused_set_run(struct fused *f, const struct fused_run *run,
                  cudaStream_t stream);

/* Set *f->run to the first step of a run. */
int fused_queue(struct fused_state *s, const struct cnn_run *run,
                cudaStream_t stream);

/* Queue the kernels of one step. Call fused_set_run() before the first step.
 * `before`, `after`: whether a step of the same run and batch size directly
 * precedes or follows. A step computes the moments of the following step.
 * Return a weft_status. */
int fused_chain(struct fused *f, int batch, int before, int after,
                struct cnn_marks *marks, cudaStream_t stream);

/* ---- graph.cu ------------------------------------------------------------ */

/* Capture a step on `batch` images and discard it. This fails if a kernel
 * cannot be launched on this device. */
int fused_rehearse(struct fused_state *s, int batch);

/* Queue `count` steps on `batch` images each, in few launches; *queued receives
 * the number of steps queued. Call fused_set_run() first. */
int fused_replay(struct fused_state *s, int batch, int64_t count,
                 int64_t *queued, cudaStream_t stream);

void fused_free_graphs(struct fused_state *s);

/* ---- parts.cu ------------------------------------------------------------ */

int fused_part_prepare(void *state, const struct cnn_run *run,
                       weft_stream stream);
int fused_part(void *state, int *at, const struct cnn_share *share,
               struct weft_cnn_ready *ready, weft_stream stream);
int fused_part_update(void *state, float lr, weft_stream stream);
int fused_part_abandon(void *state, weft_stream stream);
struct cnn_buffer fused_gradients(const void *state);

/* ---- peek.cu ------------------------------------------------------------- */

int fused_peek(void *state, const char *name, int shape[4], float *out,
               size_t count, weft_stream stream);

#endif
