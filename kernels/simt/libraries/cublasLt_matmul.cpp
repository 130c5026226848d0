/* cublasLt_matmul.cpp -- cuBLASLt's products with epilogues, and its changes of
 * the layout; see cublasLt.h. */
#include <math.h>
#include <string.h>

#include "cublasLt_types.h"

using namespace weft_blas;

/* ---- products ----------------------------------------------------------- */

namespace {

/* The bits of an epilogue. */
enum : unsigned {
    RELU = 2,
    BIAS = 4,
    DRELU = 8,
    BGRAD = 16,
    GELU = 32,
    DGELU = 64,
    AUX = 128,
    BGRADA = 256,
    BGRADB = 512
};

/* The shape of a product and, once it runs, the place of its matrices. */
struct Matmul {
    Operation operation;
    Layout a, b, c, d;
    int m, n, k;
    const void *A, *B, *C;
    void *D;
    Scalar alpha, beta;

    int bias_type() const {
        return operation.bias_type < 0 ? d.type : operation.bias_type;
    }
    int aux_type() const {
        return operation.aux_type < 0 ? d.type : operation.aux_type;
    }
};

const unsigned EPILOGUES[] = {1,   2,   4,   6,   32,  36,  130, 134,
                              136, 152, 160, 164, 192, 208, 256, 512};

bool is_shape(const Layout &x, uint64_t rows, uint64_t columns, int count) {
    const uint64_t least = x.order == CUBLASLT_ORDER_ROW ? columns : rows;
    return x.rows == rows && x.columns == columns && x.count == count &&
           x.ld >= (int64_t)(least ? least : 1);
}

bool has_algorithm(int compute, int scale, int a, int b, int c, int d) {
    int needed;
    return is_supported((cublasComputeType_t)compute, a, b, d, &needed) &&
           needed == scale && c == d;
}

/* Check a description, and complete `matmul` from it. */
cublasStatus_t describe(cublasLtHandle_t handle, cublasLtMatmulDesc_t operation,
                        cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                        cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
                        Matmul *matmul) {
    if (!handles.find(handle)) return CUBLAS_STATUS_NOT_INITIALIZED;
    if (!operation || !a || !b || !c || !d) return CUBLAS_STATUS_INVALID_VALUE;
    Matmul &x = *matmul;
    memcpy(&x.operation, operation, sizeof x.operation);
    memcpy(&x.a, a, sizeof x.a), memcpy(&x.b, b, sizeof x.b);
    memcpy(&x.c, c, sizeof x.c), memcpy(&x.d, d, sizeof x.d);
    const Operation &o = x.operation;
    if (!has_algorithm(o.compute, o.scale, x.a.type, x.b.type, x.c.type,
                       x.d.type) ||
        !weft_size_of(x.bias_type()) || !weft_size_of(x.aux_type()) ||
        (unsigned)o.pointers > CUBLASLT_POINTER_MODE_DEVICE ||
        o.transc != CUBLAS_OP_N || o.fill != CUBLAS_FILL_MODE_FULL)
        return CUBLAS_STATUS_NOT_SUPPORTED;
    for (const Layout *one : {&x.a, &x.b, &x.c, &x.d})
        if (!one->is_supported()) return CUBLAS_STATUS_NOT_SUPPORTED;
    for (const void *pointer : o.unsupported)
        if (pointer) return CUBLAS_STATUS_NOT_SUPPORTED;
    bool known = false;
    for (const unsigned epilogue : EPILOGUES) known |= epilogue == o.epilogue;
    if (!known || !is_operation(o.transa) || !is_operation(o.transb) ||
        x.d.rows > INT32_MAX || x.d.columns > INT32_MAX ||
        x.a.rows > INT32_MAX || x.a.columns > INT32_MAX)
        return CUBLAS_STATUS_INVALID_VALUE;
    const bool ta = o.transa != CUBLAS_OP_N, tb = o.transb != CUBLAS_OP_N;
    const uint64_t m = x.d.rows, n = x.d.columns;
    const uint64_t k = ta ? x.a.rows : x.a.columns;
    const int count = x.d.count;
    x.m = (int)m, x.n = (int)n, x.k = (int)k;
    if (!is_shape(x.a, ta ? k : m, ta ? m : k, count) ||
        !is_shape(x.b, tb ? n : k, tb ? k : n, count) ||
        !is_shape(x.c, m, n, count) || !is_shape(x.d, m, n, count) || count < 0)
        return CUBLAS_STATUS_INVALID_VALUE;
    const bool is_mask = o.epilogue & (RELU | DRELU);
    if (o.epilogue & AUX &&
        (o.aux_ld < (int64_t)m || (is_mask && o.aux_ld % 128)))
        return CUBLAS_STATUS_INVALID_VALUE;
    return CUBLAS_STATUS_SUCCESS;
}

/* The argument of an epilogue for one product of a batch. */
struct Epilogue {
    const Matmul *matmul;
    void *bias, *aux;
};

double gelu(double x) {
    return x / 2 *
           (1 + tanh(M_2_SQRTPI * M_SQRT1_2 * (x + 0.044715 * x * x * x)));
}

double gelu_gradient(double x) {
    const double c = M_2_SQRTPI * M_SQRT1_2;
    const double t = tanh(c * (x + 0.044715 * x * x * x));
    return (1 + t) / 2 + x / 2 * (1 - t * t) * c * (1 + 3 * 0.044715 * x * x);
}

double apply(double value, int i, int j, void *data) {
    const Epilogue &e = *(const Epilogue *)data;
    const Matmul &matmul = *e.matmul;
    const unsigned bits = matmul.operation.epilogue;
    const ptrdiff_t at = i + (ptrdiff_t)j * matmul.operation.aux_ld;
    unsigned char *mask = (unsigned char *)e.aux + at / 8;
    const unsigned char bit = (unsigned char)(1 << at % 8);
    if (bits & BIAS) value += weft_load(e.bias, matmul.bias_type(), i);
    if (bits & RELU) {
        // Several threads may write bits of one byte.
        if (bits & AUX && value > 0)
            __atomic_or_fetch(mask, bit, __ATOMIC_RELAXED);
        if (bits & AUX && !(value > 0))
            __atomic_and_fetch(mask, ~bit, __ATOMIC_RELAXED);
        return value > 0 || value != value ? value : 0;
    }
    if (bits & GELU) {
        if (bits & AUX) weft_store(e.aux, matmul.aux_type(), at, value);
        return gelu(value);
    }
    if (bits & DRELU) return *mask & bit ? value : 0;
    if (bits & DGELU)
        return value * gelu_gradient(weft_load(e.aux, matmul.aux_type(), at));
    return value;
}

/* Store the sums of the rows of `x`, or of its transpose, in the bias. */
void sum_rows(const struct gemm_matrix &x, int rows, int columns, void *bias,
              int type) {
    for (int i = 0; i < rows; i++) {
        double sum = 0;
        for (int j = 0; j < columns; j++)
            sum += weft_load(x.at, x.type, i * x.row + j * x.column);
        weft_store(bias, type, i, sum);
    }
}

void *element(const void *at, int type, int64_t index) {
    return (char *)at + index * (int64_t)weft_size_of(type);
}

void multiply(const Matmul &x) {
    const Operation &o = x.operation;
    const bool ta = o.transa != CUBLAS_OP_N, tb = o.transb != CUBLAS_OP_N;
    for (int i = 0; i < x.d.count; i++) {
        const bool is_mask = o.epilogue & (RELU | DRELU);
        const int64_t skip = i * o.aux_stride;
        Epilogue e = {&x, element(o.bias, x.bias_type(), i * o.bias_stride),
                      is_mask ? (char *)o.aux + skip / 8
                              : element(o.aux, x.aux_type(), skip)};
        const auto at = [=](const void *start, const Layout &layout,
                            bool turned) {
            return gemm_matrix{element(start, layout.type, i * layout.stride),
                               layout.type,
                               turned ? layout.right() : layout.down(),
                               turned ? layout.down() : layout.right()};
        };
        struct gemm g = {};
        g.m = x.m, g.n = x.n, g.k = x.k;
        g.alpha = x.alpha.get(), g.beta = x.beta.get();
        g.a = at(x.A, x.a, ta), g.b = at(x.B, x.b, tb);
        g.c = at(x.C, x.c, false), g.d = at(x.D, x.d, false);
        g.threads = simt_threads();
        if (o.epilogue != CUBLASLT_EPILOGUE_DEFAULT) g.f = apply, g.data = &e;
        if (weft_gemm(&g)) report_no_memory();
        if (o.epilogue & BGRAD) sum_rows(g.d, g.m, g.n, e.bias, x.bias_type());
        if (o.epilogue & BGRADA) sum_rows(g.a, g.m, g.k, e.bias, x.bias_type());
        if (o.epilogue & BGRADB) {
            const gemm_matrix turned = {g.b.at, g.b.type, g.b.column, g.b.row};
            sum_rows(turned, g.n, g.k, e.bias, x.bias_type());
        }
    }
}

Argument whole(const char *name, Argument::Access access, const void *at,
               const Layout &layout) {
    const bool by_rows = layout.order == CUBLASLT_ORDER_ROW;
    return matrix(name, access, at, layout.type,
                  (long)(by_rows ? layout.columns : layout.rows),
                  (long)(by_rows ? layout.rows : layout.columns),
                  (long)layout.ld);
}

/* List the memory of all products. */
Arguments list_arguments(const Matmul &x, bool reads) {
    const Operation &o = x.operation;
    const unsigned bits = o.epilogue;
    Arguments all;
    for (int i = 0; i < x.d.count; i++) {
        const auto add = [&](const char *name, Argument::Access access,
                             const void *at, const Layout &layout) {
            const void *here = element(at, layout.type, i * layout.stride);
            all.push_back(whole(name, access, at ? here : at, layout));
        };
        if (reads) {
            add("A", Argument::READ, x.A, x.a);
            add("B", Argument::READ, x.B, x.b);
        }
        if (x.beta.at || x.beta.value != 0) add("C", Argument::READ, x.C, x.c);
        add("D", Argument::WRITE, x.D, x.d);
        if (bits & (BIAS | BGRAD | BGRADA | BGRADB)) {
            const size_t size = weft_size_of(x.bias_type());
            const int length = bits & BGRADB ? x.n : x.m;
            all.push_back({"the bias",
                           bits & BIAS ? Argument::READ : Argument::WRITE,
                           element(o.bias, x.bias_type(), i * o.bias_stride),
                           size * length});
        }
        if (bits & AUX) {
            const bool is_mask = bits & (RELU | DRELU);
            const size_t size = weft_size_of(x.aux_type());
            const auto bytes = [=](int64_t elements) {
                return is_mask ? (elements + 7) / 8 : elements * size;
            };
            all.push_back(
                {"the auxiliary matrix",
                 bits & (RELU | GELU) ? Argument::WRITE : Argument::READ,
                 (char *)o.aux + bytes(i * o.aux_stride), bytes(x.m),
                 (size_t)x.n, bytes(o.aux_ld)});
        }
    }
    return all;
}

/* The number of the only algorithm, which no other library uses. */
const uint64_t ALGORITHM = 0x7765667400000001;

void complete(cublasLtMatmulHeuristicResult_t *result) {
    memset(result, 0, sizeof *result);
    result->algo.data[0] = ALGORITHM;
    result->wavesCount = 1;
}

} // namespace

