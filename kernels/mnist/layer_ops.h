/* layer_ops.h -- the layers that layers.cu combines: the lab's ops, each with
 * the rung of the same name, or NVIDIA's layers ("vendor", cudnn.cu). The
 * arguments are those of the op in weft.h. All convolutions are 3 x 3 with
 * padding 1, and all windows are 2 x 2. */
#ifndef WEFT_LAYER_OPS_H
#define WEFT_LAYER_OPS_H
#include "common/internal.cuh"

/* Whether this library was compiled with the vendor's headers. */
#if defined(__CUDACC__) && __has_include(<cudnn.h>) && \
    __has_include(<cublas_v2.h>)
#define WEFT_HAS_CUDNN 1
#else
#define WEFT_HAS_CUDNN 0
#endif

struct vendor; /* handles, descriptors and workspace of cuDNN and cuBLAS */

struct layer_ops {
    struct vendor *vendor; /* NULL: use the lab's ops, with the rungs below */
    int conv2d, batchnorm2d, relu, maxpool2d, linear, cross_entropy, sgd;
};

/* Find the rungs named `rung` of the lab's ops, or "naive" for an op without
 * that rung. */
int layer_ops_find(struct layer_ops *ops, const char *rung);

/* The shape of n images with c channels of h x w pixels. */
struct shape4 {
    int n, c, h, w;
};

int layer_conv2d(const struct layer_ops *ops, float *y, const float *x,
                 const float *weight, const float *bias, struct shape4 in,
                 int oc, weft_stream stream);
int layer_conv2d_backward(const struct layer_ops *ops, float *dx,
                          float *dweight, float *dbias, const float *dy,
                          const float *x, const float *weight, struct shape4 in,
                          int oc, weft_stream stream);
int layer_batchnorm2d(const struct layer_ops *ops, float *y, float *mean,
                      float *rstd, const float *x, const float *weight,
                      const float *bias, struct shape4 in, float eps,
                      weft_stream stream);
int layer_batchnorm2d_backward(const struct layer_ops *ops, float *dx,
                               float *dweight, float *dbias, const float *dy,
                               const float *x, const float *weight,
                               const float *mean, const float *rstd,
                               struct shape4 in, float eps, weft_stream stream);
int layer_relu(const struct layer_ops *ops, float *y, const float *x,
               struct shape4 in, weft_stream stream);
int layer_relu_backward(const struct layer_ops *ops, float *dx, const float *dy,
                        const float *y, const float *x, struct shape4 in,
                        weft_stream stream);
int layer_maxpool2d(const struct layer_ops *ops, float *y, int32_t *argmax,
                    const float *x, struct shape4 in, weft_stream stream);
int layer_maxpool2d_backward(const struct layer_ops *ops, float *dx,
                             const float *dy, const float *y, const float *x,
                             const int32_t *argmax, struct shape4 in,
                             weft_stream stream);
int layer_linear(const struct layer_ops *ops, float *y, const float *x,
                 const float *weight, const float *bias, int n, int in, int out,
                 weft_stream stream);
int layer_linear_backward(const struct layer_ops *ops, float *dx,
                          float *dweight, float *dbias, const float *dy,
                          const float *x, const float *weight, int n, int in,
                          int out, weft_stream stream);

/* ---- the vendor's layers, in cudnn.cu ------------------------------------ */

/* Open the libraries; *vendor is NULL after a failure. */
int vendor_create(struct vendor **vendor);
void vendor_destroy(struct vendor *vendor);
size_t vendor_bytes(const struct vendor *vendor);

int vendor_conv2d(struct vendor *v, float *y, const float *x,
                  const float *weight, const float *bias, struct shape4 in,
                  int oc, weft_stream stream);
int vendor_conv2d_backward(struct vendor *v, float *dx, float *dweight,
                           float *dbias, const float *dy, const float *x,
                           const float *weight, struct shape4 in, int oc,
                           weft_stream stream);
int vendor_batchnorm2d(struct vendor *v, float *y, float *mean, float *rstd,
                       const float *x, const float *weight, const float *bias,
                       struct shape4 in, float eps, weft_stream stream);
int vendor_batchnorm2d_backward(struct vendor *v, float *dx, float *dweight,
                                float *dbias, const float *dy, const float *x,
                                const float *weight, const float *mean,
                                const float *rstd, struct shape4 in, float eps,
                                weft_stream stream);
int vendor_relu(struct vendor *v, float *y, const float *x, struct shape4 in,
                weft_stream stream);
int vendor_relu_backward(struct vendor *v, float *dx, const float *dy,
                         const float *y, const float *x, struct shape4 in,
                         weft_stream stream);
int vendor_maxpool2d(struct vendor *v, float *y, const float *x,
                     struct shape4 in, weft_stream stream);
int vendor_maxpool2d_backward(struct vendor *v, float *dx, const float *dy,
                              const float *y, const float *x, struct shape4 in,
                              weft_stream stream);
int vendor_linear(struct vendor *v, float *y, const float *x,
                  const float *weight, const float *bias, int n, int in,
                  int out, weft_stream stream);
int vendor_linear_backward(struct vendor *v, float *dx, float *dweight,
                           float *dbias, const float *dy, const float *x,
                           const float *weight, int n, int in, int out,
                           weft_stream stream);

#endif
