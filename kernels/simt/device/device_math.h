/* device_math.h -- the mathematical functions that nvcc provides without any
 * #include.
 *
 * The C library's functions are declared word for word, so that <math.h> may
 * also be included. The functions in simt::math are templates, so that the C++
 * overloads of <math.h> and <stdlib.h>, if present, are preferred to them.
 * Frequently used functions of CUDA are inlined. The others are in
 * device_math.cpp, in the runtime. Functions that some version of <math.h>
 * declares, or may declare in future, are C functions with noexcept. No version
 * of the C library defines them. */
#ifndef SIMT_DEVICE_MATH_H
#define SIMT_DEVICE_MATH_H
#include "../runtime/engine.h"

/* ---- functions of the C library ------------------------------------------ */

#define SIMT_C1(name)             \
    double name(double) noexcept; \
    float name##f(float) noexcept;
#define SIMT_C2(name)                     \
    double name(double, double) noexcept; \
    float name##f(float, float) noexcept;
#define SIMT_CI(Integer, name)     \
    Integer name(double) noexcept; \
    Integer name##f(float) noexcept;

// clang-format off: these are lists
extern "C" {
SIMT_C1(acos) SIMT_C1(acosh) SIMT_C1(asin) SIMT_C1(asinh) SIMT_C1(atan)
SIMT_C1(atanh) SIMT_C1(cbrt) SIMT_C1(ceil) SIMT_C1(cos) SIMT_C1(cosh)
SIMT_C1(erf) SIMT_C1(erfc) SIMT_C1(exp) SIMT_C1(exp2) SIMT_C1(exp10)
SIMT_C1(expm1) SIMT_C1(fabs) SIMT_C1(floor) SIMT_C1(j0) SIMT_C1(j1)
SIMT_C1(lgamma) SIMT_C1(log) SIMT_C1(log10) SIMT_C1(log1p) SIMT_C1(log2)
SIMT_C1(logb) SIMT_C1(nearbyint) SIMT_C1(rint) SIMT_C1(round) SIMT_C1(sin)
SIMT_C1(sinh) SIMT_C1(sqrt) SIMT_C1(tan) SIMT_C1(tanh) SIMT_C1(tgamma)
SIMT_C1(trunc) SIMT_C1(y0) SIMT_C1(y1)
SIMT_C2(atan2) SIMT_C2(copysign) SIMT_C2(fdim) SIMT_C2(fmax) SIMT_C2(fmin)
SIMT_C2(fmod) SIMT_C2(hypot) SIMT_C2(nextafter) SIMT_C2(pow)
SIMT_C2(remainder)
SIMT_CI(int, ilogb) SIMT_CI(long, lrint) SIMT_CI(long, lround)
SIMT_CI(long long, llrint) SIMT_CI(long long, llround)
double fma(double, double, double) noexcept;
float fmaf(float, float, float) noexcept;
double frexp(double, int *) noexcept;
float frexpf(float, int *) noexcept;
double jn(int, double) noexcept;
float jnf(int, float) noexcept;
double ldexp(double, int) noexcept;
float ldexpf(float, int) noexcept;
double modf(double, double *) noexcept;
float modff(float, float *) noexcept;
double nan(const char *) noexcept;
float nanf(const char *) noexcept;
double remquo(double, double, int *) noexcept;
float remquof(float, float, int *) noexcept;
double scalbln(double, long) noexcept;
float scalblnf(float, long) noexcept;
double scalbn(double, int) noexcept;
float scalbnf(float, int) noexcept;
void sincos(double, double *, double *) noexcept;
void sincosf(float, float *, float *) noexcept;
double yn(int, double) noexcept;
float ynf(int, float) noexcept;
int abs(int) noexcept;
long labs(long) noexcept;
long long llabs(long long) noexcept;
}
// clang-format on

/* ---- functions of CUDA --------------------------------------------------- */

#define SIMT_C extern "C" inline __attribute__((always_inline))

SIMT_C float rsqrtf(float x) noexcept { return 1.0f / __builtin_sqrtf(x); }
SIMT_C double rsqrt(double x) noexcept { return 1.0 / __builtin_sqrt(x); }
SIMT_C float rcbrtf(float x) noexcept { return 1.0f / __builtin_cbrtf(x); }
SIMT_C double rcbrt(double x) noexcept { return 1.0 / __builtin_cbrt(x); }
SIMT_C float fdividef(float x, float y) noexcept { return x / y; }
SIMT_C double fdivide(double x, double y) noexcept { return x / y; }
SIMT_C float __saturatef(float x) noexcept {
    return x > 0.0f ? x < 1.0f ? x : 1.0f : 0.0f; // a NaN becomes 0
}

