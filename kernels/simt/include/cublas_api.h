/* cublas_api.h -- cuBLAS on the CPU: its functions for float and double, and
 * its products of 16-bit floats and 8-bit integers. A program that names
 * another function of cuBLAS gets one error with that function's name.
 *
 * The functions return cuBLAS's status codes. A call finishes its work before
 * it returns; if its stream captures, the call becomes a node instead. A matrix
 * with m rows is stored by columns: element (i, j) is at index i + j * ld,
 * where the leading dimension ld is at least m. Sums of floats and of 16-bit
 * floats are float in products, and double elsewhere.
 *
 * Source of names, parameters, values and errors: cuBLAS documentation 13.0,
 * https://docs.nvidia.com/cuda/cublas */
#ifndef SIMT_CUBLAS_API_H
#define SIMT_CUBLAS_API_H
#define CUBLAS_API_H_ /* programs test for this guard */
#ifdef SIMT_CELL
#error \
    "cublas_v2.h: a cell contains only device code, and cuBLAS is called by the host: write a program, and run it with weft run"
#endif
#include "cuda_runtime.h"
#include "library_types.h"
#ifdef SIMT_HOST_FILE
struct __half; /* cuda_fp16.h needs the declarations of CUDA C */
#else
#include "cuda_bf16.h"
#include "cuda_fp16.h"
#endif

#define CUBLAS_VER_MAJOR 13
#define CUBLAS_VER_MINOR 0
#define CUBLAS_VER_PATCH 0
#define CUBLAS_VER_BUILD 0
#define CUBLAS_VERSION 130000
#define CUBLASWINAPI
#define CUBLASAPI

typedef enum {
    CUBLAS_STATUS_SUCCESS = 0,
    CUBLAS_STATUS_NOT_INITIALIZED = 1,
    CUBLAS_STATUS_ALLOC_FAILED = 3,
    CUBLAS_STATUS_INVALID_VALUE = 7,
    CUBLAS_STATUS_ARCH_MISMATCH = 8,
    CUBLAS_STATUS_MAPPING_ERROR = 11,
    CUBLAS_STATUS_EXECUTION_FAILED = 13,
    CUBLAS_STATUS_INTERNAL_ERROR = 14,
    CUBLAS_STATUS_NOT_SUPPORTED = 15,
    CUBLAS_STATUS_LICENSE_ERROR = 16
} cublasStatus_t;

typedef enum {
    CUBLAS_FILL_MODE_LOWER = 0,
    CUBLAS_FILL_MODE_UPPER = 1,
    CUBLAS_FILL_MODE_FULL = 2
} cublasFillMode_t;

typedef enum {
    CUBLAS_DIAG_NON_UNIT = 0,
    CUBLAS_DIAG_UNIT = 1
} cublasDiagType_t;

typedef enum { CUBLAS_SIDE_LEFT = 0, CUBLAS_SIDE_RIGHT = 1 } cublasSideMode_t;

typedef enum {
    CUBLAS_OP_N = 0,
    CUBLAS_OP_T = 1,
    CUBLAS_OP_C = 2,
    CUBLAS_OP_HERMITAN = 2,
    CUBLAS_OP_CONJG = 3
} cublasOperation_t;

typedef enum {
    CUBLAS_POINTER_MODE_HOST = 0,
    CUBLAS_POINTER_MODE_DEVICE = 1
} cublasPointerMode_t;

typedef enum {
    CUBLAS_ATOMICS_NOT_ALLOWED = 0,
    CUBLAS_ATOMICS_ALLOWED = 1
} cublasAtomicsMode_t;

