/* cudnn_plans.cuh -- the state of cudnn.cu, and its search. The first step with
 * a new batch size measures all algorithms and stores the fastest. That
 * step then rewrites everything that the search has overwritten.
 *
 * A stream under capture cannot be timed, so the code then uses cuDNN's guess.
 * To compute in strict float32, it rejects convolutions that do not consist of
 * FMAs. */
#ifndef WEFT_CUDNN_PLANS_CUH
#define WEFT_CUDNN_PLANS_CUH
#include "cudnn_functions.h"
#include "layer_ops.h"

/* The choices for a layer of this shape: algorithms of a convolution or, if oc
 * is BATCH_NORM, modes of a batch norm (`data` is the backward mode). */
struct plan {
    struct shape4 in;
    int oc;
    int forward, data, filter;
};

enum { UNKNOWN = -1, BATCH_NORM = 0 };
enum { PLANS = 64 };                // maximum; four for each batch size
enum { ONES = 1 << 20 };            // maximum length of a sum by cuBLAS
#define WORKSPACE ((size_t)2 << 30) // maximum size in bytes

struct vendor {
    struct functions f;
    cudnnHandle_t cudnn;
    cublasHandle_t cublas;
    cudaStream_t stream;                    // set for each call, like the
                                            // following
    cudnnTensorDescriptor_t x, y, channels; // shapes of the arrays of a call
    cudnnFilterDescriptor_t filter;
    cudnnConvolutionDescriptor_t conv;
    cudnnActivationDescriptor_t relu;
    cudnnPoolingDescriptor_t pool;
    struct plan plans[PLANS];
    int plan_count;
    void *workspace;
    size_t workspace_bytes;
    float *ones; // ONES floats of 1
};

static const float one = 1.0f, zero = 0.0f;

#define CUDNN(call)                                                           \
    do {                                                                      \
        const cudnnStatus_t status_ = v->f.call;                              \
        if (status_ != CUDNN_STATUS_SUCCESS)                                  \
            return weft_fail(WEFT_ECUDA, "mnist rung 'cudnn': %s: %s", #call, \
                             v->f.cudnnGetErrorString(status_));              \
    } while (0)
#define CUBLAS(call)                                                          \
    do {                                                                      \
        const cublasStatus_t status_ = v->f.call;                             \
        if (status_ != CUBLAS_STATUS_SUCCESS)                                 \
            return weft_fail(WEFT_ECUDA, "mnist rung 'cudnn': %s: %s", #call, \
                             v->f.cublasGetStatusString(status_));            \
    } while (0)

static int describe(struct vendor *v, cudnnTensorDescriptor_t tensor,
                    struct shape4 s) {
    CUDNN(cudnnSetTensor4dDescriptor(tensor, CUDNN_TENSOR_NCHW,
                                     CUDNN_DATA_FLOAT, s.n, s.c, s.h, s.w));
    return WEFT_OK;
}

/* Return the plan for a layer of this shape. In a new plan, every choice is
 * UNKNOWN. */
static struct plan *find_plan(struct vendor *v, struct shape4 in, int oc) {
    for (int i = 0; i < v->plan_count; i++) {
        struct plan *p = &v->plans[i];
        if (p->in.n == in.n && p->in.c == in.c && p->in.h == in.h &&
            p->in.w == in.w && p->oc == oc)
            return p;
    }
    if (v->plan_count == PLANS) v->plan_count = 0; // discard all plans
    struct plan *made = &v->plans[v->plan_count++];
    *made = {in, oc, UNKNOWN, UNKNOWN, UNKNOWN};
    return made;
}

static bool may_search(const struct vendor *v) {
    cudaStreamCaptureStatus capture = cudaStreamCaptureStatusNone;
    return cudaStreamIsCapturing(v->stream, &capture) == cudaSuccess &&
           capture == cudaStreamCaptureStatusNone;
}

/* ---- convolution --------------------------------------------------------- */

enum { MOST = 16 }; // maximum number of algorithms considered

/* Choose the first of `found`, sorted by speed, that works, fits into the
 * workspace and uses FMAs. */
template <class Found>
static bool choose(const struct vendor *v, const Found *found, int count,
                   int *chosen) {
    for (int i = 0; i < count; i++)
        if (found[i].status == CUDNN_STATUS_SUCCESS &&
            found[i].memory <= v->workspace_bytes &&
            found[i].mathType == CUDNN_FMA_MATH) {
            *chosen = found[i].algo;
            return true;
        }
    return false;
}

/* Choose the first of cuDNN's guesses that fits, after a search without a
 * result or instead of a search. The guesses are for FMAs, the math type set in
 * v->conv. */
template <class Found>
static int choose_guess(const struct vendor *v, const Found *guess, int count,
                        int *chosen) {
    for (int i = 0; i < count; i++)
        if (guess[i].status == CUDNN_STATUS_SUCCESS &&
            guess[i].memory <= v->workspace_bytes) {
            *chosen = guess[i].algo;
            return WEFT_OK;
        }
    return weft_fail(WEFT_ECUDA,
                     "mnist rung 'cudnn': no algorithm for a convolution "
                     "among %d",
                     count);
}

/* Return whether search(found, &count) finds an algorithm. search() is called
 * twice, since the times of the first call include the loading of each kernel.
 * An unsuccessful kernel may leave an error, which the next launch must not
 * report. */
