/* cuda_stream.h -- streams and events. Work is finished when the call that
 * queues it returns. So a stream is only a name, a priority and, while it
 * captures, a growing graph. */
#ifndef SIMT_CUDA_STREAM_H
#define SIMT_CUDA_STREAM_H
#include "driver_types.h"
#pragma GCC visibility push(default)

cudaError_t cudaStreamCreate(cudaStream_t *stream);
cudaError_t cudaStreamCreateWithFlags(cudaStream_t *stream, unsigned flags);
/* A priority outside the range of cudaDeviceGetStreamPriorityRange() is clamped
 * to it. Lower numbers are higher priorities. */
cudaError_t cudaStreamCreateWithPriority(cudaStream_t *stream, unsigned flags,
                                         int priority);
cudaError_t cudaStreamDestroy(cudaStream_t stream);
cudaError_t cudaStreamQuery(cudaStream_t stream);
cudaError_t cudaStreamSynchronize(cudaStream_t stream);
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event,
                                unsigned flags = 0);
cudaError_t cudaStreamGetPriority(cudaStream_t stream, int *priority);
cudaError_t cudaStreamGetFlags(cudaStream_t stream, unsigned *flags);
cudaError_t cudaStreamGetId(cudaStream_t stream, unsigned long long *id);
cudaError_t cudaStreamGetDevice(cudaStream_t stream, int *device);
cudaError_t cudaStreamSetAttribute(cudaStream_t stream, cudaStreamAttrID id,
                                   const cudaStreamAttrValue *value);
cudaError_t cudaStreamGetAttribute(cudaStream_t stream, cudaStreamAttrID id,
                                   cudaStreamAttrValue *value);
cudaError_t cudaDeviceGetStreamPriorityRange(int *least, int *greatest);

/* Host functions run in the thread that queues them. */
cudaError_t cudaStreamAddCallback(cudaStream_t stream,
                                  cudaStreamCallback_t callback, void *data,
                                  unsigned flags);
cudaError_t cudaLaunchHostFunc(cudaStream_t stream, cudaHostFn_t function,
                               void *data);

cudaError_t cudaEventCreateWithFlags(cudaEvent_t *event, unsigned flags);
cudaError_t cudaEventCreate(cudaEvent_t *event);
cudaError_t cudaEventDestroy(cudaEvent_t event);
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream = 0);
cudaError_t cudaEventRecordWithFlags(cudaEvent_t event, cudaStream_t stream = 0,
                                     unsigned flags = 0);
/* An event that was never recorded is complete, as on a GPU. */
cudaError_t cudaEventQuery(cudaEvent_t event);
cudaError_t cudaEventSynchronize(cudaEvent_t event);
cudaError_t cudaEventElapsedTime(float *ms, cudaEvent_t from, cudaEvent_t to);

#pragma GCC visibility pop

static inline cudaError_t cudaEventCreate(cudaEvent_t *event, unsigned flags) {
    return cudaEventCreateWithFlags(event, flags);
}
#endif
