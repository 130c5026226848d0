/* graphs.cu -- the time between kernels: the same chain of kernels launched in
 * several ways, forks and joins. overlap.cu adds copies that overlap kernels.
 *
 *     bench_graphs SAMPLES FLOATS TURNS PART [WHAT]
 *
 * prints a line for each measurement, or for those of WHAT: what, how, a count,
 * and each sample's time in microseconds, separated by tabs. SAMPLES: samples
 * per measurement. FLOATS: size of the chain's array. TURNS: iterations of the
 * loop in a long kernel. PART: floats in each copied part. A wrong result ends
 * the program with status 1.
 *
 * Lesson:  notebooks/14_fusion_and_graphs.ipynb. */
#include "chain.cuh"
#include <cstring>

enum { THREADS = 256 };

/* Whether the GPU has programmatic dependent launch, which requires compute
 * capability 9.0. Without it, the program prints no rows about it. */
static int has_dependent_launch;

/* ---- chains -------------------------------------------------------------- */

enum kind { PLAIN, EARLY, LATE, FETCH, WORK };

/* `count` successive launches on x (n). */
struct chain {
    enum kind kind;
    int count, pdl;        /* pdl: use programmatic dependent launch */
    float *x, *weights;    /* weights: read by FETCH */
    int n, threads, turns; /* elements, threads per block, WORK's loop count */
    int first;             /* for FETCH, see add_weights() */
    size_t shared; /* bytes that a block of WORK claims but does not use */
    int uneven;    /* whether every other launch uses only half of x */
    int host;      /* whether to time the host as well */
};

/* Queue one launch of the chain. */
static void launch(const struct chain *c, cudaStream_t stream) {
    cudaLaunchAttribute pdl;
    pdl.id = cudaLaunchAttributeProgrammaticStreamSerialization;
    pdl.val.programmaticStreamSerializationAllowed = 1;
    cudaLaunchConfig_t config = {};
    config.gridDim = dim3((c->n + c->threads - 1) / c->threads);
    config.blockDim = dim3(c->threads);
    config.dynamicSmemBytes = c->shared;
    config.stream = stream;
    config.attrs = &pdl;
    config.numAttrs = c->pdl ? 1 : 0;
    const float *x = c->x, *weights = c->weights;
    switch (c->kind) {
    case PLAIN: CHECK(cudaLaunchKernelEx(&config, step, c->x, c->n)); break;
    case EARLY:
        CHECK(cudaLaunchKernelEx(&config, step_early, c->x, c->n));
        break;
    case LATE: CHECK(cudaLaunchKernelEx(&config, step_late, c->x, c->n)); break;
    case FETCH:
        CHECK(cudaLaunchKernelEx(&config, add_weights, c->x, weights, c->n,
                                 c->first));
        break;
    case WORK:
        CHECK(cudaLaunchKernelEx(&config, work, c->x, x, c->n, c->turns));
        break;
    }
}

/* Queue all launches of the chain. */
static void queue(const struct chain *c, cudaStream_t stream) {
    struct chain half = *c;
    half.n /= 2;
    for (int i = 0; i < c->count; i++)
        launch(c->uneven && i % 2 ? &half : c, stream);
}

/* Return the chain as an executable graph, which one call launches. */
static cudaGraphExec_t capture(const struct chain *c, cudaStream_t stream) {
    cudaGraph_t graph;
    cudaGraphExec_t executable;
    CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
    queue(c, stream); // nothing runs yet: each launch becomes a node
    CHECK(cudaStreamEndCapture(stream, &graph));
    CHECK(cudaGraphInstantiate(&executable, graph, 0));
    CHECK(cudaGraphDestroy(graph));
    return executable;
}

/* ---- timing -------------------------------------------------------------- */

int samples;

/* Print a line of samples: microseconds on the device, divided by `count`. Two
 * events enclose one launch of the graph or, without a graph, the queued
 * chain. */
