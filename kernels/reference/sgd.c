/* sgd.c -- param -= lr * grad in plain C: bound by memory. */
#include "reference.h"

int sgd_reference(float *param, const float *grad, size_t count, float lr) {
#pragma omp parallel for simd schedule(static) if (count > 1 << 15)
    for (size_t i = 0; i < count; i++) param[i] -= lr * grad[i];
    return WEFT_OK;
}