/* In this version, all values select the same algorithm. */
typedef enum {
    CUBLAS_GEMM_DFALT = -1,
    CUBLAS_GEMM_DEFAULT = -1,
    CUBLAS_GEMM_ALGO0 = 0,
    CUBLAS_GEMM_ALGO1,
    CUBLAS_GEMM_ALGO2,
    CUBLAS_GEMM_ALGO3,
    CUBLAS_GEMM_ALGO4,
    CUBLAS_GEMM_ALGO5,
    CUBLAS_GEMM_ALGO6,
    CUBLAS_GEMM_ALGO7,
    CUBLAS_GEMM_ALGO8,
    CUBLAS_GEMM_ALGO9,
    CUBLAS_GEMM_ALGO10,
    CUBLAS_GEMM_ALGO11,
    CUBLAS_GEMM_ALGO12,
    CUBLAS_GEMM_ALGO13,
    CUBLAS_GEMM_ALGO14,
    CUBLAS_GEMM_ALGO15,
    CUBLAS_GEMM_ALGO16,
    CUBLAS_GEMM_ALGO17,
    CUBLAS_GEMM_ALGO18,
    CUBLAS_GEMM_ALGO19,
    CUBLAS_GEMM_ALGO20,
    CUBLAS_GEMM_ALGO21,
    CUBLAS_GEMM_ALGO22,
    CUBLAS_GEMM_ALGO23,
    CUBLAS_GEMM_DEFAULT_TENSOR_OP = 99,
    CUBLAS_GEMM_DFALT_TENSOR_OP = 99,
    CUBLAS_GEMM_ALGO0_TENSOR_OP = 100,
    CUBLAS_GEMM_ALGO1_TENSOR_OP,
    CUBLAS_GEMM_ALGO2_TENSOR_OP,
    CUBLAS_GEMM_ALGO3_TENSOR_OP,
    CUBLAS_GEMM_ALGO4_TENSOR_OP,
    CUBLAS_GEMM_ALGO5_TENSOR_OP,
    CUBLAS_GEMM_ALGO6_TENSOR_OP,
    CUBLAS_GEMM_ALGO7_TENSOR_OP,
    CUBLAS_GEMM_ALGO8_TENSOR_OP,
    CUBLAS_GEMM_ALGO9_TENSOR_OP,
    CUBLAS_GEMM_ALGO10_TENSOR_OP,
    CUBLAS_GEMM_ALGO11_TENSOR_OP,
    CUBLAS_GEMM_ALGO12_TENSOR_OP,
    CUBLAS_GEMM_ALGO13_TENSOR_OP,
    CUBLAS_GEMM_ALGO14_TENSOR_OP,
    CUBLAS_GEMM_ALGO15_TENSOR_OP
} cublasGemmAlgo_t;

/* The modes have no effect: TF32 and emulation allow a lower precision, and
 * never require it. */
typedef enum {
    CUBLAS_DEFAULT_MATH = 0,
    CUBLAS_TENSOR_OP_MATH = 1,
    CUBLAS_PEDANTIC_MATH = 2,
    CUBLAS_TF32_TENSOR_OP_MATH = 3,
    CUBLAS_FP32_EMULATED_BF16X9_MATH = 4,
    CUBLAS_FP64_EMULATED_FIXEDPOINT_MATH = 8,
    CUBLAS_MATH_DISALLOW_REDUCED_PRECISION_REDUCTION = 16
} cublasMath_t;

typedef enum {
    CUBLAS_COMPUTE_16F = 64,
    CUBLAS_COMPUTE_16F_PEDANTIC = 65,
    CUBLAS_COMPUTE_32F = 68,
    CUBLAS_COMPUTE_32F_PEDANTIC = 69,
    CUBLAS_COMPUTE_64F = 70,
    CUBLAS_COMPUTE_64F_PEDANTIC = 71,
    CUBLAS_COMPUTE_32I = 72,
    CUBLAS_COMPUTE_32I_PEDANTIC = 73,
    CUBLAS_COMPUTE_32F_FAST_16F = 74,
    CUBLAS_COMPUTE_32F_FAST_16BF = 75,
    CUBLAS_COMPUTE_32F_FAST_TF32 = 77,
    CUBLAS_COMPUTE_32F_EMULATED_16BFX9 = 78,
    CUBLAS_COMPUTE_64F_EMULATED_FIXEDPOINT = 79
} cublasComputeType_t;

typedef cudaDataType cublasDataType_t;
typedef struct cublasContext *cublasHandle_t;

