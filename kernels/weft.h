/* weft.h -- every kernel of the lab, as plain C.
 *
 * Functions of type int return WEFT_OK or a negative status. They never print
 * and never exit, because the caller is usually a notebook. After a failure
 * weft_last_error() returns one line that names the mistake and its numbers.
 *
 * The same sources build twice: libweft_cpu_* (g++, arrays in host memory) and
 * libweft_cuda_* (nvcc, arrays in the memory of the current CUDA device). In
 * both, arrays are contiguous, row-major float32 unless a comment gives another
 * layout, and must not overlap. All functions take their arguments in this
 * order:
 *
 *     rung, outputs, inputs, sizes, options (NULL: the defaults), stream
 *
 * `rung` selects an implementation: it is an index into the op's lines of
 * weft_rungs(). A function queues its work on `stream` (NULL: the default one)
 * and returns; weft_sync() waits for that work. The CPU build ignores `stream`
 * and returns when the work is done. Outputs are overwritten, except that
 * weft_matmul() with a beta adds to c. Images are n c h w, filters oc ic kh kw.
 *
 * An op returns WEFT_EINVAL and launches nothing if an argument is invalid.
 * Invalid arguments are: a rung that cannot run on this target or device, a
 * size below 1, NULL for an array that is not optional, and an array of more
 * than 2^39 - 256 elements. Comments give the limits of other arguments. */
#ifndef WEFT_H
#define WEFT_H
#include <stddef.h>
#include <stdint.h>
#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default) /* the build hides all other symbols */
/* cdef: lib/weft/toolchain/native.py parses from here ... (declarations only)
 */

enum weft_status {
    WEFT_OK = 0,
    WEFT_EINVAL = -1, /* An argument is invalid; nothing was launched. */
    WEFT_ECUDA = -2,  /* A CUDA call failed; the context is still usable. */
    WEFT_ELOST = -3,  /* A kernel faulted: restart the notebook's kernel. */
    WEFT_ENOMEM = -4, /* Out of memory; the message gives the size. */
    WEFT_EINTR = -5   /* Ctrl-C ended the call; its outputs are incomplete. */
};

/* A cudaStream_t, declared as opaque so that this header needs no CUDA
 * header. */
typedef struct weft_stream_st *weft_stream;

/* ---- the library ------------------------------------------------------- */

/* Return this thread's last failure as one line, or "" if there was none. */
const char *weft_last_error(void);

/* Wait until the work queued on `stream` is done, and return the status of the
 * first call that failed: WEFT_ECUDA or WEFT_ELOST. */
int weft_sync(weft_stream stream);

/* Make CUDA device `device` current for this thread. The CPU build accepts only
 * 0 and returns WEFT_EINVAL for others. */
int weft_set_device(int device);

/* Set the number of threads of the CPU build: 1 to 1024, or 0 for one per
 * available core. The setting holds for the whole process. In a forked child
 * the reference rungs use one thread. The CUDA build ignores it. */
int weft_set_threads(int threads);

/* Set the order in which the CPU build runs the threads of a block between two
 * barriers. 0 is forward (the default), 1 reverse and 2 shuffled; a larger
 * value is the seed of another shuffle. A kernel that lacks a barrier usually
 * fails in one of these orders. The setting holds for the whole process. The
 * CUDA build ignores it. */
int weft_set_order(int order);

enum weft_target { WEFT_CPU = 1, WEFT_CUDA = 2 };

/* One implementation of an op. The table of rungs is the only list of them:
 * tests, benchmarks, plots and notebooks iterate over it. */
struct weft_rung {
    const char *op;        /* the op: "matmul", "conv2d", ..., "mnist" */
    const char *rung;      /* the rung's name: "reference", "naive", ... */
    const char *idea;      /* the rung's method, in one line */
    const char *precision; /* "fp32", "tf32", "3xtf32", "bf16", "fp16" */
    int targets;           /* targets on which it runs: WEFT_CPU | WEFT_CUDA */
    int sm;                /* minimum compute capability times 10; 0: any */
};

/* Return the rungs linked into this library. An op's rungs are in the order of
 * their indices. *count receives the number of rungs. The table is valid while
 * the library is loaded. */
const struct weft_rung *weft_rungs(int *count);

/* ---- ops --------------------------------------------------------------- */

struct weft_matmul_options {
    int trans_a;       /* 1: a is stored (k,m) and used transposed */
    int trans_b;       /* 1: b is stored (n,k) and used transposed */
    float alpha;       /* factors in c = alpha * a @ b + beta * c + bias;
                        * defaults 1, 0 */
    float beta;        /* if beta is 0, the old c is never read */
    const float *bias; /* (n), added to every row; NULL: no bias */
    int relu;          /* 1: negative results become 0; a NaN stays a NaN */
    int batch;         /* number of independent products; 0 means 1 */
    ptrdiff_t stride_a, stride_b, stride_c; /* distance in elements from one
                                             * matrix of the batch to the next;
                                             * ignored if batch is 1. For a and
                                             * b: at least 0, and 0 means one
                                             * matrix for all products. For c:
                                             * at least m * n. */
    void *workspace; /* memory of the target, 256-byte aligned; NULL: none */
    size_t workspace_bytes;
};

