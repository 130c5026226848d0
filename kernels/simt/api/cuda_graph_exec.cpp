/* cuda_graph_exec.cpp -- executable graphs: instantiation, launch and
   update. */
#include <stdio.h>
#include <string.h>

#include <algorithm>

#include "cuda_graph_private.h"

namespace simt::SIMT_FIBERS {

/* Return the index of `node` among the steps, or their number if it is
 * missing. */
static size_t place_of(const CUgraphExec_st &exec, cudaGraphNode_t node) {
    size_t i = 0;
    while (i < exec.steps.size() && exec.steps[i].node != node) i++;
    return i;
}

/* Add a step for `node` if all nodes that it depends on have a step. */
static bool add_step(CUgraphExec_st *exec, cudaGraphNode_t node) {
    std::vector<size_t> after;
    for (cudaGraphNode_t before : node->after) {
        after.push_back(place_of(*exec, before));
        if (after.back() == exec->steps.size()) return false;
    }
    std::sort(after.begin(), after.end());
    exec->after.push_back(after);
    exec->steps.push_back({node, node->work, true});
    Work &work = exec->steps.back().work;
    if (work.child) work.steps = steps_of(*work.child);
    return true;
}

std::shared_ptr<CUgraphExec_st> steps_of(const CUgraph_st &graph) {
    auto exec = std::make_shared<CUgraphExec_st>();
    Nodes left = graph.nodes;
    while (!left.empty()) { // without cycles, each round adds a step for at
                            // least one node
        Nodes later;
        for (cudaGraphNode_t node : left)
            if (!add_step(exec.get(), node)) later.push_back(node);
        left = later;
    }
    return exec;
}

static cudaError_t run_steps(const CUgraphExec_st &exec) {
    for (const CUgraphExec_st::Step &step : exec.steps)
        if (step.enabled)
            if (cudaError_t error = run_work(step.work)) return error;
    return cudaSuccess;
}

cudaError_t run_work(const Work &work) {
    switch (work.type) {
    case cudaGraphNodeTypeKernel:
        if (cudaError_t error = replay(work.kernel.get())) return error;
        return pending_error(); // the later steps must not run
    case cudaGraphNodeTypeMemcpy:
        if (cudaError_t error = check_copy(work.copy)) return error;
        return copy_now(work.copy);
    case cudaGraphNodeTypeMemset:
        if (cudaError_t error = check_set(work.set)) return error;
        return set_now(work.set);
    case cudaGraphNodeTypeHost:
        work.host.fn(work.host.userData);
        return cudaSuccess;
    case cudaGraphNodeTypeGraph: return run_steps(*work.steps);
    case cudaGraphNodeTypeEventRecord: return cudaEventRecord(work.event, 0);
    default: return cudaSuccess; // the earlier steps have already run
    }
}

/* Return whether `to` has the nodes and edges of `from` and, if not, the reason
 * and the first node that differs, if any. */
static cudaGraphExecUpdateResultInfo compare(const CUgraphExec_st &from,
                                             const CUgraphExec_st &to) {
    if (from.steps.size() != to.steps.size())
        return {cudaGraphExecUpdateErrorTopologyChanged, 0, 0};
    for (size_t i = 0; i < from.steps.size(); i++) {
        cudaGraphNode_t node = to.steps[i].node;
        if (from.steps[i].work.type != to.steps[i].work.type)
            return {cudaGraphExecUpdateErrorNodeTypeChanged, node, 0};
        if (from.after[i] != to.after[i])
            return {cudaGraphExecUpdateErrorTopologyChanged, node, 0};
    }
    return {cudaGraphExecUpdateSuccess, 0, 0};
}

} // namespace simt::SIMT_FIBERS

using namespace simt;

cudaError_t cudaGraphInstantiate(cudaGraphExec_t *exec, cudaGraph_t graph,
                                 unsigned long long flags) {
    if (!exec || !graph || flags > 15) return set_error(cudaErrorInvalidValue);
    *exec = new CUgraphExec_st(*steps_of(*graph));
    return cudaSuccess;
}

cudaError_t cudaGraphInstantiate(cudaGraphExec_t *exec, cudaGraph_t graph,
                                 cudaGraphNode_t *error_node, char *log,
                                 size_t log_size) {
    if (error_node) *error_node = 0;
    if (log && log_size) *log = 0;
    return cudaGraphInstantiate(exec, graph, 0ull);
}

cudaError_t cudaGraphExecDestroy(cudaGraphExec_t exec) {
    if (!exec) return set_error(cudaErrorInvalidValue);
    delete exec;
    return cudaSuccess;
}

cudaError_t cudaGraphUpload(cudaGraphExec_t exec, cudaStream_t stream) {
    if (!exec) return set_error(cudaErrorInvalidValue);
    if (!stream_of(stream)) return set_error(cudaErrorInvalidResourceHandle);
    return cudaSuccess;
}

cudaError_t cudaGraphLaunch(cudaGraphExec_t exec, cudaStream_t stream) {
    CUstream_st *recording;
    if (!exec) return set_error(cudaErrorInvalidValue);
    if (cudaError_t error = begin_work(stream, &recording)) return error;
    if (recording) {
        Work work = {};
        work.type = cudaGraphNodeTypeGraph;
        work.steps = std::make_shared<CUgraphExec_st>(*exec);
        return add_work(recording, work);
    }
    return set_error(run_steps(*exec));
}

/* ---- changing an executable graph ---------------------------------------- */

