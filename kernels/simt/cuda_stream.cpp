/* cuda_stream.cpp -- streams, events and stream capture: see cuda_stream.h and
 * cuda_graph.h. */
#include <time.h>

#include <set>

#include "cuda_graph_private.h"
#include "cuda_stream.h"

namespace simt {
#ifdef SIMT_UCONTEXT
inline namespace ucontext_fibers {
#else
inline namespace asm_fibers {
#endif

std::recursive_mutex &stream_lock = *new std::recursive_mutex;
std::atomic<int> captures;

typedef std::lock_guard<std::recursive_mutex> Guard;

/* The handles that are valid. Never destroyed: calls may come late. */
static std::set<cudaStream_t> &streams = *new std::set<cudaStream_t>;
static std::set<cudaEvent_t> &events = *new std::set<cudaEvent_t>;
static CUstream_st &legacy = *new CUstream_st;
static std::atomic<unsigned long long> ids{2};
static thread_local cudaStreamCaptureMode thread_mode =
    cudaStreamCaptureModeGlobal;

static CUstream_st *per_thread() {
    static thread_local CUstream_st stream;
    if (!stream.id) stream.id = 2;
    return &stream;
}

CUstream_st *stream_of(cudaStream_t stream) {
    if (!stream || stream == cudaStreamLegacy) return &legacy;
    if (stream == cudaStreamPerThread) return per_thread();
    Guard guard(stream_lock);
    return streams.count(stream) ? stream : 0;
}

CUevent_st *event_of(cudaEvent_t event) {
    Guard guard(stream_lock);
    return events.count(event) ? event : 0;
}

/* ---- what a capture allows ---------------------------------------------- */

/* Every stream of this process that captures. */
static std::vector<CUstream_st *> capturing_streams() {
    std::vector<CUstream_st *> found;
    for (CUstream_st *stream : streams)
        if (stream->capture) found.push_back(stream);
    if (per_thread()->capture) found.push_back(per_thread());
    return found;
}

/* Whether a capture in `mode`, begun by `thread`, minds what this thread does:
 * one in the global mode minds everybody, unless he is relaxed himself. */
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

/* The legacy stream waits for all blocking streams: one that captures has
 * nothing to wait for yet. */
static cudaError_t forbid_legacy() {
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

/* What a call that waits for `stream` has to say. */
static cudaError_t wait_for(cudaStream_t stream) {
    CUstream_st *on = stream_of(stream);
    if (!on) return set_error(cudaErrorInvalidResourceHandle);
    if (captures) {
        Guard guard(stream_lock);
        if (on == &legacy) {
            if (cudaError_t error = forbid_legacy()) return error;
        } else if (on->capture) {
            on->capture->invalid = true;
            return set_error(cudaErrorStreamCaptureUnsupported);
        }
    }
    return arrive();
}

/* ---- kernels ------------------------------------------------------------ */

static thread_local Recorded **wanted; // where the next launch goes instead

/* The runtime asks before each launch whether to run it. */
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
    else // the legacy stream, and nothing that captures minds it
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

} // namespace
} // namespace simt

using namespace simt;

/* ---- streams ------------------------------------------------------------ */

enum { LEAST_PRIORITY = 0, GREATEST_PRIORITY = -5 }; // of an sm_90

cudaError_t cudaStreamCreateWithPriority(cudaStream_t *stream, unsigned flags,
                                         int priority) {
    if (!stream || flags > cudaStreamNonBlocking)
        return set_error(cudaErrorInvalidValue);
    Guard guard(stream_lock);
    *stream = new CUstream_st;
    (*stream)->flags = flags;
    (*stream)->priority = priority > LEAST_PRIORITY      ? LEAST_PRIORITY
                          : priority < GREATEST_PRIORITY ? GREATEST_PRIORITY
                                                         : priority;
    (*stream)->id = ++ids;
    streams.insert(*stream);
    return cudaSuccess;
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t *stream, unsigned flags) {
    return cudaStreamCreateWithPriority(stream, flags, 0);
}

cudaError_t cudaStreamCreate(cudaStream_t *stream) {
    return cudaStreamCreateWithPriority(stream, cudaStreamDefault, 0);
}

cudaError_t cudaStreamDestroy(cudaStream_t stream) {
    Guard guard(stream_lock);
    if (!streams.erase(stream))
        return set_error(cudaErrorInvalidResourceHandle);
    if (stream->capture && stream->capture->origin == stream) {
        stream->capture->invalid = true;
        end_capture(stream->capture.get());
    }
    delete stream;
    return cudaSuccess;
}

cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
    return wait_for(stream);
}
cudaError_t cudaStreamQuery(cudaStream_t stream) { return wait_for(stream); }

cudaError_t cudaStreamGetPriority(cudaStream_t stream, int *priority) {
    CUstream_st *on = stream_of(stream);
    if (!on) return set_error(cudaErrorInvalidResourceHandle);
    if (!priority) return set_error(cudaErrorInvalidValue);
    *priority = on->priority;
    return cudaSuccess;
}

cudaError_t cudaStreamGetFlags(cudaStream_t stream, unsigned *flags) {
    CUstream_st *on = stream_of(stream);
    if (!on) return set_error(cudaErrorInvalidResourceHandle);
    if (!flags) return set_error(cudaErrorInvalidValue);
    *flags = on->flags;
    return cudaSuccess;
}

cudaError_t cudaStreamGetId(cudaStream_t stream, unsigned long long *id) {
    CUstream_st *on = stream_of(stream);
    if (!on) return set_error(cudaErrorInvalidResourceHandle);
    if (!id) return set_error(cudaErrorInvalidValue);
    *id = on == &legacy ? 1 : on->id;
    return cudaSuccess;
}

cudaError_t cudaStreamGetDevice(cudaStream_t stream, int *device) {
    if (!stream_of(stream)) return set_error(cudaErrorInvalidResourceHandle);
    return cudaGetDevice(device);
}

/* Where a stream keeps this attribute; NULL: it has none of that kind. */
static cudaStreamAttrValue *attribute_of(CUstream_st *on, cudaStreamAttrID id) {
    if (id == cudaLaunchAttributeAccessPolicyWindow) return &on->window;
    if (id == cudaLaunchAttributeSynchronizationPolicy) return &on->policy;
    return 0;
}

cudaError_t cudaStreamSetAttribute(cudaStream_t stream, cudaStreamAttrID id,
                                   const cudaStreamAttrValue *value) {
    CUstream_st *on = stream_of(stream);
    if (!on) return set_error(cudaErrorInvalidResourceHandle);
    cudaStreamAttrValue *kept = attribute_of(on, id);
    if (!value || (!kept && id != cudaLaunchAttributePriority))
        return set_error(cudaErrorInvalidValue);
    if (kept)
        *kept = *value;
    else
        on->priority = value->priority;
    return cudaSuccess;
}

cudaError_t cudaStreamGetAttribute(cudaStream_t stream, cudaStreamAttrID id,
                                   cudaStreamAttrValue *value) {
    CUstream_st *on = stream_of(stream);
    if (!on) return set_error(cudaErrorInvalidResourceHandle);
    const cudaStreamAttrValue *kept = attribute_of(on, id);
    if (!value || (!kept && id != cudaLaunchAttributePriority))
        return set_error(cudaErrorInvalidValue);
    if (kept)
        *value = *kept;
    else
        value->priority = on->priority;
    return cudaSuccess;
}

cudaError_t cudaDeviceGetStreamPriorityRange(int *least, int *greatest) {
    if (least) *least = LEAST_PRIORITY;
    if (greatest) *greatest = GREATEST_PRIORITY;
    return cudaSuccess;
}

/* ---- host functions ----------------------------------------------------- */

cudaError_t cudaStreamAddCallback(cudaStream_t stream,
                                  cudaStreamCallback_t callback, void *data,
                                  unsigned flags) {
    CUstream_st *recording;
    if (!callback || flags) return set_error(cudaErrorInvalidValue);
    if (cudaError_t error = begin_work(stream, &recording)) return error;
    if (recording) {
        recording->capture->invalid = true;
        return set_error(cudaErrorStreamCaptureUnsupported);
    }
    callback(stream, sticky_error(), data);
    return cudaSuccess;
}

cudaError_t cudaLaunchHostFunc(cudaStream_t stream, cudaHostFn_t function,
                               void *data) {
    CUstream_st *recording;
    if (!function) return set_error(cudaErrorInvalidValue);
    if (cudaError_t error = begin_work(stream, &recording)) return error;
    if (recording) return add_work(recording, host_work({function, data}));
    function(data);
    return cudaSuccess;
}

/* ---- events ------------------------------------------------------------- */

long long simt_nanoseconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000000000ll + now.tv_nsec;
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t *event, unsigned flags) {
    if (!event || flags > 7 ||
        (flags & cudaEventInterprocess && !(flags & cudaEventDisableTiming)))
        return set_error(cudaErrorInvalidValue);
    Guard guard(stream_lock);
    *event = new CUevent_st;
    (*event)->flags = flags;
    events.insert(*event);
    return cudaSuccess;
}

