/* cross_entropy.c -- softmax and its loss in plain C.
 *
 * The maximum and the sum of a row, which its softmax needs, also give its
 * loss. The losses are added in their order, so the number of threads does not
 * affect the bits. */
#include "softmax.h"

int cross_entropy_reference(float *loss, float *prob, const float *logits,
                            const int64_t *target, int n, int classes) {
    const size_t bytes = n * sizeof(double);
    double *const losses = malloc(bytes);
    if (!losses)
        return weft_fail(WEFT_ENOMEM, "cross_entropy: out of memory: %zu bytes",
                         bytes);
    struct soften call = {.rows = make_rows("cross_entropy", n, classes),
                          .y = prob,
                          .x = logits,
                          .losses = losses,
                          .target = target};
    const int status = soften_rows(&call);
    double sum = 0.0;
    for (int i = 0; i < n; i++) sum += losses[i];
    *loss = (float)(sum / n);
    free(losses);
    return status;
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
