/* device_half_ops.h -- the type and the functions of one 16-bit format.
 *
 * cuda_fp16.h and cuda_bf16.h include this file after defining
 *
 *     SIMT_FORMAT  simt::Binary16     simt::BFloat16
 *     SIMT_T       __half             __nv_bfloat16
 *     SIMT_T2      __half2            __nv_bfloat162
 *     SIMT_N(a,b)  a ## half ## b     a ## bfloat16 ## b
 *     SIMT_N2(a,b) a ## half2 ## b    a ## bfloat162 ## b
 *     SIMT_2N(a,b) a ## half2half ##b ...
 *
 *     SIMT_RARE    a declaration; in device_half.cpp also the definition
 *
 * Arithmetic is done in float and rounded after each operation. Since float has
 * more than twice as many bits, this second rounding changes nothing. */

#pragma GCC visibility push(default)

/* ---- the type ----------------------------------------------------------- */

struct SIMT_RAW(SIMT_T) {
    unsigned short x;
};
struct alignas(4) SIMT_RAW(SIMT_T2) {
    unsigned short x, y;
};

struct SIMT_T {
    unsigned short __x;

    SIMT_T() = default;
    constexpr SIMT_T(const SIMT_RAW(SIMT_T) & raw) : __x(raw.x) {}
    SIMT_T(float x) : __x(SIMT_FORMAT::from_float(x)) {}
    SIMT_T(double x) : __x(simt::from_double<SIMT_FORMAT>(x)) {}
    SIMT_T(int x) : __x(simt::from_double<SIMT_FORMAT>(x)) {}
    operator int() const {
        return simt::saturate<int>(__builtin_truncf((float)*this));
    }
#define SIMT_INTEGER(T) \
    SIMT_T(T x);        \
    operator T() const;
    SIMT_INTEGER(short)
    SIMT_INTEGER(unsigned short)
    SIMT_INTEGER(unsigned)
    SIMT_INTEGER(long)
    SIMT_INTEGER(unsigned long)
    SIMT_INTEGER(long long)
    SIMT_INTEGER(unsigned long long)
#undef SIMT_INTEGER
    operator signed char() const;
    operator unsigned char() const;
    operator char() const;
    operator float() const { return SIMT_FORMAT::to_float(__x); }
    operator bool() const { return (__x & 0x7fff) != 0; }
    constexpr operator SIMT_RAW(SIMT_T)() const { return {__x}; }
};

struct alignas(4) SIMT_T2 {
    SIMT_T x, y;

    SIMT_T2() = default;
    constexpr SIMT_T2(const SIMT_T &x, const SIMT_T &y) : x(x), y(y) {}
    constexpr SIMT_T2(const SIMT_RAW(SIMT_T2) & raw)
        : x(SIMT_RAW(SIMT_T){raw.x}), y(SIMT_RAW(SIMT_T){raw.y}) {}
    constexpr operator SIMT_RAW(SIMT_T2)() const { return {x.__x, y.__x}; }
};

namespace simt {

/* Return the number with these bits. */
SIMT_INLINE SIMT_T SIMT_N(as_, )(unsigned short bits) {
    return SIMT_RAW(SIMT_T){bits};
}

} // namespace simt

/* ---- conversions -------------------------------------------------------- */

SIMT_INLINE SIMT_T SIMT_N(__double2, )(double x) { return x; }
SIMT_INLINE SIMT_T SIMT_N(__float2, )(float x) { return x; }
SIMT_INLINE SIMT_T SIMT_N(__float2, _rn)(float x) { return x; }
SIMT_INLINE float SIMT_N(__, 2float)(SIMT_T x) { return x; }

