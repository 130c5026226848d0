/* weft.h -- every kernel of the lab, as plain C.
 *
 * Functions return WEFT_OK or a negative status. They never print and never
 * exit: the caller is somebody's notebook. After a failure weft_last_error()
 * holds one line that says what failed, with the numbers in it.
 *
 * The same sources build twice: libweft_cpu_* (g++, arrays in host memory) and
 * libweft_cuda_* (nvcc, arrays in the memory of the current CUDA device). In
 * both, arrays are contiguous, row-major float32 unless said otherwise, and
 * must not overlap. Arguments come in one order everywhere:
 *
 *     rung, outputs, inputs, sizes, options (NULL: the defaults), stream
 *
 * `rung` picks an implementation: an index into the op's lines of
 * weft_rungs(). Work is queued on `stream` (NULL: the default one; ignored by
 * the CPU build, which returns when the work is done); weft_sync() waits.
 * Outputs are overwritten, not added to (but for weft_matmul() with a beta).
 * Images are n c h w, filters oc ic kh kw. Sizes must be at least 1. */
#ifndef WEFT_H
#define WEFT_H
#include <stddef.h>
#include <stdint.h>
#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default) /* the rest of a library stays hidden */
/* cdef: lib/weft/toolchain/native.py parses from here ... (declarations only)
 */

enum weft_status {
    WEFT_OK = 0,
    WEFT_EINVAL = -1, /* An argument makes no sense; nothing was launched. */
    WEFT_ECUDA = -2,  /* A CUDA call failed; the context is still good. */
    WEFT_ELOST = -3,  /* A kernel faulted: restart the notebook's kernel. */
    WEFT_ENOMEM = -4, /* Out of memory; the message says how much was asked. */
    WEFT_EINTR = -5   /* Ctrl-C ended the call; its outputs are incomplete. */
};

/* A cudaStream_t, opaque here so that no CUDA header is needed. */
typedef struct weft_stream_st *weft_stream;

/* ---- the library ------------------------------------------------------- */

/* This thread's last failure in one line, or "". */
const char *weft_last_error(void);

/* Wait until the work queued on `stream` is done; reports its failures. */
int weft_sync(weft_stream stream);

/* Make CUDA device `device` current for this thread (CPU build: only 0). */
int weft_set_device(int device);

/* CPU build: use `threads` threads, 0 for one per available core. Holds for the
 * whole process; in a forked child the reference rungs have one thread. */
int weft_set_threads(int threads);

/* CPU build: between two barriers the threads of a block run one after another,
 * 0 forward (the default), 1 in reverse, 2 shuffled. A kernel that lacks a
 * barrier gives itself away in one of them. Holds for the whole process. */
int weft_set_order(int order);

enum weft_target { WEFT_CPU = 1, WEFT_CUDA = 2 };

/* One implementation of an op. The table of all of them is the only list:
 * tests, benchmarks, plots and notebooks iterate it. */
struct weft_rung {
    const char *op;        /* "matmul", "conv2d", ..., "mnist" */
    const char *rung;      /* "reference", "naive", ... */
    const char *idea;      /* one line: what this rung does */
    const char *precision; /* "fp32", "tf32", "3xtf32", "bf16", "fp16" */
    int targets;           /* WEFT_CPU | WEFT_CUDA: where it runs */
    int sm;                /* least compute capability times 10, 0: any */
};

/* The rungs linked into this library, in the order of their index per op;
 * *count receives how many. The table lives as long as the library. */
const struct weft_rung *weft_rungs(int *count);

/* ---- ops --------------------------------------------------------------- */

struct weft_matmul_options {
    int trans_a;       /* 1: a is stored (k,m) and used transposed */
    int trans_b;       /* 1: b is stored (n,k) and used transposed */
    float alpha;       /* c = alpha * a @ b + beta * c + bias; defaults 1, 0. */
    float beta;        /* With beta 0 the old c is never read. */
    const float *bias; /* (n), added to every row; NULL: none */
    int relu;          /* 1: what is below 0 becomes 0; a NaN stays a NaN */
    int batch;         /* this many products side by side; 0 counts as 1 */
    ptrdiff_t stride_a, stride_b, stride_c; /* elements from one matrix of the
                          batch to the next, at least 0; 0 for a or b: the same
                          matrix for all; unused where batch is 1 */
    void *workspace; /* on the target, at a multiple of 256; NULL: none */
    size_t workspace_bytes;
};

/* c (m,n) = a (m,k) @ b (k,n), for each matrix of the batch. The rung's
 * precision says what a and b hold: floats, or for "bf16" and "fp16" such
 * numbers of 16 bits. c, bias and the sums are float. WEFT_EINVAL where a
 * workspace is wanted, and is smaller than weft_matmul_workspace() says or lies
 * at no multiple of 256. */
int weft_matmul(int rung, float *c, const void *a, const void *b, int m, int n,
                int k, const struct weft_matmul_options *options,
                weft_stream stream);

