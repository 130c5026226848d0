/* simd.h -- vectors as wide as this machine's registers, for the plain C rungs.
 *
 * With GCC's vector extensions, one source serves AVX-512, AVX2, SSE and Arm. A
 * vfloat is added, multiplied and compared like a float, lane by lane. This
 * header chooses its width at compile time from the instructions that -march
 * allows. A vector must not be wider than a register. 512-bit vectors built for
 * AVX2 spill in every inner loop and run at a fiftieth of the speed. */
#ifndef WEFT_SIMD_H
#define WEFT_SIMD_H
#include <stddef.h>
#include <stdint.h>
#if defined(__SSE__)
#include <immintrin.h>
#endif

/* VLEN: floats in a vector. VREGS: vector registers that the compiler may use;
 * the accumulators and operands of a blocked loop must fit in them. */
#if defined(__AVX512F__)
enum { VLEN = 16, VREGS = 32 };
#elif defined(__AVX__)
enum { VLEN = 8, VREGS = 16 };
#elif defined(__aarch64__)
enum { VLEN = 4, VREGS = 32 };
#else
enum { VLEN = 4, VREGS = 16 };
#endif

/* aligned(4), so that any float array may be loaded. */
typedef float vfloat
    __attribute__((vector_size(4 * VLEN), aligned(4), may_alias));
typedef int32_t vint
    __attribute__((vector_size(4 * VLEN), aligned(4), may_alias));
typedef uint8_t vbyte __attribute__((vector_size(VLEN), aligned(1), may_alias));

#define SIMD_INLINE static inline __attribute__((always_inline, unused))

SIMD_INLINE vfloat vload(const float *p) { return *(const vfloat *)p; }

SIMD_INLINE void vstore(float *p, vfloat v) { *(vfloat *)p = v; }

/* Store a vector without reading its cache line and without keeping it in the
 * caches; p is aligned to the vector. vstream_end() orders such stores before
 * later ones. A thread calls it before other threads may read the vectors. */
SIMD_INLINE void vstream(float *p, vfloat v) {
#if defined(__AVX512F__)
    _mm512_stream_ps(p, (__m512)v);
#elif defined(__AVX__)
    _mm256_stream_ps(p, (__m256)v);
#elif defined(__SSE__)
    _mm_stream_ps(p, (__m128)v);
#else
    vstore(p, v);
#endif
}
SIMD_INLINE void vstream_end(void) {
#if defined(__SSE__)
    _mm_sfence();
#endif
}

SIMD_INLINE vfloat vsplat(float x) {
    return x - (vfloat){0}; // x - 0 is x, even for -0
}

/* Return the lanes 0, 1, 2, ... */
SIMD_INLINE vint viota(void) {
    vint lanes;
    for (int i = 0; i < VLEN; i++) lanes[i] = i;
    return lanes;
}

/* Select lane by lane: a where `mask` is -1 (a true comparison), b where it is
 * 0. In C, unlike C++, vectors have no ?: operator. Compilers turn this into
 * one blend. */
SIMD_INLINE vfloat vselect(vint mask, vfloat a, vfloat b) {
    return (vfloat)(((vint)a & mask) | ((vint)b & ~mask));
}

SIMD_INLINE vint vselect_int(vint mask, vint a, vint b) {
    return (a & mask) | (b & ~mask);
}

SIMD_INLINE vfloat vmax(vfloat a, vfloat b) { return vselect(a > b, a, b); }

/* Return v * 2^n lane by lane. n: whole numbers from -152 to 0. */
SIMD_INLINE vfloat vscale(vfloat v, vfloat n) {
#if defined(__AVX512F__)
    return (vfloat)_mm512_scalef_ps((__m512)v, (__m512)n);
#else
    // 2^n may be below the least float, so it is a product of two powers. The
    // last digits of a float near 1.5 * 2^23 are a whole number.
    const vint whole = (vint)(n + 0x1.8p23f) - (vint)vsplat(0x1.8p23f);
    const vint half = whole >> 1, rest = whole - half;
    return v * (vfloat)((half + 127) << 23) * (vfloat)((rest + 127) << 23);
#endif
}

/* Return e^v for lanes that are at most 0 or NaN, which stays NaN. The relative
 * error is below 2^-23 for results of at least 2^-126; smaller ones are off by
 * at most 2^-149.
 *
 * v = n ln 2 + r with a whole n and |r| <= ln(2) / 2. The polynomial is the
 * minimax one of degree 6 for e^r, with a relative error of 2^-28; its
 * roundings add the rest. ln 2 is split into a part of 9 bits, whose product
 * with n is exact, and the remainder. */
SIMD_INLINE vfloat vexp(vfloat v) {
    const vfloat least = vsplat(-105.0f); // e^-105 rounds to 0
    v = vselect(v < least, least, v);
    const vfloat shifted = v * 0x1.715476p0f + 0x1.8p23f; // has no fraction
    const vfloat n = shifted - 0x1.8p23f;
    const vfloat r = (v - n * 0x1.63p-1f) - n * -0x1.bd0106p-13f;
    vfloat p = r * 0.00138145985f + 0.00836871689f;
    p = p * r + 0.041668388f;
    p = p * r + 0.166665206f;
    p = p * r + 0.499999934f;
    p = p * r + 1.0f;
    p = p * r + 1.0f;
    return vscale(p, n);
}

SIMD_INLINE float vsum(vfloat v) {
    float sum = 0.0f;
    for (int i = 0; i < VLEN; i++) sum += v[i];
    return sum;
}

/* Add a (rows,k) @ b (k, 2 vectors) to acc (rows, 2 vectors). This is the inner
 * loop of every product in the plain C rungs. Element (r,i) of a is a[r * a_row
 * + i * a_k]; row i of b starts at b + i * b_k.
 *
 * Each b vector is loaded once for `rows` multiply-adds. Each element of a is
 * broadcast once for two of them. So arithmetic limits the loop if it has
 * enough independent sums to hide their latency: at least 8. It runs at full
 * speed only if rows, a_row, a_k and b_k are constants at the call. Then the
 * loop over rows is unrolled, acc stays in registers, and every address is a
 * base plus a constant. 2 * rows + 3 must not exceed VREGS. */
SIMD_INLINE void tile_fma(int rows, vfloat (*acc)[2], const float *a,
                          ptrdiff_t a_row, ptrdiff_t a_k, const float *b,
                          ptrdiff_t b_k, int k) {
    for (int i = 0; i < k; i++) {
        const vfloat b0 = vload(b + i * b_k), b1 = vload(b + i * b_k + VLEN);
#pragma GCC unroll 16
        for (int r = 0; r < rows; r++) {
            const vfloat s = vsplat(a[r * a_row + i * a_k]);
            acc[r][0] += s * b0;
            acc[r][1] += s * b1;
        }
    }
}

#endif
