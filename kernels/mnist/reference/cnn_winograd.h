/* cnn_winograd.h -- a 3x3 convolution with 16 multiplications instead of 36.
 *
 * Winograd's F(2x2, 3x3): four neighbouring outputs y (2x2) of a convolution of
 * x (4x4) with g (3x3) are
 *
 *     y = A' [(G g G') * (B' x B)] A     * element by element
 *
 *          1  0  0          1  0 -1  0
 *     G =  ½  ½  ½     B' = 0  1  1  0     A' = 1  1  1  0
 *          ½ -½  ½          0 -1  1  0          0  1 -1 -1
 *          0  0  1          0  1  0 -1
 *
 * The sum over input channels may be taken before A' . A, so a layer has three
 * steps. It converts all 4x4 tiles of the input into 16 numbers each (B),
 * and multiplies 16 matrices (tiles, input channels) @ (input channels, output
 * channels). Finally, it turns every 16 numbers into four outputs (A). The
 * backward pass is the adjoint of each step in reverse order, with the same 16
 * positions, so it costs the same:
 *
 *     dM = A dy A',   dg = G' (sum over tiles of V dM) G,   dx = B (U dM) B'
 *
 * with V = B' x B and U = G g G'. Little precision is lost, since all factors
 * are 1 and ½. Suppose that all elements of x and of g have the same magnitude.
 * Then the terms that cancel at the end add up to (8/3)^2, about 7 times the
 * terms of the direct sum. So rounding errors are at most about 7 times as
 * large. In measurements, the gradients of a step are about as exact as those
 * of the direct form.
 *
 * Source: Lavin and Gray, Fast Algorithms for Convolutional Neural Networks,
 * 2015. Each transform is one of the matrices applied to columns, then rows;
 * arrays are 4x4 (or 3x3, 2x2), row by row, of vectors of channels. */
#ifndef WEFT_CNN_WINOGRAD_H
#define WEFT_CNN_WINOGRAD_H
#include "reference/simd.h"

enum { POSITIONS = 16 };

/* Compute x = B' x B. */
SIMD_INLINE void winograd_input(vfloat x[16]) {
#pragma GCC unroll 2
    for (int way = 0; way < 2; way++)
#pragma GCC unroll 4
        for (int i = 0; i < 4; i++) {
            const int s = way ? 1 : 4; // down the columns, then along the rows
            vfloat *p = x + i * (5 - s);
            const vfloat a = p[0], b = p[s], c = p[2 * s], d = p[3 * s];
            p[0] = a - c;
            p[s] = b + c;
            p[2 * s] = c - b;
            p[3 * s] = b - d;
        }
}

/* Compute x = B x B'. */
SIMD_INLINE void winograd_input_back(vfloat x[16]) {
#pragma GCC unroll 2
    for (int way = 0; way < 2; way++)
#pragma GCC unroll 4
        for (int i = 0; i < 4; i++) {
            const int s = way ? 1 : 4;
            vfloat *p = x + i * (5 - s);
            const vfloat a = p[0], b = p[s], c = p[2 * s], d = p[3 * s];
            p[s] = b - c + d;
            p[2 * s] = b + c - a;
            p[3 * s] = -d;
        }
}

/* Compute y (2x2) = A' m A. */
SIMD_INLINE void winograd_output(vfloat y[4], const vfloat m[16]) {
    vfloat t[8];
#pragma GCC unroll 4
    for (int i = 0; i < 4; i++) {
        t[i] = m[i] + m[4 + i] + m[8 + i];
        t[4 + i] = m[4 + i] - m[8 + i] - m[12 + i];
    }
#pragma GCC unroll 2
    for (int i = 0; i < 2; i++) {
        const vfloat *p = t + 4 * i;
        y[2 * i] = p[0] + p[1] + p[2];
        y[2 * i + 1] = p[1] - p[2] - p[3];
    }
}

/* Compute m = A y A'. */
SIMD_INLINE void winograd_output_back(vfloat m[16], const vfloat y[4]) {
    const vfloat t[8] = {y[0],        y[1],        y[0] + y[2], y[1] + y[3],
                         y[0] - y[2], y[1] - y[3], -y[2],       -y[3]};
#pragma GCC unroll 4
    for (int i = 0; i < 4; i++) {
        const vfloat a = t[2 * i], b = t[2 * i + 1];
        m[4 * i] = a;
        m[4 * i + 1] = a + b;
        m[4 * i + 2] = a - b;
        m[4 * i + 3] = -b;
    }
}

/* Compute u (4x4) = G g G'. */
SIMD_INLINE void winograd_weight(vfloat u[16], const vfloat g[9]) {
    vfloat t[12];
    for (int i = 0; i < 3; i++) {
        const vfloat even = 0.5f * (g[i] + g[6 + i]), odd = 0.5f * g[3 + i];
        t[i] = g[i];
        t[3 + i] = even + odd;
        t[6 + i] = even - odd;
        t[9 + i] = g[6 + i];
    }
    for (int i = 0; i < 4; i++) {
        const vfloat *p = t + 3 * i;
        const vfloat even = 0.5f * (p[0] + p[2]), odd = 0.5f * p[1];
        u[4 * i] = p[0];
        u[4 * i + 1] = even + odd;
        u[4 * i + 2] = even - odd;
        u[4 * i + 3] = p[2];
    }
}

/* Compute g (3x3) = G' u G. */
SIMD_INLINE void winograd_weight_back(vfloat g[9], const vfloat u[16]) {
    vfloat t[12];
    for (int i = 0; i < 4; i++) {
        const vfloat even = 0.5f * (u[4 + i] + u[8 + i]);
        t[i] = u[i] + even;
        t[4 + i] = 0.5f * (u[4 + i] - u[8 + i]);
        t[8 + i] = even + u[12 + i];
    }
    for (int i = 0; i < 3; i++) {
        const vfloat *p = t + 4 * i, even = 0.5f * (p[1] + p[2]);
        g[3 * i] = p[0] + even;
        g[3 * i + 1] = 0.5f * (p[1] - p[2]);
        g[3 * i + 2] = even + p[3];
    }
}

#endif
