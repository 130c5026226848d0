/* cublasXt.cpp -- cuBLASXt's products of matrices in host memory; see
 * cublasXt.h. */
#include "cublasXt.h"

#include "cublas_context.h"

using namespace weft_blas;

struct cublasXtContext {
    bool has_device = false;
    int block = 2048;
    cublasXtPinnedMemMode_t pinning = CUBLASXT_PINNING_DISABLED;
};

static simt::Handles<cublasXtContext> &xt_handles =
    *new simt::Handles<cublasXtContext>;

#define FIND_XT(context, handle)                              \
    cublasXtContext *const context = xt_handles.find(handle); \
    if (!context) return CUBLAS_STATUS_NOT_INITIALIZED

cublasStatus_t cublasXtCreate(cublasXtHandle_t *handle) {
    if (!handle) return CUBLAS_STATUS_INVALID_VALUE;
    *handle = xt_handles.create();
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasXtDestroy(cublasXtHandle_t handle) {
    return xt_handles.destroy(handle) ? CUBLAS_STATUS_SUCCESS
                                      : CUBLAS_STATUS_NOT_INITIALIZED;
}

cublasStatus_t cublasXtDeviceSelect(cublasXtHandle_t handle, int count,
                                    int devices[]) {
    FIND_XT(context, handle);
    if (count != 1 || !devices || devices[0] != 0)
        return CUBLAS_STATUS_INVALID_VALUE; // the only device is number 0
    context->has_device = true;
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasXtSetBlockDim(cublasXtHandle_t handle, int dim) {
    FIND_XT(context, handle);
    if (dim <= 0) return CUBLAS_STATUS_INVALID_VALUE;
    context->block = dim;
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasXtGetBlockDim(cublasXtHandle_t handle, int *dim) {
    FIND_XT(context, handle);
    if (!dim) return CUBLAS_STATUS_INVALID_VALUE;
    *dim = context->block;
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasXtSetPinningMemMode(cublasXtHandle_t handle,
                                         cublasXtPinnedMemMode_t mode) {
    FIND_XT(context, handle);
    context->pinning = mode;
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasXtGetPinningMemMode(cublasXtHandle_t handle,
                                         cublasXtPinnedMemMode_t *mode) {
    FIND_XT(context, handle);
    if (!mode) return CUBLAS_STATUS_INVALID_VALUE;
    *mode = context->pinning;
    return CUBLAS_STATUS_SUCCESS;
}

template <class T>
static cublasStatus_t gemm(cublasXtHandle_t handle, cublasOperation_t transa,
                           cublasOperation_t transb, size_t m, size_t n,
                           size_t k, const T *alpha, const T *A, size_t lda,
                           const T *B, size_t ldb, const T *beta, T *C,
                           size_t ldc) {
    FIND_XT(context, handle);
    if (!context->has_device) return CUBLAS_STATUS_NOT_INITIALIZED;
    const bool ta = transa != CUBLAS_OP_N, tb = transb != CUBLAS_OP_N;
    if (m > __INT_MAX__ || n > __INT_MAX__ || k > __INT_MAX__ ||
        !is_operation(transa) || !is_operation(transb) || !alpha || !beta ||
        !fits((long)lda, (long)(ta ? k : m)) ||
        !fits((long)ldb, (long)(tb ? n : k)) || !fits((long)ldc, (long)m))
        return CUBLAS_STATUS_INVALID_VALUE;
    const ptrdiff_t a = (ptrdiff_t)lda, b = (ptrdiff_t)ldb, c = (ptrdiff_t)ldc;
    struct gemm g = {};
    g.m = (int)m, g.n = (int)n, g.k = (int)k;
    g.alpha = *alpha, g.beta = *beta;
    g.a = {(void *)A, TYPE<T>, ta ? a : 1, ta ? 1 : a};
    g.b = {(void *)B, TYPE<T>, tb ? b : 1, tb ? 1 : b};
    g.c = g.d = {C, TYPE<T>, 1, c};
    g.threads = simt_threads();
    return weft_gemm(&g) ? CUBLAS_STATUS_ALLOC_FAILED : CUBLAS_STATUS_SUCCESS;
}

#define GEMM(name, T)                                                       \
    cublasStatus_t name(cublasXtHandle_t handle, cublasOperation_t transa,  \
                        cublasOperation_t transb, size_t m, size_t n,       \
                        size_t k, const T *alpha, const T *A, size_t lda,   \
                        const T *B, size_t ldb, const T *beta, T *C,        \
                        size_t ldc) {                                       \
        return gemm(handle, transa, transb, m, n, k, alpha, A, lda, B, ldb, \
                    beta, C, ldc);                                          \
    }
GEMM(cublasXtSgemm, float)
GEMM(cublasXtDgemm, double)