cublasStatus_t cublasLtMatmulAlgoGetHeuristic(
    cublasLtHandle_t handle, cublasLtMatmulDesc_t operation,
    cublasLtMatrixLayout_t Adesc, cublasLtMatrixLayout_t Bdesc,
    cublasLtMatrixLayout_t Cdesc, cublasLtMatrixLayout_t Ddesc,
    cublasLtMatmulPreference_t preference, int requested,
    cublasLtMatmulHeuristicResult_t results[], int *returned) {
    Matmul matmul;
    if (!preference || requested <= 0 || !results || !returned)
        return CUBLAS_STATUS_INVALID_VALUE;
    *returned = 0;
    const cublasStatus_t status =
        describe(handle, operation, Adesc, Bdesc, Cdesc, Ddesc, &matmul);
    if (status) return status;
    complete(&results[(*returned)++]);
    return status;
}

cublasStatus_t cublasLtMatmulAlgoGetIds(cublasLtHandle_t handle,
                                        cublasComputeType_t compute,
                                        cudaDataType scale, cudaDataType Atype,
                                        cudaDataType Btype, cudaDataType Ctype,
                                        cudaDataType Dtype, int requested,
                                        int ids[], int *returned) {
    if (!handles.find(handle)) return CUBLAS_STATUS_NOT_INITIALIZED;
    if (requested <= 0 || !ids || !returned) return CUBLAS_STATUS_INVALID_VALUE;
    *returned = has_algorithm(compute, scale, Atype, Btype, Ctype, Dtype);
    ids[0] = 0;
    return *returned ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_NOT_SUPPORTED;
}