/* *bytes = how large a workspace that very call of weft_matmul() wants, often
 * 0: it depends on the sizes, on how a and b lie (transposed, at which
 * addresses) and on the rung. options->workspace itself is not looked at. */
int weft_matmul_workspace(int rung, size_t *bytes, const void *a, const void *b,
                          int m, int n, int k,
                          const struct weft_matmul_options *options);

struct weft_conv2d_options {
    int padding; /* zeros added on all four sides; default 0 */
};

/* y (n,oc,h',w') = cross-correlation of x (n,ic,h,w) with weight
 * (oc,ic,kh,kw), plus bias (oc; NULL: none); stride 1,
 * h' = h + 2 padding - kh + 1 and w' alike, both at least 1. */
int weft_conv2d(int rung, float *y, const float *x, const float *weight,
                const float *bias, int n, int ic, int h, int w, int oc, int kh,
                int kw, const struct weft_conv2d_options *options,
                weft_stream stream);

/* From dy (n,oc,h',w'): dx like x, dweight like weight, dbias (oc). Each of
 * the three may be NULL: not wanted. x is read only for dweight, weight only
 * for dx; what is not read may be NULL. */
int weft_conv2d_backward(int rung, float *dx, float *dweight, float *dbias,
                         const float *dy, const float *x, const float *weight,
                         int n, int ic, int h, int w, int oc, int kh, int kw,
                         const struct weft_conv2d_options *options,
                         weft_stream stream);

/* y = (x - mean) * rstd * weight + bias, per channel, with the mean and the
 * biased variance over this batch: rstd = 1 / sqrt(var + eps). x, y
 * (n,c,h,w); weight, bias, mean, rstd (c). n*h*w must be more than 1, eps > 0.
 * mean and rstd are outputs, kept for the backward pass. */
int weft_batchnorm2d(int rung, float *y, float *mean, float *rstd,
                     const float *x, const float *weight, const float *bias,
                     int n, int c, int h, int w, float eps, weft_stream stream);

/* dx like x, dweight (c), dbias (c), from dy and what the forward pass kept. */
int weft_batchnorm2d_backward(int rung, float *dx, float *dweight, float *dbias,
                              const float *dy, const float *x,
                              const float *weight, const float *mean,
                              const float *rstd, int n, int c, int h, int w,
                              weft_stream stream);

/* y = max(x, 0), `count` elements; a NaN stays a NaN. */
int weft_relu(int rung, float *y, const float *x, size_t count,
              weft_stream stream);

/* dx = dy where y > 0, else 0; `y` is the forward pass's output. */
int weft_relu_backward(int rung, float *dx, const float *dy, const float *y,
                       size_t count, weft_stream stream);

/* y (n,c,h/kh,w/kw; rounded down) = maxima of the kh x kw windows of x
 * (n,c,h,w), stride = window. argmax like y: where each maximum lies in its
 * window, as i * kw + j; of equal values the first, and a NaN wins. */
int weft_maxpool2d(int rung, float *y, int32_t *argmax, const float *x, int n,
                   int c, int h, int w, int kh, int kw, weft_stream stream);

/* dx like x: dy at each window's argmax, 0 elsewhere. */
int weft_maxpool2d_backward(int rung, float *dx, const float *dy,
                            const int32_t *argmax, int n, int c, int h, int w,
                            int kh, int kw, weft_stream stream);

/* y (n,out) = x (n,in) @ weight (out,in)^T + bias (out; NULL: none). */
int weft_linear(int rung, float *y, const float *x, const float *weight,
                const float *bias, int n, int in, int out, weft_stream stream);

/* dx (n,in), dweight (out,in), dbias (out), each NULL if not wanted. */
int weft_linear_backward(int rung, float *dx, float *dweight, float *dbias,
                         const float *dy, const float *x, const float *weight,
                         int n, int in, int out, weft_stream stream);

/* loss (1) = mean over the batch of -log softmax(logits)[target]; prob
 * (n,classes) receives the softmax. logits (n,classes), target (n) int64.
 * Stable: the row's maximum is taken off first. A target outside
 * [0,classes) is WEFT_EINVAL in the CPU build and a NaN loss on the GPU. */
int weft_cross_entropy(int rung, float *loss, float *prob, const float *logits,
                       const int64_t *target, int n, int classes,
                       weft_stream stream);

/* dlogits (n,classes) = (prob - onehot(target)) * dloss / n; dloss (1) is an
 * array on the target, or NULL for 1. */
int weft_cross_entropy_backward(int rung, float *dlogits, const float *dloss,
                                const float *prob, const int64_t *target, int n,
                                int classes, weft_stream stream);

/* param -= lr * grad, `count` elements, in place; no momentum. */
int weft_sgd(int rung, float *param, const float *grad, size_t count, float lr,
             weft_stream stream);

/* ---- the CNN of the MNIST lesson ---------------------------------------- */

/* conv3x3 (padding 1), batch norm, ReLU, max pool 2; the same again; linear,
 * ReLU, linear, cross entropy. Batch norm uses the batch's own statistics in
 * training and evaluation alike. Trained by plain SGD. */
