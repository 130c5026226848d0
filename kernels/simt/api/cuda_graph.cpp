/* cuda_graph.cpp -- graphs: the work of nodes, and the addition of nodes and
 * edges. */
#include <string.h>

#include <algorithm>

#include "cuda_graph_private.h"
#include "cuda_heap.h"

namespace simt::SIMT_FIBERS {

/* ---- work --------------------------------------------------------------- */

Work kernel_work(Recorded *recorded) {
    Work work = {};
    work.type = cudaGraphNodeTypeKernel;
    work.kernel = {recorded, forget};
    return work;
}

Work copy_work(const struct cudaMemcpy3DParms &copy) {
    Work work = {};
    work.type = cudaGraphNodeTypeMemcpy;
    work.copy = copy;
    return work;
}

Work set_work(const struct cudaMemsetParams &set) {
    Work work = {};
    work.type = cudaGraphNodeTypeMemset;
    work.set = set;
    return work;
}

Work host_work(const struct cudaHostNodeParams &host) {
    Work work = {};
    work.type = cudaGraphNodeTypeHost;
    work.host = host;
    return work;
}

Work event_work(enum cudaGraphNodeType type, cudaEvent_t event) {
    Work work = {};
    work.type = type;
    work.event = event;
    return work;
}

namespace {
struct Call {
    const cudaKernelNodeParams *params;
    Invoke invoke;
};
} // namespace

static void call(void *data) {
    const Call *c = (const Call *)data;
    const cudaKernelNodeParams *p = c->params;
    Launch launch(p->gridDim, p->blockDim, p->sharedMemBytes);
    c->invoke(p->func, p->kernelParams);
}

cudaError_t work_of(const struct cudaKernelNodeParams *params, Work *work) {
    if (!params || params->extra || !params->func)
        return set_error(cudaErrorInvalidValue);
    Call c = {params, invoke_of(params->func)};
    if (!c.invoke) return set_error(cudaErrorInvalidDeviceFunction);
    Recorded *recorded = record_next(call, &c);
    if (!recorded) return cudaPeekAtLastError(); // the launch was rejected
    *work = kernel_work(recorded);
    work->function = params->func;
    return cudaSuccess;
}

/* ---- nodes -------------------------------------------------------------- */

static cudaGraphNode_t add_node(cudaGraph_t graph, const Work &work,
                                const Nodes &after) {
    cudaGraphNode_t node =
        new CUgraphNode_st{graph, graph->numbers++, nullptr, work, after};
    graph->nodes.push_back(node);
    return node;
}

cudaError_t add_work(CUstream_st *stream, const Work &work) {
    std::lock_guard<std::recursive_mutex> guard(stream_lock);
    stream->last = {add_node(stream->capture->graph, work, stream->last)};
    return cudaSuccess;
}

bool contains(const Nodes &nodes, cudaGraphNode_t node) {
    return std::find(nodes.begin(), nodes.end(), node) != nodes.end();
}

/* Return `nodes` and all nodes that they depend on. */
static Nodes with_ancestors(Nodes nodes) {
    for (size_t i = 0; i < nodes.size(); i++)
        for (cudaGraphNode_t before : nodes[i]->after)
            if (!contains(nodes, before)) nodes.push_back(before);
    return nodes;
}

bool joined(const Nodes &nodes, const Nodes &others) {
    const Nodes all = with_ancestors(others);
    return std::all_of(nodes.begin(), nodes.end(),
                       [&](cudaGraphNode_t n) { return contains(all, n); });
}

/* Add a node at a program's request. */
static cudaError_t add(cudaGraphNode_t *node, cudaGraph_t graph,
                       const cudaGraphNode_t *after, size_t count,
                       const Work &work) {
    if (!node || !graph || (count && !after))
        return set_error(cudaErrorInvalidValue);
    Nodes before;
    for (size_t i = 0; i < count; i++) {
        if (!after[i] || !contains(graph->nodes, after[i]) ||
            contains(before, after[i]))
            return set_error(cudaErrorInvalidValue);
        before.push_back(after[i]);
    }
    *node = add_node(graph, work, before);
    return cudaSuccess;
}

} // namespace simt::SIMT_FIBERS

