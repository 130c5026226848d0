/* cublasXt.h -- cuBLASXt on the CPU: cublasXtSgemm() and cublasXtDgemm(). On a
 * GPU, these copy tiles of matrices in host memory to one or more devices. In
 * this version there is one device, whose memory is the host's, so nothing is
 * copied.
 *
 * Source of names, parameters, values and errors: cuBLAS documentation 13.0,
 * "Using the cuBLASXt API", https://docs.nvidia.com/cuda/cublas */
#ifndef SIMT_CUBLASXT_H
#define SIMT_CUBLASXT_H
#include "cublas_v2.h"

typedef struct cublasXtContext *cublasXtHandle_t;

typedef enum {
    CUBLASXT_PINNING_DISABLED = 0,
    CUBLASXT_PINNING_ENABLED = 1
} cublasXtPinnedMemMode_t;

#pragma GCC visibility push(default)
extern "C" {

cublasStatus_t cublasXtCreate(cublasXtHandle_t *handle);
cublasStatus_t cublasXtDestroy(cublasXtHandle_t handle);
/* Products return CUBLAS_STATUS_NOT_INITIALIZED before this call. */
cublasStatus_t cublasXtDeviceSelect(cublasXtHandle_t handle, int count,
                                    int devices[]);
cublasStatus_t cublasXtSetBlockDim(cublasXtHandle_t handle, int dim);
cublasStatus_t cublasXtGetBlockDim(cublasXtHandle_t handle, int *dim);
cublasStatus_t cublasXtSetPinningMemMode(cublasXtHandle_t handle,
                                         cublasXtPinnedMemMode_t mode);
cublasStatus_t cublasXtGetPinningMemMode(cublasXtHandle_t handle,
                                         cublasXtPinnedMemMode_t *mode);

/* C = alpha op(A) op(B) + beta C; all pointers may be to host memory. */
cublasStatus_t cublasXtSgemm(cublasXtHandle_t handle, cublasOperation_t transa,
                             cublasOperation_t transb, size_t m, size_t n,
                             size_t k, const float *alpha, const float *A,
                             size_t lda, const float *B, size_t ldb,
                             const float *beta, float *C, size_t ldc);
cublasStatus_t cublasXtDgemm(cublasXtHandle_t handle, cublasOperation_t transa,
                             cublasOperation_t transb, size_t m, size_t n,
                             size_t k, const double *alpha, const double *A,
                             size_t lda, const double *B, size_t ldb,
                             const double *beta, double *C, size_t ldc);

} // extern "C"
#pragma GCC visibility pop
#endif
