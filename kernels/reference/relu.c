/* relu.c -- max(x, 0) in plain C. Memory is the limit, so one vectorised pass
 * suffices. */
#include "reference.h"

/* Elements processed between interrupt checks: 64 MiB per array. */
enum { CHUNK = 1 << 24 };

/* Below this number of elements, a second thread costs more than it saves. */
enum { ALONE = 1 << 15 };

int relu_reference(float *y, const float *x, size_t count) {
    for (size_t start = 0; start < count; start += CHUNK) {
        const size_t end = count - start < CHUNK ? count : start + CHUNK;
        if (weft_interrupted()) return weft_fail(WEFT_EINTR, "relu: Ctrl-C");
#pragma omp parallel for simd schedule(static) if (count > ALONE)
        // A comparison with a NaN is false, so a NaN stays a NaN.
        for (size_t i = start; i < end; i++) y[i] = x[i] < 0.0f ? 0.0f : x[i];
    }
    return WEFT_OK;
}

int relu_reference_backward(float *dx, const float *dy, const float *y,
                            size_t count) {
    for (size_t start = 0; start < count; start += CHUNK) {
        const size_t end = count - start < CHUNK ? count : start + CHUNK;
        if (weft_interrupted()) return weft_fail(WEFT_EINTR, "relu: Ctrl-C");
#pragma omp parallel for simd schedule(static) if (count > ALONE)
        for (size_t i = start; i < end; i++) dx[i] = y[i] > 0.0f ? dy[i] : 0.0f;
    }
    return WEFT_OK;
}