/* Compute c (m,n) = a (m,k) @ b (k,n) for each matrix of the batch. The rung's
 * precision sets the type of a and b: 16-bit numbers for "bf16" and "fp16",
 * floats for the others. c, bias and the sums are float. n and k are at most
 * INT_MAX - 4095.
 *
 * If the rung needs a workspace, also return WEFT_EINVAL if options->workspace
 * is not aligned to 256 bytes or is smaller than weft_matmul_workspace()
 * reports. */
int weft_matmul(int rung, float *c, const void *a, const void *b, int m, int n,
                int k, const struct weft_matmul_options *options,
                weft_stream stream);

/* Compute the size in bytes of the workspace that weft_matmul() needs for the
 * same arguments, and store it in *bytes. The size is often 0. It depends on
 * the rung, the sizes, and the layout of a and b (transposition and alignment
 * of the addresses). options->workspace itself is ignored. */
int weft_matmul_workspace(int rung, size_t *bytes, const void *a, const void *b,
                          int m, int n, int k,
                          const struct weft_matmul_options *options);

struct weft_conv2d_options {
    int padding; /* zeros added on all four sides, in pixels; default 0 */
};

/* Compute y (n,oc,h',w') = cross-correlation of x (n,ic,h,w) with weight
 * (oc,ic,kh,kw), plus bias (oc; NULL: none). The stride is 1; h' = h + 2
 * padding - kh + 1, and w' is computed in the same way. Both must be at least
 * 1, padding at least 0, and ic*kh*kw and oc*kh*kw at most 2^30. */
int weft_conv2d(int rung, float *y, const float *x, const float *weight,
                const float *bias, int n, int ic, int h, int w, int oc, int kh,
                int kw, const struct weft_conv2d_options *options,
                weft_stream stream);

/* Compute gradients from dy (n,oc,h',w'): dx with the shape of x, dweight with
 * the shape of weight, and dbias (oc). Each of the three may be NULL and is
 * then skipped. Only dweight reads x, and only dx reads weight. An input that
 * is not read may be NULL. */
int weft_conv2d_backward(int rung, float *dx, float *dweight, float *dbias,
                         const float *dy, const float *x, const float *weight,
                         int n, int ic, int h, int w, int oc, int kh, int kw,
                         const struct weft_conv2d_options *options,
                         weft_stream stream);

/* Compute y = (x - mean) * rstd * weight + bias for each channel, where rstd =
 * 1 / sqrt(var + eps). mean and the biased variance var are those of this
 * batch. x, y (n,c,h,w); weight, bias, mean, rstd (c). n*h*w must be more than
 * 1 and eps finite and above 0. mean and rstd are outputs, kept for the
 * backward pass. Source: Ioffe and Szegedy, Batch Normalization, 2015. */
int weft_batchnorm2d(int rung, float *y, float *mean, float *rstd,
                     const float *x, const float *weight, const float *bias,
                     int n, int c, int h, int w, float eps, weft_stream stream);

/* Compute dx (n,c,h,w), dweight (c) and dbias (c) from dy (n,c,h,w), x
 * (n,c,h,w), weight (c), and the forward pass's mean (c) and rstd (c). All
 * three gradients are required. */
int weft_batchnorm2d_backward(int rung, float *dx, float *dweight, float *dbias,
                              const float *dy, const float *x,
                              const float *weight, const float *mean,
                              const float *rstd, int n, int c, int h, int w,
                              weft_stream stream);

/* Compute y = max(x, 0) for `count` elements; a NaN stays a NaN. */
int weft_relu(int rung, float *y, const float *x, size_t count,
              weft_stream stream);

/* Compute dx = dy where y > 0, else 0, for `count` elements; `y` is the output
 * of the forward pass. */
int weft_relu_backward(int rung, float *dx, const float *dy, const float *y,
                       size_t count, weft_stream stream);

/* Compute y = a0 + a1 x + a2 x^2 + a3 x^3 for `count` elements, by Horner's
 * rule. Source of its error bound: Higham, Accuracy and Stability of Numerical
 * Algorithms, section 5.1. */
int weft_polynomial(int rung, float *y, const float *x, size_t count, float a0,
                    float a1, float a2, float a3, weft_stream stream);

/* Compute dx = dy (a1 + 2 a2 x + 3 a3 x^2) for `count` elements. */
int weft_polynomial_backward(int rung, float *dx, const float *dy,
                             const float *x, size_t count, float a1, float a2,
                             float a3, weft_stream stream);

/* Compute y (n,c,h/kh,w/kw; rounded down), the maxima of the kh x kw windows of
 * x (n,c,h,w). The stride equals the window. argmax, int32 with the shape of y,
 * receives the position of each maximum in its window, as i * kw + j. The first
 * of several equal values wins, and a NaN wins over numbers. The window must
 * fit into the image and have at most 2^31 - 1 pixels. */
