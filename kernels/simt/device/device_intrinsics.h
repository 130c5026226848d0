/* device_intrinsics.h -- arithmetic with a chosen rounding, conversions, bits,
 * and words that hold several numbers. Less common functions are only declared
 * in this header. device_intrinsics.cpp, in the runtime, defines them, so that
 * cells need not compile them. */
#ifndef SIMT_DEVICE_INTRINSICS_H
#define SIMT_DEVICE_INTRINSICS_H
#include "device_math.h"

/* ---- rounding ----------------------------------------------------------- */

/* Round to the nearest, without contraction into a multiply-add. */
SIMT_C float __fadd_rn(float x, float y) noexcept { return x + y; }
SIMT_C float __fsub_rn(float x, float y) noexcept { return x - y; }
SIMT_C float __fmul_rn(float x, float y) noexcept { return x * y; }
SIMT_C float __fdiv_rn(float x, float y) noexcept { return x / y; }
SIMT_C float __frcp_rn(float x) noexcept { return 1.0f / x; }
SIMT_C float __fsqrt_rn(float x) noexcept { return __builtin_sqrtf(x); }
SIMT_C float __frsqrt_rn(float x) noexcept {
    return (float)(1.0 / __builtin_sqrt((double)x));
}
SIMT_C float __fmaf_rn(float x, float y, float z) noexcept {
    return __builtin_fmaf(x, y, z);
}
SIMT_C double __dadd_rn(double x, double y) noexcept { return x + y; }
SIMT_C double __dsub_rn(double x, double y) noexcept { return x - y; }
SIMT_C double __dmul_rn(double x, double y) noexcept { return x * y; }
SIMT_C double __ddiv_rn(double x, double y) noexcept { return x / y; }
SIMT_C double __drcp_rn(double x) noexcept { return 1.0 / x; }
SIMT_C double __dsqrt_rn(double x) noexcept { return __builtin_sqrt(x); }
SIMT_C double __fma_rn(double x, double y, double z) noexcept {
    return __builtin_fma(x, y, z);
}

/* Round towards zero, up, or down. */
#pragma GCC visibility push(default)
#define SIMT_DIRECTED(mode)                       \
    float __fadd_##mode(float, float);            \
    float __fsub_##mode(float, float);            \
    float __fmul_##mode(float, float);            \
    float __fdiv_##mode(float, float);            \
    float __frcp_##mode(float);                   \
    float __fsqrt_##mode(float);                  \
    float __fmaf_##mode(float, float, float);     \
    double __dadd_##mode(double, double);         \
    double __dsub_##mode(double, double);         \
    double __dmul_##mode(double, double);         \
    double __ddiv_##mode(double, double);         \
    double __drcp_##mode(double);                 \
    double __dsqrt_##mode(double);                \
    double __fma_##mode(double, double, double);  \
    float __double2float_##mode(double);          \
    float __int2float_##mode(int);                \
    float __uint2float_##mode(unsigned);          \
    float __ll2float_##mode(long long);           \
    float __ull2float_##mode(unsigned long long); \
    double __ll2double_##mode(long long);         \
    double __ull2double_##mode(unsigned long long);
SIMT_DIRECTED(rz)
SIMT_DIRECTED(ru)
SIMT_DIRECTED(rd)
#undef SIMT_DIRECTED
#pragma GCC visibility pop

/* ---- conversions -------------------------------------------------------- */

SIMT_C float __double2float_rn(double x) noexcept { return (float)x; }
SIMT_C float __int2float_rn(int x) noexcept { return (float)x; }
SIMT_C float __uint2float_rn(unsigned x) noexcept { return (float)x; }
SIMT_C float __ll2float_rn(long long x) noexcept { return (float)x; }
SIMT_C float __ull2float_rn(unsigned long long x) noexcept { return (float)x; }
SIMT_C double __int2double_rn(int x) noexcept { return x; }
SIMT_C double __uint2double_rn(unsigned x) noexcept { return x; }
SIMT_C double __ll2double_rn(long long x) noexcept { return (double)x; }
SIMT_C double __ull2double_rn(unsigned long long x) noexcept {
    return (double)x;
}

