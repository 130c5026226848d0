/* cublas_products.cpp -- cuBLAS's products of matrices: one, many at addresses
 * in an array, or many at equal distances. */
#include <stdio.h>

#include "cublas_context.h"

using namespace weft_blas;

Argument weft_blas::matrix(const char *name, Argument::Access access,
                           const void *at, int type, long rows, long columns,
                           long ld) {
    const size_t size = weft_size_of(type);
    if (rows <= 0 || columns <= 0) return {name, access, at, 0};
    if (ld == rows) return {name, access, at, size * rows * columns};
    return {name, access, at, size * rows, (size_t)columns, size * ld};
}

void weft_blas::multiply(const Products &products) {
    const int count = (int)products.places.size();
    struct gemm g = products.gemm;
    g.alpha = products.alpha.get(), g.beta = products.beta.get();
    const int threads = simt_threads();
    const bool many = count >= threads && threads > 1;
    g.threads = many ? 1 : threads;
    bool failed = false;
#pragma omp parallel for num_threads(threads) schedule(dynamic) if (many)
    for (int i = 0; i < count; i++) {
        struct gemm one = g;
        one.a.at = products.places[i].a, one.b.at = products.places[i].b;
        one.c.at = products.places[i].c, one.d.at = products.places[i].d;
        if (weft_gemm(&one)) failed = true;
    }
    if (failed) report_no_memory();
}

void weft_blas::report_no_memory() {
    fprintf(stderr, "weft: cuBLAS: no memory for copies of the operands\n");
}

bool weft_blas::read_scalar(const char *function, const char *name,
                            const void *at, int type, bool on_device,
                            Arguments *arguments, Scalar *scalar) {
    const size_t size = weft_size_of(type);
    scalar->type = type;
    if (on_device) {
        scalar->at = at;
        arguments->push_back({name, Argument::READ, at, size});
        return true;
    }
    if (!simt::may_access(function, {{name, Argument::HOST, at, size}}))
        return false;
    scalar->value = weft_load(at, type, 0);
    return true;
}

bool weft_blas::is_supported(cublasComputeType_t compute, int a, int b, int c,
                             int *scale) {
    *scale = GEMM_F32;
    if (a != b) return false;
    switch (compute) {
    case CUBLAS_COMPUTE_16F:
    case CUBLAS_COMPUTE_16F_PEDANTIC:
        *scale = GEMM_F16;
        return a == GEMM_F16 && c == GEMM_F16;
    case CUBLAS_COMPUTE_32I:
    case CUBLAS_COMPUTE_32I_PEDANTIC:
        *scale = GEMM_I32;
        return a == GEMM_I8 && c == GEMM_I32;
    case CUBLAS_COMPUTE_64F:
    case CUBLAS_COMPUTE_64F_PEDANTIC:
    case CUBLAS_COMPUTE_64F_EMULATED_FIXEDPOINT:
        *scale = GEMM_F64;
        return a == GEMM_F64 && c == GEMM_F64;
    case CUBLAS_COMPUTE_32F:
    case CUBLAS_COMPUTE_32F_PEDANTIC:
        return (a == GEMM_F16 || a == GEMM_BF16 || a == GEMM_F32) &&
               (c == a || c == GEMM_F32);
    case CUBLAS_COMPUTE_32F_FAST_16F:
    case CUBLAS_COMPUTE_32F_FAST_16BF:
    case CUBLAS_COMPUTE_32F_FAST_TF32:
    case CUBLAS_COMPUTE_32F_EMULATED_16BFX9:
        return a == GEMM_F32 && c == GEMM_F32;
    }
    return false;
}