int weft_maxpool2d(int rung, float *y, int32_t *argmax, const float *x, int n,
                   int c, int h, int w, int kh, int kw, weft_stream stream);

/* Compute dx (n,c,h,w). dx is dy (n,c,h/kh,w/kw) at the position that argmax
 * (int32, with the shape of dy) holds for each window, and 0 elsewhere. */
int weft_maxpool2d_backward(int rung, float *dx, const float *dy,
                            const int32_t *argmax, int n, int c, int h, int w,
                            int kh, int kw, weft_stream stream);

/* Compute y (n,out) = x (n,in) @ weight (out,in)^T + bias (out; NULL: none). */
int weft_linear(int rung, float *y, const float *x, const float *weight,
                const float *bias, int n, int in, int out, weft_stream stream);

/* Compute dx (n,in), dweight (out,in) and dbias (out) from dy (n,out), x (n,in)
 * and weight (out,in). Each of the three gradients may be NULL and is then
 * skipped. */
int weft_linear_backward(int rung, float *dx, float *dweight, float *dbias,
                         const float *dy, const float *x, const float *weight,
                         int n, int in, int out, weft_stream stream);

/* Compute loss (1), the mean over the batch of -log softmax(logits)[target];
 * prob (n,classes) receives the softmax. logits (n,classes), target (n) int64.
 * Each row's maximum is subtracted first, so that no exponential overflows. A
 * target outside [0,classes) gives WEFT_EINVAL in the CPU build and a NaN loss
 * on the GPU. */
int weft_cross_entropy(int rung, float *loss, float *prob, const float *logits,
                       const int64_t *target, int n, int classes,
                       weft_stream stream);

/* Compute dlogits (n,classes) = (prob - onehot(target)) * dloss / n. prob
 * (n,classes) is the softmax of the forward pass, and target (n) is int64.
 * dloss (1) is an array in the target's memory, or NULL for 1. A target outside
 * [0,classes) gives WEFT_EINVAL in the CPU build and a row of NaNs on the
 * GPU. */
int weft_cross_entropy_backward(int rung, float *dlogits, const float *dloss,
                                const float *prob, const int64_t *target, int n,
                                int classes, weft_stream stream);

/* Compute y = x for `count` elements, bit for bit. Rung "byte" copies at most
 * 2^37 - 64 elements. */
int weft_copy(int rung, float *y, const float *x, size_t count,
              weft_stream stream);

/* Compute dx = dy for `count` elements. */
int weft_copy_backward(int rung, float *dx, const float *dy, size_t count,
                       weft_stream stream);

/* Compute y (cols,rows), the transpose of x (rows,cols). */
int weft_transpose(int rung, float *y, const float *x, int rows, int cols,
                   weft_stream stream);

/* Compute dx (rows,cols), the transpose of dy (cols,rows). */
int weft_transpose_backward(int rung, float *dx, const float *dy, int rows,
                            int cols, weft_stream stream);

struct weft_reduce_options {
    int blocks; /* blocks of the grid; 0: as many as keep the device busy. The
                 * rungs "reference", "atomic", "tree" and "shuffle" ignore it.
                 */
};

/* Compute sum (1), the sum of the `count` elements of x. The rungs "reference"
 * and "fixed_order" give the same bits on every target and for every grid;
 * "two_kernels", "last_block" and "compensated" do so for every grid of the
 * same size. The others add in an order that changes. Also return WEFT_EINVAL
 * for negative blocks, and WEFT_ENOMEM if the blocks' sums cannot be
 * allocated. */
int weft_reduce(int rung, float *sum, const float *x, size_t count,
                const struct weft_reduce_options *options, weft_stream stream);

/* Compute dx: *dsum for each of the `count` elements. dsum (1) is an array in
 * the target's memory. */
int weft_reduce_backward(int rung, float *dx, const float *dsum, size_t count,
                         weft_stream stream);

/* Write the numbers of x (count) that are greater than `threshold` to the start
 * of y (count), and their number to kept (1), int64. The rest of y is left
 * unchanged. NaN is never greater. y has the order of x and the same bits for
 * each run, except that the rungs "atomic" and "ballot" write in an order that
 * changes. "three_kernels" and "look_back" return WEFT_ENOMEM if they cannot
 * allocate 8 bytes per 4096 numbers. */
int weft_compact(int rung, float *y, int64_t *kept, const float *x,
                 size_t count, float threshold, weft_stream stream);

/* Count the occurrences of each byte in x (count), uint8: counts (256), int64.
 * Every rung gives the same counts. A count may exceed 2^32. */
int weft_histogram(int rung, int64_t *counts, const uint8_t *x, size_t count,
                   weft_stream stream);

/* Count the occurrences of each number from 0 to bins - 1 in x (count), int32:
 * counts (bins), int64. Numbers outside [0,bins) are ignored. Every rung gives
 * the same counts. Two rungs return WEFT_ENOMEM if memory runs out. "partition"
 * needs 2 bytes per number and 5 KB more, and "reference" 4 bytes per bin and
 * thread, or 16 for up to 1024 bins. */
int weft_bincount(int rung, int64_t *counts, const int32_t *x, size_t count,
                  int bins, weft_stream stream);

