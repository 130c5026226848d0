/* cublas.cpp -- cuBLAS's handles, and its copies; see cublas_api.h. */
#include "cublas_context.h"

namespace weft_blas {
simt::Handles<cublasContext> &handles = *new simt::Handles<cublasContext>;
}

using namespace weft_blas;

/* ---- handles ------------------------------------------------------------ */

cublasStatus_t cublasCreate_v2(cublasHandle_t *handle) {
    if (!handle) return CUBLAS_STATUS_INVALID_VALUE;
    *handle = handles.create();
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasDestroy_v2(cublasHandle_t handle) {
    return handles.destroy(handle) ? CUBLAS_STATUS_SUCCESS
                                   : CUBLAS_STATUS_NOT_INITIALIZED;
}

cublasStatus_t cublasGetVersion_v2(cublasHandle_t handle, int *version) {
    FIND(context, handle);
    if (!version) return CUBLAS_STATUS_INVALID_VALUE;
    *version = CUBLAS_VERSION;
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t weft_blas::get_property(libraryPropertyType type, int *value) {
    if (!value || type < MAJOR_VERSION || type > PATCH_LEVEL)
        return CUBLAS_STATUS_INVALID_VALUE;
    *value = type == MAJOR_VERSION   ? CUBLAS_VER_MAJOR
             : type == MINOR_VERSION ? CUBLAS_VER_MINOR
                                     : CUBLAS_VER_PATCH;
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasGetProperty(libraryPropertyType type, int *value) {
    return get_property(type, value);
}

size_t cublasGetCudartVersion(void) { return CUDART_VERSION; }

cublasStatus_t cublasSetWorkspace_v2(cublasHandle_t handle, void *, size_t) {
    FIND(context, handle);
    (void)context; // no function needs a workspace
    return CUBLAS_STATUS_SUCCESS;
}

#define PROPERTY(name, T, member, least, most)                        \
    cublasStatus_t cublasSet##name(cublasHandle_t handle, T value) {  \
        FIND(context, handle);                                        \
        if ((long)value < (least) || (long)value > (most))            \
            return CUBLAS_STATUS_INVALID_VALUE;                       \
        context->member = value;                                      \
        return CUBLAS_STATUS_SUCCESS;                                 \
    }                                                                 \
    cublasStatus_t cublasGet##name(cublasHandle_t handle, T *value) { \
        FIND(context, handle);                                        \
        if (!value) return CUBLAS_STATUS_INVALID_VALUE;               \
        *value = context->member;                                     \
        return CUBLAS_STATUS_SUCCESS;                                 \
    }
PROPERTY(Stream_v2, cudaStream_t, stream, -__LONG_MAX__ - 1L, __LONG_MAX__)
PROPERTY(PointerMode_v2, cublasPointerMode_t, pointers,
         CUBLAS_POINTER_MODE_HOST, CUBLAS_POINTER_MODE_DEVICE)
PROPERTY(AtomicsMode, cublasAtomicsMode_t, atomics, CUBLAS_ATOMICS_NOT_ALLOWED,
         CUBLAS_ATOMICS_ALLOWED)
PROPERTY(MathMode, cublasMath_t, math, 0, 31)
PROPERTY(SmCountTarget, int, multiprocessors, 0, 1 << 20)

struct Status {
    cublasStatus_t status;
    const char *name, *text;
};
#define STATUS(name, text) {CUBLAS_STATUS_##name, "CUBLAS_STATUS_" #name, text}
static const Status STATUSES[] = {
    STATUS(SUCCESS, "success"),
    STATUS(NOT_INITIALIZED, "the library was not initialized"),
    STATUS(ALLOC_FAILED, "the resource allocation failed"),
    STATUS(INVALID_VALUE, "an invalid value was passed"),
    STATUS(ARCH_MISMATCH, "the device lacks a required feature"),
    STATUS(MAPPING_ERROR, "an access to GPU memory failed"),
    STATUS(EXECUTION_FAILED, "the function failed on the GPU"),
    STATUS(INTERNAL_ERROR, "an internal operation failed"),
    STATUS(NOT_SUPPORTED, "the parameters are not supported"),
    STATUS(LICENSE_ERROR, "the license is invalid"),
};

const char *weft_blas::status_name(cublasStatus_t status) {
    for (const Status &each : STATUSES)
        if (each.status == status) return each.name;
    return "unknown cuBLAS status";
}

const char *weft_blas::status_text(cublasStatus_t status) {
    for (const Status &each : STATUSES)
        if (each.status == status) return each.text;
    return "unknown cuBLAS status";
}

const char *cublasGetStatusName(cublasStatus_t status) {
    return status_name(status);
}
const char *cublasGetStatusString(cublasStatus_t status) {
    return status_text(status);
}

/* ---- copies ------------------------------------------------------------- */

/* Copy `columns` pieces of `bytes` bytes; the pitches are in bytes, too. */
static cublasStatus_t copy_pieces(void *to, long to_pitch, const void *from,
                                  long from_pitch, long bytes, long columns,
                                  cudaMemcpyKind kind,
                                  const cudaStream_t *stream) {
    const cudaError_t error =
        stream ? cudaMemcpy2DAsync(to, to_pitch, from, from_pitch, bytes,
                                   columns, kind, *stream)
               : cudaMemcpy2D(to, to_pitch, from, from_pitch, bytes, columns,
                              kind);
    return error ? CUBLAS_STATUS_MAPPING_ERROR : CUBLAS_STATUS_SUCCESS;
}

static cublasStatus_t copy_vector(int n, int size, const void *x, int incx,
                                  void *y, int incy, cudaMemcpyKind kind,
                                  const cudaStream_t *stream) {
    if (n < 0 || size <= 0 || incx <= 0 || incy <= 0)
        return CUBLAS_STATUS_INVALID_VALUE;
    return copy_pieces(y, (long)incy * size, x, (long)incx * size, size, n,
                       kind, stream);
}

static cublasStatus_t copy_matrix(int rows, int columns, int size,
                                  const void *A, int lda, void *B, int ldb,
                                  cudaMemcpyKind kind,
                                  const cudaStream_t *stream) {
    if (rows < 0 || columns < 0 || size <= 0 || lda <= 0 || ldb <= 0 ||
        lda < rows || ldb < rows)
        return CUBLAS_STATUS_INVALID_VALUE;
    return copy_pieces(B, (long)ldb * size, A, (long)lda * size,
                       (long)rows * size, columns, kind, stream);
}

#define COPIES(Set, kind)                                                    \
    cublasStatus_t cublas##Set##Vector(int n, int size, const void *x,       \
                                       int incx, void *y, int incy) {        \
        return copy_vector(n, size, x, incx, y, incy, kind, 0);              \
    }                                                                        \
    cublasStatus_t cublas##Set##VectorAsync(int n, int size, const void *x,  \
                                            int incx, void *y, int incy,     \
                                            cudaStream_t stream) {           \
        return copy_vector(n, size, x, incx, y, incy, kind, &stream);        \
    }                                                                        \
    cublasStatus_t cublas##Set##Matrix(int rows, int columns, int size,      \
                                       const void *A, int lda, void *B,      \
                                       int ldb) {                            \
        return copy_matrix(rows, columns, size, A, lda, B, ldb, kind, 0);    \
    }                                                                        \
    cublasStatus_t cublas##Set##MatrixAsync(int rows, int columns, int size, \
                                            const void *A, int lda, void *B, \
                                            int ldb, cudaStream_t stream) {  \
        return copy_matrix(rows, columns, size, A, lda, B, ldb, kind,        \
                           &stream);                                         \
    }
COPIES(Set, cudaMemcpyHostToDevice)
COPIES(Get, cudaMemcpyDeviceToHost)
