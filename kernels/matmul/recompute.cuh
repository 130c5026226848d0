/* recompute.cuh -- elements that three products in tf32 cannot tell.
 *
 * x is split into hi + lo, both tf32. Of an infinite x, or of one so large that
 * rounding makes hi infinite, lo is the opposite infinity or NaN: what should
 * be infinite, or a number, comes out as NaN. No other NaN hides among the
 * rest: an element that is none needs no second look. */
#ifndef WEFT_MATMUL_REDO_CUH
#define WEFT_MATMUL_REDO_CUH
#include "common/internal.cuh"

/* The sum of k products in float, one after another: of a[0], a[step_a], ...
 * and b[0], b[step_b], ... Not inlined: it is rare, and its loop would take
 * registers from the one that counts. */
static __device__ __attribute__((noinline)) float
redo(const float *a, size_t step_a, const float *b, size_t step_b, int k) {
    float sum = 0.0f;
    for (int i = 0; i < k; i++) sum += a[i * step_a] * b[i * step_b];
    return sum;
}

#endif