namespace {

/* One operand: its types and strides, and its place in each product. */
struct Operand {
    const void *at;
    int type, ld;
    long long stride; /* in elements */
};

/* Return the address of an operand in product `i`. */
void *place(const Operand &x, bool is_array, int i) {
    if (is_array) return ((void *const *)x.at)[i];
    return (char *)x.at + i * x.stride * (long long)weft_size_of(x.type);
}

/* Do the work of all of cuBLAS's products. `is_array`: whether the operands are
 * arrays of addresses. */
cublasStatus_t run(const char *name, cublasHandle_t handle,
                   cublasOperation_t transa, cublasOperation_t transb, int m,
                   int n, int k, const void *alpha, const Operand &a,
                   const Operand &b, const void *beta, const Operand &c,
                   cublasComputeType_t compute, int count = 1,
                   bool is_array = false) {
    FIND(context, handle);
    int scale; // the type of alpha and beta
    if (!is_supported(compute, a.type, b.type, c.type, &scale))
        return CUBLAS_STATUS_NOT_SUPPORTED;
    const bool ta = transa != CUBLAS_OP_N, tb = transb != CUBLAS_OP_N;
    if (m < 0 || n < 0 || k < 0 || count < 0 || !alpha || !beta ||
        !is_operation(transa) || !is_operation(transb) ||
        !fits(a.ld, ta ? k : m) || !fits(b.ld, tb ? n : k) || !fits(c.ld, m))
        return CUBLAS_STATUS_INVALID_VALUE;
    if (!m || !n || !count) return CUBLAS_STATUS_SUCCESS;
    Products all = {};
    struct gemm &g = all.gemm;
    g.m = m, g.n = n, g.k = k;
    g.a = {0, a.type, ta ? a.ld : 1, ta ? 1 : a.ld};
    g.b = {0, b.type, tb ? b.ld : 1, tb ? 1 : b.ld};
    g.c = g.d = {0, c.type, 1, c.ld};
    Arguments arguments;
    const bool on_device = context->pointers == CUBLAS_POINTER_MODE_DEVICE;
    const auto read = [&](const char *what, const void *at, Scalar *scalar) {
        return read_scalar(name, what, at, scale, on_device, &arguments,
                           scalar);
    };
    if (!read("alpha", alpha, &all.alpha) || !read("beta", beta, &all.beta))
        return CUBLAS_STATUS_EXECUTION_FAILED;
    const bool reads = (all.alpha.at || all.alpha.value != 0) && k;
    if (is_array) {
        const size_t size = count * sizeof(void *);
        Arguments arrays = {{"Carray", Argument::READ, c.at, size}};
        if (reads) {
            arrays.push_back({"Aarray", Argument::READ, a.at, size});
            arrays.push_back({"Barray", Argument::READ, b.at, size});
        }
        if (!simt::may_access(name, arrays))
            return CUBLAS_STATUS_EXECUTION_FAILED;
    }
    for (int i = 0; i < count; i++) {
        Products::Place at = {};
        if (reads) {
            at.a = place(a, is_array, i);
            at.b = place(b, is_array, i);
            arguments.push_back(matrix("A", Argument::READ, at.a, a.type,
                                       ta ? k : m, ta ? m : k, a.ld));
            arguments.push_back(matrix("B", Argument::READ, at.b, b.type,
                                       tb ? n : k, tb ? k : n, b.ld));
        }
        at.c = at.d = place(c, is_array, i);
        arguments.push_back(
            matrix("C", Argument::WRITE, at.d, c.type, m, n, c.ld));
        all.places.push_back(at);
    }
    return status_of(simt::submit(name, context->stream, arguments,
                                  [all] { multiply(all); }));
}

} // namespace

#define ONE_TYPE(gemm, batched, strided, T, TYPE, COMPUTE)                  \
    cublasStatus_t gemm(cublasHandle_t handle, cublasOperation_t transa,    \
                        cublasOperation_t transb, int m, int n, int k,      \
                        const T *alpha, const T *A, int lda, const T *B,    \
                        int ldb, const T *beta, T *C, int ldc) {            \
        return run(__func__, handle, transa, transb, m, n, k, alpha,        \
                   {A, TYPE, lda, 0}, {B, TYPE, ldb, 0}, beta,              \
                   {C, TYPE, ldc, 0}, COMPUTE);                             \
    }                                                                       \
    cublasStatus_t batched(cublasHandle_t handle, cublasOperation_t transa, \
                           cublasOperation_t transb, int m, int n, int k,   \
                           const T *alpha, const T *const A[], int lda,     \
                           const T *const B[], int ldb, const T *beta,      \
                           T *const C[], int ldc, int count) {              \
        return run(__func__, handle, transa, transb, m, n, k, alpha,        \
                   {A, TYPE, lda, 0}, {B, TYPE, ldb, 0}, beta,              \
                   {C, TYPE, ldc, 0}, COMPUTE, count, true);                \
    }                                                                       \
    cublasStatus_t strided(cublasHandle_t handle, cublasOperation_t transa, \
                           cublasOperation_t transb, int m, int n, int k,   \
                           const T *alpha, const T *A, int lda,             \
                           long long strideA, const T *B, int ldb,          \
                           long long strideB, const T *beta, T *C, int ldc, \
                           long long strideC, int count) {                  \
        return run(__func__, handle, transa, transb, m, n, k, alpha,        \
                   {A, TYPE, lda, strideA}, {B, TYPE, ldb, strideB}, beta,  \
                   {C, TYPE, ldc, strideC}, COMPUTE, count);                \
    }
