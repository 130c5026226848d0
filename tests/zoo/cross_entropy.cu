/* The zoo: cross entropy with one fault in each rung; "right" has none. */
#include "common/internal.cuh"

enum fault { RIGHT, MISSING_MEAN, UNSTABLE, GRADIENT_MISSING_MEAN, WRONG_SIGN };

WEFT_RUNGS({"cross_entropy", "right", "", "fp32", WEFT_CPU | WEFT_CUDA, 0},
           {"cross_entropy", "missing_mean", "", "fp32", WEFT_CPU | WEFT_CUDA,
            0},
           {"cross_entropy", "unstable", "", "fp32", WEFT_CPU | WEFT_CUDA, 0},
           {"cross_entropy", "gradient_missing_mean", "", "fp32",
            WEFT_CPU | WEFT_CUDA, 0},
           {"cross_entropy", "wrong_sign", "", "fp32", WEFT_CPU | WEFT_CUDA, 0})

static __global__ void entropy_faulty(int fault, float *loss, float *prob,
                                      const float *logits,
                                      const int64_t *target, int n,
                                      int classes) {
    float total = 0.0f;
    for (int row = 0; row < n; row++) {
        const float *x = logits + row * classes;
        float most = x[0], sum = 0.0f;
        for (int i = 1; i < classes; i++) most = fmaxf(most, x[i]);
        if (fault == UNSTABLE) most = 0.0f;
        for (int i = 0; i < classes; i++) sum += expf(x[i] - most);
        for (int i = 0; i < classes; i++)
            prob[row * classes + i] = expf(x[i] - most) / sum;
        total += logf(sum) - (x[target[row]] - most);
    }
    *loss = fault == MISSING_MEAN ? total : total / n;
}

static __global__ void entropy_faulty_backward(int fault, float *dlogits,
                                               const float *dloss,
                                               const float *prob,
                                               const int64_t *target, int n,
                                               int classes) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n * classes) return;
    const float hot = target[i / classes] == i % classes ? 1.0f : 0.0f;
    const float dy = dloss ? *dloss : 1.0f;
    const float d = fault == WRONG_SIGN ? hot - prob[i] : prob[i] - hot;
    dlogits[i] = fault == GRADIENT_MISSING_MEAN ? d * dy : d * dy / n;
}

int weft_cross_entropy(int rung, float *loss, float *prob, const float *logits,
                       const int64_t *target, int n, int classes,
                       weft_stream stream) {
    WEFT_CHECK_RUNG(rung);
    entropy_faulty<<<1, 1, 0, weft_cuda_stream(stream)>>>(
        rung, loss, prob, logits, target, n, classes);
    WEFT_LAUNCHED(entropy_faulty);
    return WEFT_OK;
}

int weft_cross_entropy_backward(int rung, float *dlogits, const float *dloss,
                                const float *prob, const int64_t *target, int n,
                                int classes, weft_stream stream) {
    WEFT_CHECK_RUNG(rung);
    entropy_faulty_backward<<<CEIL_DIV(n * classes, 64), 64, 0,
                              weft_cuda_stream(stream)>>>(
        rung, dlogits, dloss, prob, target, n, classes);
    WEFT_LAUNCHED(entropy_faulty_backward);
    return WEFT_OK;
}
