/* cublasLt.h -- cuBLASLt on the CPU: cublasLtMatmul() for real numbers of 16,
 * 32 and 64 bits and for 8-bit integers, in orders COL and ROW, with all
 * epilogues. A program that names another function gets one error with that
 * function's name.
 *
 * There is one algorithm, which needs no workspace; preferences have no effect.
 * cublasLtMatmul() returns CUBLAS_STATUS_NOT_SUPPORTED for other orders and
 * types, for scales and amax values of 8-bit floats, and for vectors of alphas.
 * GELU is x (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3))) / 2, which differs from
 * x times the normal distribution by less than 0.0005.
 *
 * Source of names, parameters, values and errors: cuBLAS documentation 13.0,
 * "Using the cuBLASLt API", https://docs.nvidia.com/cuda/cublas */
#ifndef SIMT_CUBLASLT_H
#define SIMT_CUBLASLT_H
#include <stdint.h>

#include "cublas_api.h"

typedef struct cublasLtContext *cublasLtHandle_t;

#define SIMT_OPAQUE(name, words) \
    typedef struct {             \
        uint64_t data[words];    \
    } name
SIMT_OPAQUE(cublasLtMatrixLayoutOpaque_t, 8);
SIMT_OPAQUE(cublasLtMatmulAlgo_t, 8);
SIMT_OPAQUE(cublasLtMatmulPreferenceOpaque_t, 8);
SIMT_OPAQUE(cublasLtMatrixTransformDescOpaque_t, 8);
SIMT_OPAQUE(cublasLtMatmulDescOpaque_t, 32);
#undef SIMT_OPAQUE
typedef cublasLtMatrixLayoutOpaque_t *cublasLtMatrixLayout_t;
typedef cublasLtMatmulDescOpaque_t *cublasLtMatmulDesc_t;
typedef cublasLtMatmulPreferenceOpaque_t *cublasLtMatmulPreference_t;
typedef cublasLtMatrixTransformDescOpaque_t *cublasLtMatrixTransformDesc_t;

typedef enum {
    CUBLASLT_ORDER_COL = 0,
    CUBLASLT_ORDER_ROW = 1,
    CUBLASLT_ORDER_COL32 = 2,
    CUBLASLT_ORDER_COL4_4R2_8C = 3,
    CUBLASLT_ORDER_COL32_2R_4R4 = 4
} cublasLtOrder_t;

typedef enum {
    CUBLASLT_POINTER_MODE_HOST = CUBLAS_POINTER_MODE_HOST,
    CUBLASLT_POINTER_MODE_DEVICE = CUBLAS_POINTER_MODE_DEVICE,
    CUBLASLT_POINTER_MODE_DEVICE_VECTOR = 2,
    CUBLASLT_POINTER_MODE_ALPHA_DEVICE_VECTOR_BETA_ZERO = 3,
    CUBLASLT_POINTER_MODE_ALPHA_DEVICE_VECTOR_BETA_HOST = 4
} cublasLtPointerMode_t;

typedef enum {
    CUBLASLT_BATCH_MODE_STRIDED = 0,
    CUBLASLT_BATCH_MODE_POINTER_ARRAY = 1
} cublasLtBatchMode_t;

/* ROWS and COLS are the shape of the stored matrix, before op(). The distance
 * between matrices of a batch is in elements. */
typedef enum {
    CUBLASLT_MATRIX_LAYOUT_TYPE = 0,                 /* uint32_t */
    CUBLASLT_MATRIX_LAYOUT_ORDER = 1,                /* int32_t */
    CUBLASLT_MATRIX_LAYOUT_ROWS = 2,                 /* uint64_t */
    CUBLASLT_MATRIX_LAYOUT_COLS = 3,                 /* uint64_t */
    CUBLASLT_MATRIX_LAYOUT_LD = 4,                   /* int64_t */
    CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT = 5,          /* int32_t */
    CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET = 6, /* int64_t */
    CUBLASLT_MATRIX_LAYOUT_PLANE_OFFSET = 7,         /* int64_t */
    CUBLASLT_MATRIX_LAYOUT_BATCH_MODE = 8            /* uint32_t */
} cublasLtMatrixLayoutAttribute_t;

