/* linear.c -- y = x @ weight^T + bias in plain C: the matrix product of
 * matmul.c. */
#include "gemm.h"
#include "reference.h"

int linear_reference(float *y, const float *x, const float *weight,
                     const float *bias, int n, int in, int out) {
    const struct weft_matmul_options options = {
        .trans_b = 1, .alpha = 1.0f, .beta = bias ? 1.0f : 0.0f};
    if (bias) // the product is added to the bias
        for (int i = 0; i < n; i++)
            memcpy(y + (size_t)i * out, bias, out * sizeof(float));
    return matmul_reference(y, x, weight, n, out, in, &options);
}

/* Compute dbias: sum the columns of dy in double, a few vectors of them at a
 * time. */
static void backward_bias(float *dbias, const float *dy, int n, int out) {
    enum { WIDTH = 64 };
#pragma omp parallel for schedule(static) if ((double)n * out > 1e5)
    for (int j0 = 0; j0 < out; j0 += WIDTH) {
        const int width = min_int(WIDTH, out - j0);
        double sum[WIDTH] = {0};
        for (int i = 0; i < n; i++)
            for (int j = 0; j < width; j++)
                sum[j] += dy[(size_t)i * out + j0 + j];
        for (int j = 0; j < width; j++) dbias[j0 + j] = (float)sum[j];
    }
}

int linear_reference_backward(float *dx, float *dweight, float *dbias,
                              const float *dy, const float *x,
                              const float *weight, int n, int in, int out) {
    const struct weft_matmul_options trans_a = {.trans_a = 1, .alpha = 1.0f};
    int status = WEFT_OK;
    if (dbias) backward_bias(dbias, dy, n, out);
    if (dx) status = matmul_reference(dx, dy, weight, n, in, out, NULL);
    if (!status && dweight)
        status = matmul_reference(dweight, dy, x, out, in, n, &trans_a);
    return status;
}
