/* device_half.h -- the bits of 16-bit floats: code shared by cuda_fp16.h and
 * cuda_bf16.h. A format is a struct with to_float(bits) and from_float(). */
#ifndef SIMT_DEVICE_HALF_H
#define SIMT_DEVICE_HALF_H
#include "simt.h"

#define SIMT_RAW_(type) type##_raw
#define SIMT_RAW(type) SIMT_RAW_(type)
#ifndef SIMT_RARE
#define SIMT_RARE(declaration, ...) declaration;
#endif

namespace simt {

/* IEEE 754's binary16: 5 bits of exponent, 10 bits of mantissa. */
struct Binary16 {
    static inline float to_float(unsigned short bits) {
        const unsigned sign = (bits & 0x8000u) << 16, rest = bits & 0x7fffu;
        if (rest >= 0x7c00) // infinity or a NaN
            return __uint_as_float(sign | 0x7f800000u | (rest & 0x3ff) << 13);
        // If the bits of the exponent are read as a float's, the value is
        // exactly 2^112 times smaller.
        const float value = __uint_as_float(rest << 13) * 0x1p112f;
        return __uint_as_float(__float_as_uint(value) | sign);
    }
    /* Round to the nearest, ties to even. */
    static inline unsigned short from_float(float x) {
        const unsigned bits = __float_as_uint(x), rest = bits & 0x7fffffffu;
        const unsigned sign = bits >> 16 & 0x8000u;
        if (rest > 0x7f800000u) return 0x7fff;
        if (rest >= 0x477ff000u) return sign | 0x7c00; // 65520 or more
        if (rest >= 0x38800000u) // 2^-14 or more: the mantissa loses 13 bits
            return sign | (rest - 0x38000000u + 0xfff + (rest >> 13 & 1)) >> 13;
        // Near 0.5, floats are spaced like subnormal halves.
        const float shifted = __uint_as_float(rest) + 0.5f;
        return sign | (__float_as_uint(shifted) - 0x3f000000u);
    }
};

/* The upper half of a float: 8 bits of exponent, 7 bits of mantissa. */
struct BFloat16 {
    static inline float to_float(unsigned short bits) {
        return __uint_as_float((unsigned)bits << 16);
    }
    static inline unsigned short from_float(float x) {
        const unsigned bits = __float_as_uint(x);
        if ((bits & 0x7fffffffu) > 0x7f800000u) return 0x7fff;
        return (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
    }
};

/* Return x as a float whose last bit records whether bits were cut off. If this
 * float is rounded to far fewer bits, the result is the same as if x itself
 * were rounded. */
inline float to_odd(double x) {
    const float y = (float)x;
    const unsigned bits = __float_as_uint(y);
    if ((double)y == x || x != x || bits & 1) return y;
    const bool above = __builtin_fabs((double)y) > __builtin_fabs(x);
    return __uint_as_float(above ? bits - 1 : bits + 1);
}
template <class Format> inline unsigned short from_double(double x) {
    return Format::from_float(to_odd(x));
}

/* Return fma(a, b, c). a * b is exact in double. The sum is exact, too, or so
 * far from the midpoint between two results that its error does not matter. */
template <class Format>
inline unsigned short fused(unsigned short a, unsigned short b,
                            unsigned short c) {
    const double product =
        (double)Format::to_float(a) * (double)Format::to_float(b);
    return from_double<Format>(product + (double)Format::to_float(c));
}

/* Return the larger (or smaller) value. If one is a NaN, return the other; -0
 * counts as less than +0. */
inline float larger(float a, float b) {
    if (a != a || (a == b && __builtin_signbit(a))) return b;
    return b > a ? b : a;
}
inline float smaller(float a, float b) {
    if (a != a || (a == b && __builtin_signbit(b))) return b;
    return b < a ? b : a;
}

} // namespace simt
#endif