/* Attributes are int32_t, except EPILOGUE (uint32_t), pointers (void *), _LD
 * and _STRIDE (int64_t), and FAST_ACCUM (int8_t). */
typedef enum {
    CUBLASLT_MATMUL_DESC_COMPUTE_TYPE = 0,
    CUBLASLT_MATMUL_DESC_SCALE_TYPE = 1,
    CUBLASLT_MATMUL_DESC_POINTER_MODE = 2,
    CUBLASLT_MATMUL_DESC_TRANSA = 3,
    CUBLASLT_MATMUL_DESC_TRANSB = 4,
    CUBLASLT_MATMUL_DESC_TRANSC = 5,
    CUBLASLT_MATMUL_DESC_FILL_MODE = 6,
    CUBLASLT_MATMUL_DESC_EPILOGUE = 7,
    CUBLASLT_MATMUL_DESC_BIAS_POINTER = 8,
    CUBLASLT_MATMUL_DESC_BIAS_BATCH_STRIDE = 10,
    CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER = 11,
    CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD = 12,
    CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_BATCH_STRIDE = 13,
    CUBLASLT_MATMUL_DESC_ALPHA_VECTOR_BATCH_STRIDE = 14,
    CUBLASLT_MATMUL_DESC_SM_COUNT_TARGET = 15,
    CUBLASLT_MATMUL_DESC_A_SCALE_POINTER = 17,
    CUBLASLT_MATMUL_DESC_B_SCALE_POINTER = 18,
    CUBLASLT_MATMUL_DESC_C_SCALE_POINTER = 19,
    CUBLASLT_MATMUL_DESC_D_SCALE_POINTER = 20,
    CUBLASLT_MATMUL_DESC_AMAX_D_POINTER = 21,
    CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_DATA_TYPE = 22,
    CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_SCALE_POINTER = 23,
    CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_AMAX_POINTER = 24,
    CUBLASLT_MATMUL_DESC_FAST_ACCUM = 25,
    CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE = 26
} cublasLtMatmulDescAttributes_t;

/* The bias has an element for each row of D. The AUX epilogues store what the
 * backward ones read: RELU a bit for each element, at bit i + j * ld of the
 * auxiliary matrix, and GELU the function's argument. The BGRAD epilogues store
 * sums in the bias: over the columns of D, over the rows of op(A)^T, or over
 * those of op(B). */
typedef enum {
    CUBLASLT_EPILOGUE_DEFAULT = 1,
    CUBLASLT_EPILOGUE_RELU = 2,
    CUBLASLT_EPILOGUE_BIAS = 4,
    CUBLASLT_EPILOGUE_RELU_BIAS = 6,
    CUBLASLT_EPILOGUE_GELU = 32,
    CUBLASLT_EPILOGUE_GELU_BIAS = 36,
    CUBLASLT_EPILOGUE_RELU_AUX = 130,
    CUBLASLT_EPILOGUE_RELU_AUX_BIAS = 134,
    CUBLASLT_EPILOGUE_DRELU = 136,
    CUBLASLT_EPILOGUE_DRELU_BGRAD = 152,
    CUBLASLT_EPILOGUE_GELU_AUX = 160,
    CUBLASLT_EPILOGUE_GELU_AUX_BIAS = 164,
    CUBLASLT_EPILOGUE_DGELU = 192,
    CUBLASLT_EPILOGUE_DGELU_BGRAD = 208,
    CUBLASLT_EPILOGUE_BGRADA = 256,
    CUBLASLT_EPILOGUE_BGRADB = 512
} cublasLtEpilogue_t;

typedef enum {
    CUBLASLT_SEARCH_BEST_FIT = 0,
    CUBLASLT_SEARCH_LIMITED_BY_ALGO_ID = 1
} cublasLtMatmulSearch_t;

