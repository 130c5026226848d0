/* cuda_stream_private.h -- streams, events, and the queueing of work; private
 * to the runtime. */
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

namespace simt::SIMT_FIBERS {

/* A capture sequence: the streams that add work to one graph. */
struct Sequence {
    cudaGraph_t graph;
    cudaStream_t origin;
    enum cudaStreamCaptureMode mode;
    std::thread::id thread;
    unsigned long long id;
    bool invalid = false;
};

typedef std::vector<cudaGraphNode_t> Nodes;

/* The lock of streams, events and the graphs that are being captured. */
extern std::recursive_mutex &stream_lock;
typedef std::lock_guard<std::recursive_mutex> Guard;

/* The number of active captures. While it is 0, no thread needs the lock. */
extern std::atomic<int> captures;

/* Return the stream of a handle, or NULL if the handle is invalid. */
CUstream_st *stream_of(cudaStream_t stream);
CUevent_st *event_of(cudaEvent_t event);
extern CUstream_st &legacy;

/* All events, and every capturing stream of this process. Both require the
 * lock. */
extern std::set<cudaEvent_t> &events;
std::vector<CUstream_st *> capturing_streams();

/* Prepare for work on `stream`. If the result is cudaSuccess and *recording is
 * NULL, the caller must do the work now. Otherwise, the caller must add it as a
 * node of the capture of stream *recording. */
cudaError_t begin_work(cudaStream_t stream, CUstream_st **recording);

/* End the capture if it forbids the calling function (allocating, or waiting
 * for the device), and return the error. With `always`, the relaxed mode
 * forbids the function, too. */
cudaError_t forbid_while_capturing(bool always);

/* Invalidate the captures of all streams that the legacy stream would have to
 * wait for. Return an error if there are any, because their work has not run
 * yet. Requires the lock. */
cudaError_t forbid_legacy();

/* Return the error of an earlier kernel, for a call that waits for the
 * device. */
inline cudaError_t arrive() {
    check_after_launches();
    return set_error(pending_error());
}

/* cuda_graph.cpp: return whether each of `nodes` is one of `others`, or is a
 * node on which one of `others` depends. */
bool joined(const Nodes &nodes, const Nodes &others);

} // namespace simt::SIMT_FIBERS

struct CUstream_st {
    unsigned flags = 0;
    int priority = 0;
    unsigned long long id = 0;
    std::shared_ptr<simt::Sequence> capture;
    simt::Nodes last; /* the nodes that the next node depends on */
    cudaStreamAttrValue window = {}, policy = {};
};

struct CUevent_st {
    unsigned flags = 0;
    long long time = 0; /* in nanoseconds; 0: not recorded so far */
    std::shared_ptr<simt::Sequence> capture;
    simt::Nodes nodes; /* the nodes that were queued before it in that
                        * capture */
};
#endif