ONE_TYPE(cublasSgemm_v2, cublasSgemmBatched, cublasSgemmStridedBatched, float,
         GEMM_F32, CUBLAS_COMPUTE_32F)
ONE_TYPE(cublasDgemm_v2, cublasDgemmBatched, cublasDgemmStridedBatched, double,
         GEMM_F64, CUBLAS_COMPUTE_64F)
ONE_TYPE(cublasHgemm, cublasHgemmBatched, cublasHgemmStridedBatched, __half,
         GEMM_F16, CUBLAS_COMPUTE_16F)

cublasStatus_t cublasSgemmEx(cublasHandle_t handle, cublasOperation_t transa,
                             cublasOperation_t transb, int m, int n, int k,
                             const float *alpha, const void *A,
                             cudaDataType Atype, int lda, const void *B,
                             cudaDataType Btype, int ldb, const float *beta,
                             void *C, cudaDataType Ctype, int ldc) {
    return run(__func__, handle, transa, transb, m, n, k, alpha,
               {A, Atype, lda, 0}, {B, Btype, ldb, 0}, beta, {C, Ctype, ldc, 0},
               CUBLAS_COMPUTE_32F);
}

cublasStatus_t cublasGemmEx(cublasHandle_t handle, cublasOperation_t transa,
                            cublasOperation_t transb, int m, int n, int k,
                            const void *alpha, const void *A,
                            cudaDataType Atype, int lda, const void *B,
                            cudaDataType Btype, int ldb, const void *beta,
                            void *C, cudaDataType Ctype, int ldc,
                            cublasComputeType_t compute, cublasGemmAlgo_t) {
    return run(__func__, handle, transa, transb, m, n, k, alpha,
               {A, Atype, lda, 0}, {B, Btype, ldb, 0}, beta, {C, Ctype, ldc, 0},
               compute);
}

cublasStatus_t cublasGemmBatchedEx(
    cublasHandle_t handle, cublasOperation_t transa, cublasOperation_t transb,
    int m, int n, int k, const void *alpha, const void *const A[],
    cudaDataType Atype, int lda, const void *const B[], cudaDataType Btype,
    int ldb, const void *beta, void *const C[], cudaDataType Ctype, int ldc,
    int count, cublasComputeType_t compute, cublasGemmAlgo_t) {
    return run(__func__, handle, transa, transb, m, n, k, alpha,
               {A, Atype, lda, 0}, {B, Btype, ldb, 0}, beta, {C, Ctype, ldc, 0},
               compute, count, true);
}

cublasStatus_t cublasGemmStridedBatchedEx(
    cublasHandle_t handle, cublasOperation_t transa, cublasOperation_t transb,
    int m, int n, int k, const void *alpha, const void *A, cudaDataType Atype,
    int lda, long long strideA, const void *B, cudaDataType Btype, int ldb,
    long long strideB, const void *beta, void *C, cudaDataType Ctype, int ldc,
    long long strideC, int count, cublasComputeType_t compute,
    cublasGemmAlgo_t) {
    return run(__func__, handle, transa, transb, m, n, k, alpha,
               {A, Atype, lda, strideA}, {B, Btype, ldb, strideB}, beta,
               {C, Ctype, ldc, strideC}, compute, count);
}