typedef enum {
    CUBLASLT_REDUCTION_SCHEME_NONE = 0,
    CUBLASLT_REDUCTION_SCHEME_INPLACE = 1,
    CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE = 2,
    CUBLASLT_REDUCTION_SCHEME_OUTPUT_TYPE = 4,
    CUBLASLT_REDUCTION_SCHEME_MASK = 7
} cublasLtReductionScheme_t;

typedef enum {
    CUBLASLT_MATMUL_PREF_SEARCH_MODE = 0,           /* uint32_t */
    CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES = 1,   /* uint64_t */
    CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK = 3, /* uint32_t */
    CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES = 5, /* uint32_t */
    CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES = 6, /* uint32_t */
    CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES = 7, /* uint32_t */
    CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES = 8, /* uint32_t */
    CUBLASLT_MATMUL_PREF_MAX_WAVES_COUNT = 9,       /* float */
    CUBLASLT_MATMUL_PREF_IMPL_MASK = 12             /* uint64_t */
} cublasLtMatmulPreferenceAttributes_t;

typedef enum {
    CUBLASLT_MATRIX_TRANSFORM_DESC_SCALE_TYPE = 0,   /* int32_t */
    CUBLASLT_MATRIX_TRANSFORM_DESC_POINTER_MODE = 1, /* int32_t */
    CUBLASLT_MATRIX_TRANSFORM_DESC_TRANSA = 2,       /* int32_t */
    CUBLASLT_MATRIX_TRANSFORM_DESC_TRANSB = 3        /* int32_t */
} cublasLtMatrixTransformDescAttributes_t;

typedef struct {
    cublasLtMatmulAlgo_t algo;
    size_t workspaceSize; /* in bytes */
    cublasStatus_t state;
    float wavesCount;
    int reserved[4];
} cublasLtMatmulHeuristicResult_t;

#pragma GCC visibility push(default)
extern "C" {

/* ---- handles; those of cuBLAS are valid, too ------------------------------
 */

cublasStatus_t cublasLtCreate(cublasLtHandle_t *handle);
cublasStatus_t cublasLtDestroy(cublasLtHandle_t handle);
size_t cublasLtGetVersion(void);
size_t cublasLtGetCudartVersion(void);
cublasStatus_t cublasLtGetProperty(libraryPropertyType type, int *value);
const char *cublasLtGetStatusName(cublasStatus_t status);
const char *cublasLtGetStatusString(cublasStatus_t status);

/* ---- descriptions --------------------------------------------------------
 * Set...() returns CUBLAS_STATUS_INVALID_VALUE if `size` is not the size of the
 * attribute. Get...() with size 0 only stores the attribute's size in
 * *written. */

#define SIMT_ATTRIBUTES(name, Description, Attribute)                     \
    cublasStatus_t cublasLt##name##Destroy(Description description);      \
    cublasStatus_t cublasLt##name##SetAttribute(                          \
        Description description, Attribute attribute, const void *buffer, \
        size_t size);                                                     \
    cublasStatus_t cublasLt##name##GetAttribute(                          \
        Description description, Attribute attribute, void *buffer,       \
        size_t size, size_t *written);
SIMT_ATTRIBUTES(MatrixLayout, cublasLtMatrixLayout_t,
                cublasLtMatrixLayoutAttribute_t)
SIMT_ATTRIBUTES(MatmulDesc, cublasLtMatmulDesc_t,
                cublasLtMatmulDescAttributes_t)
SIMT_ATTRIBUTES(MatmulPreference, cublasLtMatmulPreference_t,
                cublasLtMatmulPreferenceAttributes_t)
SIMT_ATTRIBUTES(MatrixTransformDesc, cublasLtMatrixTransformDesc_t,
                cublasLtMatrixTransformDescAttributes_t)
#undef SIMT_ATTRIBUTES

