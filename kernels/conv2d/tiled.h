/* tiled.h -- the launchers of conv2d's rung "tiled". */
#ifndef WEFT_CONV2D_TILED_H
#define WEFT_CONV2D_TILED_H
#include "common/internal.cuh"

/* The sizes of weft_conv2d(), and those derived from them. */
struct conv2d_sizes {
    int n, ic, h, w, oc, kh, kw;
    int padding, oh, ow;
};

/* Do the work of weft_conv2d() and weft_conv2d_backward() after their checks.
 * Both return a weft_status. */
int conv2d_tiled_forward(float *y, const float *x, const float *weight,
                         const float *bias, const struct conv2d_sizes *sizes,
                         cudaStream_t stream);
int conv2d_tiled_backward(float *dx, float *dweight, float *dbias,
                          const float *dy, const float *x, const float *weight,
                          const struct conv2d_sizes *sizes,
                          cudaStream_t stream);

#endif