struct weft_scan_options {
    int exclusive; /* 1: a sum excludes the number at its own place */
    int reverse;   /* 1: sums run from the last number to the first */
};

/* Compute the running sums y (count) of x (count): y[i] = x[0] + ... + x[i].
 * The rungs "look_back", "look_back_warp", "items" and "fallback" give bits
 * that depend on the schedule. Every other CUDA rung gives the same bits for
 * each run and device, and "reference" does so for any number of threads. For
 * counts below 2^22 on a GPU and 2^14 on the CPU target, "fixed_order" and
 * "bulk" have smaller tiles, and therefore different bits. A sum is never -0.
 * Return WEFT_ENOMEM if the tiles' sums cannot be allocated, at most 4 bytes
 * for each 256 numbers and 32 more. Source: Merrill and Garland, Single-pass
 * Parallel Prefix Scan with Decoupled Look-back, 2016. */
int weft_scan(int rung, float *y, const float *x, size_t count,
              const struct weft_scan_options *options, weft_stream stream);

/* Compute dx (count), the running sums of dy (count) from the other end. The
 * options are those of the forward pass, and the bits as in weft_scan(). */
int weft_scan_backward(int rung, float *dx, const float *dy, size_t count,
                       const struct weft_scan_options *options,
                       weft_stream stream);

/* Find the k largest numbers of each row of x (rows,cols): values (rows,k),
 * the largest first, and indices (rows,k), their columns. Of equal numbers, the
 * one with the lower column comes first; -0 equals 0. NaN is larger than all
 * other numbers, and equals NaN. Every rung gives the same bits for each run.
 * cols: at most 2^32 - 1; rows: at most 2^31 - 1; k: 1 to cols. Return
 * WEFT_ENOMEM if entries of 8 bytes cannot be allocated. "sort" needs two per
 * number of x, at most 2^24 for several rows. "radix_select" needs 2 k for each
 * of up to 1024 rows. "filtered" needs one more for each 32 numbers, and
 * "reference" 3 k + 256 for each thread. "heap_a_warp" uses "radix_select" for
 * a k above 256. "batched" needs k for each 8192 numbers of a row; if these
 * exceed a block's shared memory, it uses "filtered". Source of the radix
 * select: Alabi et al., Fast k-selection algorithms for graphics processing
 * units, 2012. */
int weft_topk(int rung, float *values, int64_t *indices, const float *x,
              size_t rows, size_t cols, size_t k, weft_stream stream);

/* Compute dx (rows,cols): dvalues (rows,k) at the columns that indices (rows,k)
 * holds for each row, and 0 elsewhere. indices are those of the forward pass,
 * which differ within a row. An index outside [0,cols) gives WEFT_EINVAL in the
 * CPU build and NaN in its row on the GPU. Sizes are limited as in
 * weft_topk(). */
int weft_topk_backward(int rung, float *dx, const float *dvalues,
                       const int64_t *indices, size_t rows, size_t cols,
                       size_t k, weft_stream stream);

enum weft_sort_kind {
    WEFT_SORT_INT = 0,
    WEFT_SORT_UINT = 1,
    WEFT_SORT_FLOAT = 2
};

struct weft_sort_options {
    int kind;       /* enum weft_sort_kind: the type of the words of x */
    int descending; /* 1: from the greatest key to the least */
};

/* Write the 32-bit keys x (count) to y (count) in ascending order. Equal keys
 * keep their order, ascending or descending. Floats have PyTorch's order: -0
 * equals 0, and all NaNs are equal and greater than infinity. sorted_values
 * (count) receives the values (count) in the order of their keys, or, if values
 * is NULL, the keys' indices in x. Without sorted_values, only keys are sorted.
 * count is at most 2^31 - 1. Each rung gives the same bits for each run. Return
 * WEFT_ENOMEM if memory cannot be allocated: for each key, at most 16 bytes
 * with values and 8 without, and 300 kB for each thread of plain C. Source:
 * Adinets and Merrill, Onesweep: A Faster Least Significant Digit Radix Sort
 * for GPUs, 2022. */
int weft_sort(int rung, int32_t *y, int32_t *sorted_values, const int32_t *x,
              const int32_t *values, size_t count,
              const struct weft_sort_options *options, weft_stream stream);

/* Compute y (rows,cols), the softmax of each row of x (rows,cols): exp(x - m) /
 * sum(exp(x - m)) with the row's maximum m. A row becomes NaN if it has a NaN,
 * or if m is an infinity. Each rung gives the same bits for each run.
 * "split_rows", and rungs that pass long rows to it, give different bits on a
 * device with a different number of multiprocessors or different shared memory.
 * They return WEFT_ENOMEM if they cannot allocate partial results, at most 12
 * bytes for each part of a row. "cluster_a_row" gives different bits for a
 * different cluster size. "reference" returns WEFT_ENOMEM if it cannot allocate
 * 1 MiB for each thread. Source: Milakov and Gimelshein, Online normalizer
 * calculation for softmax, 2018. */