/* Init() begins a description in the program's own memory. */
cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t *layout,
                                          cudaDataType type, uint64_t rows,
                                          uint64_t columns, int64_t ld);
cublasStatus_t cublasLtMatrixLayoutInit(cublasLtMatrixLayout_t layout,
                                        cudaDataType type, uint64_t rows,
                                        uint64_t columns, int64_t ld);
cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t *operation,
                                        cublasComputeType_t compute,
                                        cudaDataType scale);
cublasStatus_t cublasLtMatmulDescInit(cublasLtMatmulDesc_t operation,
                                      cublasComputeType_t compute,
                                      cudaDataType scale);
cublasStatus_t
cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t *preference);
cublasStatus_t
cublasLtMatmulPreferenceInit(cublasLtMatmulPreference_t preference);
cublasStatus_t
cublasLtMatrixTransformDescCreate(cublasLtMatrixTransformDesc_t *operation,
                                  cudaDataType scale);
cublasStatus_t
cublasLtMatrixTransformDescInit(cublasLtMatrixTransformDesc_t operation,
                                cudaDataType scale);

/* ---- algorithms ---------------------------------------------------------- */

cublasStatus_t cublasLtMatmulAlgoGetHeuristic(
    cublasLtHandle_t handle, cublasLtMatmulDesc_t operation,
    cublasLtMatrixLayout_t Adesc, cublasLtMatrixLayout_t Bdesc,
    cublasLtMatrixLayout_t Cdesc, cublasLtMatrixLayout_t Ddesc,
    cublasLtMatmulPreference_t preference, int requested,
    cublasLtMatmulHeuristicResult_t results[], int *returned);
cublasStatus_t cublasLtMatmulAlgoGetIds(cublasLtHandle_t handle,
                                        cublasComputeType_t compute,
                                        cudaDataType scale, cudaDataType Atype,
                                        cudaDataType Btype, cudaDataType Ctype,
                                        cudaDataType Dtype, int requested,
                                        int ids[], int *returned);
cublasStatus_t cublasLtMatmulAlgoInit(cublasLtHandle_t handle,
                                      cublasComputeType_t compute,
                                      cudaDataType scale, cudaDataType Atype,
                                      cudaDataType Btype, cudaDataType Ctype,
                                      cudaDataType Dtype, int id,
                                      cublasLtMatmulAlgo_t *algo);
cublasStatus_t cublasLtMatmulAlgoCheck(
    cublasLtHandle_t handle, cublasLtMatmulDesc_t operation,
    cublasLtMatrixLayout_t Adesc, cublasLtMatrixLayout_t Bdesc,
    cublasLtMatrixLayout_t Cdesc, cublasLtMatrixLayout_t Ddesc,
    const cublasLtMatmulAlgo_t *algo, cublasLtMatmulHeuristicResult_t *result);

/* ---- work ---------------------------------------------------------------- */

/* D = epilogue(alpha op(A) op(B) + beta C) */
cublasStatus_t
cublasLtMatmul(cublasLtHandle_t handle, cublasLtMatmulDesc_t operation,
               const void *alpha, const void *A, cublasLtMatrixLayout_t Adesc,
               const void *B, cublasLtMatrixLayout_t Bdesc, const void *beta,
               const void *C, cublasLtMatrixLayout_t Cdesc, void *D,
               cublasLtMatrixLayout_t Ddesc, const cublasLtMatmulAlgo_t *algo,
               void *workspace, size_t size, cudaStream_t stream);

/* C = alpha op(A) + beta op(B); B may be NULL if beta is 0 */
cublasStatus_t cublasLtMatrixTransform(
    cublasLtHandle_t handle, cublasLtMatrixTransformDesc_t operation,
    const void *alpha, const void *A, cublasLtMatrixLayout_t Adesc,
    const void *beta, const void *B, cublasLtMatrixLayout_t Bdesc, void *C,
    cublasLtMatrixLayout_t Cdesc, cudaStream_t stream);

} // extern "C"
#pragma GCC visibility pop
#endif
