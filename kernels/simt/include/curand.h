/* curand.h -- cuRAND's host interface on the CPU: generators XORWOW and
 * Philox4_32_10, whose numbers equal cuRAND's for the same seed and offset.
 *
 * Names, parameters and numbers of the constants are cuRAND's
 * (docs.nvidia.com/cuda/curand), so that the same program can use NVIDIA's
 * library on a GPU. libraries/curand.cpp defines the functions and the order of
 * the numbers. The other generators and the ordering SEEDED are not
 * supported. */
#ifndef SIMT_CURAND_H
#define SIMT_CURAND_H
#define CURAND_H_ /* programs test for this guard */
#ifdef SIMT_CELL
#error \
    "curand.h: a cell contains only device code, and cuRAND's host interface is called by the host: write a program, and run it with weft run"
#endif
#include "cuda_runtime.h"
#include "library_types.h"

#define CURAND_VER_MAJOR 10
#define CURAND_VER_MINOR 4
#define CURAND_VER_PATCH 0
#define CURAND_VER_BUILD 0
#define CURAND_VERSION \
    (CURAND_VER_MAJOR * 1000 + CURAND_VER_MINOR * 100 + CURAND_VER_PATCH)
#define CURANDAPI

typedef enum curandStatus {
    CURAND_STATUS_SUCCESS = 0,
    CURAND_STATUS_VERSION_MISMATCH = 100,
    CURAND_STATUS_NOT_INITIALIZED = 101, /* an invalid generator */
    CURAND_STATUS_ALLOCATION_FAILED = 102,
    CURAND_STATUS_TYPE_ERROR = 103, /* wrong type of generator */
    CURAND_STATUS_OUT_OF_RANGE = 104,
    CURAND_STATUS_LENGTH_NOT_MULTIPLE = 105,
    CURAND_STATUS_DOUBLE_PRECISION_REQUIRED = 106,
    CURAND_STATUS_LAUNCH_FAILURE = 201,
    CURAND_STATUS_PREEXISTING_FAILURE = 202,
    CURAND_STATUS_INITIALIZATION_FAILED = 203,
    CURAND_STATUS_ARCH_MISMATCH = 204,
    CURAND_STATUS_INTERNAL_ERROR = 999
} curandStatus_t;

typedef enum curandRngType {
    CURAND_RNG_TEST = 0,
    CURAND_RNG_PSEUDO_DEFAULT = 100, /* XORWOW */
    CURAND_RNG_PSEUDO_XORWOW = 101,
    CURAND_RNG_PSEUDO_MRG32K3A = 121,
    CURAND_RNG_PSEUDO_MTGP32 = 141,
    CURAND_RNG_PSEUDO_MT19937 = 142,
    CURAND_RNG_PSEUDO_PHILOX4_32_10 = 161,
    CURAND_RNG_QUASI_DEFAULT = 200,
    CURAND_RNG_QUASI_SOBOL32 = 201,
    CURAND_RNG_QUASI_SCRAMBLED_SOBOL32 = 202,
    CURAND_RNG_QUASI_SOBOL64 = 203,
    CURAND_RNG_QUASI_SCRAMBLED_SOBOL64 = 204
} curandRngType_t;

typedef enum curandOrdering {
    CURAND_ORDERING_PSEUDO_BEST = 100,
    CURAND_ORDERING_PSEUDO_DEFAULT = 101,
    CURAND_ORDERING_PSEUDO_SEEDED = 102,
    CURAND_ORDERING_PSEUDO_LEGACY = 103,
    CURAND_ORDERING_PSEUDO_DYNAMIC = 104,
    CURAND_ORDERING_QUASI_DEFAULT = 201
} curandOrdering_t;

typedef struct curandGenerator_st *curandGenerator_t;

#pragma GCC visibility push(default)
extern "C" {

/* Create a generator with seed 0 and offset 0. curandCreateGenerator()'s
 * generator writes device memory in the order of its stream;
 * curandCreateGeneratorHost()'s writes host memory at once.
 * CURAND_STATUS_TYPE_ERROR: the type is unknown or, with a line on stderr, not
 * supported. */
curandStatus_t curandCreateGenerator(curandGenerator_t *generator,
                                     curandRngType_t type);
curandStatus_t curandCreateGeneratorHost(curandGenerator_t *generator,
                                         curandRngType_t type);
curandStatus_t curandDestroyGenerator(curandGenerator_t generator);
curandStatus_t curandGetVersion(int *version);
curandStatus_t curandGetProperty(libraryPropertyType type, int *value);
curandStatus_t curandSetStream(curandGenerator_t generator,
                               cudaStream_t stream);

/* Set the seed. If numbers have been generated before, the position in the
 * sequence stays the same; cuRAND's own behaviour is not documented. */
curandStatus_t curandSetPseudoRandomGeneratorSeed(curandGenerator_t generator,
                                                  unsigned long long seed);
/* Move to the position that follows `offset` numbers of 32 bits. */
curandStatus_t curandSetGeneratorOffset(curandGenerator_t generator,
                                        unsigned long long offset);
/* The orders BEST, DEFAULT, LEGACY and, for device memory, DYNAMIC are equal.
 * CURAND_STATUS_OUT_OF_RANGE: any other order. */
curandStatus_t curandSetGeneratorOrdering(curandGenerator_t generator,
                                          curandOrdering_t order);
/* Prepare the states. Otherwise, the first call that generates numbers prepares
 * them. */
curandStatus_t curandGenerateSeeds(curandGenerator_t generator);

/* Write `num` or `n` numbers: 32 random bits; uniform numbers greater than 0
 * and at most 1; normal numbers; exponentials of normal numbers; numbers of a
 * Poisson distribution (their distribution is cuRAND's, the numbers are not).
 * CURAND_STATUS_LENGTH_NOT_MULTIPLE: XORWOW makes normal numbers in pairs, so
 * n must be even. CURAND_STATUS_OUT_OF_RANGE: lambda is not positive. */
curandStatus_t curandGenerate(curandGenerator_t generator, unsigned *output,
                              size_t num);
curandStatus_t curandGenerateUniform(curandGenerator_t generator, float *output,
                                     size_t num);
curandStatus_t curandGenerateUniformDouble(curandGenerator_t generator,
                                           double *output, size_t num);
curandStatus_t curandGenerateNormal(curandGenerator_t generator, float *output,
                                    size_t n, float mean, float stddev);
curandStatus_t curandGenerateNormalDouble(curandGenerator_t generator,
                                          double *output, size_t n, double mean,
                                          double stddev);
curandStatus_t curandGenerateLogNormal(curandGenerator_t generator,
                                       float *output, size_t n, float mean,
                                       float stddev);
curandStatus_t curandGenerateLogNormalDouble(curandGenerator_t generator,
                                             double *output, size_t n,
                                             double mean, double stddev);
curandStatus_t curandGeneratePoisson(curandGenerator_t generator,
                                     unsigned *output, size_t n, double lambda);

} // extern "C"
#pragma GCC visibility pop
#endif
