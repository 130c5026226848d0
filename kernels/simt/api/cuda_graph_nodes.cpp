/* cuda_graph_nodes.cpp -- graphs: queries of nodes, edges and parameters, and
 * changes of parameters. */
#include "cuda_graph_private.h"

using namespace simt;

/* ---- queries ------------------------------------------------------------- */

/* Copy `found` into the program's array of *count nodes, with NULL in excess
 * elements, and set *count. If there is no array, only set *count. */
static cudaError_t give(const Nodes &found, cudaGraphNode_t *nodes,
                        size_t *count) {
    if (!count) return set_error(cudaErrorInvalidValue);
    for (size_t i = 0; nodes && i < *count; i++)
        nodes[i] = i < found.size() ? found[i] : 0;
    if (!nodes || *count > found.size()) *count = found.size();
    return cudaSuccess;
}

cudaError_t cudaGraphGetNodes(cudaGraph_t graph, cudaGraphNode_t *nodes,
                              size_t *count) {
    if (!graph) return set_error(cudaErrorInvalidValue);
    return give(graph->nodes, nodes, count);
}

cudaError_t cudaGraphGetRootNodes(cudaGraph_t graph, cudaGraphNode_t *nodes,
                                  size_t *count) {
    if (!graph) return set_error(cudaErrorInvalidValue);
    Nodes roots;
    for (cudaGraphNode_t node : graph->nodes)
        if (node->after.empty()) roots.push_back(node);
    return give(roots, nodes, count);
}

cudaError_t cudaGraphGetEdges(cudaGraph_t graph, cudaGraphNode_t *from,
                              cudaGraphNode_t *to, size_t *count) {
    if (!graph || !count || !from != !to)
        return set_error(cudaErrorInvalidValue);
    Nodes begins, ends;
    for (cudaGraphNode_t node : graph->nodes)
        for (cudaGraphNode_t before : node->after) {
            begins.push_back(before);
            ends.push_back(node);
        }
    size_t room = *count;
    give(begins, from, &room);
    return give(ends, to, count);
}

cudaError_t cudaGraphNodeGetDependencies(cudaGraphNode_t node,
                                         cudaGraphNode_t *nodes,
                                         size_t *count) {
    if (!node) return set_error(cudaErrorInvalidValue);
    return give(node->after, nodes, count);
}

cudaError_t cudaGraphNodeGetDependentNodes(cudaGraphNode_t node,
                                           cudaGraphNode_t *nodes,
                                           size_t *count) {
    if (!node) return set_error(cudaErrorInvalidValue);
    Nodes found;
    for (cudaGraphNode_t other : node->graph->nodes)
        if (contains(other->after, node)) found.push_back(other);
    return give(found, nodes, count);
}

cudaError_t cudaGraphNodeGetType(cudaGraphNode_t node,
                                 enum cudaGraphNodeType *type) {
    if (!node || !type) return set_error(cudaErrorInvalidValue);
    *type = node->work.type;
    return cudaSuccess;
}

cudaError_t cudaGraphChildGraphNodeGetGraph(cudaGraphNode_t node,
                                            cudaGraph_t *graph) {
    if (!node || !graph || !node->work.child)
        return set_error(cudaErrorInvalidValue);
    *graph = node->work.child.get();
    return cudaSuccess;
}

/* ---- parameters --------------------------------------------------------- */

static bool is(cudaGraphNode_t node, enum cudaGraphNodeType type) {
    return node && node->work.type == type;
}

cudaError_t cudaGraphKernelNodeGetParams(cudaGraphNode_t node,
                                         struct cudaKernelNodeParams *params) {
    if (!is(node, cudaGraphNodeTypeKernel) || !params)
        return set_error(cudaErrorInvalidValue);
    const Recorded &kernel = *node->work.kernel;
    *params = {(void *)node->work.function, kernel.grid, kernel.block,
               (unsigned)kernel.shared,     0,           0};
    return cudaSuccess;
}

cudaError_t cudaGraphMemcpyNodeGetParams(cudaGraphNode_t node,
                                         struct cudaMemcpy3DParms *params) {
    if (!is(node, cudaGraphNodeTypeMemcpy) || !params)
        return set_error(cudaErrorInvalidValue);
    *params = node->work.copy;
    return cudaSuccess;
}

cudaError_t cudaGraphMemsetNodeGetParams(cudaGraphNode_t node,
                                         struct cudaMemsetParams *params) {
    if (!is(node, cudaGraphNodeTypeMemset) || !params)
        return set_error(cudaErrorInvalidValue);
    *params = node->work.set;
    return cudaSuccess;
}

cudaError_t cudaGraphHostNodeGetParams(cudaGraphNode_t node,
                                       struct cudaHostNodeParams *params) {
    if (!is(node, cudaGraphNodeTypeHost) || !params)
        return set_error(cudaErrorInvalidValue);
    *params = node->work.host;
    return cudaSuccess;
}

cudaError_t
cudaGraphKernelNodeSetParams(cudaGraphNode_t node,
                             const struct cudaKernelNodeParams *params) {
    if (!is(node, cudaGraphNodeTypeKernel))
        return set_error(cudaErrorInvalidValue);
    return work_of(params, &node->work);
}

cudaError_t
cudaGraphMemcpyNodeSetParams(cudaGraphNode_t node,
                             const struct cudaMemcpy3DParms *params) {
    if (!is(node, cudaGraphNodeTypeMemcpy) || !params)
        return set_error(cudaErrorInvalidValue);
    if (cudaError_t error = check_copy(*params)) return set_error(error);
    node->work = copy_work(*params);
    return cudaSuccess;
}

cudaError_t
cudaGraphMemsetNodeSetParams(cudaGraphNode_t node,
                             const struct cudaMemsetParams *params) {
    if (!is(node, cudaGraphNodeTypeMemset) || !params)
        return set_error(cudaErrorInvalidValue);
    if (cudaError_t error = check_set(*params)) return set_error(error);
    node->work = set_work(*params);
    return cudaSuccess;
}

cudaError_t
cudaGraphHostNodeSetParams(cudaGraphNode_t node,
                           const struct cudaHostNodeParams *params) {
    if (!is(node, cudaGraphNodeTypeHost) || !params || !params->fn)
        return set_error(cudaErrorInvalidValue);
    node->work = host_work(*params);
    return cudaSuccess;
}