int weft_softmax(int rung, float *y, const float *x, int rows, int cols,
                 weft_stream stream);

/* Compute dx (rows,cols) = y * (dy - sum(dy * y)) with the sum of each row,
 * from dy (rows,cols) and the output y (rows,cols) of the forward pass. The
 * bits and errors are as in weft_softmax(). */
int weft_softmax_backward(int rung, float *dx, const float *dy, const float *y,
                          int rows, int cols, weft_stream stream);

/* Compute y (rows,cols) = (s - mean) * rstd * weight + bias for each row,
 * where s = x + residual and rstd = 1 / sqrt(var + eps). mean and the biased
 * variance var are those of the row. x, y (rows,cols); residual (rows,cols;
 * NULL: none); weight, bias (cols; NULL: ones and zeros); mean, rstd (rows).
 * total (rows,cols) receives s; it is NULL if and only if residual is. mean
 * and rstd are kept for the backward pass. eps must be finite and above 0. A
 * row becomes NaN if it has a NaN or an infinity, or if the sum of its numbers
 * overflows. If only the sum of the squares does, rstd is 0. Each rung gives
 * the same bits for each run; "split_rows" and "cluster_a_row" are as in
 * weft_softmax(), with at most 16 bytes for each part. Sources: Ba, Kiros and
 * Hinton, Layer Normalization, 2016; for the moments, Chan, Golub and LeVeque,
 * Updating formulae and a pairwise algorithm for computing sample variances,
 * 1979. */
int weft_layernorm(int rung, float *y, float *total, float *mean, float *rstd,
                   const float *x, const float *residual, const float *weight,
                   const float *bias, int rows, int cols, float eps,
                   weft_stream stream);

/* Compute dx and dresidual (rows,cols), which are equal, dweight (cols) and
 * dbias (cols). The inputs are dy (rows,cols), weight (cols; NULL: ones), and
 * the forward pass's mean (rows), rstd (rows), x (rows,cols) and total
 * (rows,cols; NULL without residual). x may be NULL if total is not. Each of
 * the gradients may be NULL and is then skipped. dweight and dbias have the
 * same bits for every grid and kernel; those of "reference" can differ. Return
 * WEFT_ENOMEM if their partial sums cannot be allocated: about 8 * cols bytes
 * for each 64 rows, or 8 * cols bytes for each of at most 64 pieces in
 * "reference". */
int weft_layernorm_backward(int rung, float *dx, float *dresidual,
                            float *dweight, float *dbias, const float *dy,
                            const float *x, const float *total,
                            const float *weight, const float *mean,
                            const float *rstd, int rows, int cols,
                            weft_stream stream);

/* Compute y (rows,cols) = s * rstd * weight for each row, where s = x +
 * residual and rstd = 1 / sqrt(mean(s^2) + eps). The arrays are those of
 * weft_layernorm(), without mean and bias; the bits and errors are also as in
 * that function. A row with a NaN becomes NaN. An infinity makes rstd 0 and its
 * own output NaN.
 * Source: Zhang and Sennrich, Root Mean Square Layer Normalization, 2019. */
int weft_rmsnorm(int rung, float *y, float *total, float *rstd, const float *x,
                 const float *residual, const float *weight, int rows, int cols,
                 float eps, weft_stream stream);

/* Compute dx, dresidual (rows,cols) and dweight (cols), as
 * weft_layernorm_backward() does. */
int weft_rmsnorm_backward(int rung, float *dx, float *dresidual, float *dweight,
                          const float *dy, const float *x, const float *total,
                          const float *weight, const float *rstd, int rows,
                          int cols, weft_stream stream);

/* Subtract lr * grad from param for `count` elements, in place and without
 * momentum. lr must be finite. */
int weft_sgd(int rung, float *param, const float *grad, size_t count, float lr,
             weft_stream stream);

/* ---- the CNN of the MNIST lesson ---------------------------------------- */

/* The layers: conv3x3 (padding 1), batch norm, ReLU, max pool 2; the same four
 * again; linear, ReLU, linear, cross entropy. Batch norm uses the batch's own
 * statistics in training and evaluation alike. Training is plain SGD. The
 * numbers after the colons below are those of the lesson.
 *
 * Every function below that takes a model and returns int gives WEFT_EINVAL if
 * the model is NULL. A function whose comment ends in "Waits." returns when its
 * work is done. */
struct weft_cnn_config {
    int height, width;        /* image size in pixels, each at least 4: 28,
                               * 28 */
    int channels1, channels2; /* output channels of the convolutions: 32, 64 */
    int hidden, classes;      /* output sizes of the linear layers: 128, 10 */
    int max_batch;            /* largest number of images in a batch */
    float eps;                /* added to batch norm's variance: 1e-5 */
    float mean, std;          /* a pixel p becomes (p / 255 - mean) / std */
};

/* A model with its weights, gradients, scratch memory and data sets. Only one
 * thread at a time may use it. */
typedef struct weft_cnn weft_cnn;

/* Build a model on the current device, with zero weights and gradients, and
 * store it in *cnn (NULL after a failure). Return WEFT_EINVAL for a
 * configuration that is out of range and WEFT_ENOMEM if the memory does not
 * suffice. Waits. */
