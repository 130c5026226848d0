/* xt.c -- a product of matrices in host memory by cuBLASXt: it copies tiles to
 * the device, multiplies them there, and copies the results back.
 *
 * Manual: https://docs.nvidia.com/cuda/cublas/#using-the-cublasxt-api */
#include "vendor.h"

/* cdef: cuBLASXt's declarations, and ours */
int cublasXtCreate(void **handle);
int cublasXtDeviceSelect(void *handle, int count, int *devices);
int cublasXtSgemm(void *handle, int transa, int transb, size_t m, size_t n,
                  size_t k, const float *alpha, const float *a, size_t lda,
                  const float *b, size_t ldb, const float *beta, float *c,
                  size_t ldc);

int xt_sgemm(void **plan, const struct product *p); /* arrays of the host */
/* cdef: ... to here. */

int xt_sgemm(void **plan, const struct product *p) {
    const float one = 1, zero = 0;
    int device = 0;
    if (!*plan) {
        TRY(cublasXtCreate(plan));
        TRY(cublasXtDeviceSelect(*plan, 1, &device));
    }
    return cublasXtSgemm(*plan, 0, 0, p->n, p->m, p->k, &one, p->b, p->n, p->a,
                         p->k, &zero, p->c, p->n);
}
