/* reference.h -- the plain C rung of every op: C for one CPU, without CUDA.
 *
 * <op>_reference() takes the arguments of weft_<op>() except the rung and the
 * stream, with the same meaning (weft.h). The launcher in <op>.cu has checked
 * them. Functions return a weft_status. They may use every thread that OpenMP
 * provides, must free the memory that they allocate, and end early on
 * Ctrl-C. */
#ifndef WEFT_REFERENCE_H
#define WEFT_REFERENCE_H
#include "../weft.h"
#ifdef __cplusplus
extern "C" {
#endif

/* Record a message for weft_last_error() and return `status`. common.cu defines
 * it; this declaration is for .c files, which cannot include internal.cuh. */
int weft_fail(int status, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Return whether Ctrl-C has been pressed since the launcher was called. This
 * costs a single load. Long loops call it once per outermost block of work. */
int weft_interrupted(void);

int matmul_reference(float *c, const float *a, const float *b, int m, int n,
                     int k, const struct weft_matmul_options *options);

/* The lower rungs of matmul, which use one thread; options must not be NULL. */
int matmul_ijk(float *c, const float *a, const float *b, int m, int n, int k,
               const struct weft_matmul_options *options);
int matmul_ikj(float *c, const float *a, const float *b, int m, int n, int k,
               const struct weft_matmul_options *options);
int matmul_blocked(float *c, const float *a, const float *b, int m, int n,
                   int k, const struct weft_matmul_options *options);
int matmul_simd(float *c, const float *a, const float *b, int m, int n, int k,
                const struct weft_matmul_options *options);

int conv2d_reference(float *y, const float *x, const float *weight,
                     const float *bias, int n, int ic, int h, int w, int oc,
                     int kh, int kw, const struct weft_conv2d_options *options);

int conv2d_reference_backward(float *dx, float *dweight, float *dbias,
                              const float *dy, const float *x,
                              const float *weight, int n, int ic, int h, int w,
                              int oc, int kh, int kw,
                              const struct weft_conv2d_options *options);

int batchnorm2d_reference(float *y, float *mean, float *rstd, const float *x,
                          const float *weight, const float *bias, int n, int c,
                          int h, int w, float eps);

int batchnorm2d_reference_backward(float *dx, float *dweight, float *dbias,
                                   const float *dy, const float *x,
                                   const float *weight, const float *mean,
                                   const float *rstd, int n, int c, int h,
                                   int w);

int relu_reference(float *y, const float *x, size_t count);

int relu_reference_backward(float *dx, const float *dy, const float *y,
                            size_t count);

int polynomial_reference(float *y, const float *x, size_t count, float a0,
                         float a1, float a2, float a3);

int polynomial_reference_backward(float *dx, const float *dy, const float *x,
                                  size_t count, float a1, float a2, float a3);

int copy_reference(float *y, const float *x, size_t count);

int transpose_reference(float *y, const float *x, int rows, int cols);

int reduce_reference(float *sum, const float *x, size_t count);

int reduce_reference_backward(float *dx, const float *dsum, size_t count);

int compact_reference(float *y, int64_t *kept, const float *x, size_t count,
                      float threshold);

int histogram_reference(int64_t *counts, const uint8_t *x, size_t count);

int bincount_reference(int64_t *counts, const int32_t *x, size_t count,
                       int bins);

int scan_reference(float *y, const float *x, size_t count, int exclusive,
                   int reverse);

int topk_reference(float *values, int64_t *indices, const float *x, size_t rows,
                   size_t cols, size_t k);

int topk_reference_backward(float *dx, const float *dvalues,
                            const int64_t *indices, size_t rows, size_t cols,
                            size_t k);

int sort_reference(int32_t *y, int32_t *sorted_values, const int32_t *x,
                   const int32_t *values, size_t count,
                   const struct weft_sort_options *options);

int softmax_reference(float *y, const float *x, int rows, int cols);

int softmax_reference_backward(float *dx, const float *dy, const float *y,
                               int rows, int cols);

int layernorm_reference(float *y, float *total, float *mean, float *rstd,
                        const float *x, const float *residual,
                        const float *weight, const float *bias, int rows,
                        int cols, float eps);

/* In both norms' backward functions, x is `total` if it was stored. */
int layernorm_reference_backward(float *dx, float *dresidual, float *dweight,
                                 float *dbias, const float *dy, const float *x,
                                 const float *weight, const float *mean,
                                 const float *rstd, int rows, int cols);

int rmsnorm_reference(float *y, float *total, float *rstd, const float *x,
                      const float *residual, const float *weight, int rows,
                      int cols, float eps);

int rmsnorm_reference_backward(float *dx, float *dresidual, float *dweight,
                               const float *dy, const float *x,
                               const float *weight, const float *rstd, int rows,
                               int cols);

int maxpool2d_reference(float *y, int32_t *argmax, const float *x, int n, int c,
                        int h, int w, int kh, int kw);

int maxpool2d_reference_backward(float *dx, const float *dy,
                                 const int32_t *argmax, int n, int c, int h,
                                 int w, int kh, int kw);

int linear_reference(float *y, const float *x, const float *weight,
                     const float *bias, int n, int in, int out);

int linear_reference_backward(float *dx, float *dweight, float *dbias,
                              const float *dy, const float *x,
                              const float *weight, int n, int in, int out);

int cross_entropy_reference(float *loss, float *prob, const float *logits,
                            const int64_t *target, int n, int classes);

int cross_entropy_reference_backward(float *dlogits, const float *dloss,
                                     const float *prob, const int64_t *target,
                                     int n, int classes);

int sgd_reference(float *param, const float *grad, size_t count, float lr);

#ifdef __cplusplus
}
#endif
#endif
