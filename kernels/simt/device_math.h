/* device_math.h -- the functions that nvcc offers without any #include.
 *
 * The C library's own are declared here word for word, so that <math.h> may be
 * included as well. Those in simt::math are templates, so that <math.h>'s and
 * <stdlib.h>'s C++ overloads, where present, are preferred to them. Names that
 * begin with __ and lie in the C library's private corner (__expf) are C
 * functions with noexcept: some versions declare them, none define them. */
#ifndef SIMT_DEVICE_MATH_H
#define SIMT_DEVICE_MATH_H
#include "engine.h"

/* ---- the C library's ---------------------------------------------------- */

#define SIMT_C1(name)             \
    double name(double) noexcept; \
    float name##f(float) noexcept;
#define SIMT_C2(name)                     \
    double name(double, double) noexcept; \
    float name##f(float, float) noexcept;

// clang-format off: these are lists
extern "C" {
SIMT_C1(acos) SIMT_C1(acosh) SIMT_C1(asin) SIMT_C1(asinh) SIMT_C1(atan)
SIMT_C1(atanh) SIMT_C1(cbrt) SIMT_C1(ceil) SIMT_C1(cos) SIMT_C1(cosh)
SIMT_C1(erf) SIMT_C1(erfc) SIMT_C1(exp) SIMT_C1(exp2) SIMT_C1(expm1)
SIMT_C1(fabs) SIMT_C1(floor) SIMT_C1(lgamma) SIMT_C1(log) SIMT_C1(log10)
SIMT_C1(log1p) SIMT_C1(log2) SIMT_C1(nearbyint) SIMT_C1(rint) SIMT_C1(round)
SIMT_C1(sin) SIMT_C1(sinh) SIMT_C1(sqrt) SIMT_C1(tan) SIMT_C1(tanh)
SIMT_C1(tgamma) SIMT_C1(trunc)
SIMT_C2(atan2) SIMT_C2(copysign) SIMT_C2(fdim) SIMT_C2(fmax) SIMT_C2(fmin)
SIMT_C2(fmod) SIMT_C2(hypot) SIMT_C2(pow) SIMT_C2(remainder)
double fma(double, double, double) noexcept;
float fmaf(float, float, float) noexcept;
double ldexp(double, int) noexcept;
float ldexpf(float, int) noexcept;
int abs(int) noexcept;
}
// clang-format on
#undef SIMT_C1
#undef SIMT_C2

/* ---- overloads, as in C++ ----------------------------------------------- */

