/* polynomial.c -- a0 + a1 x + a2 x^2 + a3 x^3 in plain C, by Horner's rule.
 * Memory is the limit, so one vectorised pass suffices. */
#include "reference.h"

/* Elements processed between interrupt checks: 64 MiB per array. */
enum { CHUNK = 1 << 24 };

/* Below this number of elements, a second thread costs more than it saves. */
enum { ALONE = 1 << 15 };

int polynomial_reference(float *y, const float *x, size_t count, float a0,
                         float a1, float a2, float a3) {
    for (size_t start = 0; start < count; start += CHUNK) {
        const size_t end = count - start < CHUNK ? count : start + CHUNK;
        if (weft_interrupted())
            return weft_fail(WEFT_EINTR, "polynomial: Ctrl-C");
#pragma omp parallel for simd schedule(static) if (count > ALONE)
        for (size_t i = start; i < end; i++)
            y[i] = ((a3 * x[i] + a2) * x[i] + a1) * x[i] + a0;
    }
    return WEFT_OK;
}

int polynomial_reference_backward(float *dx, const float *dy, const float *x,
                                  size_t count, float a1, float a2, float a3) {
    const float b1 = 2.0f * a2, b2 = 3.0f * a3;
    for (size_t start = 0; start < count; start += CHUNK) {
        const size_t end = count - start < CHUNK ? count : start + CHUNK;
        if (weft_interrupted())
            return weft_fail(WEFT_EINTR, "polynomial: Ctrl-C");
#pragma omp parallel for simd schedule(static) if (count > ALONE)
        for (size_t i = start; i < end; i++)
            dx[i] = dy[i] * ((b2 * x[i] + b1) * x[i] + a1);
    }
    return WEFT_OK;
}
