/* fft.c -- Fourier transforms of complex rows by cuFFT, which does not divide
 * by n: a transform forward and back multiplies each number by n.
 *
 * Manual: https://docs.nvidia.com/cuda/cufft/ */
#include "vendor.h"

/* cdef: cuFFT's declarations, and ours */
enum { CUFFT_C2C = 0x29, CUFFT_FORWARD = -1, CUFFT_INVERSE = 1 };
int cufftPlan1d(int *plan, int n, int type, int batch);
int cufftExecC2C(int plan, float *in, float *out, int direction);
int cufftDestroy(int plan);

/* y (rows,n) = the transforms of the rows of x, complex64. *plan: 0 before the
 * first call. */
int fft_rows(int *plan, float *y, float *x, int n, int rows, int direction);
/* cdef: ... to here. */

int fft_rows(int *plan, float *y, float *x, int n, int rows, int direction) {
    if (!*plan) {
        int number;
        TRY(cufftPlan1d(&number, n, CUFFT_C2C, rows));
        *plan = number + 1; /* cuFFT's first plan may be number 0 */
    }
    return cufftExecC2C(*plan - 1, x, y, direction);
}
