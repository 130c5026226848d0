/* device_half.cpp -- the functions of half and bfloat16 that are not inlined,
 * so that programs with their headers compile fast. */
#define SIMT_RARE(declaration, ...) \
    declaration { __VA_ARGS__; }
#include "device_half.h"

namespace simt {

/* Return x as a double. Beyond 53 bits, the double's last bit records whether
 * bits were cut off. */
template <class T> static double wide(T x) { return x; }
static double wide(unsigned long long x) {
    if (x >> 53 && x & 0x7ff) x = (x | 0x800) & ~0x7ffull;
    return (double)x;
}
static double wide(long long x) {
    return x < 0 ? -wide(0 - (unsigned long long)x)
                 : wide((unsigned long long)x);
}
static double wide(unsigned long x) { return wide((unsigned long long)x); }
static double wide(long x) { return wide((long long)x); }

/* Round towards zero, up, or down. */
enum Direction { ZERO_WARD, UP_WARD, DOWN_WARD };
template <class Format>
inline unsigned short from_double(double x, Direction direction) {
    const unsigned short near = from_double<Format>(x);
    const double value = Format::to_float(near);
    const bool negative = near & 0x8000;
    if (direction == ZERO_WARD) direction = negative ? UP_WARD : DOWN_WARD;
    if (direction == UP_WARD && value < x)
        return negative ? near - 1 : near + 1;
    if (direction == DOWN_WARD && value > x)
        return negative ? near + 1 : near - 1;
    return near;
}

} // namespace simt

#include "cuda_bf16.h"
#include "cuda_fp16.h"

#define SIMT_INTEGER(H, Format, T)                                \
    H::H(T x) : __x(simt::from_double<Format>(simt::wide(x))) {}  \
    H::operator T() const {                                       \
        return simt::saturate<T>(__builtin_truncf((float)*this)); \
    }
#define SIMT_INTEGERS(H, Format)                                              \
    SIMT_INTEGER(H, Format, short)                                            \
    SIMT_INTEGER(H, Format, unsigned short)                                   \
    SIMT_INTEGER(H, Format, unsigned)                                         \
    SIMT_INTEGER(H, Format, long)                                             \
    SIMT_INTEGER(H, Format, unsigned long)                                    \
    SIMT_INTEGER(H, Format, long long)                                        \
    SIMT_INTEGER(H, Format, unsigned long long)                               \
    H::operator signed char() const {                                         \
        return simt::saturate<signed char>(__builtin_truncf((float)*this));   \
    }                                                                         \
    H::operator unsigned char() const {                                       \
        return simt::saturate<unsigned char>(__builtin_truncf((float)*this)); \
    }                                                                         \
    H::operator char() const {                                                \
        return simt::saturate<char>(__builtin_truncf((float)*this));          \
    }
SIMT_INTEGERS(__half, simt::Binary16)
SIMT_INTEGERS(__nv_bfloat16, simt::BFloat16)