template <class Found, class Search>
static bool found_one(const struct vendor *v, Search search, int *chosen) {
    Found found[MOST];
    int count = 0;
    if (!may_search(v)) return false;
    cudnnStatus_t status = search(found, &count);
    if (status == CUDNN_STATUS_SUCCESS) status = search(found, &count);
    (void)cudaGetLastError();
    return status == CUDNN_STATUS_SUCCESS && choose(v, found, count, chosen);
}

static int search_forward(struct vendor *v, struct plan *plan, float *y,
                          const float *x, const float *weight) {
    typedef cudnnConvolutionFwdAlgoPerf_t perf;
    const auto search = [&](perf *found, int *count) {
        return v->f.cudnnFindConvolutionForwardAlgorithmEx(
            v->cudnn, v->x, x, v->filter, weight, v->conv, v->y, y, MOST, count,
            found, v->workspace, v->workspace_bytes);
    };
    if (found_one<perf>(v, search, &plan->forward)) return WEFT_OK;
    perf guess[MOST];
    int count = 0;
    CUDNN(cudnnGetConvolutionForwardAlgorithm_v7(
        v->cudnn, v->x, v->filter, v->conv, v->y, MOST, &count, guess));
    return choose_guess(v, guess, count, &plan->forward);
}

static int search_data(struct vendor *v, struct plan *plan, float *dx,
                       const float *dy, const float *weight) {
    typedef cudnnConvolutionBwdDataAlgoPerf_t perf;
    const auto search = [&](perf *found, int *count) {
        return v->f.cudnnFindConvolutionBackwardDataAlgorithmEx(
            v->cudnn, v->filter, weight, v->y, dy, v->conv, v->x, dx, MOST,
            count, found, v->workspace, v->workspace_bytes);
    };
    if (found_one<perf>(v, search, &plan->data)) return WEFT_OK;
    perf guess[MOST];
    int count = 0;
    CUDNN(cudnnGetConvolutionBackwardDataAlgorithm_v7(
        v->cudnn, v->filter, v->y, v->conv, v->x, MOST, &count, guess));
    return choose_guess(v, guess, count, &plan->data);
}

static int search_filter(struct vendor *v, struct plan *plan, float *dweight,
                         const float *dy, const float *x) {
    typedef cudnnConvolutionBwdFilterAlgoPerf_t perf;
    const auto search = [&](perf *found, int *count) {
        return v->f.cudnnFindConvolutionBackwardFilterAlgorithmEx(
            v->cudnn, v->x, x, v->y, dy, v->conv, v->filter, dweight, MOST,
            count, found, v->workspace, v->workspace_bytes);
    };
    if (found_one<perf>(v, search, &plan->filter)) return WEFT_OK;
    perf guess[MOST];
    int count = 0;
    CUDNN(cudnnGetConvolutionBackwardFilterAlgorithm_v7(
        v->cudnn, v->x, v->y, v->conv, v->filter, MOST, &count, guess));
    return choose_guess(v, guess, count, &plan->filter);
}

/* ---- batch norm ---------------------------------------------------------- */

/* Call run(mode) twice and store the milliseconds of the second call in *ms. */
template <class Run>
static cudnnStatus_t time_mode(struct vendor *v, const cudaEvent_t ends[2],
                               Run run, cudnnBatchNormMode_t mode, float *ms) {
    cudnnStatus_t status = run(mode);
    cudaEventRecord(ends[0], v->stream);
    if (!status) status = run(mode);
    cudaEventRecord(ends[1], v->stream);
    if (!status && (cudaEventSynchronize(ends[1]) ||
                    cudaEventElapsedTime(ms, ends[0], ends[1])))
        status = CUDNN_STATUS_EXECUTION_FAILED;
    return status;
}

/* Store the faster mode in *mode: the persistent mode, which cuDNN lacks for
 * some shapes, or the other one. */
template <class Run>
static int search_mode(struct vendor *v, int *mode, Run run) {
    cudaEvent_t ends[2];
    float plain = 0, persistent = 0;
    WEFT_CUDA_TRY(cudaEventCreate(&ends[0]));
    WEFT_CUDA_TRY(cudaEventCreate(&ends[1]));
    const cudnnStatus_t first =
        time_mode(v, ends, run, CUDNN_BATCHNORM_SPATIAL, &plain);
    const cudnnStatus_t second = time_mode(
        v, ends, run, CUDNN_BATCHNORM_SPATIAL_PERSISTENT, &persistent);
    (void)cudaGetLastError(); // clear the error of an unavailable mode
    cudaEventDestroy(ends[0]);
    cudaEventDestroy(ends[1]);
    const bool wins = !second && (first || persistent < plain);
    *mode = wins ? CUDNN_BATCHNORM_SPATIAL_PERSISTENT : CUDNN_BATCHNORM_SPATIAL;
    return WEFT_OK;
}

/* Call run(mode) with the fastest mode. */
template <class Run>
static int run_fastest(struct vendor *v, int *mode, Run run) {
    if (*mode == UNKNOWN && may_search(v)) WEFT_TRY(search_mode(v, mode, run));
    const cudnnStatus_t status =
        run(*mode == UNKNOWN ? CUDNN_BATCHNORM_SPATIAL
                             : (cudnnBatchNormMode_t)*mode);
    if (status == CUDNN_STATUS_SUCCESS) return WEFT_OK;
    return weft_fail(WEFT_ECUDA, "mnist rung 'cudnn': batch norm: %s",
                     v->f.cudnnGetErrorString(status));
}

#endif
