/* context.cuh -- the definition of a weft_cnn, for the files that implement it.
 * These are cnn.cu (creation, weights), data.cu (memory, data sets), step.cu
 * (steps, timing), and parts.cu (steps in parts). Rungs do not use this header;
 * they use cnn.h. */
#ifndef WEFT_CNN_CONTEXT_CUH
#define WEFT_CNN_CONTEXT_CUH
#include "cnn.h"
#include "common/internal.cuh"

enum { LOSSES = 65536, MAX_SECTIONS = 64 };

struct dataset {
    struct cnn_memory memory;
    uint8_t *images, *labels; /* labels may be NULL */
    int count;                /* 0: no set was given */
};

/* The images of the queued steps, in their order. */
struct order {
    struct cnn_memory memory;
    int32_t *device;    /* read by the steps */
    int32_t *host;      /* page-locked, so that the copy need not wait */
    int capacity;       /* of `device` and `host` */
    cudaEvent_t copied; /* after this event `host` may be overwritten */
};

struct cnn_marks {
    cudaEvent_t events[MAX_SECTIONS + 1]; /* the start of the step, then each
                                           * section's end */
    const char *names[MAX_SECTIONS];
    int made;  /* number of events created */
    int count; /* number of sections that ended, even those without an event */
    cudaError_t error;
};

/* A step in parts (parts.cu). */
enum progress { NO_STEP, BEGUN, COMPLETE };
struct parts {
    enum progress progress;
    int at; /* the rung's next part */
    struct cnn_share share;
    int recorded;       /* whether `stream` captures the step */
    weft_stream stream; /* only if `recorded` */
};

/* A step that weft_cnn_replay() repeats. */
struct recording {
    cudaGraphExec_t exec; /* NULL: there is none */
    int batch;
};

struct weft_cnn {
    const struct cnn_impl *impl;
    const char *rung; /* its name */
    void *state;      /* the state of the rung */
    struct weft_cnn_config config;
    int device;
    struct cnn_memory memory;
    float *losses;            /* a ring: step i writes losses[i % LOSSES] */
    int64_t steps, collected; /* steps queued; steps whose losses were
                               * collected */
    float *logits;            /* (max_batch,classes) */
    struct dataset sets[2];   /* indexed by weft_cnn_dataset */
    struct order order;
    struct parts parts;
    struct recording recording;
    cudaEvent_t done; /* recorded at the end of the last call's work */
    struct cnn_marks marks;
};

/* The state of a call. During the call, the context's device is current, and
 * its work follows the last call's work, possibly on another stream. On the CPU
 * the call watches for Ctrl-C. While a step is recorded, the event `done` is
 * not used, because it is from outside the capture. */
struct visit {
    struct weft_watch watch;
    weft_cnn *cnn;
    cudaStream_t stream;
    int outside; /* device that the caller had made current */
    cudaError_t error;

    visit(weft_cnn *visited, weft_stream on)
        : cnn(visited), stream(weft_cuda_stream(on)), outside(0) {
        error = cudaGetDevice(&outside);
        if (!error && outside != cnn->device)
            error = cudaSetDevice(cnn->device);
        if (!error && !cnn->parts.recorded)
            error = cudaStreamWaitEvent(stream, cnn->done, 0);
    }
    ~visit() {
        // If this call fails, the queued work is the cause. weft_sync() reports
        // the error.
        if (!cnn->parts.recorded) cudaEventRecord(cnn->done, stream);
        if (outside != cnn->device) cudaSetDevice(outside);
    }
};

/* Begin a function that queues work for `cnn`; must be its first line. */
#define CNN_VISIT(cnn, stream)                                    \
    WEFT_REQUIRE(cnn, "%s: the model is NULL", __func__);         \
    WEFT_REQUIRE(!cnn->parts.recorded,                            \
                 "%s: a step is being recorded; call "            \
                 "weft_cnn_update() or weft_cnn_abandon() first", \
                 __func__);                                       \
    CNN_VISIT_STEP(cnn, stream)

/* The same for a function that may be called while a step is recorded. */
#define CNN_VISIT_STEP(cnn, stream)                                            \
    WEFT_REQUIRE(cnn, "%s: the model is NULL", __func__);                      \
    WEFT_REQUIRE(!cnn->parts.recorded || cnn->parts.stream == (stream),        \
                 "%s: the step is recorded on stream %p, not on %p", __func__, \
                 (void *)cnn->parts.stream, (void *)(stream));                 \
    struct visit visit_(cnn, stream);                                          \
    if (visit_.error) return weft_cuda_fail(visit_.error, __func__)

/* ---- data.cu ------------------------------------------------------------- */

/* Make room for `count` indices, or free the memory. */
int cnn_grow_order(struct order *order, int count, weft_stream stream);
void cnn_release_order(struct order *order);

/* Copy the order to the device without waiting for steps that are already
 * queued. */
int cnn_send_order(struct order *to, const int32_t *order, int count,
                   weft_stream stream);

/* Reject the number of an unknown data set, a data set that was not given, and
 * indices beyond its end. Messages contain `function`. */
int cnn_check_set(const char *function, int set);
int cnn_check_given(const weft_cnn *cnn, const char *function, int set);
int cnn_check_order(const weft_cnn *cnn, const char *function, int set,
                    const int32_t *order, int count);

/* ---- step.cu ------------------------------------------------------------- */

int cnn_check_labels(const weft_cnn *cnn, const char *function);
int cnn_check_rate(const char *function, float lr);

/* Return WEFT_EINTR if Ctrl-C was pressed before a step. */
int cnn_check_interrupt(const weft_cnn *cnn);

/* ---- parts.cu ------------------------------------------------------------ */

/* Reject a call in the middle of a step in parts. */
int cnn_check_idle(const weft_cnn *cnn, const char *function);

#endif
