/* gemm.c -- a matrix product for all of cuBLAS's types; see gemm.h. */
#include "gemm.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum {
    GEMM_COLUMNS = 6, /* of a tile: 12 sums and 3 operands in 16 registers */
    GEMM_CACHE = 256 << 10, /* bytes of B that one core keeps in its cache */
};
#ifdef __AVX512F__
#define GEMM_VECTOR 64
#else
#define GEMM_VECTOR 32
#endif

static float of_bfloat(uint16_t bits) {
    const uint32_t word = (uint32_t)bits << 16;
    float value;
    memcpy(&value, &word, sizeof value);
    return value;
}

static uint16_t to_bfloat(float value) {
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    if (value != value) return 0x7fff;
    return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

/* Return the nearest integer of `bits` bits. NaN becomes the least one. */
static int64_t to_int(double value, int bits) {
    const int64_t least = -(1ll << (bits - 1)), most = -(least + 1);
    const double rounded = __builtin_rint(value);
    if (!(rounded > (double)least)) return least;
    return rounded < (double)most ? (int64_t)rounded : most;
}

double weft_load(const void *at, int type, ptrdiff_t index) {
    switch (type) {
    case GEMM_F32: return ((const float *)at)[index];
    case GEMM_F64: return ((const double *)at)[index];
    case GEMM_F16: return ((const _Float16 *)at)[index];
    case GEMM_BF16: return of_bfloat(((const uint16_t *)at)[index]);
    case GEMM_I8: return ((const int8_t *)at)[index];
    case GEMM_I32: return ((const int32_t *)at)[index];
    }
    return 0;
}

void weft_store(void *at, int type, ptrdiff_t index, double value) {
    switch (type) {
    case GEMM_F32: ((float *)at)[index] = (float)value; break;
    case GEMM_F64: ((double *)at)[index] = value; break;
    case GEMM_F16: ((_Float16 *)at)[index] = (_Float16)value; break;
    case GEMM_BF16: ((uint16_t *)at)[index] = to_bfloat((float)value); break;
    case GEMM_I32: ((int32_t *)at)[index] = (int32_t)to_int(value, 32); break;
    case GEMM_I8: ((int8_t *)at)[index] = (int8_t)to_int(value, 8); break;
    }
}

size_t weft_size_of(int type) {
    switch (type) {
    case GEMM_F32:
    case GEMM_I32: return 4;
    case GEMM_F64: return 8;
    case GEMM_F16:
    case GEMM_BF16: return 2;
    case GEMM_I8: return 1;
    }
    return 0;
}

#define SUM float
#define NAME(f) f##_float
#include "gemm_core.h"
#undef SUM
#undef NAME

#define SUM double
#define NAME(f) f##_double
#include "gemm_core.h"

int weft_gemm(const struct gemm *g) {
    if (g->m <= 0 || g->n <= 0) return 0;
    const int k = g->alpha == 0 ? 0 : g->k;
    const int is_double = g->d.type == GEMM_F64 || g->d.type == GEMM_I32;
    return is_double ? gemm_double(g, k) : gemm_float(g, k);
}
