/* relu.c -- max(x, 0) in plain C: bound by memory, so one vectorised pass. */
#include "reference.h"

/* Below this a second thread costs more than it saves. */
enum { ALONE = 1 << 15 };

int relu_reference(float *y, const float *x, size_t count) {
#pragma omp parallel for simd schedule(static) if (count > ALONE)
    // Asked this way round, a NaN, which compares false, stays a NaN.
    for (size_t i = 0; i < count; i++) y[i] = x[i] < 0.0f ? 0.0f : x[i];
    return WEFT_OK;
}

int relu_reference_backward(float *dx, const float *dy, const float *y,
                            size_t count) {
#pragma omp parallel for simd schedule(static) if (count > ALONE)
    for (size_t i = 0; i < count; i++) dx[i] = y[i] > 0.0f ? dy[i] : 0.0f;
    return WEFT_OK;
}
