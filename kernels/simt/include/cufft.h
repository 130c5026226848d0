/* cufft.h -- cuFFT on the CPU: plans of any length in 1, 2 and 3 dimensions.
 *
 * Names, parameters and numbers of the constants are cuFFT's
 * (docs.nvidia.com/cuda/cufft), so that the same program can use NVIDIA's
 * library on a GPU. Constants that CUDA 13 removed remain, since programs for
 * CUDA 12 use them. Callbacks, several GPUs and the other parts of cufftXt.h
 * are not supported. */
#ifndef SIMT_CUFFT_H
#define SIMT_CUFFT_H
#define _CUFFT_H_ /* programs test for this guard */
#ifdef SIMT_CELL
#error \
    "cufft.h: a cell contains only device code, and cuFFT is called by the host: write a program, and run it with weft run"
#endif
#include "cuComplex.h"
#include "library_types.h"

#define CUFFT_VER_MAJOR 12
#define CUFFT_VER_MINOR 0
#define CUFFT_VER_PATCH 0
#define CUFFT_VER_BUILD 0
#define CUFFT_VERSION \
    (CUFFT_VER_MAJOR * 1000 + CUFFT_VER_MINOR * 100 + CUFFT_VER_PATCH)
#define CUFFTAPI

typedef enum cufftResult_t {
    CUFFT_SUCCESS = 0,
    CUFFT_INVALID_PLAN = 1,
    CUFFT_ALLOC_FAILED = 2,
    CUFFT_INVALID_TYPE = 3,
    CUFFT_INVALID_VALUE = 4,
    CUFFT_INTERNAL_ERROR = 5,
    CUFFT_EXEC_FAILED = 6,
    CUFFT_SETUP_FAILED = 7,
    CUFFT_INVALID_SIZE = 8,
    CUFFT_UNALIGNED_DATA = 9,
    CUFFT_INCOMPLETE_PARAMETER_LIST = 10,
    CUFFT_INVALID_DEVICE = 11,
    CUFFT_PARSE_ERROR = 12,
    CUFFT_NO_WORKSPACE = 13,
    CUFFT_NOT_IMPLEMENTED = 14,
    CUFFT_LICENSE_ERROR = 15,
    CUFFT_NOT_SUPPORTED = 16,
    CUFFT_MISSING_DEPENDENCY = 17,
    CUFFT_NVRTC_FAILURE = 18,
    CUFFT_NVJITLINK_FAILURE = 19,
    CUFFT_NVSHMEM_FAILURE = 20
} cufftResult;

typedef enum cufftType_t {
    CUFFT_C2C = 0x29,
    CUFFT_R2C = 0x2a,
    CUFFT_C2R = 0x2c,
    CUFFT_Z2Z = 0x69,
    CUFFT_D2Z = 0x6a,
    CUFFT_Z2D = 0x6c
} cufftType;

typedef enum cufftCompatibility_t {
    CUFFT_COMPATIBILITY_FFTW_PADDING = 1
} cufftCompatibility;

#define CUFFT_COMPATIBILITY_DEFAULT CUFFT_COMPATIBILITY_FFTW_PADDING
#define CUFFT_FORWARD (-1) /* exp(-2 pi i j k / n) */
#define CUFFT_INVERSE 1
#define CUFFT_PLAN_NULL (-1)

typedef int cufftHandle;
typedef float cufftReal;
typedef double cufftDoubleReal;
typedef cuComplex cufftComplex;
typedef cuDoubleComplex cufftDoubleComplex;