int weft_cnn_create(weft_cnn **cnn, int rung,
                    const struct weft_cnn_config *config, weft_stream stream);

/* Free a model and everything it holds after its queued steps are done. NULL is
 * allowed. */
void weft_cnn_destroy(weft_cnn *cnn);

/* Parameters have the indices and names of the PyTorch twin: 0 conv1.weight, 1
 * conv1.bias, 2 bn1.weight, 3 bn1.bias, 4-7 the same for conv2 and bn2, 8
 * fc1.weight, 9 fc1.bias, 10 fc2.weight, 11 fc2.bias. */
enum { WEFT_CNN_PARAMS = 12 };

/* Return the name of parameter `index`, or NULL for an index out of range. */
const char *weft_cnn_param_name(int index);

/* Return the number of floats in parameter `index`, or 0 for an index out of
 * range. */
size_t weft_cnn_param_count(const weft_cnn *cnn, int index);

enum weft_cnn_kind { WEFT_CNN_WEIGHT = 0, WEFT_CNN_GRADIENT = 1 };

/* Copy parameter `index`, or with WEFT_CNN_GRADIENT its gradient from the last
 * step, to the host array `out`. weft_cnn_set() copies a weight from the host
 * array `in`. Arrays are float32 in PyTorch's layouts. `count` must equal
 * weft_cnn_param_count(). Both wait. */
int weft_cnn_get(weft_cnn *cnn, int kind, int index, float *out, size_t count,
                 weft_stream stream);
int weft_cnn_set(weft_cnn *cnn, int index, const float *in, size_t count,
                 weft_stream stream);

enum weft_cnn_dataset { WEFT_CNN_TRAIN = 0, WEFT_CNN_TEST = 1 };

/* Copy a data set to the device and replace the previous one. images
 * (count,height,width) and labels (count) are uint8 host arrays. labels may be
 * NULL if only weft_cnn_forward() reads the set. A label must be below
 * config.classes. After a failure the previous set remains. Waits. */
int weft_cnn_data(weft_cnn *cnn, int set, const uint8_t *images,
                  const uint8_t *labels, int count, weft_stream stream);

/* Train on the images order[0..count) of the training set in batches of `batch`
 * images. The last batch may be smaller. `order` is a host array of indices.
 * Each step gathers and normalises its batch, runs the forward and backward
 * passes, and updates the weights. lr must be finite and at least 0. A GPU only
 * queues the steps; the CPU build returns WEFT_EINTR after Ctrl-C. */
int weft_cnn_train(weft_cnn *cnn, const int32_t *order, int count, int batch,
                   float lr, weft_stream stream);

/* A step in parts lets several models, usually one per process, take one step
 * together. Each of these workers has a share of the batch:
 *
 *     weft_cnn_begin(cnn, order, batch, total, 0, stream);
 *     while (weft_cnn_next(cnn, &ready, stream), ready.kind)
 *         replace ready.data[0..ready.count) by its sum over all workers;
 *     weft_cnn_update(cnn, lr, stream);
 *
 * Each worker gets the same kinds and counts in the same order. */
enum weft_cnn_ready_kind {
    WEFT_CNN_DONE = 0,  /* nothing more: update, after the sums */
    WEFT_CNN_SUMS = 1,  /* double: sums of batch norm, which must be added up
                         * before the next call of weft_cnn_next() */
    WEFT_CNN_RANGE = 2, /* float: a range of the gradients, complete for this
                         * worker. Further calls of weft_cnn_next() do not touch
                         * it, so it can be sent while they compute. */
};
struct weft_cnn_ready {
    int kind;
    void *data; /* target memory, complete after the work queued on `stream` */
    size_t count; /* of doubles or floats; 0 if kind is WEFT_CNN_DONE */
};

/* Begin a step on this worker's images order[0..batch) of the training set.
 * `total` is the number of images of all workers. The step's loss and gradients
 * are sums over the worker's images divided by `total`, so that their sums over
 * the workers are those of the mean over all images. batch may be 0 (then order
 * may be NULL): the loss and the gradients are 0. Without sync_batchnorm, batch
 * norm uses the statistics of the worker's images, as PyTorch's
 * DistributedDataParallel does. With it, batch norm uses those of all images,
 * as one model with the whole batch does; "reference" and the fused rungs
 * support this, and the rungs that run layer by layer ("naive", "tiled",
 * "cudnn") give WEFT_EINVAL. The CPU build returns WEFT_EINTR after Ctrl-C.
 *
 * Until weft_cnn_update() or weft_cnn_abandon() ends the step, functions that
 * train, classify, or change weights or data sets give WEFT_EINVAL. */
int weft_cnn_begin(weft_cnn *cnn, const int32_t *order, int batch, int total,
                   int sync_batchnorm, weft_stream stream);

/* Run the step up to the next point at which workers add something up, and
 * describe it in *ready. Return WEFT_EINVAL if no step has begun. A GPU only
 * queues the work. */
