/* gemm.h -- the matrix product behind the CPU versions of cuBLAS and cuBLASLt,
 * in plain C. */
#ifndef WEFT_LIBRARIES_GEMM_H
#define WEFT_LIBRARIES_GEMM_H
#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Types of elements, with the numbers of cudaDataType. */
enum gemm_type {
    GEMM_F32 = 0,
    GEMM_F64 = 1,
    GEMM_F16 = 2,
    GEMM_I8 = 3,
    GEMM_I32 = 10,
    GEMM_BF16 = 14
};

/* A matrix whose element (i, j) is at index i * row + j * column. */
struct gemm_matrix {
    void *at;
    int type; /* enum gemm_type */
    ptrdiff_t row, column;
};

/* D = f(alpha * A * B + beta * C), where A is m x k, B is k x n, and C and D
 * are m x n. If beta is 0, C is not read. If alpha is 0, A and B are not. C and
 * D may be the same matrix. */
struct gemm {
    int m, n, k;
    double alpha, beta;
    struct gemm_matrix a, b, c, d;
    int threads; /* the largest number of threads to use */
    /* f(value, i, j, data) for element (i, j), or NULL for no function. Several
     * threads may call it. */
    double (*f)(double value, int i, int j, void *data);
    void *data;
};

/* Compute D. Products of 8-bit integers are exact. Products of doubles are
 * summed in double, and all others in float: with u = 2^-53 or 2^-24, the error
 * of element (i, j) before f is at most
 *
 *     (k + 3) u (|alpha| (|A| |B|)(i, j) + |beta C(i, j)|) + O(u^2)
 *
 * plus D's own rounding. Source: Higham, Accuracy and Stability of Numerical
 * Algorithms, 2nd edition (2002), section 3.5. The result does not depend on
 * the number of threads. Return 0, or -1 if there is no memory. */
int weft_gemm(const struct gemm *g);

/* Read or write the element of a type at an index. */
double weft_load(const void *at, int type, ptrdiff_t index);
void weft_store(void *at, int type, ptrdiff_t index, double value);

/* Return the size of an element in bytes, or 0 for an unknown type. */
size_t weft_size_of(int type);

#ifdef __cplusplus
}
#endif
#endif
