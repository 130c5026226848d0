/* cublasLt_types.h -- cuBLASLt's descriptions, as they are in the program's
 * opaque memory. */
#ifndef WEFT_LIBRARIES_CUBLASLT_TYPES_H
#define WEFT_LIBRARIES_CUBLASLT_TYPES_H
#include "cublas_context.h"
#include "cublasLt.h"

namespace weft_blas {

/* A matrix, and the distance in elements to the next matrix of a batch. */
struct Layout {
    int type, order; /* cudaDataType, cublasLtOrder_t */
    uint64_t rows, columns;
    int64_t ld, stride, plane;
    int count, mode;
    /* The distance in elements between neighbours in a column, and in a row. */
    ptrdiff_t down() const { return order == CUBLASLT_ORDER_ROW ? ld : 1; }
    ptrdiff_t right() const { return order == CUBLASLT_ORDER_ROW ? 1 : ld; }
    /* Whether the CPU version has this layout. */
    bool is_supported() const {
        return (unsigned)order <= CUBLASLT_ORDER_ROW && !mode && !plane;
    }
};

/* The description of cublasLtMatmul()'s work. A type of -1 is that of D. */
struct Operation {
    int compute, scale, pointers, transa, transb, transc, fill;
    unsigned epilogue;
    void *bias, *aux;
    int64_t bias_stride, aux_ld, aux_stride, alpha_stride;
    int multiprocessors, aux_type, bias_type;
    signed char fast;
    void *unsupported[7]; /* scales and amax values of 8-bit floats */
};

/* The description of cublasLtMatrixTransform()'s work. */
struct Transform {
    int scale, pointers, transa, transb;
};

} // namespace weft_blas
#endif
