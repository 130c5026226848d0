/* device_intrinsics.cpp -- the less common intrinsics: directed rounding, and
 * the bytes and halves of words. */
#include "device_intrinsics.h"

#include <cfenv>

/* ---- directed rounding -------------------------------------------------- */

namespace {

/* An object that sets the CPU's rounding mode during its lifetime. */
class Rounding {
    int before;

  public:
    explicit Rounding(int mode) : before(fegetround()) { fesetround(mode); }
    ~Rounding() { fesetround(before); }
};

// Hide a value from the compiler. The compiler assumes rounding to nearest and
// may move arithmetic, so both the operands and the use of the result must be
// hidden.
template <class T> T hidden(T x) {
    asm volatile("" : "+m"(x)::"memory");
    return x;
}

} // namespace

#define SIMT_ROUND1(name, T, X, expression) \
    T name(X argument) {                    \
        const Rounding rounding(MODE);      \
        const X x = hidden(argument);       \
        return hidden((T)(expression));     \
    }
#define SIMT_ROUND2(name, T, op)                     \
    T name(T left, T right) {                        \
        const Rounding rounding(MODE);               \
        const T x = hidden(left), y = hidden(right); \
        return hidden(x op y);                       \
    }
#define SIMT_ROUND3(name, T, fma)                                        \
    T name(T a, T b, T c) {                                              \
        const Rounding rounding(MODE);                                   \
        return hidden(__builtin_##fma(hidden(a), hidden(b), hidden(c))); \
    }
#define SIMT_DIRECTED(mode)                                              \
    SIMT_ROUND2(__fadd_##mode, float, +)                                 \
    SIMT_ROUND2(__fsub_##mode, float, -)                                 \
    SIMT_ROUND2(__fmul_##mode, float, *)                                 \
    SIMT_ROUND2(__fdiv_##mode, float, /)                                 \
    SIMT_ROUND1(__frcp_##mode, float, float, 1.0f / x)                   \
    SIMT_ROUND1(__fsqrt_##mode, float, float, __builtin_sqrtf(x))        \
    SIMT_ROUND3(__fmaf_##mode, float, fmaf)                              \
    SIMT_ROUND2(__dadd_##mode, double, +)                                \
    SIMT_ROUND2(__dsub_##mode, double, -)                                \
    SIMT_ROUND2(__dmul_##mode, double, *)                                \
    SIMT_ROUND2(__ddiv_##mode, double, /)                                \
    SIMT_ROUND1(__drcp_##mode, double, double, 1.0 / x)                  \
    SIMT_ROUND1(__dsqrt_##mode, double, double, __builtin_sqrt(x))       \
    SIMT_ROUND3(__fma_##mode, double, fma)                               \
    SIMT_ROUND1(__double2float_##mode, float, double, x)                 \
    SIMT_ROUND1(__int2float_##mode, float, int, x)                       \
    SIMT_ROUND1(__uint2float_##mode, float, unsigned, x)                 \
    SIMT_ROUND1(__ll2float_##mode, float, long long, x)                  \
    SIMT_ROUND1(__ull2float_##mode, float, unsigned long long, split(x)) \
    SIMT_ROUND1(__ll2double_##mode, double, long long, x)                \
    SIMT_ROUND1(__ull2double_##mode, double, unsigned long long, split(x))

/* Return x without rounding. g++ may convert values above 2^63 in several steps
 * that each round. */
static long double split(unsigned long long x) {
    return (long double)(x >> 32) * 4294967296.0L +
           (long double)(x & 0xffffffffu);
}

#define MODE FE_TOWARDZERO
SIMT_DIRECTED(rz)
#undef MODE
#define MODE FE_UPWARD
SIMT_DIRECTED(ru)
#undef MODE
#define MODE FE_DOWNWARD
SIMT_DIRECTED(rd)
#undef MODE

/* ---- conversions -------------------------------------------------------- */

#define SIMT_TO_INTEGER(name, T, From, round) \
    T name(From x) { return simt::saturate<T>((From)__builtin_##round(x)); }
#define SIMT_TO_INTEGERS(mode, round)                                     \
    SIMT_TO_INTEGER(__float2uint_##mode, unsigned, float, round)          \
    SIMT_TO_INTEGER(__float2ll_##mode, long long, float, round)           \
    SIMT_TO_INTEGER(__float2ull_##mode, unsigned long long, float, round) \
    SIMT_TO_INTEGER(__double2int_##mode, int, double, round)              \
    SIMT_TO_INTEGER(__double2uint_##mode, unsigned, double, round)        \
    SIMT_TO_INTEGER(__double2ll_##mode, long long, double, round)         \
    SIMT_TO_INTEGER(__double2ull_##mode, unsigned long long, double, round)
SIMT_TO_INTEGERS(rn, rint)
SIMT_TO_INTEGERS(rz, trunc)
SIMT_TO_INTEGERS(ru, ceil)
SIMT_TO_INTEGERS(rd, floor)
SIMT_TO_INTEGER(__float2int_ru, int, float, ceil)
SIMT_TO_INTEGER(__float2int_rd, int, float, floor)

/* ---- bits and bytes ----------------------------------------------------- */

unsigned __byte_perm(unsigned x, unsigned y, unsigned selector) {
    const uint64_t bytes = (uint64_t)y << 32 | x;
    unsigned out = 0;
    for (int i = 0; i < 4; i++) {
        const unsigned pick = selector >> (4 * i) & 15;
        unsigned byte = (unsigned)(bytes >> (8 * (pick & 7))) & 0xff;
        if (pick & 8) byte = byte & 0x80 ? 0xff : 0;
        out |= byte << (8 * i);
    }
    return out;
}

unsigned __fns(unsigned mask, unsigned base, int offset) {
    const int step = offset < 0 ? -1 : 1;
    int left = offset < 0 ? -offset : offset;
    if (base > 31) return ~0u;
    if (left == 0) return mask >> base & 1 ? base : ~0u;
    for (int i = (int)base; i >= 0 && i < 32; i += step)
        if (mask >> i & 1 && --left == 0) return (unsigned)i;
    return ~0u;
}

static int s8(int word, int i) { return (int8_t)(word >> (8 * i)); }
static int s16(int word, int i) { return (int16_t)(word >> (16 * i)); }
static unsigned u8(unsigned word, int i) { return word >> (8 * i) & 0xff; }
static unsigned u16(unsigned word, int i) { return word >> (16 * i) & 0xffff; }

int __dp4a(int a, int b, int c) {
    unsigned sum = (unsigned)c; // wraps around, as on a GPU
    for (int i = 0; i < 4; i++) sum += (unsigned)(s8(a, i) * s8(b, i));
    return (int)sum;
}
unsigned __dp4a(unsigned a, unsigned b, unsigned c) {
    for (int i = 0; i < 4; i++) c += u8(a, i) * u8(b, i);
    return c;
}
int __dp4a(char4 a, char4 b, int c) {
    const int sum = a.x * b.x + a.y * b.y + a.z * b.z + a.w * b.w;
    return (int)((unsigned)c + (unsigned)sum);
}
unsigned __dp4a(uchar4 a, uchar4 b, unsigned c) {
    return c + (unsigned)(a.x * b.x + a.y * b.y + a.z * b.z + a.w * b.w);
}

#define SIMT_DP2A(name, first)                                              \
    int name(int a, int b, int c) {                                         \
        const int sum =                                                     \
            s16(a, 0) * s8(b, first) + s16(a, 1) * s8(b, first + 1);        \
        return (int)((unsigned)c + (unsigned)sum);                          \
    }                                                                       \
    unsigned name(unsigned a, unsigned b, unsigned c) {                     \
        return c + u16(a, 0) * u8(b, first) + u16(a, 1) * u8(b, first + 1); \
    }
SIMT_DP2A(__dp2a_lo, 0)
SIMT_DP2A(__dp2a_hi, 2)

/* ---- two or four numbers in a word -------------------------------------- */

namespace {

/* Apply `f` to x and y, part by part. A part has `bits` bits and is sign- or
 * zero-extended. */
template <int bits, bool is_signed, class F>
unsigned each(unsigned x, unsigned y, F f) {
    const unsigned mask = (1u << bits) - 1;
    unsigned out = 0;
    for (int at = 0; at < 32; at += bits) {
        int a = (int)(x >> at & mask), b = (int)(y >> at & mask);
        if (is_signed && a >> (bits - 1)) a -= 1 << bits;
        if (is_signed && b >> (bits - 1)) b -= 1 << bits;
        out |= ((unsigned)f(a, b) & mask) << at;
    }
    return out;
}

template <int bits, bool is_signed> int clamp(int x) {
    const int low = is_signed ? -(1 << (bits - 1)) : 0;
    const int high = (1 << (is_signed ? bits - 1 : bits)) - 1;
    return x < low ? low : x > high ? high : x;
}

template <int bits, bool is_signed> unsigned sad(unsigned x, unsigned y) {
    unsigned sum = 0;
    each<bits, is_signed>(x, y, [&](int a, int b) {
        sum += (unsigned)(a > b ? a - b : b - a);
        return 0;
    });
    return sum;
}

} // namespace

#define SIMT_EACH2(name, count, is_signed, expression)                         \
    unsigned name##count(unsigned x, unsigned y) {                             \
        enum { bits = 32 / count };                                            \
        return each<bits, is_signed>(x, y,                                     \
                                     [](int a, int b) { return expression; }); \
    }
#define SIMT_EACH1(name, count, expression)                                   \
    unsigned name##count(unsigned x) {                                        \
        enum { bits = 32 / count };                                           \
        return each<bits, true>(x, 0, [](int a, int) { return expression; }); \
    }
#define SIMT_SAD(name, count, is_signed)           \
    unsigned name##count(unsigned x, unsigned y) { \
        return sad<32 / count, is_signed>(x, y);   \
    }
#define SIMT_COMPARE(test, count, is_signed, op)                \
    SIMT_EACH2(__vcmp##test, count, is_signed, a op b ? -1 : 0) \
    SIMT_EACH2(__vset##test, count, is_signed, a op b)
#define SIMT_WORDS(n)                                            \
    SIMT_EACH1(__vabs, n, a < 0 ? -a : a)                        \
    SIMT_EACH1(__vabsss, n, (clamp<bits, true>(a < 0 ? -a : a))) \
    SIMT_EACH1(__vneg, n, -a)                                    \
    SIMT_EACH1(__vnegss, n, (clamp<bits, true>(-a)))             \
    SIMT_EACH2(__vadd, n, false, a + b)                          \
    SIMT_EACH2(__vaddss, n, true, (clamp<bits, true>(a + b)))    \
    SIMT_EACH2(__vaddus, n, false, (clamp<bits, false>(a + b)))  \
    SIMT_EACH2(__vsub, n, false, a - b)                          \
    SIMT_EACH2(__vsubss, n, true, (clamp<bits, true>(a - b)))    \
    SIMT_EACH2(__vsubus, n, false, (clamp<bits, false>(a - b)))  \
    SIMT_EACH2(__vabsdiffs, n, true, a > b ? a - b : b - a)      \
    SIMT_EACH2(__vabsdiffu, n, false, a > b ? a - b : b - a)     \
    SIMT_EACH2(__vavgs, n, true, (a + b + (a + b >= 0)) >> 1)    \
    SIMT_EACH2(__vavgu, n, false, (a + b + 1) >> 1)              \
    SIMT_EACH2(__vhaddu, n, false, (a + b) >> 1)                 \
    SIMT_EACH2(__vmaxs, n, true, a > b ? a : b)                  \
    SIMT_EACH2(__vmaxu, n, false, a > b ? a : b)                 \
    SIMT_EACH2(__vmins, n, true, a < b ? a : b)                  \
    SIMT_EACH2(__vminu, n, false, a < b ? a : b)                 \
    SIMT_SAD(__vsads, n, true)                                   \
    SIMT_SAD(__vsadu, n, false)                                  \
    SIMT_COMPARE(eq, n, false, ==)                               \
    SIMT_COMPARE(ne, n, false, !=)                               \
    SIMT_COMPARE(ges, n, true, >=)                               \
    SIMT_COMPARE(geu, n, false, >=)                              \
    SIMT_COMPARE(gts, n, true, >)                                \
    SIMT_COMPARE(gtu, n, false, >)                               \
    SIMT_COMPARE(les, n, true, <=)                               \
    SIMT_COMPARE(leu, n, false, <=)                              \
    SIMT_COMPARE(lts, n, true, <)                                \
    SIMT_COMPARE(ltu, n, false, <)
SIMT_WORDS(2)
SIMT_WORDS(4)