int weft_cnn_next(weft_cnn *cnn, struct weft_cnn_ready *ready,
                  weft_stream stream);

/* Subtract lr times the gradients' buffer from the weights, and end the step.
 * Its loss then follows those of earlier steps. Return WEFT_EINVAL unless
 * weft_cnn_next() has given WEFT_CNN_DONE. lr must be finite and at least 0. */
int weft_cnn_update(weft_cnn *cnn, float lr, weft_stream stream);

/* End a step without an update or a loss, for example after a failed exchange,
 * and free a recorded step. NCCL requires this before it frees a communicator
 * that the recorded step uses. */
int weft_cnn_abandon(weft_cnn *cnn, weft_stream stream);

/* Record a step in parts as a CUDA graph, which weft_cnn_replay() launches: one
 * launch instead of some fifteen, and the sums of the workers are part of it.
 *
 *     weft_cnn_record(cnn, batch, total, 0, stream);
 *     weft_cnn_next(), sums and weft_cnn_update() on `stream`, as above
 *     weft_cnn_replay(cnn, order, count, stream);
 *
 * From weft_cnn_record() to weft_cnn_update(), `stream` captures the work, and
 * nothing runs. So `stream` must not be the default stream, and the sums must
 * be collectives that can be captured. NCCL's can, once the workers have taken
 * a step of weft_cnn_begin(), in which NCCL connects them. All other functions
 * that take the model and a stream give WEFT_EINVAL meanwhile.
 *
 * The arguments are those of weft_cnn_begin(), but batch must be at least 1.
 * weft_cnn_update() ends the recording, which includes its lr. A model keeps
 * one recorded step, and weft_cnn_abandon() frees it. Only fused rungs can be
 * recorded; the others give WEFT_EINVAL. */
int weft_cnn_record(weft_cnn *cnn, int batch, int total, int sync_batchnorm,
                    weft_stream stream);

/* Take the recorded step count / batch times, on the images order[0..count) of
 * the training set, which is a host array. Weights and losses are those of the
 * same steps in parts. Return WEFT_EINVAL if no step was recorded, or unless
 * `count` is a multiple of the recorded batch. A GPU only queues the steps; the
 * CPU build returns WEFT_EINTR after Ctrl-C. weft_cnn_peek() cannot read the
 * arrays of these steps. */
int weft_cnn_replay(weft_cnn *cnn, const int32_t *order, int count,
                    weft_stream stream);

/* Store the address and the number of floats of the buffer that contains all
 * gradients, padding included. It is target memory, valid until
 * weft_cnn_destroy(). *block receives the number of channels that the layout
 * pads to: workers may add up their buffers only if both numbers agree. */
int weft_cnn_gradients(weft_cnn *cnn, float **buffer, size_t *count,
                       int *block);

/* Copy the losses of the steps since the last call of this function to the host
 * array `out`, which has room for `capacity` floats. The oldest loss is first.
 * *count receives the number of losses. If they do not fit, the function
 * returns WEFT_EINVAL and keeps all of them. A model keeps the last 65536
 * losses. Waits. */
int weft_cnn_losses(weft_cnn *cnn, float *out, int capacity, int *count,
                    weft_stream stream);

/* Compute the logits (count,classes) of the images order[0..count) of data set
 * `set`. The images are one batch, so count must not exceed max_batch. `logits`
 * (float32) and `order` are host arrays. Waits. */
int weft_cnn_forward(weft_cnn *cnn, int set, const int32_t *order, int count,
                     float *logits, weft_stream stream);

/* One section of a step and its time in microseconds. Names are "batch",
 * "forward.LAYER", "backward.LAYER", "update" and "zero"; '+' joins fused
 * layers ("forward.conv1+bn1+relu1+pool1"). A kernel that runs layers both
 * forward and backward is named after the forward pass. "backward.conv2.weight"
 * computes only that gradient. */
struct weft_section {
    const char *name;
    float us;
};

/* Take one training step on order[0..batch), as weft_cnn_train() does, with
 * timestamps between its sections (CUDA events on a GPU). `sections`, which has
 * room for `capacity` entries, receives the sections in the order in which they
 * ran. *count receives their number. If there are more than `capacity`, the
 * function takes the step, sets *count, and returns WEFT_EINVAL. Waits. */
int weft_cnn_profile(weft_cnn *cnn, const int32_t *order, int batch, float lr,
                     struct weft_section *sections, int capacity, int *count,
                     weft_stream stream);

/* Copy an array that the kernels of the last pass exchanged: "p1", "code1",
 * "c2", ... as listed in kernels/mnist/fused/fused.h. `shape` (4) receives its
 * sizes, padded with 0. Unless `out` is NULL, this host array receives the
 * elements as float; `count` must be their number, the product of the sizes.
 * Only the fused rungs keep such arrays. Other rungs and unknown names give
 * WEFT_EINVAL. Waits. */
int weft_cnn_peek(weft_cnn *cnn, const char *name, int *shape, float *out,
                  size_t count, weft_stream stream);

/* Return the bytes of target memory that this model holds, data sets included,
 * or 0 if `cnn` is NULL. */
