/* cuda_graph_private.h -- the nodes of a graph; private to the runtime. */
#ifndef SIMT_CUDA_GRAPH_PRIVATE_H
#define SIMT_CUDA_GRAPH_PRIVATE_H
#include "cuda_device.h"
#include "cuda_launch.h"
#include "cuda_memory.h"
#include "cuda_stream_private.h"

namespace simt::SIMT_FIBERS {

/* The work of a node. Only the members of its type are valid. */
struct Work {
    enum cudaGraphNodeType type;
    const void *function; /* the kernel, if it was added by function */
    std::shared_ptr<const Recorded> kernel;
    struct cudaMemcpy3DParms copy;
    struct cudaMemsetParams set;
    struct cudaHostNodeParams host;
    cudaEvent_t event;
    std::shared_ptr<CUgraph_st> child;
    std::shared_ptr<CUgraphExec_st> steps; /* steps of the child graph */
    std::shared_ptr<void> memory;          /* frees the memory that the capture
                                              allocated */
};

Work kernel_work(Recorded *recorded);
Work copy_work(const struct cudaMemcpy3DParms &copy);
Work set_work(const struct cudaMemsetParams &set);
Work host_work(const struct cudaHostNodeParams &host);
/* Create work that allocates or frees memory. The allocation is made
 * immediately, and freed with the last copy of the work. */
cudaError_t allocation_work(void **pointer, size_t size, Work *work);
Work free_work();
Work event_work(enum cudaGraphNodeType type, cudaEvent_t event);

/* Add a node to the graph into which `stream` captures. */
cudaError_t add_work(CUstream_st *stream, const Work &work);

cudaError_t run_work(const Work &work);

bool contains(const Nodes &nodes, cudaGraphNode_t node);

/* cuda_graph_exec.cpp: return the executable form of `graph`. */
std::shared_ptr<CUgraphExec_st> steps_of(const CUgraph_st &graph);

/* Create work for a kernel that is called with these parameters, which are
 * copied. */
cudaError_t work_of(const struct cudaKernelNodeParams *params, Work *work);

/* cuda_copy.cpp: perform a copy or fill now, or check it. */
cudaError_t copy_now(const struct cudaMemcpy3DParms &copy);
cudaError_t check_copy(const struct cudaMemcpy3DParms &copy);
cudaError_t set_now(const struct cudaMemsetParams &set);
cudaError_t check_set(const struct cudaMemsetParams &set);
/* cuda_copy.cpp: return whether a pointer outside all allocations is to memory
 * that a GPU cannot access. That is so only in whole programs. */
bool is_host_memory(const void *pointer);

/* Return the launch that `launch(data)` makes, without running it; NULL if it
 * makes no valid launch. */
Recorded *record_next(void (*launch)(void *), void *data);

/* Remove `capture`. If it is invalid, also remove its graph. Requires the
 * lock. */
void end_capture(Sequence *capture);

} // namespace simt::SIMT_FIBERS

struct CUgraphNode_st {
    cudaGraph_t graph;
    unsigned number;                    /* index of the node in its graph */
    cudaGraphNode_t original = nullptr; /* in a clone: the node that was
                                         * cloned */
    simt::Work work;
    simt::Nodes after; /* the nodes that it depends on */
};

struct CUgraph_st {
    simt::Nodes nodes; /* in the order in which they were added */
    unsigned numbers = 0;
    CUgraph_st() = default;
    CUgraph_st(const CUgraph_st &) = delete;
    ~CUgraph_st();
};

/* An executable graph: the work of the nodes in an order that preserves the
 * dependencies. */
struct CUgraphExec_st {
    struct Step {
        cudaGraphNode_t node; /* only compared as an address; the node may no
                               * longer exist */
        simt::Work work;
        bool enabled;
    };
    std::vector<Step> steps;
    std::vector<std::vector<size_t>> after; /* dependencies of each step, for an
                                             * update */
};
#endif
