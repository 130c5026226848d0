/* cuda_capture.cpp -- stream capture, which turns the work queued on a stream
 * into a graph; see cuda_graph.h. */
#include "cuda_graph_private.h"
#include "cuda_stream.h"

namespace simt::SIMT_FIBERS {

static thread_local cudaStreamCaptureMode thread_mode =
    cudaStreamCaptureModeGlobal;

/* ---- calls that a capture allows ---------------------------------------- */

/* Return whether `capture` forbids unsafe calls of this thread. A capture in
 * the global mode forbids them in every thread, unless that thread is in the
 * relaxed mode. */
static bool minds(const Sequence &capture) {
    if (thread_mode == cudaStreamCaptureModeRelaxed ||
        capture.mode == cudaStreamCaptureModeRelaxed)
        return false;
    if (capture.thread == std::this_thread::get_id()) return true;
    return capture.mode == cudaStreamCaptureModeGlobal &&
           thread_mode == cudaStreamCaptureModeGlobal;
}

cudaError_t forbid_while_capturing(bool always) {
    if (!captures) return cudaSuccess;
    Guard guard(stream_lock);
    bool forbidden = false;
    for (CUstream_st *stream : capturing_streams())
        if (always || minds(*stream->capture))
            stream->capture->invalid = forbidden = true;
    return forbidden ? set_error(cudaErrorStreamCaptureUnsupported)
                     : cudaSuccess;
}

cudaError_t forbid_legacy() {
    bool forbidden = false;
    for (CUstream_st *stream : capturing_streams())
        if (!(stream->flags & cudaStreamNonBlocking))
            stream->capture->invalid = forbidden = true;
    return forbidden ? set_error(cudaErrorStreamCaptureImplicit) : cudaSuccess;
}

cudaError_t begin_work(cudaStream_t stream, CUstream_st **recording) {
    *recording = 0;
    if (!captures && (!stream || stream == cudaStreamLegacy))
        return cudaSuccess;
    Guard guard(stream_lock);
    CUstream_st *on = stream_of(stream);
    if (!on) return set_error(cudaErrorInvalidResourceHandle);
    if (on == &legacy) return forbid_legacy();
    if (!on->capture) return cudaSuccess;
    if (on->capture->invalid)
        return set_error(cudaErrorStreamCaptureInvalidated);
    *recording = on;
    return cudaSuccess;
}

/* ---- kernels ------------------------------------------------------------ */

static thread_local Recorded **wanted; // receives the next launch, which then
                                       // does not run

/* Return whether to keep a launch instead of running it. The runtime calls this
 * before each launch. */
static bool keeps(cudaStream_t stream) {
    if (wanted) return true;
    if (!captures && (!stream || stream == cudaStreamLegacy)) return false;
    Guard guard(stream_lock);
    const CUstream_st *on = stream_of(stream);
    return !on || on->capture || (on == &legacy && captures);
}

static void keep(Recorded *recorded) {
    CUstream_st *recording = 0;
    if (wanted)
        *wanted = recorded;
    else if (begin_work(recorded->stream, &recording))
        forget(recorded);
    else if (recording)
        add_work(recording, kernel_work(recorded));
    else // the legacy stream, which no capture forbids
        replay(recorded), forget(recorded);
}

static const Capture hooks = {keeps, keep};
[[maybe_unused]] static const bool installed = (capture = &hooks, true);

Recorded *record_next(void (*launch)(void *), void *data) {
    Recorded *recorded = 0;
    wanted = &recorded;
    launch(data);
    wanted = 0;
    return recorded;
}

} // namespace simt::SIMT_FIBERS

using namespace simt;

/* ---- capture ------------------------------------------------------------ */

/* Make `stream` continue after the work queued before the captured `event`. */
static cudaError_t join(CUstream_st *stream, const CUevent_st *event) {
    if (!event->capture) {
        if (!stream->capture || !event->time) return cudaSuccess;
        stream->capture->invalid = true;
        return set_error(cudaErrorStreamCaptureIsolation);
    }
    if (stream == &legacy) {
        event->capture->invalid = true;
        return set_error(cudaErrorStreamCaptureImplicit);
    }
    if (stream->capture && stream->capture != event->capture) {
        stream->capture->invalid = event->capture->invalid = true;
        return set_error(cudaErrorStreamCaptureMerge);
    }
    if (!stream->capture) stream->last.clear();
    stream->capture = event->capture;
    for (cudaGraphNode_t node : event->nodes) {
        bool there = false;
        for (cudaGraphNode_t other : stream->last) there |= node == other;
        if (!there) stream->last.push_back(node);
    }
    return cudaSuccess;
}

cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event,
                                unsigned flags) {
    Guard guard(stream_lock);
    CUstream_st *on = stream_of(stream);
    const CUevent_st *for_what = event_of(event);
    if (!on || !for_what) return set_error(cudaErrorInvalidResourceHandle);
    if (flags > cudaEventWaitExternal) return set_error(cudaErrorInvalidValue);
    if (on->capture && on->capture->invalid)
        return set_error(cudaErrorStreamCaptureInvalidated);
    return join(on, for_what);
}

cudaError_t cudaStreamBeginCapture(cudaStream_t stream,
                                   enum cudaStreamCaptureMode mode) {
    static unsigned long long sequence;
    Guard guard(stream_lock);
    CUstream_st *on = stream_of(stream);
    if (!on) return set_error(cudaErrorInvalidResourceHandle);
    if (mode < cudaStreamCaptureModeGlobal ||
        mode > cudaStreamCaptureModeRelaxed)
        return set_error(cudaErrorInvalidValue);
    if (on == &legacy) return set_error(cudaErrorStreamCaptureUnsupported);
    if (on->capture) return set_error(cudaErrorIllegalState);
    Sequence *capture = new Sequence;
    capture->graph = new CUgraph_st;
    capture->origin = on;
    capture->mode = mode;
    capture->thread = std::this_thread::get_id();
    capture->id = ++sequence;
    on->capture.reset(capture);
    on->last.clear();
    captures++;
    return cudaSuccess;
}

/* Remove all streams and events from `capture`. */
void simt::end_capture(Sequence *capture) {
    for (CUstream_st *stream : capturing_streams())
        if (stream->capture.get() == capture && stream != capture->origin) {
            stream->last.clear();
            stream->capture.reset();
        }
    for (CUevent_st *event : events)
        if (event->capture.get() == capture) {
            event->nodes.clear();
            event->capture.reset();
        }
    captures--;
    if (capture->invalid) delete capture->graph;
    capture->origin->last.clear();
    capture->origin->capture.reset(); // the capturing stream no longer exists
}

/* Return whether the work added by other streams leads back to the stream where
 * the capture began. */
static bool all_joined(const Sequence *capture) {
    for (CUstream_st *stream : capturing_streams())
        if (stream->capture.get() == capture && stream != capture->origin &&
            !joined(stream->last, capture->origin->last))
            return false;
    return true;
}

cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t *graph) {
    Guard guard(stream_lock);
    CUstream_st *on = stream_of(stream);
    if (!on) return set_error(cudaErrorInvalidResourceHandle);
    if (!graph) return set_error(cudaErrorInvalidValue);
    *graph = 0;
    Sequence *capture = on->capture.get();
    if (!capture) return set_error(cudaErrorIllegalState);
    if (capture->origin != on) {
        capture->invalid = true;
        return set_error(cudaErrorStreamCaptureUnmatched);
    }
    if (capture->mode != cudaStreamCaptureModeRelaxed &&
        capture->thread != std::this_thread::get_id())
        return set_error(cudaErrorStreamCaptureWrongThread);
    cudaError_t error = capture->invalid ? cudaErrorStreamCaptureInvalidated
                        : !all_joined(capture) ? cudaErrorStreamCaptureUnjoined
                                               : cudaSuccess;
    capture->invalid = error;
    if (!error) *graph = capture->graph;
    end_capture(capture);
    return set_error(error);
}

cudaError_t cudaStreamGetCaptureInfo(cudaStream_t stream,
                                     enum cudaStreamCaptureStatus *status,
                                     unsigned long long *id, cudaGraph_t *graph,
                                     const cudaGraphNode_t **dependencies,
                                     size_t *count) {
    Guard guard(stream_lock);
    CUstream_st *on = stream_of(stream);
    if (!on) return set_error(cudaErrorInvalidResourceHandle);
    if (!status) return set_error(cudaErrorInvalidValue);
    if (on == &legacy)
        if (cudaError_t error = forbid_legacy()) return error;
    const Sequence *capture = on->capture.get();
    *status = !capture           ? cudaStreamCaptureStatusNone
              : capture->invalid ? cudaStreamCaptureStatusInvalidated
                                 : cudaStreamCaptureStatusActive;
    if (*status != cudaStreamCaptureStatusActive) return cudaSuccess;
    if (id) *id = capture->id;
    if (graph) *graph = capture->graph;
    if (dependencies) *dependencies = on->last.data();
    if (count) *count = on->last.size();
    return cudaSuccess;
}

cudaError_t cudaStreamIsCapturing(cudaStream_t stream,
                                  enum cudaStreamCaptureStatus *status) {
    return cudaStreamGetCaptureInfo(stream, status);
}

cudaError_t
cudaThreadExchangeStreamCaptureMode(enum cudaStreamCaptureMode *mode) {
    if (!mode || *mode < cudaStreamCaptureModeGlobal ||
        *mode > cudaStreamCaptureModeRelaxed)
        return set_error(cudaErrorInvalidValue);
    const cudaStreamCaptureMode before = thread_mode;
    thread_mode = *mode;
    *mode = before;
    return cudaSuccess;
}