static void time_device(const char *what, const char *how,
                        const struct chain *c, cudaGraphExec_t graph) {
    cudaStream_t stream;
    cudaEvent_t begin, end;
    CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    CHECK(cudaEventCreate(&begin));
    CHECK(cudaEventCreate(&end));
    printf("%s\t%s\t%d", what, how, c->count);
    for (int sample = -3; sample < samples; sample++) {
        CHECK(cudaStreamSynchronize(stream));
        CHECK(cudaEventRecord(begin, stream));
        if (graph)
            CHECK(cudaGraphLaunch(graph, stream));
        else
            queue(c, stream);
        CHECK(cudaEventRecord(end, stream));
        CHECK(cudaEventSynchronize(end));
        float ms = 0;
        CHECK(cudaEventElapsedTime(&ms, begin, end));
        if (sample >= 0) printf("\t%.4f", 1e3 * ms / c->count);
    }
    printf("\n");
    CHECK(cudaEventDestroy(begin));
    CHECK(cudaEventDestroy(end));
    CHECK(cudaStreamDestroy(stream));
}

/* Print a line of samples: microseconds until the host can continue. */
static void time_host(const char *how, const struct chain *c,
                      cudaGraphExec_t graph) {
    cudaStream_t stream;
    CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    printf("host\t%s\t%d", how, c->count);
    for (int sample = -3; sample < samples; sample++) {
        CHECK(cudaStreamSynchronize(stream));
        const double begin = now_us();
        if (graph)
            CHECK(cudaGraphLaunch(graph, stream));
        else
            queue(c, stream);
        const double us = now_us() - begin;
        if (sample >= 0) printf("\t%.4f", us / c->count);
    }
    printf("\n");
    CHECK(cudaStreamSynchronize(stream));
    CHECK(cudaStreamDestroy(stream));
}

/* End the program if the chain's first number is not `want`. */
static void expect(const struct chain *c, const char *how, float want) {
    float first;
    CHECK(cudaDeviceSynchronize());
    CHECK(cudaMemcpy(&first, c->x, sizeof first, cudaMemcpyDeviceToHost));
    if (first == want) return;
    fprintf(stderr, "%s: x[0] is %g and should be %g\n", how, first, want);
    exit(1);
}

/* Time a chain in a graph on the device and on the host, and check its result.
 * Each launch adds 1 to x[0], except that WORK sets x[0] to 2. */
static void time_graph(const char *what, const char *how, struct chain c) {
    cudaStream_t stream;
    CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    cudaGraphExec_t graph = capture(&c, stream);
    CHECK(cudaMemset(c.x, 0, c.n * sizeof(float)));
    CHECK(cudaDeviceSynchronize());
    CHECK(cudaGraphLaunch(graph, stream));
    CHECK(cudaStreamSynchronize(stream));
    expect(&c, how, c.kind == WORK ? halved(0, c.turns * c.count) : c.count);
    time_device(what, how, &c, graph);
    if (c.host) time_host("a graph", &c, graph);
    CHECK(cudaGraphExecDestroy(graph));
    CHECK(cudaStreamDestroy(stream));
}

/* ---- a fork and a join --------------------------------------------------- */

/* Time a graph of one launch, then two independent ones, then one that depends
 * on both. The independent launches run in sequence or in parallel, each on
 * half of the array. */
static void time_fork(const char *how, const struct chain *all, int side) {
    cudaStream_t main, other;
    cudaEvent_t forked, joined;
    cudaGraph_t graph;
    cudaGraphExec_t executable;
    CHECK(cudaStreamCreateWithFlags(&main, cudaStreamNonBlocking));
    CHECK(cudaStreamCreateWithFlags(&other, cudaStreamNonBlocking));
    CHECK(cudaEventCreate(&forked));
    CHECK(cudaEventCreate(&joined));
    struct chain left = *all, right = *all;
    left.n = all->n / 2;
    right.n = all->n - left.n;
    right.x += left.n;
    CHECK(cudaStreamBeginCapture(main, cudaStreamCaptureModeThreadLocal));
    launch(all, main);
    CHECK(cudaEventRecord(forked, main));
    CHECK(cudaStreamWaitEvent(other, forked, 0)); // `other` joins the capture
    launch(&left, main);
    launch(&right, side ? other : main);
    CHECK(cudaEventRecord(joined, other));
    CHECK(cudaStreamWaitEvent(main, joined, 0));
    launch(all, main);
    CHECK(cudaStreamEndCapture(main, &graph));
    CHECK(cudaGraphInstantiate(&executable, graph, 0));
    struct chain whole = *all;
    whole.count = 1;
    time_device("fork", how, &whole, executable);
    CHECK(cudaGraphExecDestroy(executable));
    CHECK(cudaGraphDestroy(graph));
    CHECK(cudaEventDestroy(forked));
    CHECK(cudaEventDestroy(joined));
    CHECK(cudaStreamDestroy(main));
    CHECK(cudaStreamDestroy(other));
}

