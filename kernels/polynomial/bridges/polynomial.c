/* polynomial.c -- x + x^2 / 2 and its gradient, for the bridges to PyTorch.
 *
 * These loops need nothing from PyTorch. Every bridge from Python to C calls
 * them, so that the bridges differ only in their own cost. */
#include <stddef.h>

/* Compute y (n) from x (n). */
void polynomial(float *y, const float *x, size_t n) {
    for (size_t i = 0; i < n; i++) y[i] = x[i] + 0.5f * x[i] * x[i];
}

/* Compute dx (n) from dy (n) and x (n). */
void polynomial_backward(float *dx, const float *dy, const float *x, size_t n) {
    for (size_t i = 0; i < n; i++) dx[i] = dy[i] * (1.0f + x[i]);
}