cudaError_t cudaEventCreate(cudaEvent_t *event) {
    return cudaEventCreateWithFlags(event, cudaEventDefault);
}

cudaError_t cudaEventDestroy(cudaEvent_t event) {
    Guard guard(stream_lock);
    if (!events.erase(event)) return set_error(cudaErrorInvalidResourceHandle);
    delete event;
    return cudaSuccess;
}

cudaError_t cudaEventRecordWithFlags(cudaEvent_t event, cudaStream_t stream,
                                     unsigned flags) {
    CUstream_st *recording;
    CUevent_st *to = event_of(event);
    if (!to) return set_error(cudaErrorInvalidResourceHandle);
    if (flags > cudaEventRecordExternal)
        return set_error(cudaErrorInvalidValue);
    if (cudaError_t error = begin_work(stream, &recording)) return error;
    if (recording && flags == cudaEventRecordExternal)
        return add_work(recording,
                        event_work(cudaGraphNodeTypeEventRecord, to));
    Guard guard(stream_lock);
    to->capture.reset();
    to->nodes.clear();
    if (!recording) {
        to->time = simt_nanoseconds();
        return cudaSuccess;
    }
    to->capture = recording->capture;
    to->nodes = recording->last;
    return cudaSuccess;
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
    return cudaEventRecordWithFlags(event, stream, cudaEventRecordDefault);
}

