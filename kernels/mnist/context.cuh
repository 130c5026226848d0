/* context.cuh -- the definition of a weft_cnn, for the files that implement it:
 * cnn.cu (building, weights), data.cu (memory, data sets), step.cu (steps,
 * timing). Rungs do not use this; they use cnn.h. */
#ifndef WEFT_CNN_CONTEXT_CUH
#define WEFT_CNN_CONTEXT_CUH
#include "cnn.h"
#include "common/internal.cuh"

enum { LOSSES = 65536, MAX_SECTIONS = 64 };

struct dataset {
    struct cnn_memory memory;
    uint8_t *images, *labels; /* labels may be NULL */
    int count;                /* 0: none was given */
};

/* The images that the queued steps take, in their order. */
struct order {
    struct cnn_memory memory;
    int32_t *device;    /* read by the steps */
    int32_t *host;      /* page-locked, so that the copy need not wait */
    int capacity;       /* of both */
    cudaEvent_t copied; /* `host` may be written again */
};

struct cnn_marks {
    cudaEvent_t events[MAX_SECTIONS + 1]; /* the start, the end of each */
    const char *names[MAX_SECTIONS];
    int made;  /* events that exist */
    int count; /* sections that ended, even without room for them */
    cudaError_t error;
};

struct weft_cnn {
    const struct cnn_impl *impl;
    void *state; /* the rung's */
    struct weft_cnn_config config;
    int device;
    struct cnn_memory memory;
    float *losses;            /* a ring: step i writes losses[i % LOSSES] */
    int64_t steps, collected; /* steps queued; of these, collected */
    float *logits;            /* (max_batch,classes) */
    struct dataset sets[2];   /* indexed by weft_cnn_dataset */
    struct order order;
    cudaEvent_t done; /* the end of the last call's work */
    struct cnn_marks marks;
};

/* For the duration of a call: the context's device is current, its work follows
 * that of the last call (which may have used another stream), and on the CPU
 * Ctrl-C is watched. */
struct visit {
    struct weft_watch watch;
    weft_cnn *cnn;
    cudaStream_t stream;
    int outside; /* the caller's device */
    cudaError_t error;

    visit(weft_cnn *visited, weft_stream on)
        : cnn(visited), stream(weft_cuda_stream(on)), outside(0) {
        error = cudaGetDevice(&outside);
        if (!error && outside != cnn->device)
            error = cudaSetDevice(cnn->device);
        if (!error) error = cudaStreamWaitEvent(stream, cnn->done, 0);
    }
    ~visit() {
        // A failure here comes from the work itself; weft_sync() reports it.
        cudaEventRecord(cnn->done, stream);
        if (outside != cnn->device) cudaSetDevice(outside);
    }
};

/* The first line of a function that queues work for `cnn`. */
#define CNN_VISIT(cnn, stream)                            \
    WEFT_REQUIRE(cnn, "%s: the model is NULL", __func__); \
    struct visit visit_(cnn, stream);                     \
    if (visit_.error) return weft_cuda_fail(visit_.error, __func__)

/* ---- data.cu ------------------------------------------------------------- */

/* Make room for `count` indices. */
int cnn_grow_order(struct order *order, int count, weft_stream stream);
void cnn_release_order(struct order *order);

/* Copy the order to the device without waiting for the steps queued before. */
int cnn_send_order(struct order *to, const int32_t *order, int count,
                   weft_stream stream);

/* Refuse a number that is no data set, a data set that does not exist, and
 * indices beyond it; messages name `function`. */
int cnn_check_set(const char *function, int set);
int cnn_check_order(const weft_cnn *cnn, const char *function, int set,
                    const int32_t *order, int count);

#endif