/* On a GPU these fast functions are less precise; in this runtime they are the
 * ordinary ones. */
SIMT_C float __expf(float x) noexcept { return __builtin_expf(x); }
SIMT_C float __exp10f(float x) noexcept { return __builtin_powf(10.0f, x); }
SIMT_C float __logf(float x) noexcept { return __builtin_logf(x); }
SIMT_C float __log2f(float x) noexcept { return __builtin_log2f(x); }
SIMT_C float __log10f(float x) noexcept { return __builtin_log10f(x); }
SIMT_C float __powf(float x, float y) noexcept { return __builtin_powf(x, y); }
SIMT_C float __sinf(float x) noexcept { return __builtin_sinf(x); }
SIMT_C float __cosf(float x) noexcept { return __builtin_cosf(x); }
SIMT_C float __tanf(float x) noexcept { return __builtin_tanf(x); }
SIMT_C float __tanhf(float x) noexcept { return __builtin_tanhf(x); }
SIMT_C float __fdividef(float x, float y) noexcept { return x / y; }
SIMT_C void __sincosf(float x, float *s, float *c) noexcept {
    sincosf(x, s, c);
}

#pragma GCC visibility push(default)
// clang-format off: these are lists
SIMT_C1(cyl_bessel_i0) SIMT_C1(cyl_bessel_i1) SIMT_C1(erfcinv) SIMT_C1(erfcx)
SIMT_C1(erfinv) SIMT_C1(normcdf) SIMT_C1(normcdfinv)
SIMT_C2(rhypot)
extern "C" { // C23 declares these two functions
SIMT_C1(cospi) SIMT_C1(sinpi)
}
double norm(int, const double *) noexcept;
float normf(int, const float *) noexcept;
double rnorm(int, const double *) noexcept;
float rnormf(int, const float *) noexcept;
double norm3d(double, double, double) noexcept;
float norm3df(float, float, float) noexcept;
double rnorm3d(double, double, double) noexcept;
float rnorm3df(float, float, float) noexcept;
double norm4d(double, double, double, double) noexcept;
float norm4df(float, float, float, float) noexcept;
double rnorm4d(double, double, double, double) noexcept;
float rnorm4df(float, float, float, float) noexcept;
// clang-format on
#pragma GCC visibility pop
SIMT_INLINE void sincospi(double x, double *s, double *c) noexcept {
    *s = sinpi(x);
    *c = cospi(x);
}
SIMT_INLINE void sincospif(float x, float *s, float *c) noexcept {
    *s = sinpif(x);
    *c = cospif(x);
}

/* ---- overloads, as in C++ ----------------------------------------------- */

namespace simt {
namespace math {

template <class T> struct Float {}; /* has a member `type` if T is float */
template <> struct Float<float> {
    typedef float type;
};
template <class T> struct Real {}; // has `type` for float and double
template <> struct Real<float> {
    typedef bool type;
};
template <> struct Real<double> {
    typedef bool type;
};
template <class T> struct Number {}; // has `type`, except for abs(int)'s types
template <> struct Number<long> {
    typedef long type;
};
template <> struct Number<long long> {
    typedef long long type;
};
template <> struct Number<float> {
    typedef float type;
};
template <> struct Number<double> {
    typedef double type;
};

#undef SIMT_C1
#undef SIMT_C2
#undef SIMT_CI
#define SIMT_C1(name)                                                  \
    template <class T> SIMT_INLINE typename Float<T>::type name(T x) { \
        return name##f(x);                                             \
    }
#define SIMT_C2(name)                                                       \
    template <class T> SIMT_INLINE typename Float<T>::type name(T x, T y) { \
        return name##f(x, y);                                               \
    }
// clang-format off: these are lists
SIMT_C1(acos) SIMT_C1(acosh) SIMT_C1(asin) SIMT_C1(asinh) SIMT_C1(atan)
SIMT_C1(atanh) SIMT_C1(cbrt) SIMT_C1(ceil) SIMT_C1(cos) SIMT_C1(cosh)
SIMT_C1(cospi) SIMT_C1(erf) SIMT_C1(erfc) SIMT_C1(erfcinv) SIMT_C1(erfcx)
SIMT_C1(erfinv) SIMT_C1(exp) SIMT_C1(exp2) SIMT_C1(exp10) SIMT_C1(expm1)
SIMT_C1(fabs) SIMT_C1(floor) SIMT_C1(lgamma) SIMT_C1(log) SIMT_C1(log10)
SIMT_C1(log1p) SIMT_C1(log2) SIMT_C1(logb) SIMT_C1(nearbyint)
SIMT_C1(normcdf) SIMT_C1(normcdfinv) SIMT_C1(rcbrt) SIMT_C1(rint)
SIMT_C1(round) SIMT_C1(rsqrt) SIMT_C1(sin) SIMT_C1(sinh) SIMT_C1(sinpi)
SIMT_C1(sqrt) SIMT_C1(tan) SIMT_C1(tanh) SIMT_C1(tgamma) SIMT_C1(trunc)
SIMT_C2(atan2) SIMT_C2(copysign) SIMT_C2(fdim) SIMT_C2(fdivide) SIMT_C2(fmax)
SIMT_C2(fmin) SIMT_C2(fmod) SIMT_C2(hypot) SIMT_C2(nextafter) SIMT_C2(pow)
SIMT_C2(remainder) SIMT_C2(rhypot)
// clang-format on
#undef SIMT_C1
#undef SIMT_C2

