/* blas.c -- a product of matrices by cuBLAS: Sgemm in float32, GemmEx in TF32.
 *
 * cuBLAS stores the columns of a matrix contiguously. It therefore reads our
 * rows as columns, and treats each matrix as its transpose. Since c^T = b^T
 * a^T, the operands change places, and nothing is copied.
 *
 * Manual: https://docs.nvidia.com/cuda/cublas/
 * Lesson: notebooks/12_libraries.ipynb */
#include "vendor.h"

/* cdef: cuBLAS's declarations, and ours */
typedef struct cublasContext *cublasHandle_t;
enum { CUBLAS_OP_N = 0, CUBLAS_OP_T = 1 };
enum { CUDA_R_32F = 0, CUBLAS_COMPUTE_32F_FAST_TF32 = 77 };
enum { CUBLAS_GEMM_DEFAULT = -1 };

int cublasCreate_v2(cublasHandle_t *handle);
int cublasDestroy_v2(cublasHandle_t handle);
const char *cublasGetStatusString(int status);
int cublasSgemm_v2(cublasHandle_t handle, int transa, int transb, int m, int n,
                   int k, const float *alpha, const float *a, int lda,
                   const float *b, int ldb, const float *beta, float *c,
                   int ldc);
int cublasGemmEx(cublasHandle_t handle, int transa, int transb, int m, int n,
                 int k, const void *alpha, const void *a, int a_type, int lda,
                 const void *b, int b_type, int ldb, const void *beta, void *c,
                 int c_type, int ldc, int compute_type, int algo);

int blas_sgemm(void **plan, const struct product *p);
int blas_gemm_ex(void **plan, const struct product *p);
/* cdef: ... to here. */

static const float one = 1, zero = 0;

int blas_sgemm(void **plan, const struct product *p) {
    if (!*plan) TRY(cublasCreate_v2((cublasHandle_t *)plan));
    return cublasSgemm_v2(*plan, CUBLAS_OP_N, CUBLAS_OP_N, p->n, p->m, p->k,
                          &one, p->b, p->n, p->a, p->k, &zero, p->c, p->n);
}

/* The same, but each factor is first rounded to TF32, which has 10 bits of
 * mantissa, if the device has tensor cores for it. */
int blas_gemm_ex(void **plan, const struct product *p) {
    if (!*plan) TRY(cublasCreate_v2((cublasHandle_t *)plan));
    return cublasGemmEx(*plan, CUBLAS_OP_N, CUBLAS_OP_N, p->n, p->m, p->k, &one,
                        p->b, CUDA_R_32F, p->n, p->a, CUDA_R_32F, p->k, &zero,
                        p->c, CUDA_R_32F, p->n, CUBLAS_COMPUTE_32F_FAST_TF32,
                        CUBLAS_GEMM_DEFAULT);
}
