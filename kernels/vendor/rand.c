/* rand.c -- random numbers by cuRAND's host functions.
 *
 * Manual: https://docs.nvidia.com/cuda/curand/ */
#include "vendor.h"

/* cdef: cuRAND's declarations, and ours */
typedef struct curandGenerator_st *curandGenerator_t;
enum { XORWOW = 101, PHILOX4_32_10 = 161 };
enum { ORDER_DEFAULT = 101 };
int curandCreateGenerator(curandGenerator_t *generator, int kind);
int curandDestroyGenerator(curandGenerator_t generator);
int curandSetPseudoRandomGeneratorSeed(curandGenerator_t generator,
                                       unsigned long long seed);
int curandSetGeneratorOffset(curandGenerator_t generator,
                             unsigned long long offset);
int curandSetGeneratorOrdering(curandGenerator_t generator, int order);
int curandGenerate(curandGenerator_t generator, unsigned *out, size_t n);

/* Write n random 32-bit numbers. *plan keeps the generator, so that a later
 * call writes the numbers that follow. */
int rand_draw(void **plan, unsigned *out, size_t n, int kind,
              unsigned long long seed, unsigned long long offset, int order);
/* cdef: ... to here. */

int rand_draw(void **plan, unsigned *out, size_t n, int kind,
              unsigned long long seed, unsigned long long offset, int order) {
    if (!*plan) {
        curandGenerator_t generator;
        TRY(curandCreateGenerator(&generator, kind));
        TRY(curandSetPseudoRandomGeneratorSeed(generator, seed));
        TRY(curandSetGeneratorOffset(generator, offset));
        TRY(curandSetGeneratorOrdering(generator, order));
        *plan = generator;
    }
    return curandGenerate(*plan, out, n);
}