                                                template <class T>
                                                SIMT_INLINE
    typename Float<T>::type fma(T x, T y, T z) {
    return __builtin_fmaf(x, y, z);
}
template <class T> SIMT_INLINE typename Float<T>::type ldexp(T x, int n) {
    return __builtin_ldexpf(x, n);
}
template <class T> SIMT_INLINE typename Float<T>::type modf(T x, T *whole) {
    return __builtin_modff(x, whole);
}
template <class T> SIMT_INLINE typename Float<T>::type frexp(T x, int *n) {
    return __builtin_frexpf(x, n);
}
template <class T> SIMT_INLINE void sincos(T x, T *s, T *c) {
    static_assert(sizeof(typename Float<T>::type), "for float");
    sincosf(x, s, c);
}
template <class T> SIMT_INLINE typename Number<T>::type abs(T x) {
    return __builtin_signbit((double)x) ? -x : x;
}
#define SIMT_TEST(name)                                               \
    template <class T> SIMT_INLINE typename Real<T>::type name(T x) { \
        return __builtin_##name(x);                                   \
    }
SIMT_TEST(isnan)
SIMT_TEST(isinf)
SIMT_TEST(isfinite)
SIMT_TEST(signbit)
#undef SIMT_TEST

} // namespace math
} // namespace simt

using namespace simt::math;

/* min() and max() take two numbers of one type, or one signed and one unsigned,
 * which makes both unsigned. Of a number and a NaN they return the number. */
#define SIMT_MIN_MAX(R, A, B)                                         \
    SIMT_INLINE R min(A a, B b) { return (R)a < (R)b ? (R)a : (R)b; } \
    SIMT_INLINE R max(A a, B b) { return (R)a > (R)b ? (R)a : (R)b; }
SIMT_MIN_MAX(int, int, int)
SIMT_MIN_MAX(unsigned, unsigned, unsigned)
SIMT_MIN_MAX(unsigned, int, unsigned)
SIMT_MIN_MAX(unsigned, unsigned, int)
SIMT_MIN_MAX(long, long, long)
SIMT_MIN_MAX(unsigned long, unsigned long, unsigned long)
SIMT_MIN_MAX(unsigned long, long, unsigned long)
SIMT_MIN_MAX(unsigned long, unsigned long, long)
SIMT_MIN_MAX(long long, long long, long long)
SIMT_MIN_MAX(unsigned long long, unsigned long long, unsigned long long)
SIMT_MIN_MAX(unsigned long long, long long, unsigned long long)
SIMT_MIN_MAX(unsigned long long, unsigned long long, long long)
#undef SIMT_MIN_MAX
#define SIMT_MIN_MAX(R, A, B, suffix)                                    \
    SIMT_INLINE R min(A a, B b) { return __builtin_fmin##suffix(a, b); } \
    SIMT_INLINE R max(A a, B b) { return __builtin_fmax##suffix(a, b); }
SIMT_MIN_MAX(float, float, float, f)
SIMT_MIN_MAX(double, double, double, )
SIMT_MIN_MAX(double, float, double, )
SIMT_MIN_MAX(double, double, float, )
#undef SIMT_MIN_MAX

SIMT_INLINE unsigned umin(unsigned a, unsigned b) { return min(a, b); }
SIMT_INLINE unsigned umax(unsigned a, unsigned b) { return max(a, b); }
SIMT_INLINE long long llmin(long long a, long long b) { return min(a, b); }
SIMT_INLINE long long llmax(long long a, long long b) { return max(a, b); }
SIMT_INLINE unsigned long long ullmin(unsigned long long a,
                                      unsigned long long b) {
    return min(a, b);
}
SIMT_INLINE unsigned long long ullmax(unsigned long long a,
                                      unsigned long long b) {
    return max(a, b);
}

/* The definitions of <math.h>, word for word, in case that header is also
 * included. */
#ifndef NAN
#define NAN (__builtin_nanf(""))
#define INFINITY (__builtin_inff())
#endif

#endif