size_t weft_cnn_bytes(const weft_cnn *cnn);

/* ---- the tape of the micrograd lesson ------------------------------------ */

/* A tape records operations on matrices, and computes gradients from the
 * record. Its entries are in one array: tensors from the caller, and results of
 * operations. Every entry has an id, which the tape never uses again. Scalars
 * are (1,1).
 *
 * A tape owns its memory. Only one thread at a time may use it, and all its
 * calls must have the same stream. Functions that return int return WEFT_EINVAL
 * if the tape is NULL or if an id belongs to no entry; they then leave the tape
 * unchanged. The bits are the same for each run, and for "reference" also for
 * any number of threads. Source of the method: Wengert, A simple automatic
 * derivative evaluation program, 1964. */
typedef struct weft_tape weft_tape;

enum weft_tape_op {
    WEFT_TAPE_TENSOR = 0,  /* numbers of the caller; weft_tape_tensor() */
    WEFT_TAPE_ADD = 1,     /* a + b (rows,cols) */
    WEFT_TAPE_ADD_ROW = 2, /* a (rows,cols) + b (1,cols), a row for all rows */
    WEFT_TAPE_MUL = 3,     /* a * b (rows,cols), element by element */
    WEFT_TAPE_MATMUL = 4,  /* a (m,k) @ b (k,n) */
    WEFT_TAPE_RELU = 5,    /* max(a, 0); a NaN stays a NaN */
    WEFT_TAPE_LOG_SOFTMAX = 6, /* a - log(sum(exp(a))) of each row */
    WEFT_TAPE_SUM = 7,         /* the sum of all elements of a: (1,1) */
    WEFT_TAPE_NLL = 8          /* the mean of -a[row][target[row]]: (1,1) */
};

/* Return the name of an operation, such as "add_row"; NULL if there is none. */
const char *weft_tape_op_name(int op);

/* Create an empty tape on the current device and store it in *tape (NULL after
 * a failure). */
int weft_tape_create(weft_tape **tape, int rung, weft_stream stream);

/* Free a tape and all its memory after its queued work is done. NULL is
 * allowed. */
void weft_tape_destroy(weft_tape *tape);

/* Append a tensor, a copy of the host array in (rows,cols); *id receives its
 * id. needs_grad: 1 if backward computes its gradient and step changes it.
 * Return WEFT_ENOMEM if the memory does not suffice. */
int weft_tape_tensor(weft_tape *tape, int64_t *id, const float *in, int rows,
                     int cols, int needs_grad, weft_stream stream);

/* Compute an operation (enum weft_tape_op) on the entries a and b, and append
 * the result; *id receives its id. b is ignored if the operation has one
 * operand. target (rows of a) is a host array of columns, only for
 * WEFT_TAPE_NLL. Return WEFT_EINVAL if the shapes do not fit or a target is not
 * a column, and WEFT_ENOMEM if the memory does not suffice. */
int weft_tape_record(weft_tape *tape, int64_t *id, int op, int64_t a, int64_t b,
                     const int32_t *target, weft_stream stream);

/* Walk from the entry `loss` (1,1) back to the first one, and add to each
 * entry's gradient the shares of all its uses. Return WEFT_EINVAL if the loss
 * has a different shape or needs no gradient, or if backward has already run
 * since the last reset. */
int weft_tape_backward(weft_tape *tape, int64_t loss, weft_stream stream);

/* Subtract lr * gradient from each tensor with needs_grad. lr must be finite.
 * Return WEFT_EINVAL before backward. */
int weft_tape_step(weft_tape *tape, float lr, weft_stream stream);

/* Free all entries except the tensors keep (count), and set the gradients of
 * those to 0. keep may be NULL if count is 0. Results of operations cannot be
 * kept. Later entries reuse the memory. */
int weft_tape_reset(weft_tape *tape, const int64_t *keep, int count,
                    weft_stream stream);

enum weft_tape_kind { WEFT_TAPE_VALUE = 0, WEFT_TAPE_GRADIENT = 1 };

/* Copy the value or the gradient (enum weft_tape_kind) of an entry to the host
 * array out (rows,cols) of `count` floats. Return WEFT_EINVAL for a gradient
 * that the entry does not need, or before backward. Waits. */
int weft_tape_get(weft_tape *tape, int kind, int64_t id, float *out,
                  size_t count, weft_stream stream);

struct weft_tape_entry {
    int64_t id, a, b; /* operands' ids; -1: none */
    int op;           /* enum weft_tape_op */
    int rows, cols;
    int needs_grad;
};

/* Return the number of entries, or 0 if `tape` is NULL. */
int weft_tape_count(const weft_tape *tape);

/* Describe entry `index` of the array in *entry. */
int weft_tape_look(weft_tape *tape, int index, struct weft_tape_entry *entry);

/* Return the bytes of the entries' arrays. *spare (may be NULL) receives the
 * bytes of freed arrays that the tape keeps for later entries. */
size_t weft_tape_bytes(const weft_tape *tape, size_t *spare);

/* cdef: ... to here. */
#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif
#endif
