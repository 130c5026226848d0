/* cuComplex.h -- replaces the toolkit's header under g++: complex numbers as
 * float2 and double2, with the real part in x. */
#ifndef SIMT_CU_COMPLEX_H
#define SIMT_CU_COMPLEX_H
#include <math.h>

#include "cuda_runtime.h"

typedef float2 cuFloatComplex;
typedef double2 cuDoubleComplex;
typedef cuFloatComplex cuComplex;

/* cuCabs##f() does not overflow, unlike the square root of a sum of squares. */
#define SIMT_COMPLEX(f, type, real, make)                             \
    SIMT_INLINE type make(real x, real y) { return {x, y}; }          \
    SIMT_INLINE real cuCreal##f(type a) { return a.x; }               \
    SIMT_INLINE real cuCimag##f(type a) { return a.y; }               \
    SIMT_INLINE type cuConj##f(type a) { return {a.x, -a.y}; }        \
    SIMT_INLINE type cuCadd##f(type a, type b) {                      \
        return {a.x + b.x, a.y + b.y};                                \
    }                                                                 \
    SIMT_INLINE type cuCsub##f(type a, type b) {                      \
        return {a.x - b.x, a.y - b.y};                                \
    }                                                                 \
    SIMT_INLINE type cuCmul##f(type a, type b) {                      \
        return {a.x * b.x - a.y * b.y, a.x * b.y + a.y * b.x};        \
    }                                                                 \
    SIMT_INLINE type cuCfma##f(type a, type b, type c) {              \
        return cuCadd##f(cuCmul##f(a, b), c);                         \
    }                                                                 \
    SIMT_INLINE real cuCabs##f(type a) { return hypot##f(a.x, a.y); } \
    SIMT_INLINE type cuCdiv##f(type a, type b) {                      \
        const real size = fabs##f(b.x) + fabs##f(b.y);                \
        const type c = {b.x / size, b.y / size};                      \
        const real norm = (c.x * c.x + c.y * c.y) * size;             \
        return {(a.x * c.x + a.y * c.y) / norm,                       \
                (a.y * c.x - a.x * c.y) / norm};                      \
    }
SIMT_COMPLEX(f, cuFloatComplex, float, make_cuFloatComplex)
SIMT_COMPLEX(, cuDoubleComplex, double, make_cuDoubleComplex)
#undef SIMT_COMPLEX

SIMT_INLINE cuComplex make_cuComplex(float x, float y) { return {x, y}; }
SIMT_INLINE cuDoubleComplex cuComplexFloatToDouble(cuFloatComplex a) {
    return {a.x, a.y};
}
SIMT_INLINE cuFloatComplex cuComplexDoubleToFloat(cuDoubleComplex a) {
    return {(float)a.x, (float)a.y};
}
#endif
