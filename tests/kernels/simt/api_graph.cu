/* api_graph.cu -- stream capture and graphs, with known answers. */
#include "api.h"

static __global__ void add(int *x, int n, int by) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) x[i] += by;
}

static __global__ void times(int *x, int n, int by) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) x[i] *= by;
}

static __global__ void wild(int *p) { *p = 1; }

static __device__ int symbol;

static void count(void *data) { ++*(int *)data; }

static size_t nodes_of(cudaGraph_t graph) {
    size_t number = 0;
    return cudaGraphGetNodes(graph, 0, &number) ? 999 : number;
}

static size_t edges_of(cudaGraph_t graph) {
    size_t number = 0;
    return cudaGraphGetEdges(graph, 0, 0, &number) ? 999 : number;
}

/* ---- capture ------------------------------------------------------------ */

CHECK(capture_and_replay) {
    enum { N = 100 };
    int host[N] = {}, back[N] = {}, *x, calls = 0, seven = 7;
    cudaStream_t stream;
    cudaGraph_t graph;
    cudaGraphExec_t exec;
    cudaStreamCaptureStatus status;
    EXPECT(!cudaMalloc(&x, sizeof host) && !cudaStreamCreate(&stream));
    EXPECT(!cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
    EXPECT(!cudaStreamIsCapturing(stream, &status));
    EXPECT(status == cudaStreamCaptureStatusActive);
    EXPECT(!cudaMemsetAsync(x, 0, sizeof host, stream));
    EXPECT(!cudaMemcpyAsync(x, host, sizeof host / 2, cudaMemcpyHostToDevice,
                            stream));
    int by = 3;
    add<<<2, 64, 0, stream>>>(x, N, by);
    by = 1000; // the launch has its own copy of its arguments
    times<<<2, 64, 0, stream>>>(x, N, 2);
    EXPECT(!cudaLaunchHostFunc(stream, count, &calls));
    EXPECT(!cudaMemcpyToSymbolAsync(symbol, &seven, 4, 0,
                                    cudaMemcpyHostToDevice, stream));
    EXPECT(
        !cudaMemcpyAsync(back, x, sizeof host, cudaMemcpyDeviceToHost, stream));
    EXPECT(!cudaStreamEndCapture(stream, &graph) && !cudaGetLastError());
    EXPECT(x[0] == -1 && calls == 0 && back[0] == 0 && symbol == 0);
    EXPECT(nodes_of(graph) == 7 && edges_of(graph) == 6);
    EXPECT(!cudaStreamIsCapturing(stream, &status));
    EXPECT(status == cudaStreamCaptureStatusNone);
    EXPECT(!cudaGraphInstantiate(&exec, graph, 0) && !cudaGraphDestroy(graph));
    for (int i = 1; i <= 3; i++) {
        host[1] = i;
        EXPECT(!cudaGraphLaunch(exec, stream));
        EXPECT(!cudaStreamSynchronize(stream) && calls == i);
        EXPECT(back[0] == 6 && back[1] == 2 * (i + 3) && back[99] == 6);
    }
    EXPECT(symbol == 7 && !cudaGraphExecDestroy(exec));
    EXPECT(!cudaStreamDestroy(stream) && !cudaFree(x));
    return 0;
}

CHECK(fork_and_join) {
    int *x, *y;
    cudaStream_t a, b;
    cudaEvent_t fork, join;
    cudaGraph_t graph;
    cudaGraphExec_t exec;
    EXPECT(!cudaMalloc(&x, 4) && !cudaMalloc(&y, 4));
    EXPECT(!cudaStreamCreate(&a) && !cudaStreamCreate(&b));
    EXPECT(!cudaEventCreate(&fork) && !cudaEventCreate(&join));
    EXPECT(!cudaStreamBeginCapture(a, cudaStreamCaptureModeThreadLocal));
    EXPECT(!cudaMemsetAsync(x, 0, 4, a));
    EXPECT(!cudaEventRecord(fork, a) && !cudaStreamWaitEvent(b, fork));
    add<<<1, 1, 0, a>>>(x, 1, 5);
    EXPECT(!cudaMemsetAsync(y, 0, 4, b));
    add<<<1, 1, 0, b>>>(y, 1, 6);
    EXPECT(!cudaEventRecord(join, b) && !cudaStreamWaitEvent(a, join));
    times<<<1, 1, 0, a>>>(x, 1, 10);
    EXPECT(!cudaStreamEndCapture(a, &graph));
    EXPECT(nodes_of(graph) == 5 && edges_of(graph) == 5);
    cudaGraphNode_t roots[4];
    size_t number = 4;
    EXPECT(!cudaGraphGetRootNodes(graph, roots, &number) && number == 1);
    EXPECT(!cudaGraphNodeGetDependentNodes(roots[0], 0, &number));
    EXPECT(number == 2);
    EXPECT(!cudaGraphInstantiate(&exec, graph, 0, 0, 0)); // as in CUDA 11
    EXPECT(!cudaGraphLaunch(exec, b) && *x == 50 && *y == 6);
    // No capture owns the event any more.
    EXPECT(!cudaEventRecord(fork, a) && !cudaEventQuery(fork));
    EXPECT(!cudaGraphExecDestroy(exec) && !cudaGraphDestroy(graph));
    EXPECT(!cudaStreamDestroy(a) && !cudaStreamDestroy(b));
    EXPECT(!cudaEventDestroy(fork) && !cudaEventDestroy(join));
    EXPECT(!cudaFree(x) && !cudaFree(y));
    return 0;
}

CHECK(captures_that_a_gpu_refuses) {
    cudaStream_t a, b;
    cudaEvent_t event, other;
    cudaGraph_t graph = (cudaGraph_t)1;
    int *p, host = 0;
    EXPECT(!cudaStreamCreate(&a) && !cudaStreamCreate(&b));
    EXPECT(!cudaEventCreate(&event) && !cudaEventCreate(&other));
    EXPECT(!cudaMalloc(&p, 4) && !cudaEventRecord(other));
#define BEGIN() EXPECT(!cudaStreamBeginCapture(a, cudaStreamCaptureModeGlobal))
#define END(error)                                        \
    EXPECT_ERROR(cudaStreamEndCapture(a, &graph), error); \
    EXPECT(!graph)
#define REFUSED(call, error)   \
    BEGIN();                   \
    EXPECT_ERROR(call, error); \
    END(cudaErrorStreamCaptureInvalidated)
    EXPECT_ERROR(cudaStreamBeginCapture(0, cudaStreamCaptureModeGlobal),
                 cudaErrorStreamCaptureUnsupported);
    EXPECT_ERROR(cudaStreamEndCapture(a, &graph), cudaErrorIllegalState);
    REFUSED(cudaDeviceSynchronize(), cudaErrorStreamCaptureUnsupported);
    REFUSED(cudaStreamSynchronize(a), cudaErrorStreamCaptureUnsupported);
    REFUSED(cudaStreamQuery(a), cudaErrorStreamCaptureUnsupported);
    REFUSED(cudaMalloc(&p, 4), cudaErrorStreamCaptureUnsupported);
    REFUSED(cudaMemcpy(p, &host, 4, cudaMemcpyHostToDevice),
            cudaErrorStreamCaptureImplicit);
    REFUSED(cudaMemset(p, 0, 4), cudaErrorStreamCaptureImplicit);
    REFUSED(cudaStreamWaitEvent(a, other), cudaErrorStreamCaptureIsolation);
    BEGIN();
    EXPECT_ERROR(cudaStreamBeginCapture(a, cudaStreamCaptureModeGlobal),
                 cudaErrorIllegalState);
    EXPECT(!cudaStreamEndCapture(a, &graph) && nodes_of(graph) == 0);
    EXPECT(!cudaGraphDestroy(graph));
    BEGIN();
    add<<<1, 1>>>(p, 1, 1); // on the legacy stream
    EXPECT(cudaGetLastError() == cudaErrorStreamCaptureImplicit);
    add<<<1, 1, 0, a>>>(p, 1, 1);
    EXPECT(cudaGetLastError() == cudaErrorStreamCaptureInvalidated);
    END(cudaErrorStreamCaptureInvalidated);
    BEGIN();
    EXPECT(!cudaEventRecord(event, a));
    EXPECT_ERROR(cudaEventSynchronize(event), cudaErrorCapturedEvent);
    END(cudaErrorStreamCaptureInvalidated);
    BEGIN();
    EXPECT(!cudaEventRecord(event, a) && !cudaStreamWaitEvent(b, event));
    EXPECT(!cudaMemsetAsync(p, 0, 4, b)); // no thread waits for this work
    END(cudaErrorStreamCaptureUnjoined);
    BEGIN();
    EXPECT(!cudaEventRecord(event, a) && !cudaStreamWaitEvent(b, event));
    EXPECT_ERROR(cudaStreamEndCapture(b, &graph),
                 cudaErrorStreamCaptureUnmatched);
    END(cudaErrorStreamCaptureInvalidated);
    BEGIN();
    EXPECT(!cudaStreamBeginCapture(b, cudaStreamCaptureModeGlobal));
    EXPECT(!cudaEventRecord(event, a));
    EXPECT_ERROR(cudaStreamWaitEvent(b, event), cudaErrorStreamCaptureMerge);
    EXPECT_ERROR(cudaStreamEndCapture(b, &graph),
                 cudaErrorStreamCaptureInvalidated);
    END(cudaErrorStreamCaptureInvalidated);
    EXPECT(*p == -1); // no kernel ran
    EXPECT(!cudaMemset(p, 0, 4) && !cudaDeviceSynchronize());
    EXPECT(!cudaFree(p) && !cudaStreamDestroy(a) && !cudaStreamDestroy(b));
    EXPECT(!cudaEventDestroy(event) && !cudaEventDestroy(other));
    return 0;
}

CHECK(what_a_relaxed_capture_allows) {
    cudaStream_t stream, free_stream;
    cudaGraph_t graph;
    int *p;
    EXPECT(!cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    EXPECT(!cudaStreamCreate(&free_stream));
    EXPECT(!cudaStreamBeginCapture(stream, cudaStreamCaptureModeRelaxed));
    EXPECT(!cudaMalloc(&p, 4) && !cudaMemset(p, 0, 4));
    add<<<1, 1>>>(p, 1, 3); // legacy, but not its capturing stream
    add<<<1, 1, 0, free_stream>>>(p, 1, 4);
    EXPECT(!cudaGetLastError() && !cudaStreamSynchronize(free_stream));
    EXPECT(*p == 7);
    EXPECT(!cudaStreamEndCapture(stream, &graph) && nodes_of(graph) == 0);
    EXPECT(!cudaGraphDestroy(graph) && !cudaFree(p));
    EXPECT(!cudaStreamDestroy(stream) && !cudaStreamDestroy(free_stream));
    return 0;
}

CHECK(memory_of_a_captured_graph) {
    cudaStream_t stream;
    cudaGraph_t graph;
    cudaGraphExec_t exec;
    int *p, back = 0;
    EXPECT(!cudaStreamCreate(&stream));
    EXPECT(!cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
    EXPECT(!cudaMallocAsync(&p, 4, stream));
    EXPECT(!cudaMemsetAsync(p, 0, 4, stream));
    add<<<1, 1, 0, stream>>>(p, 1, 8);
    EXPECT(!cudaMemcpyAsync(&back, p, 4, cudaMemcpyDeviceToHost, stream));
    EXPECT(!cudaFreeAsync(p, stream));
    EXPECT(!cudaStreamEndCapture(stream, &graph));
    EXPECT(!cudaGraphInstantiate(&exec, graph) && !cudaGraphDestroy(graph));
    EXPECT(!cudaGraphLaunch(exec, stream) && back == 8);
    EXPECT(!cudaGraphLaunch(exec, stream) && back == 8);
    EXPECT(!cudaGraphExecDestroy(exec) && !cudaStreamDestroy(stream));
    // The graph frees this memory.
    EXPECT_ERROR(cudaFree(p), cudaErrorInvalidValue);
    return 0;
}

/* ---- graphs of explicit nodes ------------------------------------------- */

/* x = (0 + 5) * 3, and a host function, in a diamond. */
CHECK(explicit_nodes) {
    int *x, n = 1, five = 5, three = 3, calls = 0, back = 0;
    cudaGraph_t graph;
    cudaGraphExec_t exec;
    cudaGraphNode_t set, kernels[2], host, copy, last;
    cudaGraphNodeType type;
    EXPECT(!cudaMalloc(&x, 4) && !cudaGraphCreate(&graph, 0));
    cudaMemsetParams zero = {x, 0, 0, 4, 1, 1};
    EXPECT(!cudaGraphAddMemsetNode(&set, graph, 0, 0, &zero));
    void *add_five[] = {&x, &n, &five}, *times_three[] = {&x, &n, &three};
    cudaKernelNodeParams params = {};
    params.func = (void *)simt::typed(add); // as rewrite.py writes it
    params.gridDim = params.blockDim = 1;
    params.kernelParams = add_five;
    EXPECT(!cudaGraphAddKernelNode(&kernels[0], graph, &set, 1, &params));
    five = 1000; // the node has its own copy
    cudaHostNodeParams call = {count, &calls};
    EXPECT(!cudaGraphAddHostNode(&host, graph, &set, 1, &call));
    params.func = (void *)simt::typed(times);
    params.kernelParams = times_three;
    EXPECT(!cudaGraphAddKernelNode(&kernels[1], graph, 0, 0, &params));
    EXPECT(!cudaGraphAddDependencies(graph, &kernels[0], &kernels[1], 1));
    EXPECT(!cudaGraphAddMemcpyNode1D(&copy, graph, &kernels[1], 1, &back, x, 4,
                                     cudaMemcpyDeviceToHost));
    const cudaGraphNode_t both[] = {host, copy};
    EXPECT(!cudaGraphAddEmptyNode(&last, graph, both, 2));
    EXPECT(nodes_of(graph) == 6 && edges_of(graph) == 6);
    EXPECT(!cudaGraphNodeGetType(copy, &type));
    EXPECT(type == cudaGraphNodeTypeMemcpy);
    EXPECT_ERROR(cudaGraphAddDependencies(graph, &last, &set, 1),
                 cudaErrorInvalidValue); // the edge would close a cycle
    EXPECT(!cudaGraphInstantiate(&exec, graph, 0));
    EXPECT(!cudaGraphLaunch(exec, 0) && back == 15 && calls == 1);
    five = 6;
    params.func = (void *)simt::typed(add);
    params.kernelParams = add_five;
    EXPECT(!cudaGraphExecKernelNodeSetParams(exec, kernels[0], &params));
    EXPECT(!cudaGraphNodeSetEnabled(exec, host, 0));
    EXPECT(!cudaGraphLaunch(exec, 0) && back == 18 && calls == 1);
    params.blockDim = 4000;
    EXPECT_ERROR(cudaGraphAddKernelNode(&last, graph, 0, 0, &params),
                 cudaErrorInvalidConfiguration);
    EXPECT(!cudaGraphDestroyNode(kernels[1]) && edges_of(graph) == 4);
    EXPECT(!cudaGraphExecDestroy(exec) && !cudaGraphDestroy(graph));
    EXPECT(!cudaFree(x));
    return 0;
}

CHECK(nodes_that_allocate) {
    int back = 0, n = 1, six = 6;
    cudaGraph_t graph;
    cudaGraphExec_t exec;
    cudaGraphNode_t get, set, kernel, copy, free;
    cudaMemAllocNodeParams memory = {};
    memory.bytesize = 4;
    EXPECT(!cudaGraphCreate(&graph, 0));
    EXPECT(!cudaGraphAddMemAllocNode(&get, graph, 0, 0, &memory));
    cudaMemsetParams zero = {memory.dptr, 0, 0, 4, 1, 1};
    EXPECT(!cudaGraphAddMemsetNode(&set, graph, &get, 1, &zero));
    void *arguments[] = {&memory.dptr, &n, &six};
    cudaKernelNodeParams params = {
        (void *)simt::typed(add), 1, 1, 0, arguments, 0};
    EXPECT(!cudaGraphAddKernelNode(&kernel, graph, &set, 1, &params));
    EXPECT(!cudaGraphAddMemcpyNode1D(&copy, graph, &kernel, 1, &back,
                                     memory.dptr, 4, cudaMemcpyDeviceToHost));
    EXPECT(!cudaGraphAddMemFreeNode(&free, graph, &copy, 1, memory.dptr));
    EXPECT(!cudaGraphInstantiate(&exec, graph) && !cudaGraphDestroy(graph));
    EXPECT(!cudaGraphLaunch(exec, 0) && back == 6);
    EXPECT(!cudaGraphExecDestroy(exec));
    EXPECT_ERROR(cudaFree(memory.dptr), cudaErrorInvalidValue);
    return 0;
}

CHECK(memory_that_a_program_frees_between_launches) {
    cudaGraph_t graph;
    cudaGraphExec_t exec;
    cudaGraphNode_t get, set;
    cudaMemAllocNodeParams memory = {};
    memory.bytesize = 2 << 20;
    EXPECT(!cudaGraphCreate(&graph, 0));
    EXPECT(!cudaGraphAddMemAllocNode(&get, graph, 0, 0, &memory));
    cudaMemsetParams seven = {memory.dptr, 0, 7, 4, 9, 1};
    EXPECT(!cudaGraphAddMemsetNode(&set, graph, &get, 1, &seven));
    EXPECT(!cudaGraphInstantiate(&exec, graph));
    EXPECT(!cudaGraphLaunch(exec, 0) && !cudaFree(memory.dptr));
    EXPECT(!cudaGraphLaunch(exec, 0) && ((int *)memory.dptr)[8] == 7);
    EXPECT(!cudaGraphExecDestroy(exec) && !cudaGraphDestroy(graph));
    EXPECT_ERROR(cudaFree(memory.dptr), cudaErrorInvalidValue);
    EXPECT(!cudaGraphCreate(&graph, 0)); // an event outlives its graph
    EXPECT(!cudaGraphAddMemAllocNode(&get, graph, 0, 0, &memory));
    EXPECT(!cudaGraphDestroy(graph) && !cudaMemset(memory.dptr, 0, 4));
    EXPECT(!cudaFree(memory.dptr));
    EXPECT_ERROR(cudaFree(memory.dptr), cudaErrorInvalidValue);
    return 0;
}

CHECK(an_edge_added_late_counts) {
    int *x, n = 1, four = 4;
    cudaGraph_t graph;
    cudaGraphExec_t exec;
    cudaGraphNode_t kernel, set;
    EXPECT(!cudaMalloc(&x, 4) && !cudaGraphCreate(&graph, 0));
    void *arguments[] = {&x, &n, &four};
    cudaKernelNodeParams params = {
        (void *)simt::typed(add), 1, 1, 0, arguments, 0};
    EXPECT(!cudaGraphAddKernelNode(&kernel, graph, 0, 0, &params));
    cudaMemsetParams zero = {x, 0, 0, 4, 1, 1};
    EXPECT(!cudaGraphAddMemsetNode(&set, graph, 0, 0, &zero));
    EXPECT(!cudaGraphAddDependencies(graph, &set, &kernel, 1));
    EXPECT(!cudaGraphInstantiate(&exec, graph, 0));
    EXPECT(!cudaGraphLaunch(exec, 0) && *x == 4);
    EXPECT(!cudaGraphExecDestroy(exec) && !cudaGraphDestroy(graph));
    EXPECT(!cudaFree(x));
    return 0;
}

CHECK(clones_and_children) {
    int *x, calls = 0;
    cudaGraph_t inner, clone, outer;
    cudaGraphExec_t exec;
    cudaGraphNode_t host, found, child, again;
    cudaHostNodeParams call = {count, &calls};
    EXPECT(!cudaMalloc(&x, 4) && !cudaGraphCreate(&inner, 0));
    EXPECT(!cudaGraphAddHostNode(&host, inner, 0, 0, &call));
    EXPECT(!cudaGraphClone(&clone, inner) && nodes_of(clone) == 1);
    EXPECT(!cudaGraphNodeFindInClone(&found, host, clone) && found != host);
    EXPECT(!cudaGraphCreate(&outer, 0));
    EXPECT(!cudaGraphAddChildGraphNode(&child, outer, 0, 0, inner));
    EXPECT(!cudaGraphAddChildGraphNode(&again, outer, &child, 1, clone));
    EXPECT(!cudaGraphDestroy(inner) && !cudaGraphDestroy(clone));
    EXPECT(!cudaGraphInstantiate(&exec, outer, 0));
    EXPECT(!cudaGraphLaunch(exec, 0) && calls == 2);
    EXPECT(!cudaGraphExecDestroy(exec) && !cudaGraphDestroy(outer));
    EXPECT(!cudaFree(x));
    return 0;
}

static cudaGraph_t captured(cudaStream_t stream, int *x, int by, bool twice) {
    cudaGraph_t graph = 0;
    cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal);
    cudaMemsetAsync(x, 0, 4, stream);
    add<<<1, 1, 0, stream>>>(x, 1, by);
    if (twice) add<<<1, 1, 0, stream>>>(x, 1, by);
    cudaStreamEndCapture(stream, &graph);
    return graph;
}

CHECK(updates) {
    int *x;
    cudaStream_t stream;
    cudaGraphExec_t exec;
    cudaGraphExecUpdateResultInfo info;
    enum cudaGraphExecUpdateResult result;
    EXPECT(!cudaMalloc(&x, 4) && !cudaStreamCreate(&stream));
    const cudaGraph_t one = captured(stream, x, 1, false);
    const cudaGraph_t two = captured(stream, x, 2, false);
    const cudaGraph_t other = captured(stream, x, 2, true);
    EXPECT(one && two && other && !cudaGraphInstantiate(&exec, one, 0));
    EXPECT(!cudaGraphLaunch(exec, stream) && *x == 1);
    EXPECT(!cudaGraphExecUpdate(exec, two, &info));
    EXPECT(info.result == cudaGraphExecUpdateSuccess);
    EXPECT(!cudaGraphLaunch(exec, stream) && *x == 2);
    EXPECT_ERROR(cudaGraphExecUpdate(exec, other, 0, &result),
                 cudaErrorGraphExecUpdateFailure);
    EXPECT(result == cudaGraphExecUpdateErrorTopologyChanged);
    EXPECT(!cudaGraphLaunch(exec, stream) && *x == 2);
    EXPECT(!cudaGraphDestroy(one) && !cudaGraphDestroy(two));
    EXPECT(!cudaGraphDestroy(other) && !cudaGraphExecDestroy(exec));
    EXPECT(!cudaStreamDestroy(stream) && !cudaFree(x));
    return 0;
}

CHECK(a_fault_in_a_graph_ends_it) {
    int calls = 0;
    cudaStream_t stream;
    cudaGraph_t graph;
    cudaGraphExec_t exec;
    EXPECT(!cudaStreamCreate(&stream));
    EXPECT(!cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
    wild<<<1, 1, 0, stream>>>((int *)16);
    EXPECT(!cudaLaunchHostFunc(stream, count, &calls));
    EXPECT(!cudaStreamEndCapture(stream, &graph));
    EXPECT(!cudaGraphInstantiate(&exec, graph, 0));
    EXPECT(cudaGraphLaunch(exec, stream) == cudaErrorIllegalAddress);
    EXPECT(calls == 0 && cudaGetLastError() == cudaErrorIllegalAddress);
    EXPECT(!cudaGraphExecDestroy(exec) && !cudaGraphDestroy(graph));
    EXPECT(!cudaStreamDestroy(stream));
    return 0;
}

EXPORT int draw(const char *path) {
    int *x;
    cudaStream_t stream;
    cudaMalloc(&x, 4);
    cudaStreamCreate(&stream);
    const cudaGraph_t graph = captured(stream, x, 1, true);
    const int error = cudaGraphDebugDotPrint(graph, path, 0);
    cudaGraphDestroy(graph);
    cudaStreamDestroy(stream);
    cudaFree(x);
    return error;
}

/* These kernels need not be fast, and -O1 compiles them sooner than -O3. */
/* g++: -O1 */
