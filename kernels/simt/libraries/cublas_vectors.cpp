/* cublas_vectors.cpp -- cuBLAS's functions of vectors, and of matrices without
 * products of matrices; see cublas_api.h. Sums of floats are double here. */
#include <math.h>
#include <stdlib.h>

#include "cublas_context.h"

using namespace weft_blas;

/* ---- vectors ------------------------------------------------------------ */

namespace {

/* The elements of a vector; a negative increment reverses their order. */
template <class T> struct Vector {
    T *first;
    long step;
    Vector(T *x, long n, long step)
        : first(step < 0 ? x + (1 - n) * step : x), step(step) {}
    T &operator[](long i) const { return first[i * step]; }
};

template <class T>
Argument vector(const char *name, Argument::Access access, const T *x, long n,
                long step) {
    const size_t pitch = (size_t)labs(step) * sizeof(T);
    if (n <= 0) return {name, access, x, 0};
    if (pitch == sizeof(T)) return {name, access, x, n * sizeof(T)};
    return {name, access, x, sizeof(T), pitch ? (size_t)n : 1, pitch};
}

/* One call: its context and its arguments. */
struct Call {
    const char *name;
    cublasContext *context;
    Arguments arguments;

    bool on_device() const {
        return context->pointers == CUBLAS_POINTER_MODE_DEVICE;
    }
    /* Call read_scalar() for alpha or beta, and return its result. */
    template <class T>
    bool read(const char *what, const T *at, Scalar *scalar) {
        return read_scalar(name, what, at, TYPE<T>, on_device(), &arguments,
                           scalar);
    }
    template <class T> void add_result(T *result) {
        arguments.push_back({"result",
                             on_device() ? Argument::WRITE : Argument::HOST,
                             result, sizeof(T)});
    }
    cublasStatus_t run(const std::function<void()> &work) const {
        return status_of(simt::submit(name, context->stream, arguments, work));
    }
};

/* Compute a number from n elements of x; *result is 0 if there are none. */
template <class T, class R, class F>
cublasStatus_t reduce(const char *name, cublasHandle_t handle, int n,
                      const T *x, int incx, R *result, F f) {
    FIND(context, handle);
    if (!result) return CUBLAS_STATUS_INVALID_VALUE;
    const long count = n > 0 && incx > 0 ? n : 0;
    Call call = {name, context, {}};
    call.arguments.push_back(vector("x", Argument::READ, x, count, incx));
    call.add_result(result);
    return call.run([=] {
        *result = count ? f(count, Vector<const T>(x, count, incx)) : R(0);
    });
}

template <class T> T sum_absolute(long n, Vector<const T> x) {
    double sum = 0;
    for (long i = 0; i < n; i++) sum += fabs((double)x[i]);
    return (T)sum;
}

/* long double has a range in which no square of a double overflows. */
template <class T> T norm(long n, Vector<const T> x) {
    long double sum = 0;
    for (long i = 0; i < n; i++) sum += (long double)x[i] * x[i];
    return (T)sqrtl(sum);
}

/* Return the index, from 1, of the first element whose absolute value is
 * extreme. */
template <class T, bool LARGEST> int extreme(long n, Vector<const T> x) {
    long best = 0;
    for (long i = 1; i < n; i++) {
        const T value = std::abs(x[i]), extreme = std::abs(x[best]);
        if (LARGEST ? value > extreme : value < extreme) best = i;
    }
    return (int)best + 1;
}

template <class T>
cublasStatus_t dot(const char *name, cublasHandle_t handle, int n, const T *x,
                   int incx, const T *y, int incy, T *result) {
    FIND(context, handle);
    if (!result) return CUBLAS_STATUS_INVALID_VALUE;
    Call call = {name, context, {}};
    call.arguments = {vector("x", Argument::READ, x, n, incx),
                      vector("y", Argument::READ, y, n, incy)};
    call.add_result(result);
    return call.run([=] {
        double sum = 0;
        const Vector<const T> a(x, n, incx), b(y, n, incy);
        for (long i = 0; i < n; i++) sum += (double)a[i] * b[i];
        *result = (T)sum;
    });
}

/* y = alpha x + y */
template <class T>
cublasStatus_t axpy(const char *name, cublasHandle_t handle, int n,
                    const T *alpha, const T *x, int incx, T *y, int incy) {
    FIND(context, handle);
    if (!alpha) return CUBLAS_STATUS_INVALID_VALUE;
    Scalar scale;
    Call call = {name, context, {}};
    call.arguments = {vector("x", Argument::READ, x, n, incx),
                      vector("y", Argument::WRITE, y, n, incy)};
    if (!call.read("alpha", alpha, &scale))
        return CUBLAS_STATUS_EXECUTION_FAILED;
    return call.run([=] {
        const T a = (T)scale.get();
        const Vector<const T> from(x, n, incx);
        const Vector<T> to(y, n, incy);
        for (long i = 0; i < n; i++) to[i] += a * from[i];
    });
}

/* x = alpha x */
template <class T>
cublasStatus_t scal(const char *name, cublasHandle_t handle, int n,
                    const T *alpha, T *x, int incx) {
    FIND(context, handle);
    if (!alpha) return CUBLAS_STATUS_INVALID_VALUE;
    const long count = incx > 0 ? n : 0;
    Scalar scale;
    Call call = {name, context, {}};
    call.arguments = {vector("x", Argument::WRITE, x, count, incx)};
    if (!call.read("alpha", alpha, &scale))
        return CUBLAS_STATUS_EXECUTION_FAILED;
    return call.run([=] {
        const T a = (T)scale.get();
        const Vector<T> all(x, count, incx);
        for (long i = 0; i < count; i++) all[i] *= a;
    });
}

/* Call f(x[i], y[i]) for all elements of two vectors. */
template <class X, class T, class F>
cublasStatus_t for_pairs(Call call, int n, X *x, int incx, T *y, int incy,
                         F f) {
    const bool is_const = std::is_const<X>::value;
    call.arguments.push_back(
        vector("x", is_const ? Argument::READ : Argument::WRITE, x, n, incx));
    call.arguments.push_back(vector("y", Argument::WRITE, y, n, incy));
    return call.run([=] {
        const Vector<X> a(x, n, incx);
        const Vector<T> b(y, n, incy);
        for (long i = 0; i < n; i++) f(a[i], b[i]);
    });
}

template <class T>
cublasStatus_t rotate(const char *name, cublasHandle_t handle, int n, T *x,
                      int incx, T *y, int incy, const T *c, const T *s) {
    FIND(context, handle);
    if (!c || !s) return CUBLAS_STATUS_INVALID_VALUE;
    Scalar cosine, sine;
    Call call = {name, context, {}};
    if (!call.read("c", c, &cosine) || !call.read("s", s, &sine))
        return CUBLAS_STATUS_EXECUTION_FAILED;
    return for_pairs(call, n, x, incx, y, incy, [=](T &a, T &b) {
        const T c = (T)cosine.get(), s = (T)sine.get(), old = a;
        a = c * old + s * b;
        b = c * b - s * old;
    });
}

/* ---- matrices ----------------------------------------------------------- */

/* y = alpha op(A) x + beta y */
template <class T>
cublasStatus_t gemv(const char *name, cublasHandle_t handle,
                    cublasOperation_t trans, int m, int n, const T *alpha,
                    const T *A, int lda, const T *x, int incx, const T *beta,
                    T *y, int incy) {
    FIND(context, handle);
    if (m < 0 || n < 0 || !fits(lda, m) || !incx || !incy ||
        !is_operation(trans) || !alpha || !beta)
        return CUBLAS_STATUS_INVALID_VALUE;
    if (!m || !n) return CUBLAS_STATUS_SUCCESS;
    const bool turned = trans != CUBLAS_OP_N;
    const long rows = turned ? n : m, columns = turned ? m : n;
    Scalar a, b;
    Call call = {name, context, {}};
    if (!call.read("alpha", alpha, &a) || !call.read("beta", beta, &b))
        return CUBLAS_STATUS_EXECUTION_FAILED;
    call.arguments.push_back(vector("y", Argument::WRITE, y, rows, incy));
    if (a.at || a.value != 0) {
        call.arguments.push_back(
            matrix("A", Argument::READ, A, TYPE<T>, m, n, lda));
        call.arguments.push_back(vector("x", Argument::READ, x, columns, incx));
    }
    return call.run([=] {
        const Vector<const T> from(x, columns, incx);
        const Vector<T> to(y, rows, incy);
        const double scale = a.get(), keep = b.get();
        std::vector<double> sums(rows, 0.0);
        for (long j = 0; j < n && scale != 0; j++) {
            const T *column = A + j * lda;
            if (turned) {
                double sum = 0;
                for (long i = 0; i < m; i++) sum += (double)column[i] * from[i];
                sums[j] = sum;
            } else {
                const double factor = from[j];
                for (long i = 0; i < m; i++) sums[i] += column[i] * factor;
            }
        }
        for (long i = 0; i < rows; i++)
            to[i] = (T)(scale * sums[i] + (keep != 0 ? keep * to[i] : 0));
    });
}

/* A = alpha x y^T + A */
template <class T>
cublasStatus_t ger(const char *name, cublasHandle_t handle, int m, int n,
                   const T *alpha, const T *x, int incx, const T *y, int incy,
                   T *A, int lda) {
    FIND(context, handle);
    if (m < 0 || n < 0 || !incx || !incy || !fits(lda, m) || !alpha)
        return CUBLAS_STATUS_INVALID_VALUE;
    Scalar scale;
    Call call = {name, context, {}};
    call.arguments = {vector("x", Argument::READ, x, m, incx),
                      vector("y", Argument::READ, y, n, incy),
                      matrix("A", Argument::WRITE, A, TYPE<T>, m, n, lda)};
    if (!call.read("alpha", alpha, &scale))
        return CUBLAS_STATUS_EXECUTION_FAILED;
    return call.run([=] {
        const Vector<const T> a(x, m, incx), b(y, n, incy);
        const T factor = (T)scale.get();
        for (long j = 0; j < n; j++)
            for (long i = 0; i < m; i++) A[i + j * lda] += factor * a[i] * b[j];
    });
}

/* C = alpha op(A) + beta op(B) */
template <class T>
cublasStatus_t geam(const char *name, cublasHandle_t handle,
                    cublasOperation_t transa, cublasOperation_t transb, int m,
                    int n, const T *alpha, const T *A, int lda, const T *beta,
                    const T *B, int ldb, T *C, int ldc) {
    FIND(context, handle);
    const bool ta = transa != CUBLAS_OP_N, tb = transb != CUBLAS_OP_N;
    if (m < 0 || n < 0 || !is_operation(transa) || !is_operation(transb) ||
        !alpha || !beta || !fits(lda, ta ? n : m) || !fits(ldb, tb ? n : m) ||
        !fits(ldc, m) || (A == C && (ta || lda != ldc)) ||
        (B == C && (tb || ldb != ldc)))
        return CUBLAS_STATUS_INVALID_VALUE;
    Scalar a, b;
    Call call = {name, context, {}};
    if (!call.read("alpha", alpha, &a) || !call.read("beta", beta, &b))
        return CUBLAS_STATUS_EXECUTION_FAILED;
    const auto add = [&](const char *name, const Scalar &scale, const T *at,
                         bool turned, int ld) {
        if (scale.at || scale.value != 0)
            call.arguments.push_back(matrix(name, Argument::READ, at, TYPE<T>,
                                            turned ? n : m, turned ? m : n,
                                            ld));
    };
    add("A", a, A, ta, lda);
    add("B", b, B, tb, ldb);
    call.arguments.push_back(
        matrix("C", Argument::WRITE, C, TYPE<T>, m, n, ldc));
    return call.run([=] {
        const T x = (T)a.get(), y = (T)b.get();
        for (long j = 0; j < n; j++)
            for (long i = 0; i < m; i++) {
                T sum = 0;
                if (x != 0) sum = x * (ta ? A[j + i * lda] : A[i + j * lda]);
                if (y != 0) sum += y * (tb ? B[j + i * ldb] : B[i + j * ldb]);
                C[i + j * ldc] = sum;
            }
    });
}

/* C = diag(x) A, or A diag(x) if the diagonal is on the right */
template <class T>
cublasStatus_t dgmm(const char *name, cublasHandle_t handle,
                    cublasSideMode_t mode, int m, int n, const T *A, int lda,
                    const T *x, int incx, T *C, int ldc) {
    FIND(context, handle);
    const bool right = mode == CUBLAS_SIDE_RIGHT;
    if (m < 0 || n < 0 || !fits(lda, m) || !fits(ldc, m) ||
        (!right && mode != CUBLAS_SIDE_LEFT))
        return CUBLAS_STATUS_INVALID_VALUE;
    const long count = right ? n : m;
    Call call = {name, context, {}};
    call.arguments = {matrix("A", Argument::READ, A, TYPE<T>, m, n, lda),
                      vector("x", Argument::READ, x, count, incx),
                      matrix("C", Argument::WRITE, C, TYPE<T>, m, n, ldc)};
    return call.run([=] {
        const Vector<const T> diagonal(x, count, incx);
        for (long j = 0; j < n; j++)
            for (long i = 0; i < m; i++)
                C[i + j * ldc] = A[i + j * lda] * diagonal[right ? j : i];
    });
}

} // namespace