using namespace simt;

CUgraph_st::~CUgraph_st() {
    for (cudaGraphNode_t node : nodes) delete node;
}

/* ---- graphs ------------------------------------------------------------- */

cudaError_t cudaGraphCreate(cudaGraph_t *graph, unsigned flags) {
    if (!graph || flags) return set_error(cudaErrorInvalidValue);
    *graph = new CUgraph_st;
    return cudaSuccess;
}

cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
    if (!graph) return set_error(cudaErrorInvalidValue);
    delete graph;
    return cudaSuccess;
}

cudaError_t cudaGraphClone(cudaGraph_t *clone, cudaGraph_t graph) {
    if (!clone || !graph) return set_error(cudaErrorInvalidValue);
    cudaGraph_t copy = new CUgraph_st;
    for (cudaGraphNode_t node : graph->nodes)
        add_node(copy, node->work, {})->original = node;
    for (cudaGraphNode_t node : copy->nodes)
        for (cudaGraphNode_t before : node->original->after)
            for (cudaGraphNode_t other : copy->nodes)
                if (other->original == before) node->after.push_back(other);
    *clone = copy;
    return cudaSuccess;
}

cudaError_t cudaGraphNodeFindInClone(cudaGraphNode_t *node,
                                     cudaGraphNode_t original,
                                     cudaGraph_t clone) {
    if (!node || !original || !clone) return set_error(cudaErrorInvalidValue);
    for (cudaGraphNode_t other : clone->nodes)
        if (other->original == original) {
            *node = other;
            return cudaSuccess;
        }
    return set_error(cudaErrorInvalidValue);
}

/* ---- adding nodes ------------------------------------------------------- */

cudaError_t cudaGraphAddKernelNode(cudaGraphNode_t *node, cudaGraph_t graph,
                                   const cudaGraphNode_t *after, size_t count,
                                   const struct cudaKernelNodeParams *params) {
    Work work = {};
    if (cudaError_t error = work_of(params, &work)) return error;
    return add(node, graph, after, count, work);
}

cudaError_t cudaGraphAddMemcpyNode(cudaGraphNode_t *node, cudaGraph_t graph,
                                   const cudaGraphNode_t *after, size_t count,
                                   const struct cudaMemcpy3DParms *params) {
    if (!params) return set_error(cudaErrorInvalidValue);
    if (cudaError_t error = check_copy(*params)) return set_error(error);
    return add(node, graph, after, count, copy_work(*params));
}

cudaError_t cudaGraphAddMemcpyNode1D(cudaGraphNode_t *node, cudaGraph_t graph,
                                     const cudaGraphNode_t *after, size_t count,
                                     void *to, const void *from, size_t size,
                                     enum cudaMemcpyKind kind) {
    cudaMemcpy3DParms copy = {};
    copy.dstPtr = {to, size, size, 1};
    copy.srcPtr = {(void *)from, size, size, 1};
    copy.extent = {size, 1, 1};
    copy.kind = kind;
    return cudaGraphAddMemcpyNode(node, graph, after, count, &copy);
}

cudaError_t cudaGraphAddMemsetNode(cudaGraphNode_t *node, cudaGraph_t graph,
                                   const cudaGraphNode_t *after, size_t count,
                                   const struct cudaMemsetParams *params) {
    if (!params) return set_error(cudaErrorInvalidValue);
    if (cudaError_t error = check_set(*params)) return set_error(error);
    return add(node, graph, after, count, set_work(*params));
}

cudaError_t cudaGraphAddHostNode(cudaGraphNode_t *node, cudaGraph_t graph,
                                 const cudaGraphNode_t *after, size_t count,
                                 const struct cudaHostNodeParams *params) {
    if (!params || !params->fn) return set_error(cudaErrorInvalidValue);
    return add(node, graph, after, count, host_work(*params));
}

cudaError_t cudaGraphAddChildGraphNode(cudaGraphNode_t *node, cudaGraph_t graph,
                                       const cudaGraphNode_t *after,
                                       size_t count, cudaGraph_t child) {
    cudaGraph_t copy;
    if (child == graph) return set_error(cudaErrorInvalidValue);
    if (cudaError_t error = cudaGraphClone(&copy, child)) return error;
    Work work = {};
    work.type = cudaGraphNodeTypeGraph;
    work.child.reset(copy);
    return add(node, graph, after, count, work);
}

