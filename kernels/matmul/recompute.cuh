/* recompute.cuh -- elements that three products in tf32 cannot compute.
 *
 * x is split into hi + lo, both tf32. If x is infinite, or so large that
 * rounding makes hi infinite, lo is the opposite infinity or NaN. The result
 * then becomes NaN, although it should be infinite or finite. An element that
 * is not NaN is correct and needs no check. */
#ifndef WEFT_MATMUL_REDO_CUH
#define WEFT_MATMUL_REDO_CUH
#include "common/internal.cuh"

/* Return the sum of k products, added in order in float: those of a[0],
 * a[step_a], ... and b[0], b[step_b], ... The function is not inlined, since it
 * is rarely called and its loop would take registers from the main loop. */
static __device__ __attribute__((noinline)) float
redo(const float *a, size_t step_a, const float *b, size_t step_b, int k) {
    float sum = 0.0f;
    for (int i = 0; i < k; i++) sum += a[i * step_a] * b[i * step_b];
    return sum;
}

#endif
