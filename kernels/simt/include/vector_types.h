/* vector_types.h -- CUDA's small vectors, dim3, and functions such as
 * make_float4(), with CUDA's sizes and alignments. */
#ifndef SIMT_VECTOR_TYPES_H
#define SIMT_VECTOR_TYPES_H
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define SIMT_VECTORS(type, base, align2, align4)                            \
    struct type##1 { base x; };                                             \
    struct alignas(align2) type##2 { base x, y; };                          \
    struct type##3 { base x, y, z; };                                       \
    struct alignas(align4) type##4 { base x, y, z, w; };                    \
    static inline type##1 make_##type##1(base x) { return {x}; }            \
    static inline type##2 make_##type##2(base x, base y) { return {x, y}; } \
    static inline type##3 make_##type##3(base x, base y, base z) {          \
        return {x, y, z};                                                   \
    }                                                                       \
    static inline type##4 make_##type##4(base x, base y, base z, base w) {  \
        return {x, y, z, w};                                                \
    }

SIMT_VECTORS(char, signed char, 2, 4)
SIMT_VECTORS(uchar, unsigned char, 2, 4)
SIMT_VECTORS(short, short, 4, 8)
SIMT_VECTORS(ushort, unsigned short, 4, 8)
SIMT_VECTORS(int, int, 8, 16)
SIMT_VECTORS(uint, unsigned, 8, 16)
SIMT_VECTORS(long, long, 16, 16)
SIMT_VECTORS(ulong, unsigned long, 16, 16)
SIMT_VECTORS(longlong, long long, 16, 16)
SIMT_VECTORS(ulonglong, unsigned long long, 16, 16)
SIMT_VECTORS(float, float, 8, 16)
SIMT_VECTORS(double, double, 16, 16)
#undef SIMT_VECTORS

struct dim3 {
    unsigned x, y, z;
    constexpr dim3(unsigned x = 1, unsigned y = 1, unsigned z = 1)
        : x(x), y(y), z(z) {}
    constexpr dim3(uint3 v) : x(v.x), y(v.y), z(v.z) {}
    constexpr operator uint3() const { return {x, y, z}; }
};
#endif