cudaError_t cudaGraphAddEmptyNode(cudaGraphNode_t *node, cudaGraph_t graph,
                                  const cudaGraphNode_t *after, size_t count) {
    Work work = {};
    work.type = cudaGraphNodeTypeEmpty;
    return add(node, graph, after, count, work);
}

cudaError_t cudaGraphAddEventRecordNode(cudaGraphNode_t *node,
                                        cudaGraph_t graph,
                                        const cudaGraphNode_t *after,
                                        size_t count, cudaEvent_t event) {
    if (!event_of(event)) return set_error(cudaErrorInvalidResourceHandle);
    return add(node, graph, after, count,
               event_work(cudaGraphNodeTypeEventRecord, event));
}

cudaError_t cudaGraphAddEventWaitNode(cudaGraphNode_t *node, cudaGraph_t graph,
                                      const cudaGraphNode_t *after,
                                      size_t count, cudaEvent_t event) {
    if (!event_of(event)) return set_error(cudaErrorInvalidResourceHandle);
    return add(node, graph, after, count,
               event_work(cudaGraphNodeTypeWaitEvent, event));
}

cudaError_t cudaGraphAddMemAllocNode(cudaGraphNode_t *node, cudaGraph_t graph,
                                     const cudaGraphNode_t *after, size_t count,
                                     struct cudaMemAllocNodeParams *params) {
    Work work;
    if (!params || !params->bytesize) return set_error(cudaErrorInvalidValue);
    const cudaError_t error =
        allocation_work(&params->dptr, params->bytesize, &work);
    return error ? error : add(node, graph, after, count, work);
}

cudaError_t cudaGraphAddMemFreeNode(cudaGraphNode_t *node, cudaGraph_t graph,
                                    const cudaGraphNode_t *after, size_t count,
                                    void *pointer) {
    if (!pointer) return set_error(cudaErrorInvalidValue);
    free_in_graph(pointer);
    return add(node, graph, after, count, free_work());
}

/* ---- edges -------------------------------------------------------------- */

/* Return whether these are edges between nodes of `graph`. */
static bool are_nodes(cudaGraph_t graph, const cudaGraphNode_t *from,
                      const cudaGraphNode_t *to, size_t count) {
    if (!graph || (count && (!from || !to))) return false;
    for (size_t i = 0; i < count; i++)
        if (!contains(graph->nodes, from[i]) || !contains(graph->nodes, to[i]))
            return false;
    return true;
}

cudaError_t cudaGraphAddDependencies(cudaGraph_t graph,
                                     const cudaGraphNode_t *from,
                                     const cudaGraphNode_t *to, size_t count) {
    if (!are_nodes(graph, from, to, count))
        return set_error(cudaErrorInvalidValue);
    for (size_t i = 0; i < count; i++) {
        if (contains(to[i]->after, from[i]) || joined({to[i]}, {from[i]}))
            return set_error(cudaErrorInvalidValue);
        to[i]->after.push_back(from[i]);
    }
    return cudaSuccess;
}

static void erase(Nodes &nodes, cudaGraphNode_t node) {
    nodes.erase(std::remove(nodes.begin(), nodes.end(), node), nodes.end());
}

cudaError_t cudaGraphRemoveDependencies(cudaGraph_t graph,
                                        const cudaGraphNode_t *from,
                                        const cudaGraphNode_t *to,
                                        size_t count) {
    if (!are_nodes(graph, from, to, count))
        return set_error(cudaErrorInvalidValue);
    for (size_t i = 0; i < count; i++) {
        if (!contains(to[i]->after, from[i]))
            return set_error(cudaErrorInvalidValue);
        erase(to[i]->after, from[i]);
    }
    return cudaSuccess;
}

cudaError_t cudaGraphDestroyNode(cudaGraphNode_t node) {
    if (!node) return set_error(cudaErrorInvalidValue);
    erase(node->graph->nodes, node);
    for (cudaGraphNode_t other : node->graph->nodes) erase(other->after, node);
    delete node;
    return cudaSuccess;
}