#pragma GCC visibility push(default)
extern "C" {

/* ---- handles ------------------------------------------------------------ */

cublasStatus_t cublasCreate_v2(cublasHandle_t *handle);
cublasStatus_t cublasDestroy_v2(cublasHandle_t handle);
cublasStatus_t cublasGetVersion_v2(cublasHandle_t handle, int *version);
cublasStatus_t cublasGetProperty(libraryPropertyType type, int *value);
size_t cublasGetCudartVersion(void);
cublasStatus_t cublasSetWorkspace_v2(cublasHandle_t handle, void *workspace,
                                     size_t size);
cublasStatus_t cublasSetStream_v2(cublasHandle_t handle, cudaStream_t stream);
cublasStatus_t cublasGetStream_v2(cublasHandle_t handle, cudaStream_t *stream);
cublasStatus_t cublasGetPointerMode_v2(cublasHandle_t handle,
                                       cublasPointerMode_t *mode);
cublasStatus_t cublasSetPointerMode_v2(cublasHandle_t handle,
                                       cublasPointerMode_t mode);
cublasStatus_t cublasGetAtomicsMode(cublasHandle_t handle,
                                    cublasAtomicsMode_t *mode);
cublasStatus_t cublasSetAtomicsMode(cublasHandle_t handle,
                                    cublasAtomicsMode_t mode);
cublasStatus_t cublasGetMathMode(cublasHandle_t handle, cublasMath_t *mode);
cublasStatus_t cublasSetMathMode(cublasHandle_t handle, cublasMath_t mode);
cublasStatus_t cublasGetSmCountTarget(cublasHandle_t handle, int *count);
cublasStatus_t cublasSetSmCountTarget(cublasHandle_t handle, int count);
const char *cublasGetStatusName(cublasStatus_t status);
const char *cublasGetStatusString(cublasStatus_t status);

/* ---- copies between the host and the device ----------------------------- */

cublasStatus_t cublasSetVector(int n, int size, const void *x, int incx,
                               void *y, int incy);
cublasStatus_t cublasGetVector(int n, int size, const void *x, int incx,
                               void *y, int incy);
cublasStatus_t cublasSetMatrix(int rows, int columns, int size, const void *A,
                               int lda, void *B, int ldb);
cublasStatus_t cublasGetMatrix(int rows, int columns, int size, const void *A,
                               int lda, void *B, int ldb);
cublasStatus_t cublasSetVectorAsync(int n, int size, const void *x, int incx,
                                    void *y, int incy, cudaStream_t stream);
cublasStatus_t cublasGetVectorAsync(int n, int size, const void *x, int incx,
                                    void *y, int incy, cudaStream_t stream);
cublasStatus_t cublasSetMatrixAsync(int rows, int columns, int size,
                                    const void *A, int lda, void *B, int ldb,
                                    cudaStream_t stream);
cublasStatus_t cublasGetMatrixAsync(int rows, int columns, int size,
                                    const void *A, int lda, void *B, int ldb,
                                    cudaStream_t stream);

/* ---- vectors, and matrices of floats (S) and doubles (D) ----------------- */

#define SIMT_BLAS(S, T)                                                        \
    cublasStatus_t cublas##S##asum_v2(cublasHandle_t handle, int n,            \
                                      const T *x, int incx, T *result);        \
    cublasStatus_t cublas##S##axpy_v2(cublasHandle_t handle, int n,            \
                                      const T *alpha, const T *x, int incx,    \
                                      T *y, int incy);                         \
    cublasStatus_t cublas##S##copy_v2(cublasHandle_t handle, int n,            \
                                      const T *x, int incx, T *y, int incy);   \
    cublasStatus_t cublas##S##dot_v2(cublasHandle_t handle, int n, const T *x, \
                                     int incx, const T *y, int incy,           \
                                     T *result);                               \
    cublasStatus_t cublas##S##nrm2_v2(cublasHandle_t handle, int n,            \
                                      const T *x, int incx, T *result);        \
    cublasStatus_t cublas##S##rot_v2(cublasHandle_t handle, int n, T *x,       \
                                     int incx, T *y, int incy, const T *c,     \
                                     const T *s);                              \
    cublasStatus_t cublas##S##scal_v2(cublasHandle_t handle, int n,            \
                                      const T *alpha, T *x, int incx);         \
    cublasStatus_t cublas##S##swap_v2(cublasHandle_t handle, int n, T *x,      \
                                      int incx, T *y, int incy);               \
    cublasStatus_t cublas##S##gemv_v2(                                         \
        cublasHandle_t handle, cublasOperation_t trans, int m, int n,          \
        const T *alpha, const T *A, int lda, const T *x, int incx,             \
        const T *beta, T *y, int incy);                                        \
    cublasStatus_t cublas##S##ger_v2(cublasHandle_t handle, int m, int n,      \
                                     const T *alpha, const T *x, int incx,     \
                                     const T *y, int incy, T *A, int lda);     \
    cublasStatus_t cublas##S##geam(                                            \
        cublasHandle_t handle, cublasOperation_t transa,                       \
        cublasOperation_t transb, int m, int n, const T *alpha, const T *A,    \
        int lda, const T *beta, const T *B, int ldb, T *C, int ldc);           \
    cublasStatus_t cublas##S##dgmm(                                            \
        cublasHandle_t handle, cublasSideMode_t mode, int m, int n,            \
        const T *A, int lda, const T *x, int incx, T *C, int ldc);
SIMT_BLAS(S, float)
SIMT_BLAS(D, double)
#undef SIMT_BLAS

/* The index, from 1, of the first element with the largest (smallest) absolute
 * value. */
cublasStatus_t cublasIsamax_v2(cublasHandle_t handle, int n, const float *x,
                               int incx, int *result);
cublasStatus_t cublasIdamax_v2(cublasHandle_t handle, int n, const double *x,
                               int incx, int *result);
