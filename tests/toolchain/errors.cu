/* errors.cu -- a CUDA call that fails, and a launch that succeeds. */
#include "common/internal.cuh"

#define EXPORTED extern "C" __attribute__((visibility("default")))

static __global__ void nothing(void) {}

EXPORTED int choose_device(int device) {
    WEFT_CUDA_TRY(cudaSetDevice(device));
    return WEFT_OK;
}

EXPORTED int launch(void) {
    nothing<<<1, 1>>>();
    WEFT_LAUNCHED(nothing);
    return WEFT_OK;
}