/* ---- the measurements ---------------------------------------------------- */

static void time_chains(struct chain c) {
    struct chain early = c, late = c;
    early.kind = EARLY, late.kind = LATE;
    early.pdl = late.pdl = 1;
    const int counts[] = {5, 20, 100};
    c.host = 1;
    for (int count : counts) {
        c.count = early.count = late.count = count;
        time_device("chain", "C, a launch each", &c, NULL);
        time_graph("chain", "a graph", c);
        if (!has_dependent_launch) continue;
        time_graph("chain", "a graph, dependent launch, late", late);
        time_graph("chain", "a graph, dependent launch, early", early);
    }
    if (has_dependent_launch)
        time_device("chain", "C, dependent launch, early", &early, NULL);
    time_host("a launch", &c, NULL);
}

static void time_fetches(struct chain c) {
    c.kind = FETCH;
    time_graph("fetch", "plain", c);
    if (!has_dependent_launch) return;
    c.pdl = 1;
    time_graph("fetch", "wait, then fetch", c);
    c.first = 1;
    time_graph("fetch", "fetch, then wait", c);
}

/* Time WORK: launches of one block per multiprocessor alternate with launches
 * of half as many blocks. A multiprocessor has room for two blocks or for only
 * one. */
static void time_crowds(struct chain c, int processors) {
    if (!has_dependent_launch) return; // older GPUs have less shared memory
    const int claim = 120 << 10; // claimed bytes, more than half of 227 KB
    c.kind = WORK, c.threads = 1024, c.n = processors * c.threads, c.uneven = 1;
    CHECK(cudaFuncSetAttribute(
        work, cudaFuncAttributeMaxDynamicSharedMemorySize, claim));
    time_graph("crowd", "plain", c);
    c.pdl = 1;
    time_graph("crowd", "early, room for two blocks", c);
    c.shared = claim;
    time_graph("crowd", "early, room for one block", c);
}

/* Time short kernels with more blocks than fit on the GPU; each block waits. */
static void time_many(struct chain c, size_t most) {
    c.n = most;
    time_graph("many", "plain", c);
    if (!has_dependent_launch) return;
    c.pdl = 1, c.kind = LATE;
    time_graph("many", "late", c);
    c.kind = EARLY;
    time_graph("many", "early", c);
}

static void time_forks(struct chain c) {
    time_fork("short, in sequence", &c, 0);
    time_fork("short, forked", &c, 1);
    c.kind = WORK;
    time_fork("long, in sequence", &c, 0);
    time_fork("long, forked", &c, 1);
}

static int is_selected(const char *only, const char *what) {
    return !only || strcmp(only, what) == 0;
}

int main(int count, char **words) {
    if (count < 5) {
        fprintf(stderr,
                "usage: bench_graphs SAMPLES FLOATS TURNS PART [WHAT]\n");
        return 2;
    }
    const char *only = count > 5 ? words[5] : NULL;
    samples = atoi(words[1]);
    struct chain c = {};
    c.n = atoi(words[2]), c.turns = atoi(words[3]), c.threads = THREADS;
    c.count = 20;
    struct cudaDeviceProp device;
    CHECK(cudaGetDeviceProperties(&device, 0));
    has_dependent_launch = device.major >= 9;
    const int processors = device.multiProcessorCount;
    const size_t many = 8 * c.n, few = processors * 1024;
    const size_t most = many > few ? many : few;
    CHECK(cudaMalloc(&c.x, most * sizeof(float)));
    CHECK(cudaMalloc(&c.weights, WEIGHTS * sizeof(float)));
    float ones[WEIGHTS];
    for (int i = 0; i < WEIGHTS; i++) ones[i] = 1;
    CHECK(cudaMemcpy(c.weights, ones, sizeof ones, cudaMemcpyHostToDevice));
    CHECK(cudaMemset(c.x, 0, most * sizeof(float)));
    if (is_selected(only, "chain")) time_chains(c);
    if (is_selected(only, "fetch")) time_fetches(c);
    if (is_selected(only, "crowd")) time_crowds(c, processors);
    if (is_selected(only, "many")) time_many(c, many);
    if (is_selected(only, "fork")) time_forks(c);
    if (is_selected(only, "overlap")) time_overlaps(atoi(words[4]), c.turns);
    CHECK(cudaFree(c.x));
    CHECK(cudaFree(c.weights));
    return 0;
}