namespace simt {

/* Return x, which has an integral value, as a T. If T cannot represent x,
 * return the nearest number that T can represent, as PTX's cvt does. A NaN
 * becomes 0 or, if either type has 64 bits, the topmost bit. */
template <class T, class From> SIMT_INLINE T saturate(From x) {
    const T top = (T)1 << (sizeof(T) * 8 - 1);
    const bool is_signed = (T)-1 < (T)0;
    const T least = is_signed ? top : 0, most = (T)~least;
    const double end =
        (is_signed ? 1.0 : 2.0) * (double)(1ull << (sizeof(T) * 8 - 1));
    if (x != x) return sizeof(T) == 8 || sizeof(From) == 8 ? top : 0;
    return x >= end ? most : x <= (double)least ? least : (T)x;
}

} // namespace simt

SIMT_C int __float2int_rn(float x) noexcept {
    return simt::saturate<int>(__builtin_rintf(x));
}
SIMT_C int __float2int_rz(float x) noexcept {
    return simt::saturate<int>(__builtin_truncf(x));
}

/* Convert like the functions above, also with rounding up (ru) or down (rd). */
#pragma GCC visibility push(default)
#define SIMT_TO_INTEGERS(mode)                    \
    unsigned __float2uint_##mode(float);          \
    long long __float2ll_##mode(float);           \
    unsigned long long __float2ull_##mode(float); \
    int __double2int_##mode(double);              \
    unsigned __double2uint_##mode(double);        \
    long long __double2ll_##mode(double);         \
    unsigned long long __double2ull_##mode(double);
SIMT_TO_INTEGERS(rn)
SIMT_TO_INTEGERS(rz)
SIMT_TO_INTEGERS(ru)
SIMT_TO_INTEGERS(rd)
int __float2int_ru(float);
int __float2int_rd(float);
#undef SIMT_TO_INTEGERS
#pragma GCC visibility pop

#define SIMT_AS(name, To, From)                       \
    SIMT_C To name(From value) noexcept {             \
        To bits;                                      \
        __builtin_memcpy(&bits, &value, sizeof bits); \
        return bits;                                  \
    }
SIMT_AS(__float_as_int, int, float)
SIMT_AS(__float_as_uint, unsigned, float)
SIMT_AS(__int_as_float, float, int)
SIMT_AS(__uint_as_float, float, unsigned)
SIMT_AS(__double_as_longlong, long long, double)
SIMT_AS(__longlong_as_double, double, long long)
#undef SIMT_AS
SIMT_C int __double2hiint(double x) noexcept {
    return (int)(__double_as_longlong(x) >> 32);
}
SIMT_C int __double2loint(double x) noexcept {
    return (int)__double_as_longlong(x);
}
SIMT_C double __hiloint2double(int high, int low) noexcept {
    return __longlong_as_double(
        (long long)((unsigned long long)(unsigned)high << 32 | (unsigned)low));
}

/* ---- bits --------------------------------------------------------------- */

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
SIMT_C unsigned long long __brevll(unsigned long long x) noexcept {
    return (unsigned long long)__brev((unsigned)x) << 32 |
           __brev((unsigned)(x >> 32));
}

/* Return the upper word of (high:low) << shift, or the lower word of (high:low)
 * >> shift. l and r use the shift modulo 32; lc and rc limit it to 32. */
SIMT_C unsigned __funnelshift_l(unsigned low, unsigned high,
                                unsigned shift) noexcept {
    return (unsigned)(((uint64_t)high << 32 | low) << (shift & 31) >> 32);
}
SIMT_C unsigned __funnelshift_r(unsigned low, unsigned high,
                                unsigned shift) noexcept {
    return (unsigned)(((uint64_t)high << 32 | low) >> (shift & 31));
}
SIMT_C unsigned __funnelshift_lc(unsigned low, unsigned high,
                                 unsigned shift) noexcept {
    return shift >= 32 ? low : __funnelshift_l(low, high, shift);
}
SIMT_C unsigned __funnelshift_rc(unsigned low, unsigned high,
                                 unsigned shift) noexcept {
    return shift >= 32 ? high : __funnelshift_r(low, high, shift);
}

/* ---- integers ----------------------------------------------------------- */

SIMT_C int __mul24(int x, int y) noexcept {
    const int64_t low = (int64_t)((uint64_t)x << 40) >> 40;
    return (int)(unsigned)(low * ((int64_t)((uint64_t)y << 40) >> 40));
}
SIMT_C unsigned __umul24(unsigned x, unsigned y) noexcept {
    return (x & 0xffffffu) * (y & 0xffffffu);
}
SIMT_C int __mulhi(int x, int y) noexcept {
    return (int)((int64_t)x * y >> 32);
}
SIMT_C unsigned __umulhi(unsigned x, unsigned y) noexcept {
    return (unsigned)((uint64_t)x * y >> 32);
}
SIMT_C long long __mul64hi(long long x, long long y) noexcept {
    return (long long)((__int128)x * y >> 64);
}
SIMT_C unsigned long long __umul64hi(unsigned long long x,
                                     unsigned long long y) noexcept {
    return (unsigned long long)((unsigned __int128)x * y >> 64);
}

