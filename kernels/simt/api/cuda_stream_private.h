/* cuda_stream_private.h -- streams, events, and how work is queued on them:
 * private to the runtime. */
#ifndef SIMT_CUDA_STREAM_PRIVATE_H
#define SIMT_CUDA_STREAM_PRIVATE_H
#include <atomic>
#include <memory>
#include <mutex>
#include <set>
#include <thread>
#include <vector>

#include "../runtime/runtime.h"
#include "cuda_graph.h"
#include "cuda_heap.h"

namespace simt {
#ifdef SIMT_UCONTEXT
inline namespace ucontext_fibers {
#else
inline namespace asm_fibers {
#endif

/* A capture sequence: the streams that add to one graph. */
struct Sequence {
    cudaGraph_t graph;
    cudaStream_t origin;
    enum cudaStreamCaptureMode mode;
    std::thread::id thread;
    unsigned long long id;
    bool invalid = false;
};

typedef std::vector<cudaGraphNode_t> Nodes;

/* Guards streams, events and the graphs that are being captured. */
extern std::recursive_mutex &stream_lock;
typedef std::lock_guard<std::recursive_mutex> Guard;

/* The number of active captures: while it is 0, no thread needs the lock. */
extern std::atomic<int> captures;

/* Return the stream behind a handle, NULL if it is none. */
CUstream_st *stream_of(cudaStream_t stream);
CUevent_st *event_of(cudaEvent_t event);
extern CUstream_st &legacy;

/* All events, and every stream of this process that captures: both require the
 * lock. */
extern std::set<cudaEvent_t> &events;
std::vector<CUstream_st *> capturing_streams();

/* Called before work is queued on `stream`. cudaSuccess: do it now if
 * *recording is NULL, else add it as a node there. */
cudaError_t begin_work(cudaStream_t stream, CUstream_st **recording);

/* A call that a capture forbids (allocating, waiting for the device; with
 * `always` even in the relaxed mode) ends the capture and returns the error. */
cudaError_t forbid_while_capturing(bool always);

/* The legacy stream waits for all blocking streams: one that captures has
 * nothing to wait for yet. Requires the lock. */
cudaError_t forbid_legacy();

/* For a call that waits for the device: return the error of a kernel that ran
 * before. */
inline cudaError_t arrive() {
    check_after_launches();
    return set_error(pending_error());
}

/* cuda_graph.cpp: whether each of `nodes` is one of `others`, or they wait for
 * it. */
bool joined(const Nodes &nodes, const Nodes &others);

} // namespace
} // namespace simt

struct CUstream_st {
    unsigned flags = 0;
    int priority = 0;
    unsigned long long id = 0;
    std::shared_ptr<simt::Sequence> capture;
    simt::Nodes last; /* the nodes that the next one has to wait for */
    cudaStreamAttrValue window = {}, policy = {};
};

struct CUevent_st {
    unsigned flags = 0;
    long long time = 0; /* nanoseconds; 0: not recorded yet */
    std::shared_ptr<simt::Sequence> capture;
    simt::Nodes nodes; /* the nodes queued before it in that capture */
};
#endif
