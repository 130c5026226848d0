/* cuda_stream.cpp -- streams, host functions, and events; see cuda_stream.h. */
#include <time.h>

#include "cuda_graph_private.h"
#include "cuda_stream.h"

namespace simt::SIMT_FIBERS {

std::recursive_mutex &stream_lock = *new std::recursive_mutex;
std::atomic<int> captures;

/* The valid handles. The sets are never destroyed, since a program may still
 * make calls while it exits. */
static std::set<cudaStream_t> &streams = *new std::set<cudaStream_t>;
std::set<cudaEvent_t> &events = *new std::set<cudaEvent_t>;
CUstream_st &legacy = *new CUstream_st;
static std::atomic<unsigned long long> ids{2};

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

std::vector<CUstream_st *> capturing_streams() {
    std::vector<CUstream_st *> found;
    for (CUstream_st *stream : streams)
        if (stream->capture) found.push_back(stream);
    if (per_thread()->capture) found.push_back(per_thread());
    return found;
}

/* Return the result of a call that waits for `stream`. */
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

} // namespace simt::SIMT_FIBERS

using namespace simt;

/* ---- streams ------------------------------------------------------------ */

enum { LEAST_PRIORITY = 0, GREATEST_PRIORITY = -5 }; // as on an sm_90

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

/* Return where a stream stores this attribute, or NULL if there is no such
 * attribute. */
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

/* Return the event if it can be queried, or set *error and return NULL. */
static CUevent_st *settled(cudaEvent_t event, cudaError_t *error) {
    Guard guard(stream_lock);
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
