/* sgd.c -- param -= lr * grad in plain C, limited by memory. */
#include "reference.h"

/* Elements processed between interrupt checks: 64 MiB per array. */
enum { CHUNK = 1 << 24 };

/* Below this number of elements, a second thread costs more than it saves. */
enum { ALONE = 1 << 15 };

int sgd_reference(float *param, const float *grad, size_t count, float lr) {
    for (size_t start = 0; start < count; start += CHUNK) {
        const size_t end = count - start < CHUNK ? count : start + CHUNK;
        if (weft_interrupted()) return weft_fail(WEFT_EINTR, "sgd: Ctrl-C");
#pragma omp parallel for simd schedule(static) if (count > ALONE)
        for (size_t i = start; i < end; i++) param[i] -= lr * grad[i];
    }
    return WEFT_OK;
}
