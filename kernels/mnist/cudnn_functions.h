/* cudnn_functions.h -- the functions of cuDNN and cuBLAS that cudnn.cu calls.
 * They are looked up in the libraries when a model is created; cudnn.cu
 * explains why. */
#ifndef WEFT_CUDNN_FUNCTIONS_H
#define WEFT_CUDNN_FUNCTIONS_H
#include <cublas_v2.h>
#include <cudnn.h>
#include <dlfcn.h>

#include "common/internal.cuh"

#define TEXT_OF(number) #number
#define TEXT(macro) TEXT_OF(macro)

/* Apply X(name) to each function. */
// clang-format off
#define CUDNN_FUNCTIONS(X) \
    X(cudnnCreate) X(cudnnDestroy) X(cudnnSetStream)                      \
    X(cudnnGetErrorString) X(cudnnCreateTensorDescriptor)                 \
    X(cudnnDestroyTensorDescriptor) X(cudnnSetTensor4dDescriptor)         \
    X(cudnnCreateFilterDescriptor) X(cudnnDestroyFilterDescriptor)        \
    X(cudnnSetFilter4dDescriptor) X(cudnnCreateConvolutionDescriptor)     \
    X(cudnnDestroyConvolutionDescriptor)                                  \
    X(cudnnSetConvolution2dDescriptor) X(cudnnSetConvolutionMathType)     \
    X(cudnnGetConvolutionForwardAlgorithm_v7)                             \
    X(cudnnGetConvolutionBackwardDataAlgorithm_v7)                        \
    X(cudnnGetConvolutionBackwardFilterAlgorithm_v7)                      \
    X(cudnnFindConvolutionForwardAlgorithmEx)                             \
    X(cudnnFindConvolutionBackwardDataAlgorithmEx)                        \
    X(cudnnFindConvolutionBackwardFilterAlgorithmEx)                      \
    X(cudnnConvolutionForward) X(cudnnConvolutionBackwardData)            \
    X(cudnnConvolutionBackwardFilter) X(cudnnSetTensor)                   \
    X(cudnnAddTensor) X(cudnnBatchNormalizationForwardTraining)           \
    X(cudnnBatchNormalizationBackward) X(cudnnCreateActivationDescriptor) \
    X(cudnnDestroyActivationDescriptor) X(cudnnSetActivationDescriptor)   \
    X(cudnnActivationForward) X(cudnnActivationBackward)                  \
    X(cudnnCreatePoolingDescriptor) X(cudnnDestroyPoolingDescriptor)      \
    X(cudnnSetPooling2dDescriptor) X(cudnnPoolingForward)                 \
    X(cudnnPoolingBackward)
#define CUBLAS_FUNCTIONS(X) \
    X(cublasCreate_v2) X(cublasDestroy_v2) X(cublasSetStream_v2)    \
    X(cublasSetMathMode) X(cublasSgemm_v2) X(cublasSgemv_v2)        \
    X(cublasGetStatusString)
// clang-format on

#define POINTER(name) decltype(&::name) name;
struct functions {
    CUDNN_FUNCTIONS(POINTER)
    CUBLAS_FUNCTIONS(POINTER)
};
#undef POINTER

static inline int open_library(void **library, const char *file) {
    *library = dlopen(file, RTLD_LAZY | RTLD_LOCAL); // never closed
    WEFT_REQUIRE(*library, "mnist rung 'cudnn': %s", dlerror());
    return WEFT_OK;
}

/* Fill `f`. Return a weft_status; an error message contains the missing library
 * or function. */
static inline int find_functions(struct functions *f) {
    void *cudnn, *cublas;
    WEFT_TRY(open_library(&cudnn, "libcudnn.so." TEXT(CUDNN_MAJOR)));
    WEFT_TRY(open_library(&cublas, "libcublas.so." TEXT(CUBLAS_VER_MAJOR)));
#define FIND(library, name)                             \
    f->name = (decltype(f->name))dlsym(library, #name); \
    WEFT_REQUIRE(f->name, "mnist rung 'cudnn': no %s in its library", #name);
#define FIND_CUDNN(name) FIND(cudnn, name)
#define FIND_CUBLAS(name) FIND(cublas, name)
    CUDNN_FUNCTIONS(FIND_CUDNN)
    CUBLAS_FUNCTIONS(FIND_CUBLAS)
#undef FIND_CUBLAS
#undef FIND_CUDNN
#undef FIND
    return WEFT_OK;
}

#endif