cublasStatus_t cublasLtMatmulAlgoInit(cublasLtHandle_t handle,
                                      cublasComputeType_t compute,
                                      cudaDataType scale, cudaDataType Atype,
                                      cudaDataType Btype, cudaDataType Ctype,
                                      cudaDataType Dtype, int id,
                                      cublasLtMatmulAlgo_t *algo) {
    if (!handles.find(handle)) return CUBLAS_STATUS_NOT_INITIALIZED;
    if (!algo || id) return CUBLAS_STATUS_INVALID_VALUE;
    if (!has_algorithm(compute, scale, Atype, Btype, Ctype, Dtype))
        return CUBLAS_STATUS_NOT_SUPPORTED;
    *algo = {{ALGORITHM}};
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulAlgoCheck(
    cublasLtHandle_t handle, cublasLtMatmulDesc_t operation,
    cublasLtMatrixLayout_t Adesc, cublasLtMatrixLayout_t Bdesc,
    cublasLtMatrixLayout_t Cdesc, cublasLtMatrixLayout_t Ddesc,
    const cublasLtMatmulAlgo_t *algo, cublasLtMatmulHeuristicResult_t *result) {
    Matmul matmul;
    if (!algo || !result || algo->data[0] != ALGORITHM)
        return CUBLAS_STATUS_INVALID_VALUE;
    const cublasStatus_t status =
        describe(handle, operation, Adesc, Bdesc, Cdesc, Ddesc, &matmul);
    if (!status) complete(result);
    return status;
}

cublasStatus_t
cublasLtMatmul(cublasLtHandle_t handle, cublasLtMatmulDesc_t operation,
               const void *alpha, const void *A, cublasLtMatrixLayout_t Adesc,
               const void *B, cublasLtMatrixLayout_t Bdesc, const void *beta,
               const void *C, cublasLtMatrixLayout_t Cdesc, void *D,
               cublasLtMatrixLayout_t Ddesc, const cublasLtMatmulAlgo_t *algo,
               void *, size_t, cudaStream_t stream) {
    Matmul x = {};
    const cublasStatus_t status =
        describe(handle, operation, Adesc, Bdesc, Cdesc, Ddesc, &x);
    if (status) return status;
    if (!alpha || !beta || (algo && algo->data[0] != ALGORITHM))
        return CUBLAS_STATUS_INVALID_VALUE;
    if (!x.m || !x.n || !x.d.count) return CUBLAS_STATUS_SUCCESS;
    Arguments scalars;
    const bool on_device = x.operation.pointers == CUBLASLT_POINTER_MODE_DEVICE;
    const int type = x.operation.scale;
    if (!read_scalar(__func__, "alpha", alpha, type, on_device, &scalars,
                     &x.alpha) ||
        !read_scalar(__func__, "beta", beta, type, on_device, &scalars,
                     &x.beta))
        return CUBLAS_STATUS_EXECUTION_FAILED;
    x.A = A, x.B = B, x.C = C, x.D = D;
    Arguments arguments =
        list_arguments(x, (x.alpha.at || x.alpha.value != 0) && x.k);
    arguments.insert(arguments.end(), scalars.begin(), scalars.end());
    return status_of(
        simt::submit(__func__, stream, arguments, [x] { multiply(x); }));
}

/* ---- changes of the layout ----------------------------------------------- */

cublasStatus_t cublasLtMatrixTransform(
    cublasLtHandle_t handle, cublasLtMatrixTransformDesc_t operation,
    const void *alpha, const void *A, cublasLtMatrixLayout_t Adesc,
    const void *beta, const void *B, cublasLtMatrixLayout_t Bdesc, void *C,
    cublasLtMatrixLayout_t Cdesc, cudaStream_t stream) {
    if (!handles.find(handle)) return CUBLAS_STATUS_NOT_INITIALIZED;
    if (!operation || !alpha || !beta || !Adesc || !Cdesc || !A || !C)
        return CUBLAS_STATUS_INVALID_VALUE;
    Transform o;
    Layout a, b = {}, c;
    memcpy(&o, operation, sizeof o);
    memcpy(&a, Adesc, sizeof a), memcpy(&c, Cdesc, sizeof c);
    if (Bdesc) memcpy(&b, Bdesc, sizeof b);
    const bool has_b = B && Bdesc;
    const bool ta = o.transa != CUBLAS_OP_N, tb = o.transb != CUBLAS_OP_N;
    const uint64_t m = c.rows, n = c.columns;
    for (const Layout *one : {&a, &b, &c})
        if (!one->is_supported() || !weft_size_of(one->type))
            return CUBLAS_STATUS_NOT_SUPPORTED;
    if (o.scale != GEMM_F32 && o.scale != GEMM_F64)
        return CUBLAS_STATUS_NOT_SUPPORTED;
    if (!is_operation(o.transa) || !is_operation(o.transb) ||
        !is_shape(a, ta ? n : m, ta ? m : n, c.count) ||
        !is_shape(c, m, n, c.count) ||
        (has_b && !is_shape(b, tb ? n : m, tb ? m : n, c.count)))
        return CUBLAS_STATUS_INVALID_VALUE;
    Scalar x, y;
    Arguments arguments;
    const bool on_device = o.pointers == CUBLASLT_POINTER_MODE_DEVICE;
    if (!read_scalar(__func__, "alpha", alpha, o.scale, on_device, &arguments,
                     &x) ||
        !read_scalar(__func__, "beta", beta, o.scale, on_device, &arguments,
                     &y))
        return CUBLAS_STATUS_EXECUTION_FAILED;
    for (int i = 0; i < c.count; i++) {
        arguments.push_back(
            whole("A", Argument::READ, element(A, a.type, i * a.stride), a));
        if (has_b)
            arguments.push_back(whole("B", Argument::READ,
                                      element(B, b.type, i * b.stride), b));
        arguments.push_back(
            whole("C", Argument::WRITE, element(C, c.type, i * c.stride), c));
    }
    const auto read = [](const void *at, const Layout &layout, bool turned,
                         int64_t z, int64_t i, int64_t j) {
        return weft_load(at, layout.type,
                         z * layout.stride + (turned ? j : i) * layout.down() +
                             (turned ? i : j) * layout.right());
    };
    return status_of(simt::submit(__func__, stream, arguments, [=] {
        const double p = x.get(), q = has_b ? y.get() : 0;
        for (int64_t z = 0; z < c.count; z++)
            for (int64_t j = 0; j < (int64_t)n; j++)
                for (int64_t i = 0; i < (int64_t)m; i++) {
                    double value = p * read(A, a, ta, z, i, j);
                    if (q != 0) value += q * read(B, b, tb, z, i, j);
                    weft_store(C, c.type,
                               z * c.stride + i * c.down() + j * c.right(),
                               value);
                }
    }));
}