/* The event, if it is one that can be asked; else *error. */
static CUevent_st *settled(cudaEvent_t event, cudaError_t *error) {
    CUevent_st *found = event_of(event);
    *error = !found           ? cudaErrorInvalidResourceHandle
             : found->capture ? cudaErrorCapturedEvent
                              : cudaSuccess;
    if (found && found->capture) found->capture->invalid = true;
    return *error ? 0 : found;
}

cudaError_t cudaEventQuery(cudaEvent_t event) {
    cudaError_t error;
    return settled(event, &error) ? arrive() : set_error(error);
}

cudaError_t cudaEventSynchronize(cudaEvent_t event) {
    cudaError_t error;
    return settled(event, &error) ? arrive() : set_error(error);
}

cudaError_t cudaEventElapsedTime(float *ms, cudaEvent_t from, cudaEvent_t to) {
    if (!ms) return set_error(cudaErrorInvalidValue);
    cudaError_t error;
    const CUevent_st *a = settled(from, &error);
    const CUevent_st *b = a ? settled(to, &error) : 0;
    if (!b) return set_error(error);
    if (!a->time || !b->time || (a->flags | b->flags) & cudaEventDisableTiming)
        return set_error(cudaErrorInvalidResourceHandle);
    *ms = (float)(b->time - a->time) * 1e-6f;
    return arrive();
}

/* ---- capture ------------------------------------------------------------ */

/* `stream` goes on after what was queued before the captured `event`. */
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

/* All streams and events leave `capture`. */
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
    capture->origin->capture.reset(); // it is gone now
}

/* What other streams added must lead back to where the capture began. */
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