/* Return |x - y| + z. */
SIMT_C unsigned __sad(int x, int y, unsigned z) noexcept {
    return (x > y ? (unsigned)x - (unsigned)y : (unsigned)y - (unsigned)x) + z;
}
SIMT_C unsigned __usad(unsigned x, unsigned y, unsigned z) noexcept {
    return (x > y ? x - y : y - x) + z;
}

/* Return the mean, rounded down or, for __rhadd, up. These are C++ functions
 * because half also has a __hadd(). */
SIMT_INLINE int __hadd(int x, int y) { return (int)(((int64_t)x + y) >> 1); }
SIMT_INLINE int __rhadd(int x, int y) {
    return (int)(((int64_t)x + y + 1) >> 1);
}
SIMT_INLINE unsigned __uhadd(unsigned x, unsigned y) {
    return (unsigned)(((uint64_t)x + y) >> 1);
}
SIMT_INLINE unsigned __urhadd(unsigned x, unsigned y) {
    return (unsigned)(((uint64_t)x + y + 1) >> 1);
}

#pragma GCC visibility push(default)

/* Return four bytes of the eight in (y:x), selected by the four nibbles of
 * `selector`. A nibble's top bit selects the byte's sign instead. */
unsigned __byte_perm(unsigned x, unsigned y, unsigned selector);

/* Return the position of the |offset|-th set bit of `mask`, counted from `base`
 * upwards or downwards, or ~0u if there is none. */
unsigned __fns(unsigned mask, unsigned base, int offset);

/* Return c plus a dot product. Its factors are the four bytes of `a` and `b`,
 * or the two halves of `a` and two bytes of `b` (lo: the lower two). */
int __dp4a(int a, int b, int c);
unsigned __dp4a(unsigned a, unsigned b, unsigned c);
int __dp4a(char4 a, char4 b, int c);
unsigned __dp4a(uchar4 a, uchar4 b, unsigned c);
int __dp2a_lo(int a, int b, int c);
unsigned __dp2a_lo(unsigned a, unsigned b, unsigned c);
int __dp2a_hi(int a, int b, int c);
unsigned __dp2a_hi(unsigned a, unsigned b, unsigned c);

/* ---- two or four numbers in a word -------------------------------------- */

#define SIMT_WORD1(name)        \
    unsigned name##2(unsigned); \
    unsigned name##4(unsigned);
#define SIMT_WORD2(name)                  \
    unsigned name##2(unsigned, unsigned); \
    unsigned name##4(unsigned, unsigned);
// clang-format off: this is a list
SIMT_WORD1(__vabs) SIMT_WORD1(__vabsss) SIMT_WORD1(__vneg)
SIMT_WORD1(__vnegss)
SIMT_WORD2(__vadd) SIMT_WORD2(__vaddss) SIMT_WORD2(__vaddus)
SIMT_WORD2(__vsub) SIMT_WORD2(__vsubss) SIMT_WORD2(__vsubus)
SIMT_WORD2(__vabsdiffs) SIMT_WORD2(__vabsdiffu)
SIMT_WORD2(__vavgs) SIMT_WORD2(__vavgu) SIMT_WORD2(__vhaddu)
SIMT_WORD2(__vmaxs) SIMT_WORD2(__vmaxu) SIMT_WORD2(__vmins)
SIMT_WORD2(__vminu) SIMT_WORD2(__vsads) SIMT_WORD2(__vsadu)
#define SIMT_COMPARE(test) SIMT_WORD2(__vcmp##test) SIMT_WORD2(__vset##test)
SIMT_COMPARE(eq) SIMT_COMPARE(ne) SIMT_COMPARE(ges) SIMT_COMPARE(geu)
SIMT_COMPARE(gts) SIMT_COMPARE(gtu) SIMT_COMPARE(les) SIMT_COMPARE(leu)
SIMT_COMPARE(lts) SIMT_COMPARE(ltu)
// clang-format on
#undef SIMT_WORD1
#undef SIMT_WORD2
#undef SIMT_COMPARE
#pragma GCC visibility pop

#endif