namespace simt {
namespace math {

template <class T> struct Float {}; /* has `type` if T is float */
template <> struct Float<float> {
    typedef float type;
};
template <class T> struct Number {}; /* ... if T has an abs() but int's */
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

#define SIMT_F1(name)                                                  \
    template <class T> SIMT_INLINE typename Float<T>::type name(T x) { \
        return __builtin_##name##f(x);                                 \
    }
#define SIMT_F2(name)                                                       \
    template <class T> SIMT_INLINE typename Float<T>::type name(T x, T y) { \
        return __builtin_##name##f(x, y);                                   \
    }
SIMT_F1(ceil)
SIMT_F1(cos)
SIMT_F1(erf)
SIMT_F1(exp)
SIMT_F1(exp2)
SIMT_F1(expm1)
SIMT_F1(fabs)
SIMT_F1(floor)
SIMT_F1(log)
SIMT_F1(log10)
SIMT_F1(log1p)
SIMT_F1(log2)
SIMT_F1(rint)
SIMT_F1(round)
SIMT_F1(sin)
SIMT_F1(sqrt)
SIMT_F1(tan)
SIMT_F1(tanh)
SIMT_F1(trunc)
SIMT_F2(atan2)
SIMT_F2(fmax)
SIMT_F2(fmin)
SIMT_F2(fmod)
SIMT_F2(pow)
#undef SIMT_F1
#undef SIMT_F2

template <class T> SIMT_INLINE typename Number<T>::type abs(T x) {
    return __builtin_signbit((double)x) ? -x : x;
}
template <class T> SIMT_INLINE bool isnan(T x) { return __builtin_isnan(x); }
template <class T> SIMT_INLINE bool isinf(T x) { return __builtin_isinf(x); }
template <class T> SIMT_INLINE bool isfinite(T x) {
    return __builtin_isfinite(x);
}

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

/* ---- CUDA's own --------------------------------------------------------- */

#define SIMT_C extern "C" inline __attribute__((always_inline))

SIMT_C float rsqrtf(float x) noexcept { return 1.0f / __builtin_sqrtf(x); }
SIMT_C double rsqrt(double x) noexcept { return 1.0 / __builtin_sqrt(x); }
SIMT_C float rcbrtf(float x) noexcept { return 1.0f / __builtin_cbrtf(x); }
SIMT_C void sincosf(float x, float *s, float *c) noexcept {
    *s = __builtin_sinf(x);
    *c = __builtin_cosf(x);
}
SIMT_C float __saturatef(float x) noexcept {
    return x > 0.0f ? x < 1.0f ? x : 1.0f : 0.0f; // a NaN becomes 0
}

/* The fast ones of the GPU are less precise there, and plain ones here. */
SIMT_C float __expf(float x) noexcept { return __builtin_expf(x); }
SIMT_C float __exp10f(float x) noexcept { return __builtin_powf(10.0f, x); }
SIMT_C float __logf(float x) noexcept { return __builtin_logf(x); }
SIMT_C float __log2f(float x) noexcept { return __builtin_log2f(x); }
SIMT_C float __log10f(float x) noexcept { return __builtin_log10f(x); }
SIMT_C float __powf(float x, float y) noexcept { return __builtin_powf(x, y); }
SIMT_C float __sinf(float x) noexcept { return __builtin_sinf(x); }
SIMT_C float __cosf(float x) noexcept { return __builtin_cosf(x); }
SIMT_C float __tanf(float x) noexcept { return __builtin_tanf(x); }
SIMT_C float __fdividef(float x, float y) noexcept { return x / y; }

/* Rounded to nearest, never contracted into a multiply-add. */
SIMT_C float __fadd_rn(float x, float y) noexcept { return x + y; }
SIMT_C float __fsub_rn(float x, float y) noexcept { return x - y; }
SIMT_C float __fmul_rn(float x, float y) noexcept { return x * y; }
SIMT_C float __fdiv_rn(float x, float y) noexcept { return x / y; }
SIMT_C float __frcp_rn(float x) noexcept { return 1.0f / x; }
SIMT_C float __fsqrt_rn(float x) noexcept { return __builtin_sqrtf(x); }
SIMT_C float __frsqrt_rn(float x) noexcept { return rsqrtf(x); }
SIMT_C float __fmaf_rn(float x, float y, float z) noexcept {
    return __builtin_fmaf(x, y, z);
}
SIMT_C double __dadd_rn(double x, double y) noexcept { return x + y; }
SIMT_C double __dmul_rn(double x, double y) noexcept { return x * y; }

SIMT_C int __float2int_rn(float x) noexcept { return (int)__builtin_rintf(x); }
SIMT_C int __float2int_rz(float x) noexcept { return (int)x; }
SIMT_C int __float2int_rd(float x) noexcept { return (int)__builtin_floorf(x); }
SIMT_C int __float2int_ru(float x) noexcept { return (int)__builtin_ceilf(x); }
SIMT_C float __int2float_rn(int x) noexcept { return (float)x; }
SIMT_C float __uint2float_rn(unsigned x) noexcept { return (float)x; }

#define SIMT_AS(name, To, From)             \
    SIMT_C To name(From value) noexcept {   \
        To bits;                            \
        memcpy(&bits, &value, sizeof bits); \
        return bits;                        \
    }
SIMT_AS(__float_as_int, int, float)
SIMT_AS(__float_as_uint, unsigned, float)
SIMT_AS(__int_as_float, float, int)
SIMT_AS(__uint_as_float, float, unsigned)
SIMT_AS(__double_as_longlong, long long, double)
SIMT_AS(__longlong_as_double, double, long long)
#undef SIMT_AS

SIMT_C int __popc(unsigned x) noexcept { return __builtin_popcount(x); }
SIMT_C int __popcll(unsigned long long x) noexcept {
    return __builtin_popcountll(x);
}
SIMT_C int __clz(int x) noexcept { return x ? __builtin_clz((unsigned)x) : 32; }
SIMT_C int __clzll(long long x) noexcept {
    return x ? __builtin_clzll((unsigned long long)x) : 64;
}
SIMT_C int __ffs(int x) noexcept { return __builtin_ffs(x); }
SIMT_C int __ffsll(long long x) noexcept { return __builtin_ffsll(x); }
SIMT_C unsigned __brev(unsigned x) noexcept {
    x = (x >> 1 & 0x55555555u) | (x & 0x55555555u) << 1;
    x = (x >> 2 & 0x33333333u) | (x & 0x33333333u) << 2;
    x = (x >> 4 & 0x0f0f0f0fu) | (x & 0x0f0f0f0fu) << 4;
    return __builtin_bswap32(x);
}
SIMT_C int __mul24(int x, int y) noexcept {
    return ((x << 8) >> 8) * ((y << 8) >> 8);
}
SIMT_C unsigned __umulhi(unsigned x, unsigned y) noexcept {
    return (unsigned)((uint64_t)x * y >> 32);
}
SIMT_C int __mulhi(int x, int y) noexcept {
    return (int)((int64_t)x * y >> 32);
}
#undef SIMT_C

/* Loads and stores with a cache hint, which has no meaning here. */
#define SIMT_LOAD(name) \
    template <class T> SIMT_INLINE T name(const T *address) { return *address; }
SIMT_LOAD(__ldg)
SIMT_LOAD(__ldca)
SIMT_LOAD(__ldcg)
SIMT_LOAD(__ldcs)
SIMT_LOAD(__ldlu)
SIMT_LOAD(__ldcv)
#undef SIMT_LOAD
#define SIMT_STORE(name)                                            \
    template <class T> SIMT_INLINE void name(T *address, T value) { \
        *address = value;                                           \
    }
SIMT_STORE(__stcg)
SIMT_STORE(__stcs)
SIMT_STORE(__stwb)
SIMT_STORE(__stwt)
#undef SIMT_STORE

/* From <math.h>, word for word, in case it is included as well. */
#ifndef NAN
#define NAN (__builtin_nanf(""))
#define INFINITY (__builtin_inff())
#endif

#endif
