/* cross_entropy.c -- softmax and its loss in plain C, a row at a time.
 *
 * After the row's maximum is subtracted, the largest exponential is exp(0) = 1.
 * So no exponential overflows, and their sum is at least 1. */
#include <math.h>

#include "reference.h"

/* Compute prob = softmax(x), and return -log of its element `target`. */
static double softmax_row(float *prob, const float *x, int64_t target,
                          int classes) {
    float most = x[0];
    for (int j = 1; j < classes; j++) most = x[j] > most ? x[j] : most;
    double sum = 0.0;
    for (int j = 0; j < classes; j++) {
        prob[j] = expf(x[j] - most);
        sum += prob[j];
    }
    const float scale = (float)(1.0 / sum);
    for (int j = 0; j < classes; j++) prob[j] *= scale;
    // This differs from log(prob): even a probability that is 0 in float has a
    // finite logarithm.
    return log(sum) - ((double)x[target] - most);
}

int cross_entropy_reference(float *loss, float *prob, const float *logits,
                            const int64_t *target, int n, int classes) {
    double sum = 0.0;
    int interrupted = 0;
#pragma omp parallel for schedule(static) reduction(+ : sum) \
    reduction(| : interrupted) if ((double)n * classes > 4096)
    for (int i = 0; i < n; i++) {
        if (interrupted || (interrupted = weft_interrupted())) continue;
        sum += softmax_row(prob + (size_t)i * classes,
                           logits + (size_t)i * classes, target[i], classes);
    }
    *loss = (float)(sum / n);
    return interrupted ? weft_fail(WEFT_EINTR, "cross_entropy: Ctrl-C")
                       : WEFT_OK;
}

int cross_entropy_reference_backward(float *dlogits, const float *dloss,
                                     const float *prob, const int64_t *target,
                                     int n, int classes) {
    const float scale = (dloss ? *dloss : 1.0f) / (float)n;
    int interrupted = 0;
#pragma omp parallel for schedule(static) \
    reduction(| : interrupted) if ((double)n * classes > 1 << 15)
    for (int i = 0; i < n; i++) {
        if (interrupted || (interrupted = weft_interrupted())) continue;
        const float *p = prob + (size_t)i * classes;
        float *d = dlogits + (size_t)i * classes;
        for (int j = 0; j < classes; j++) d[j] = p[j] * scale;
        d[target[i]] = (p[target[i]] - 1.0f) * scale;
    }
    return interrupted ? weft_fail(WEFT_EINTR, "cross_entropy: Ctrl-C")
                       : WEFT_OK;
}