#define FUNCTIONS(S, T, s)                                                     \
    cublasStatus_t cublas##S##asum_v2(cublasHandle_t handle, int n,            \
                                      const T *x, int incx, T *result) {       \
        return reduce(__func__, handle, n, x, incx, result, sum_absolute<T>);  \
    }                                                                          \
    cublasStatus_t cublas##S##nrm2_v2(cublasHandle_t handle, int n,            \
                                      const T *x, int incx, T *result) {       \
        return reduce(__func__, handle, n, x, incx, result, norm<T>);          \
    }                                                                          \
    cublasStatus_t cublasI##s##amax_v2(cublasHandle_t handle, int n,           \
                                       const T *x, int incx, int *result) {    \
        return reduce(__func__, handle, n, x, incx, result, extreme<T, true>); \
    }                                                                          \
    cublasStatus_t cublasI##s##amin_v2(cublasHandle_t handle, int n,           \
                                       const T *x, int incx, int *result) {    \
        return reduce(__func__, handle, n, x, incx, result,                    \
                      extreme<T, false>);                                      \
    }                                                                          \
    cublasStatus_t cublas##S##dot_v2(cublasHandle_t handle, int n, const T *x, \
                                     int incx, const T *y, int incy,           \
                                     T *result) {                              \
        return dot(__func__, handle, n, x, incx, y, incy, result);             \
    }                                                                          \
    cublasStatus_t cublas##S##axpy_v2(cublasHandle_t handle, int n,            \
                                      const T *alpha, const T *x, int incx,    \
                                      T *y, int incy) {                        \
        return axpy(__func__, handle, n, alpha, x, incx, y, incy);             \
    }                                                                          \
    cublasStatus_t cublas##S##scal_v2(cublasHandle_t handle, int n,            \
                                      const T *alpha, T *x, int incx) {        \
        return scal(__func__, handle, n, alpha, x, incx);                      \
    }                                                                          \
    cublasStatus_t cublas##S##copy_v2(cublasHandle_t handle, int n,            \
                                      const T *x, int incx, T *y, int incy) {  \
        FIND(context, handle);                                                 \
        return for_pairs({__func__, context, {}}, n, x, incx, y, incy,         \
                         [](const T &a, T &b) { b = a; });                     \
    }                                                                          \
    cublasStatus_t cublas##S##swap_v2(cublasHandle_t handle, int n, T *x,      \
                                      int incx, T *y, int incy) {              \
        FIND(context, handle);                                                 \
        return for_pairs({__func__, context, {}}, n, x, incx, y, incy,         \
                         [](T &a, T &b) { std::swap(a, b); });                 \
    }                                                                          \
    cublasStatus_t cublas##S##rot_v2(cublasHandle_t handle, int n, T *x,       \
                                     int incx, T *y, int incy, const T *c,     \
                                     const T *s) {                             \
        return rotate(__func__, handle, n, x, incx, y, incy, c, s);            \
    }                                                                          \
    cublasStatus_t cublas##S##gemv_v2(                                         \
        cublasHandle_t handle, cublasOperation_t trans, int m, int n,          \
        const T *alpha, const T *A, int lda, const T *x, int incx,             \
        const T *beta, T *y, int incy) {                                       \
        return gemv(__func__, handle, trans, m, n, alpha, A, lda, x, incx,     \
                    beta, y, incy);                                            \
    }                                                                          \
    cublasStatus_t cublas##S##ger_v2(cublasHandle_t handle, int m, int n,      \
                                     const T *alpha, const T *x, int incx,     \
                                     const T *y, int incy, T *A, int lda) {    \
        return ger(__func__, handle, m, n, alpha, x, incx, y, incy, A, lda);   \
    }                                                                          \
    cublasStatus_t cublas##S##geam(                                            \
        cublasHandle_t handle, cublasOperation_t transa,                       \
        cublasOperation_t transb, int m, int n, const T *alpha, const T *A,    \
        int lda, const T *beta, const T *B, int ldb, T *C, int ldc) {          \
        return geam(__func__, handle, transa, transb, m, n, alpha, A, lda,     \
                    beta, B, ldb, C, ldc);                                     \
    }                                                                          \
    cublasStatus_t cublas##S##dgmm(                                            \
        cublasHandle_t handle, cublasSideMode_t mode, int m, int n,            \
        const T *A, int lda, const T *x, int incx, T *C, int ldc) {            \
        return dgmm(__func__, handle, mode, m, n, A, lda, x, incx, C, ldc);    \
    }
FUNCTIONS(S, float, s)
FUNCTIONS(D, double, d)
