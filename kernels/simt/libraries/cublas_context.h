/* cublas_context.h -- handles and products, which the files of cuBLAS share. */
#ifndef WEFT_LIBRARIES_CUBLAS_CONTEXT_H
#define WEFT_LIBRARIES_CUBLAS_CONTEXT_H
#include <vector>

#include "api/cuda_library.h"
#include "cublas_api.h"
#include "gemm.h"
#include "simt_runtime.h"

/* The state of a handle. cuBLASLt accepts cuBLAS's handles, too. */
struct cublasContext {
    cudaStream_t stream = 0;
    cublasPointerMode_t pointers = CUBLAS_POINTER_MODE_HOST;
    cublasAtomicsMode_t atomics = CUBLAS_ATOMICS_NOT_ALLOWED;
    cublasMath_t math = CUBLAS_DEFAULT_MATH;
    int multiprocessors = 0;
};

namespace weft_blas {

typedef std::vector<simt::Argument> Arguments;
using simt::Argument;

/* The gemm_type of float and of double. */
template <class T> constexpr int TYPE = sizeof(T) == 8 ? GEMM_F64 : GEMM_F32;

extern simt::Handles<cublasContext> &handles;

/* alpha or beta: a value, or its address in device memory. */
struct Scalar {
    double value = 0;
    const void *at = 0;
    int type = GEMM_F32;
    double get() const { return at ? weft_load(at, type, 0) : value; }
};

/* Products of matrices, all of the same sizes. */
struct Products {
    struct gemm gemm;
    Scalar alpha, beta;
    struct Place { /* the matrices of one product */
        void *a, *b, *c, *d;
    };
    std::vector<Place> places;
};

/* Compute all products. */
void multiply(const Products &products);

/* Return the argument that covers a matrix of `rows` x `columns` elements in
 * memory whose columns are `ld` elements apart. */
Argument matrix(const char *name, Argument::Access access, const void *at,
                int type, long rows, long columns, long ld);

inline bool is_operation(int trans) {
    return trans >= CUBLAS_OP_N && trans <= CUBLAS_OP_C;
}
/* Return whether `ld` is a valid leading dimension for columns of `rows`. */
inline bool fits(long ld, long rows) { return ld >= 1 && ld >= rows; }

/* Return whether a product of these types exists, and set *scale to the type of
 * alpha and beta. Source: table of cublasGemmEx() in cuBLAS's documentation. */
bool is_supported(cublasComputeType_t compute, int a, int b, int c, int *scale);

/* The work of functions that cuBLAS and cuBLASLt both export. Neither library
 * calls the other's export: in a process that has loaded NVIDIA's libraries,
 * the loader could prefer NVIDIA's. */
cublasStatus_t get_property(libraryPropertyType type, int *value);
const char *status_name(cublasStatus_t status);
const char *status_text(cublasStatus_t status);

/* Read alpha or beta from the host's memory, or record in `arguments` where the
 * device will read it. Return false if the host may not access it. */
bool read_scalar(const char *function, const char *name, const void *at,
                 int type, bool on_device, Arguments *arguments,
                 Scalar *scalar);

/* Report that a product has not been computed. */
void report_no_memory();

inline cublasStatus_t status_of(cudaError_t error) {
    return error ? CUBLAS_STATUS_EXECUTION_FAILED : CUBLAS_STATUS_SUCCESS;
}

} // namespace weft_blas

/* Find the context of a handle, or return from the function. */
#define FIND(context, handle)                            \
    cublasContext *const context = handles.find(handle); \
    if (!context) return CUBLAS_STATUS_NOT_INITIALIZED

#endif
