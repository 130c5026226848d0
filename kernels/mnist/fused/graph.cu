/* graph.cu -- the CNN, rung "graph": steps captured once and replayed.
 *
 * Before:  rung "fused" keeps the host of an H200 busy for 86 us per step. At
 *          batch 64 the GPU waits for the host, so a step takes 96 us.
 * Idea:    one launch runs 64 steps. A captured step cannot change, so
 *          everything that changes is in memory. update() advances the number
 *          of the next image, and the kernels read the learning rate from
 *          memory, too. A new lr or a new data set needs no new capture. The
 *          host needs 0.3 us per step, the GPU 87.
 * Limit:   a kernel starts only after the previous one has ended, which costs
 *          1.0 to 1.5 us. Rung "pdl" overlaps the two.
 * Lesson:  notebooks/14_fusion_and_graphs.ipynb */
#include "fused_state.cuh"

/* Numbers of steps in the graphs, the largest first: 937 steps take 20
 * launches. */
static const int sizes[GRAPH_SIZES] = {64, 8, 1};

/* ---- capturing ----------------------------------------------------------- */

/* Capture `steps` steps in *graph. After a failure the caller destroys it. */
static int record(struct fused_state *s, struct fused *f, int batch, int steps,
                  cudaGraph_t *graph) {
    if (!s->capture)
        WEFT_CUDA_TRY(
            cudaStreamCreateWithFlags(&s->capture, cudaStreamNonBlocking));
    // The mode is relaxed, so that other streams and threads may continue their
    // work, and so that a kernel's first use may load its code.
    WEFT_CUDA_TRY(
        cudaStreamBeginCapture(s->capture, cudaStreamCaptureModeRelaxed));
    int status = WEFT_OK;
    for (int i = 0; i < steps && !status; i++)
        status = fused_chain(f, batch, i > 0, i + 1 < steps, NULL, s->capture);
    const cudaError_t error = cudaStreamEndCapture(s->capture, graph);
    if (error) cudaGetLastError(); // clear the error, which is not sticky
    if (status) return status;     // the earlier message has the cause
    return error ? weft_cuda_fail(error, "cudaStreamEndCapture") : WEFT_OK;
}

static int capture(struct fused_state *s, struct fused *f, int batch, int steps,
                   cudaGraphExec_t *exec) {
    cudaGraph_t graph = NULL;
    int status = record(s, f, batch, steps, &graph);
    if (!status) {
        cudaError_t error = cudaGraphInstantiateWithFlags(exec, graph, 0);
        if (error) status = weft_cuda_fail(error, "cudaGraphInstantiate");
    }
    if (graph) cudaGraphDestroy(graph);
    return status;
}

int fused_rehearse(struct fused_state *s, int batch) {
    struct fused f = s->f; // the slots of this copy are not needed
    cudaGraph_t graph = NULL;
    int status = record(s, &f, batch, 1, &graph);
    if (graph) cudaGraphDestroy(graph);
    return status;
}

/* ---- the graphs that are kept -------------------------------------------- */

static void free_graph(struct fused_graph *g) {
    for (int i = 0; i < GRAPH_SIZES; i++)
        if (g->execs[i]) cudaGraphExecDestroy(g->execs[i]);
    *g = {};
}

void fused_free_graphs(struct fused_state *s) {
    for (int i = 0; i < GRAPHS_KEPT; i++) free_graph(&s->graphs[i]);
    if (s->capture) cudaStreamDestroy(s->capture);
    s->capture = NULL;
}

/* Find the graphs of this batch size, or make room for them by freeing the
 * least recently used graphs. */
static int find(struct fused_state *s, int batch, struct fused_graph **found,
                cudaStream_t stream) {
    struct fused_graph *oldest = s->graphs;
    for (int i = 0; i < GRAPHS_KEPT; i++) {
        struct fused_graph *g = &s->graphs[i];
        *found = g;
        if (g->batch == batch) return WEFT_OK;
        if (g->used < oldest->used) oldest = g;
    }
    if (oldest->batch) // these graphs may still be running
        WEFT_CUDA_TRY(cudaStreamSynchronize(stream));
    free_graph(oldest);
    oldest->batch = batch;
    oldest->f = s->f;
    *found = oldest;
    return WEFT_OK;
}

/* ---- running ------------------------------------------------------------- */

int fused_replay(struct fused_state *s, int batch, int64_t count,
                 int64_t *queued, cudaStream_t stream) {
    struct fused_graph *g;
    WEFT_TRY(find(s, batch, &g, stream));
    for (int i = 0; i < GRAPH_SIZES; i++) {
        while (count - *queued >= sizes[i]) {
            if (!g->execs[i])
                WEFT_TRY(capture(s, &g->f, batch, sizes[i], &g->execs[i]));
            g->used = ++s->launches;
            WEFT_CUDA_TRY(cudaGraphLaunch(g->execs[i], stream));
            *queued += sizes[i];
        }
    }
    s->last = g->f;
    s->batch = batch;
    s->trained = 1;
    return WEFT_OK;
}