#pragma GCC visibility push(default)
extern "C" {

/* Plan `batch` transforms. Real arrays have n[rank - 1] numbers in the last
 * dimension, and the transforms of real arrays only n[rank - 1] / 2 + 1, since
 * the others are their conjugates. No transform is normalised: the inverse of
 * the forward transform is the input times the number of its elements.
 *
 * CUFFT_INVALID_PLAN: no valid handle; CUFFT_INVALID_TYPE; CUFFT_INVALID_SIZE:
 * a length, or `batch`, is below 1; CUFFT_INVALID_VALUE: rank is not 1, 2 or 3,
 * n or the plan is NULL, or a stride is below 1. */
cufftResult cufftPlan1d(cufftHandle *plan, int nx, cufftType type, int batch);
cufftResult cufftPlan2d(cufftHandle *plan, int nx, int ny, cufftType type);
cufftResult cufftPlan3d(cufftHandle *plan, int nx, int ny, int nz,
                        cufftType type);

/* Plan with a layout: element (z,y,x) of transform b is at index
 *
 *     b * idist + ((z * inembed[1] + y) * inembed[2] + x) * istride
 *
 * of the input, and likewise for the output. If inembed or onembed is NULL, the
 * arrays have no gaps, except that a real array in place has rows of
 * 2 (n[rank - 1] / 2 + 1) numbers. */
cufftResult cufftPlanMany(cufftHandle *plan, int rank, int *n, int *inembed,
                          int istride, int idist, int *onembed, int ostride,
                          int odist, cufftType type, int batch);

/* Create a handle, and plan later. *workSize becomes 0, since the CPU version
 * needs no work area. */
cufftResult cufftCreate(cufftHandle *plan);
cufftResult cufftMakePlan1d(cufftHandle plan, int nx, cufftType type, int batch,
                            size_t *workSize);
cufftResult cufftMakePlan2d(cufftHandle plan, int nx, int ny, cufftType type,
                            size_t *workSize);
cufftResult cufftMakePlan3d(cufftHandle plan, int nx, int ny, int nz,
                            cufftType type, size_t *workSize);
cufftResult cufftMakePlanMany(cufftHandle plan, int rank, int *n, int *inembed,
                              int istride, int idist, int *onembed, int ostride,
                              int odist, cufftType type, int batch,
                              size_t *workSize);
cufftResult cufftMakePlanMany64(cufftHandle plan, int rank, long long *n,
                                long long *inembed, long long istride,
                                long long idist, long long *onembed,
                                long long ostride, long long odist,
                                cufftType type, long long batch,
                                size_t *workSize);
cufftResult cufftDestroy(cufftHandle plan);

cufftResult cufftEstimate1d(int nx, cufftType type, int batch,
                            size_t *workSize);
cufftResult cufftEstimate2d(int nx, int ny, cufftType type, size_t *workSize);
cufftResult cufftEstimate3d(int nx, int ny, int nz, cufftType type,
                            size_t *workSize);
cufftResult cufftGetSize(cufftHandle plan, size_t *workSize);
cufftResult cufftSetAutoAllocation(cufftHandle plan, int autoAllocate);
cufftResult cufftSetWorkArea(cufftHandle plan, void *workArea);
cufftResult cufftSetStream(cufftHandle plan, cudaStream_t stream);

/* Transform, in the order of the plan's stream. idata and odata may be equal.
 * CUFFT_INVALID_TYPE: the plan is of another type; CUFFT_INVALID_VALUE: a
 * pointer is NULL, or the direction is neither FORWARD nor INVERSE;
 * CUFFT_EXEC_FAILED: the arrays are not where a GPU could access them. */
cufftResult cufftExecC2C(cufftHandle plan, cufftComplex *idata,
                         cufftComplex *odata, int direction);
cufftResult cufftExecR2C(cufftHandle plan, cufftReal *idata,
                         cufftComplex *odata);
cufftResult cufftExecC2R(cufftHandle plan, cufftComplex *idata,
                         cufftReal *odata);
cufftResult cufftExecZ2Z(cufftHandle plan, cufftDoubleComplex *idata,
                         cufftDoubleComplex *odata, int direction);
cufftResult cufftExecD2Z(cufftHandle plan, cufftDoubleReal *idata,
                         cufftDoubleComplex *odata);
cufftResult cufftExecZ2D(cufftHandle plan, cufftDoubleComplex *idata,
                         cufftDoubleReal *odata);

cufftResult cufftGetVersion(int *version);
cufftResult cufftGetProperty(libraryPropertyType type, int *value);

} // extern "C"
#pragma GCC visibility pop
#endif