cublasStatus_t cublasIsamin_v2(cublasHandle_t handle, int n, const float *x,
                               int incx, int *result);
cublasStatus_t cublasIdamin_v2(cublasHandle_t handle, int n, const double *x,
                               int incx, int *result);

/* ---- products: C = alpha op(A) op(B) + beta C ---------------------------- */

#define SIMT_BLAS(name, batched, strided, T)                                \
    cublasStatus_t name(cublasHandle_t handle, cublasOperation_t transa,    \
                        cublasOperation_t transb, int m, int n, int k,      \
                        const T *alpha, const T *A, int lda, const T *B,    \
                        int ldb, const T *beta, T *C, int ldc);             \
    cublasStatus_t batched(cublasHandle_t handle, cublasOperation_t transa, \
                           cublasOperation_t transb, int m, int n, int k,   \
                           const T *alpha, const T *const A[], int lda,     \
                           const T *const B[], int ldb, const T *beta,      \
                           T *const C[], int ldc, int count);               \
    cublasStatus_t strided(cublasHandle_t handle, cublasOperation_t transa, \
                           cublasOperation_t transb, int m, int n, int k,   \
                           const T *alpha, const T *A, int lda,             \
                           long long strideA, const T *B, int ldb,          \
                           long long strideB, const T *beta, T *C, int ldc, \
                           long long strideC, int count);
SIMT_BLAS(cublasSgemm_v2, cublasSgemmBatched, cublasSgemmStridedBatched, float)
SIMT_BLAS(cublasDgemm_v2, cublasDgemmBatched, cublasDgemmStridedBatched, double)
SIMT_BLAS(cublasHgemm, cublasHgemmBatched, cublasHgemmStridedBatched, __half)
#undef SIMT_BLAS

cublasStatus_t cublasSgemmEx(cublasHandle_t handle, cublasOperation_t transa,
                             cublasOperation_t transb, int m, int n, int k,
                             const float *alpha, const void *A,
                             cudaDataType Atype, int lda, const void *B,
                             cudaDataType Btype, int ldb, const float *beta,
                             void *C, cudaDataType Ctype, int ldc);
cublasStatus_t cublasGemmEx(cublasHandle_t handle, cublasOperation_t transa,
                            cublasOperation_t transb, int m, int n, int k,
                            const void *alpha, const void *A,
                            cudaDataType Atype, int lda, const void *B,
                            cudaDataType Btype, int ldb, const void *beta,
                            void *C, cudaDataType Ctype, int ldc,
                            cublasComputeType_t compute, cublasGemmAlgo_t algo);
cublasStatus_t cublasGemmBatchedEx(
    cublasHandle_t handle, cublasOperation_t transa, cublasOperation_t transb,
    int m, int n, int k, const void *alpha, const void *const A[],
    cudaDataType Atype, int lda, const void *const B[], cudaDataType Btype,
    int ldb, const void *beta, void *const C[], cudaDataType Ctype, int ldc,
    int count, cublasComputeType_t compute, cublasGemmAlgo_t algo);
cublasStatus_t cublasGemmStridedBatchedEx(
    cublasHandle_t handle, cublasOperation_t transa, cublasOperation_t transb,
    int m, int n, int k, const void *alpha, const void *A, cudaDataType Atype,
    int lda, long long strideA, const void *B, cudaDataType Btype, int ldb,
    long long strideB, const void *beta, void *C, cudaDataType Ctype, int ldc,
    long long strideC, int count, cublasComputeType_t compute,
    cublasGemmAlgo_t algo);

} // extern "C"
#pragma GCC visibility pop

/* Before CUDA 11, cublasGemmEx() had a cudaDataType as the type of the sums. */
static inline cublasStatus_t
cublasGemmEx(cublasHandle_t handle, cublasOperation_t transa,
             cublasOperation_t transb, int m, int n, int k, const void *alpha,
             const void *A, cudaDataType Atype, int lda, const void *B,
             cudaDataType Btype, int ldb, const void *beta, void *C,
             cudaDataType Ctype, int ldc, cudaDataType compute,
             cublasGemmAlgo_t algo) {
    const cublasComputeType_t type =
        compute == CUDA_R_16F   ? CUBLAS_COMPUTE_16F
        : compute == CUDA_R_64F ? CUBLAS_COMPUTE_64F
        : compute == CUDA_R_32I ? CUBLAS_COMPUTE_32I
                                : CUBLAS_COMPUTE_32F;
    return cublasGemmEx(handle, transa, transb, m, n, k, alpha, A, Atype, lda,
                        B, Btype, ldb, beta, C, Ctype, ldc, type, algo);
}

#endif
