/* cufft_passes.h -- Fourier transforms of any length along one axis, in plain
 * C, for the CPU version of cuFFT. */
#ifndef WEFT_LIBRARIES_CUFFT_PASSES_H
#define WEFT_LIBRARIES_CUFFT_PASSES_H

#ifdef __cplusplus
extern "C" {
#endif

/* The factors and roots of unity for one length and one precision. */
struct weft_fft;

/* Return the plan for `n` complex numbers of floats or doubles, or NULL if
 * there is no memory. */
struct weft_fft *weft_fft_create(long n, int is_double);
void weft_fft_destroy(struct weft_fft *plan);

/* Transform each line along the middle axis of an array (outer,n,inner) of
 * complex numbers, row-major:
 *
 *     y[k] = sum over j of x[j] exp(-2 pi i j k / n), not normalised
 *
 * x: the array, which is overwritten
 * work: as many numbers
 * threads: the largest number of threads to use
 *
 * Return the address of the result, `x` or `work`, or NULL if there is no
 * memory. With u = 2^-24 (float) or 2^-53, the error of a line is at most the
 * sum over n's factors r of 2 (r + 4) sqrt(r) u, times the norm of the line's
 * transform, plus O(u^2). Source: Higham, Accuracy and Stability of Numerical
 * Algorithms, 2nd edition (2002), chapter 24, where each pass is a product by
 * sums of r terms. A factor above 61 uses Bluestein's method in double. */
void *weft_fft_run(const struct weft_fft *plan, void *x, void *work, long outer,
                   long inner, int threads);

#ifdef __cplusplus
}
#endif
#endif