cudaError_t cudaGraphExecUpdate(cudaGraphExec_t exec, cudaGraph_t graph,
                                cudaGraphExecUpdateResultInfo *info) {
    if (!exec || !graph || !info) return set_error(cudaErrorInvalidValue);
    const auto to = steps_of(*graph);
    *info = compare(*exec, *to);
    if (info->result) return set_error(cudaErrorGraphExecUpdateFailure);
    for (size_t i = 0; i < exec->steps.size(); i++)
        exec->steps[i].work = to->steps[i].work;
    return cudaSuccess;
}

cudaError_t cudaGraphExecUpdate(cudaGraphExec_t exec, cudaGraph_t graph,
                                cudaGraphNode_t *error_node,
                                enum cudaGraphExecUpdateResult *result) {
    cudaGraphExecUpdateResultInfo info = {cudaGraphExecUpdateError, 0, 0};
    const cudaError_t error = cudaGraphExecUpdate(exec, graph, &info);
    if (error_node) *error_node = info.errorNode;
    if (result) *result = info.result;
    return error;
}

/* Return the step of `exec` for `node`, or NULL if there is none. */
static CUgraphExec_st::Step *step_of(cudaGraphExec_t exec,
                                     cudaGraphNode_t node) {
    if (!exec) return 0;
    const size_t at = place_of(*exec, node);
    return at < exec->steps.size() ? &exec->steps[at] : 0;
}

/* Return the step of `exec` for `node` if the step has this type, else NULL. */
static CUgraphExec_st::Step *step_of(cudaGraphExec_t exec, cudaGraphNode_t node,
                                     enum cudaGraphNodeType type) {
    CUgraphExec_st::Step *step = step_of(exec, node);
    return step && step->work.type == type ? step : 0;
}

cudaError_t
cudaGraphExecKernelNodeSetParams(cudaGraphExec_t exec, cudaGraphNode_t node,
                                 const struct cudaKernelNodeParams *params) {
    auto *step = step_of(exec, node, cudaGraphNodeTypeKernel);
    if (!step) return set_error(cudaErrorInvalidValue);
    return work_of(params, &step->work);
}

cudaError_t
cudaGraphExecMemcpyNodeSetParams(cudaGraphExec_t exec, cudaGraphNode_t node,
                                 const struct cudaMemcpy3DParms *params) {
    auto *step = step_of(exec, node, cudaGraphNodeTypeMemcpy);
    if (!step || !params) return set_error(cudaErrorInvalidValue);
    if (cudaError_t error = check_copy(*params)) return set_error(error);
    step->work = copy_work(*params);
    return cudaSuccess;
}

cudaError_t
cudaGraphExecMemsetNodeSetParams(cudaGraphExec_t exec, cudaGraphNode_t node,
                                 const struct cudaMemsetParams *params) {
    auto *step = step_of(exec, node, cudaGraphNodeTypeMemset);
    if (!step || !params) return set_error(cudaErrorInvalidValue);
    if (cudaError_t error = check_set(*params)) return set_error(error);
    step->work = set_work(*params);
    return cudaSuccess;
}

cudaError_t
cudaGraphExecHostNodeSetParams(cudaGraphExec_t exec, cudaGraphNode_t node,
                               const struct cudaHostNodeParams *params) {
    auto *step = step_of(exec, node, cudaGraphNodeTypeHost);
    if (!step || !params || !params->fn)
        return set_error(cudaErrorInvalidValue);
    step->work = host_work(*params);
    return cudaSuccess;
}

cudaError_t cudaGraphNodeSetEnabled(cudaGraphExec_t exec, cudaGraphNode_t node,
                                    unsigned enabled) {
    CUgraphExec_st::Step *step = step_of(exec, node);
    if (!step) return set_error(cudaErrorInvalidValue);
    step->enabled = enabled;
    return cudaSuccess;
}

cudaError_t cudaGraphNodeGetEnabled(cudaGraphExec_t exec, cudaGraphNode_t node,
                                    unsigned *enabled) {
    const CUgraphExec_st::Step *step = step_of(exec, node);
    if (!step || !enabled) return set_error(cudaErrorInvalidValue);
    *enabled = step->enabled;
    return cudaSuccess;
}

/* ---- displaying a graph -------------------------------------------------- */

static const char *label_of(const Work &work) {
    static const char *const names[] = {
        "kernel",      "memcpy",    "memset",     "host",
        "child graph", "empty",     "event wait", "event record",
        "semaphore",   "semaphore", "allocation", "free"};
    return work.type == cudaGraphNodeTypeKernel ? work.kernel->kernel->name
                                                : names[work.type];
}

cudaError_t cudaGraphDebugDotPrint(cudaGraph_t graph, const char *path,
                                   unsigned) {
    if (!graph || !path) return set_error(cudaErrorInvalidValue);
    FILE *file = fopen(path, "w");
    if (!file) return set_error(cudaErrorOperatingSystem);
    fprintf(file, "digraph graph_0 {\n");
    for (cudaGraphNode_t node : graph->nodes) {
        fprintf(file, "    node_%u [label=\"%u %s\"];\n", node->number,
                node->number, label_of(node->work));
        for (cudaGraphNode_t before : node->after)
            fprintf(file, "    node_%u -> node_%u;\n", before->number,
                    node->number);
    }
    fprintf(file, "}\n");
    return set_error(fclose(file) ? cudaErrorOperatingSystem : cudaSuccess);
}
