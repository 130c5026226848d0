/* tiled.h -- the launchers of batchnorm2d's rung "tiled". */
#ifndef WEFT_BATCHNORM2D_TILED_H
#define WEFT_BATCHNORM2D_TILED_H
#include "common/internal.cuh"

/* Do the work of weft_batchnorm2d() and weft_batchnorm2d_backward() after their
 * checks; plane = h * w. Both return a weft_status. */
int batchnorm2d_tiled_forward(float *y, float *mean, float *rstd,
                              const float *x, const float *weight,
                              const float *bias, int n, int c, size_t plane,
                              float eps, cudaStream_t stream);
int batchnorm2d_tiled_backward(float *dx, float *dweight, float *dbias,
                               const float *dy, const float *x,
                               const float *weight, const float *mean,
                               const float *rstd, int n, int c, size_t plane,
                               cudaStream_t stream);

#endif