struct weft_cnn_config {
    int height, width;        /* of an image, at least 4: 28, 28 */
    int channels1, channels2; /* outputs of the convolutions: 32, 64 */
    int hidden, classes;      /* outputs of the linear layers: 128, 10 */
    int max_batch;            /* the largest batch it will ever be given */
    float eps;                /* of batch norm: 1e-5 */
    float mean, std;          /* a pixel p is read as (p / 255 - mean) / std */
};

/* A model with its weights, gradients, scratch memory and data sets. One
 * thread at a time may use it. */
typedef struct weft_cnn weft_cnn;

/* Build a model on the current device, weights and gradients zero. */
int weft_cnn_create(weft_cnn **cnn, int rung,
                    const struct weft_cnn_config *config, weft_stream stream);

/* Free it and all it holds; NULL is fine. */
void weft_cnn_destroy(weft_cnn *cnn);

/* Parameters are numbered and named as in the PyTorch twin: 0 conv1.weight,
 * 1 conv1.bias, 2 bn1.weight, 3 bn1.bias, 4-7 the same for conv2 and bn2,
 * 8 fc1.weight, 9 fc1.bias, 10 fc2.weight, 11 fc2.bias. */
enum { WEFT_CNN_PARAMS = 12 };

/* The name of parameter `index`, NULL past the last. */
const char *weft_cnn_param_name(int index);

/* How many floats parameter `index` has; 0 for a bad index. */
size_t weft_cnn_param_count(const weft_cnn *cnn, int index);

enum weft_cnn_kind { WEFT_CNN_WEIGHT = 0, WEFT_CNN_GRADIENT = 1 };

/* Copy parameter `index`, or its gradient of the last step, to the host array
 * `out`, or a weight from `in`; in PyTorch's layout. Both wait. */
int weft_cnn_get(weft_cnn *cnn, int kind, int index, float *out, size_t count,
                 weft_stream stream);
int weft_cnn_set(weft_cnn *cnn, int index, const float *in, size_t count,
                 weft_stream stream);

enum weft_cnn_dataset { WEFT_CNN_TRAIN = 0, WEFT_CNN_TEST = 1 };

/* Copy a data set to the device, replacing what was there: host arrays images
 * (count,height,width) and labels (count; NULL where only forward() will read
 * the set), uint8. */
int weft_cnn_data(weft_cnn *cnn, int set, const uint8_t *images,
                  const uint8_t *labels, int count, weft_stream stream);

/* Train on the images order[0..count) of the training set in batches of
 * `batch`; the last may be smaller. `order` is a host array. Each step gathers
 * and normalises its batch, runs forward and backward, updates, and zeroes
 * what needs zeroing. Queued, not waited for, on a GPU. */
int weft_cnn_train(weft_cnn *cnn, const int32_t *order, int count, int batch,
                   float lr, weft_stream stream);

/* The losses of the steps since the last call of this function, oldest first,
 * to the host array `out` with room for `capacity`; *count receives how many
 * there were. Waits for the steps. A context keeps the last 65536. */
int weft_cnn_losses(weft_cnn *cnn, float *out, int capacity, int *count,
                    weft_stream stream);

/* logits (count,classes; host) of the images order[0..count) of data set
 * `set`, taken as one batch (so count <= max_batch). Waits. */
int weft_cnn_forward(weft_cnn *cnn, int set, const int32_t *order, int count,
                     float *logits, weft_stream stream);

/* One section of a step and the time it took. Names are "batch",
 * "forward.LAYER", "backward.LAYER", "update", "zero"; fused layers are joined
 * by '+' ("forward.conv1+bn1+relu1+pool1"). What goes forward and back at once
 * is named for the way forward; "backward.conv2.weight" gives only that
 * gradient. */
struct weft_section {
    const char *name;
    float us;
};

/* One training step on order[0..batch), as weft_cnn_train() does it, with a
 * timer between its sections (CUDA events on a GPU): sections (room for
 * `capacity`) in the order they ran, *count of them. Waits. Where there are
 * more than `capacity` the step is taken all the same; *count says how many. */
int weft_cnn_profile(weft_cnn *cnn, const int32_t *order, int batch, float lr,
                     struct weft_section *sections, int capacity, int *count,
                     weft_stream stream);

/* What lies between the kernels of the last pass: "p1", "code1", "c2", ... as
 * kernels/mnist/fused/fused.h lists them. `shape` (4) receives its sizes, 0
 * where it has fewer; the array itself goes to `out` on the host, as float,
 * unless that is NULL; it must have room for `count` floats, which is the
 * product of the sizes. Waits. Only the fused rungs keep such arrays. */
int weft_cnn_peek(weft_cnn *cnn, const char *name, int *shape, float *out,
                  size_t count, weft_stream stream);

/* Bytes of memory this context holds on its target, data sets included. */
size_t weft_cnn_bytes(const weft_cnn *cnn);

/* cdef: ... to here. */
#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif
#endif