#define SIMT_FROM(Type, name, mode, direction)                           \
    SIMT_RARE(SIMT_T SIMT_N(__##name##2, mode)(Type x),                  \
              return simt::SIMT_N(as_, )(simt::from_double<SIMT_FORMAT>( \
                  simt::wide(x), simt::direction)))
#define SIMT_FROM_ALL(Type, name)                                \
    SIMT_RARE(SIMT_T SIMT_N(__##name##2, _rn)(Type x), return x) \
    SIMT_FROM(Type, name, _rz, ZERO_WARD)                        \
    SIMT_FROM(Type, name, _ru, UP_WARD)                          \
    SIMT_FROM(Type, name, _rd, DOWN_WARD)
#define SIMT_TO(Type, name, mode, round)                \
    SIMT_RARE(Type SIMT_N(__, 2##name##mode)(SIMT_T x), \
              return simt::saturate<Type>(__builtin_##round((float)x)))
#define SIMT_TO_ALL(Type, name)      \
    SIMT_FROM_ALL(Type, name)        \
    SIMT_TO(Type, name, _rn, rintf)  \
    SIMT_TO(Type, name, _rz, truncf) \
    SIMT_TO(Type, name, _ru, ceilf)  \
    SIMT_TO(Type, name, _rd, floorf)
SIMT_FROM(float, float, _rz, ZERO_WARD)
SIMT_FROM(float, float, _ru, UP_WARD)
SIMT_FROM(float, float, _rd, DOWN_WARD)
SIMT_TO(signed char, char, _rz, truncf)
SIMT_TO(unsigned char, uchar, _rz, truncf)
SIMT_TO_ALL(short, short)
SIMT_TO_ALL(unsigned short, ushort)
SIMT_TO_ALL(int, int)
SIMT_TO_ALL(unsigned, uint)
SIMT_TO_ALL(long long, ll)
SIMT_TO_ALL(unsigned long long, ull)
#undef SIMT_FROM
#undef SIMT_FROM_ALL
#undef SIMT_TO
#undef SIMT_TO_ALL

SIMT_INLINE short SIMT_N(__, _as_short)(SIMT_T x) { return (short)x.__x; }
SIMT_INLINE unsigned short SIMT_N(__, _as_ushort)(SIMT_T x) { return x.__x; }
SIMT_INLINE SIMT_T SIMT_N(__short_as_, )(short bits) {
    return simt::SIMT_N(as_, )((unsigned short)bits);
}
SIMT_INLINE SIMT_T SIMT_N(__ushort_as_, )(unsigned short bits) {
    return simt::SIMT_N(as_, )(bits);
}

/* ---- pairs -------------------------------------------------------------- */

SIMT_INLINE SIMT_T2 SIMT_N2(make_, )(SIMT_T x, SIMT_T y) { return {x, y}; }
SIMT_INLINE SIMT_T2 SIMT_N2(__halves2, )(SIMT_T x, SIMT_T y) { return {x, y}; }
SIMT_INLINE SIMT_T2 SIMT_2N(__, )(SIMT_T x) { return {x, x}; }
SIMT_INLINE SIMT_T2 SIMT_N2(__float2, _rn)(float x) { return {x, x}; }
SIMT_INLINE SIMT_T2 SIMT_N2(__floats2, _rn)(float x, float y) { return {x, y}; }
SIMT_INLINE SIMT_T2 SIMT_N2(__float22, _rn)(float2 v) { return {v.x, v.y}; }
SIMT_INLINE float2 SIMT_N2(__, 2float2)(SIMT_T2 v) { return {v.x, v.y}; }
SIMT_INLINE float __low2float(SIMT_T2 v) { return v.x; }
SIMT_INLINE float __high2float(SIMT_T2 v) { return v.y; }
SIMT_INLINE SIMT_T SIMT_N(__low2, )(SIMT_T2 v) { return v.x; }
SIMT_INLINE SIMT_T SIMT_N(__high2, )(SIMT_T2 v) { return v.y; }
SIMT_INLINE SIMT_T2 SIMT_N2(__low2, )(SIMT_T2 v) { return {v.x, v.x}; }
SIMT_INLINE SIMT_T2 SIMT_N2(__high2, )(SIMT_T2 v) { return {v.y, v.y}; }
SIMT_INLINE SIMT_T2 __lowhigh2highlow(SIMT_T2 v) { return {v.y, v.x}; }
SIMT_INLINE SIMT_T2 SIMT_N2(__lows2, )(SIMT_T2 a, SIMT_T2 b) {
    return {a.x, b.x};
}
SIMT_INLINE SIMT_T2 SIMT_N2(__highs2, )(SIMT_T2 a, SIMT_T2 b) {
    return {a.y, b.y};
}

/* ---- arithmetic --------------------------------------------------------- */

// clang-format off: it treats ##= as two operators
#define SIMT_ARITHMETIC(word, op)                                          \
    SIMT_INLINE SIMT_T __h##word(SIMT_T a, SIMT_T b) {                     \
        return (float)a op (float)b;                                       \
    }                                                                      \
    SIMT_INLINE SIMT_T2 __h##word##2(SIMT_T2 a, SIMT_T2 b) {               \
        return {__h##word(a.x, b.x), __h##word(a.y, b.y)};                 \
    }                                                                      \
    SIMT_RARE(SIMT_T __h##word##_rn(SIMT_T a, SIMT_T b),                   \
              return __h##word(a, b))                                      \
    SIMT_RARE(SIMT_T __h##word##_sat(SIMT_T a, SIMT_T b),                  \
              return __saturatef((float)a op (float)b))                    \
    SIMT_RARE(SIMT_T2 __h##word##2_rn(SIMT_T2 a, SIMT_T2 b),               \
              return __h##word##2(a, b))                                   \
    SIMT_RARE(SIMT_T2 __h##word##2_sat(SIMT_T2 a, SIMT_T2 b),              \
              return SIMT_T2(__h##word##_sat(a.x, b.x),                    \
                             __h##word##_sat(a.y, b.y)))
#define SIMT_OPERATOR(op, word, word2)                                     \
    SIMT_INLINE SIMT_T operator op(const SIMT_T &a, const SIMT_T &b) {     \
        return word(a, b);                                                 \
    }                                                                      \
    SIMT_INLINE SIMT_T &operator op##=(SIMT_T &a, const SIMT_T &b) {       \
        return a = word(a, b);                                             \
    }                                                                      \
    SIMT_INLINE SIMT_T2 operator op(const SIMT_T2 &a, const SIMT_T2 &b) {  \
        return word2(a, b);                                                \
    }                                                                      \
    SIMT_INLINE SIMT_T2 &operator op##=(SIMT_T2 &a, const SIMT_T2 &b) {    \
        return a = word2(a, b);                                            \
    }
// clang-format on
SIMT_ARITHMETIC(add, +)
SIMT_ARITHMETIC(sub, -)
SIMT_ARITHMETIC(mul, *)
SIMT_INLINE SIMT_T __hdiv(SIMT_T a, SIMT_T b) { return (float)a / (float)b; }
SIMT_INLINE SIMT_T2 __h2div(SIMT_T2 a, SIMT_T2 b) {
    return {__hdiv(a.x, b.x), __hdiv(a.y, b.y)};
}
SIMT_OPERATOR(+, __hadd, __hadd2)
SIMT_OPERATOR(-, __hsub, __hsub2)
SIMT_OPERATOR(*, __hmul, __hmul2)
SIMT_OPERATOR(/, __hdiv, __h2div)
#undef SIMT_ARITHMETIC
#undef SIMT_OPERATOR

SIMT_INLINE SIMT_T __hneg(SIMT_T a) {
    return simt::SIMT_N(as_, )(a.__x ^ 0x8000);
}
SIMT_INLINE SIMT_T __habs(SIMT_T a) {
    return simt::SIMT_N(as_, )(a.__x & 0x7fff);
}
SIMT_INLINE SIMT_T2 __hneg2(SIMT_T2 a) { return {__hneg(a.x), __hneg(a.y)}; }
SIMT_INLINE SIMT_T2 __habs2(SIMT_T2 a) { return {__habs(a.x), __habs(a.y)}; }
SIMT_INLINE SIMT_T operator+(const SIMT_T &a) { return a; }
SIMT_INLINE SIMT_T operator-(const SIMT_T &a) { return __hneg(a); }
SIMT_INLINE SIMT_T2 operator+(const SIMT_T2 &a) { return a; }
SIMT_INLINE SIMT_T2 operator-(const SIMT_T2 &a) { return __hneg2(a); }
SIMT_INLINE SIMT_T &operator++(SIMT_T &a) { return a += SIMT_T(1.0f); }
SIMT_INLINE SIMT_T &operator--(SIMT_T &a) { return a -= SIMT_T(1.0f); }
SIMT_INLINE SIMT_T operator++(SIMT_T &a, int) {
    const SIMT_T before = a;
    ++a;
    return before;
}
SIMT_INLINE SIMT_T operator--(SIMT_T &a, int) {
    const SIMT_T before = a;
    --a;
    return before;
}

/* Return a * b + c, rounded once. __hcmadd multiplies complex numbers. */
SIMT_INLINE SIMT_T __hfma(SIMT_T a, SIMT_T b, SIMT_T c) {
    return simt::SIMT_N(as_, )(simt::fused<SIMT_FORMAT>(a.__x, b.__x, c.__x));
}
SIMT_INLINE SIMT_T2 __hfma2(SIMT_T2 a, SIMT_T2 b, SIMT_T2 c) {
    return {__hfma(a.x, b.x, c.x), __hfma(a.y, b.y, c.y)};
}
SIMT_RARE(SIMT_T __hfma_sat(SIMT_T a, SIMT_T b, SIMT_T c),
          return __saturatef(__hfma(a, b, c)))
SIMT_RARE(SIMT_T __hfma_relu(SIMT_T a, SIMT_T b, SIMT_T c),
          const SIMT_T sum = __hfma(a, b, c);
          return (float)sum < 0 ? SIMT_T(0.0f) : sum)
SIMT_RARE(SIMT_T2 __hfma2_sat(SIMT_T2 a, SIMT_T2 b, SIMT_T2 c),
          return SIMT_T2(__hfma_sat(a.x, b.x, c.x), __hfma_sat(a.y, b.y, c.y)))
SIMT_RARE(SIMT_T2 __hfma2_relu(SIMT_T2 a, SIMT_T2 b, SIMT_T2 c),
          return SIMT_T2(__hfma_relu(a.x, b.x, c.x),
                         __hfma_relu(a.y, b.y, c.y)))
SIMT_RARE(SIMT_T2 __hcmadd(SIMT_T2 a, SIMT_T2 b, SIMT_T2 c),
          return SIMT_T2(__hfma(__hneg(a.y), b.y, __hfma(a.x, b.x, c.x)),
                         __hfma(a.y, b.x, __hfma(a.x, b.y, c.y))))

/* Return the larger (or smaller) value. Of a number and a NaN, return the
 * number or, with _nan, the NaN; -0 counts as less than +0. */
#define SIMT_EXTREME(word, of)                                               \
    SIMT_INLINE SIMT_T __h##word(SIMT_T a, SIMT_T b) {                       \
        return simt::of(a, b);                                               \
    }                                                                        \
    SIMT_INLINE SIMT_T2 __h##word##2(SIMT_T2 a, SIMT_T2 b) {                 \
        return {__h##word(a.x, b.x), __h##word(a.y, b.y)};                   \
    }                                                                        \
    SIMT_RARE(SIMT_T __h##word##_nan(SIMT_T a, SIMT_T b), const float x = a; \
              const float y = b; return x != x   ? x                         \
                                        : y != y ? y                         \
                                                 : simt::of(x, y))           \
    SIMT_RARE(                                                               \
        SIMT_T2 __h##word##2_nan(SIMT_T2 a, SIMT_T2 b),                      \
        return SIMT_T2(__h##word##_nan(a.x, b.x), __h##word##_nan(a.y, b.y)))
SIMT_EXTREME(max, larger)
SIMT_EXTREME(min, smaller)
#undef SIMT_EXTREME

/* ---- comparisons -------------------------------------------------------- */

SIMT_INLINE bool __hisnan(SIMT_T a) { return (float)a != (float)a; }
SIMT_INLINE int __hisinf(SIMT_T a) { return __builtin_isinf_sign((float)a); }
SIMT_RARE(SIMT_T2 __hisnan2(SIMT_T2 a),
          return SIMT_T2((float)__hisnan(a.x), (float)__hisnan(a.y)))

/* Define a comparison of numbers, and the comparisons of pairs. These return
 * one of three results: whether the comparison is true for both parts (b), a
 * pair of numbers 0 or 1, or a mask. */
#define SIMT_COMPARE(word, expression)                           \
    SIMT_INLINE bool __h##word(SIMT_T left, SIMT_T right) {      \
        const float a = left, b = right;                         \
        return expression;                                       \
    }                                                            \
    SIMT_RARE(bool __hb##word##2(SIMT_T2 a, SIMT_T2 b),          \
              return __h##word(a.x, b.x) && __h##word(a.y, b.y)) \
    SIMT_RARE(SIMT_T2 __h##word##2(SIMT_T2 a, SIMT_T2 b),        \
              return SIMT_T2((float)__h##word(a.x, b.x),         \
                             (float)__h##word(a.y, b.y)))        \
    SIMT_RARE(unsigned __h##word##2_mask(SIMT_T2 a, SIMT_T2 b),  \
              return (__h##word(a.x, b.x) ? 0xffffu : 0) |       \
                     (__h##word(a.y, b.y) ? 0xffff0000u : 0))
SIMT_COMPARE(eq, a == b)
SIMT_COMPARE(ne, a<b || a> b)
SIMT_COMPARE(le, a <= b)
SIMT_COMPARE(ge, a >= b)
SIMT_COMPARE(lt, a < b)
SIMT_COMPARE(gt, a > b)
SIMT_COMPARE(equ, !(a < b || a > b))
SIMT_COMPARE(neu, a != b)
SIMT_COMPARE(leu, !(a > b))
SIMT_COMPARE(geu, !(a < b))
SIMT_COMPARE(ltu, !(a >= b))
SIMT_COMPARE(gtu, !(a <= b))
#undef SIMT_COMPARE
#define SIMT_OPERATOR(op, word)                                        \
    SIMT_INLINE bool operator op(const SIMT_T &a, const SIMT_T &b) {   \
        return __h##word(a, b);                                        \
    }                                                                  \
    SIMT_INLINE bool operator op(const SIMT_T2 &a, const SIMT_T2 &b) { \
        return __hb##word##2(a, b);                                    \
    }
SIMT_OPERATOR(==, eq)
SIMT_OPERATOR(!=, neu)
SIMT_OPERATOR(<, lt)
SIMT_OPERATOR(>, gt)
SIMT_OPERATOR(<=, le)
SIMT_OPERATOR(>=, ge)
#undef SIMT_OPERATOR

/* ---- functions ---------------------------------------------------------- */

#define SIMT_FUNCTION(word, expression)                            \
    SIMT_RARE(SIMT_T h##word(SIMT_T value), const float x = value; \
              return expression)                                   \
    SIMT_RARE(SIMT_T2 h2##word(SIMT_T2 a),                         \
              return SIMT_T2(h##word(a.x), h##word(a.y)))
SIMT_FUNCTION(trunc, __builtin_truncf(x))
SIMT_FUNCTION(ceil, __builtin_ceilf(x))
SIMT_FUNCTION(floor, __builtin_floorf(x))
SIMT_FUNCTION(rint, __builtin_rintf(x))
SIMT_FUNCTION(sqrt, __builtin_sqrtf(x))
SIMT_FUNCTION(rsqrt, 1.0 / __builtin_sqrt((double)x))
SIMT_FUNCTION(rcp, 1.0f / x)
SIMT_FUNCTION(log, __builtin_logf(x))
SIMT_FUNCTION(log2, __builtin_log2f(x))
SIMT_FUNCTION(log10, __builtin_log10f(x))
SIMT_FUNCTION(exp, __builtin_expf(x))
SIMT_FUNCTION(exp2, __builtin_exp2f(x))
SIMT_FUNCTION(exp10, exp10f(x))
SIMT_FUNCTION(cos, __builtin_cosf(x))
SIMT_FUNCTION(sin, __builtin_sinf(x))
SIMT_FUNCTION(tanh, __builtin_tanhf(x))
SIMT_FUNCTION(tanh_approx, __builtin_tanhf(x))
#undef SIMT_FUNCTION

/* ---- atomics ------------------------------------------------------------ */

SIMT_INLINE SIMT_T atomicAdd(SIMT_T *address, SIMT_T value) {
    return simt::SIMT_N(as_, )(
        simt::update(&address->__x, [=](unsigned short old) {
            return (simt::SIMT_N(as_, )(old) + value).__x;
        }));
}
/* Add to each of the two numbers separately. */
SIMT_INLINE SIMT_T2 atomicAdd(SIMT_T2 *address, SIMT_T2 value) {
    return {atomicAdd(&address->x, value.x), atomicAdd(&address->y, value.y)};
}

#pragma GCC visibility pop

#undef SIMT_FORMAT
#undef SIMT_T
#undef SIMT_T2
#undef SIMT_N
#undef SIMT_N2
#undef SIMT_2N
