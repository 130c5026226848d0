/* cuda_missing.h -- functions that have no meaning on a CPU. A call of such a
 * function is a compile error that gives the reason, at the line of the
 * call. */
#ifndef SIMT_CUDA_MISSING_H
#define SIMT_CUDA_MISSING_H

#define SIMT_MISSING(name, what)                                           \
    template <class... Any>                                                \
    __attribute__((                                                        \
        error(#name "(): " what " not simulated on the CPU"))) cudaError_t \
    name(Any...);

SIMT_MISSING(cudaMallocArray, "CUDA arrays and textures are")
SIMT_MISSING(cudaMalloc3DArray, "CUDA arrays and textures are")
SIMT_MISSING(cudaMallocMipmappedArray, "CUDA arrays and textures are")
SIMT_MISSING(cudaFreeArray, "CUDA arrays and textures are")
SIMT_MISSING(cudaMemcpyToArray, "CUDA arrays and textures are")
SIMT_MISSING(cudaMemcpyFromArray, "CUDA arrays and textures are")
SIMT_MISSING(cudaMemcpy2DToArray, "CUDA arrays and textures are")
SIMT_MISSING(cudaMemcpy2DFromArray, "CUDA arrays and textures are")
SIMT_MISSING(cudaMemcpy2DToArrayAsync, "CUDA arrays and textures are")
SIMT_MISSING(cudaCreateChannelDesc, "CUDA arrays and textures are")
SIMT_MISSING(cudaCreateTextureObject, "textures are")
SIMT_MISSING(cudaDestroyTextureObject, "textures are")
SIMT_MISSING(cudaBindTexture, "textures are")
SIMT_MISSING(cudaBindTexture2D, "textures are")
SIMT_MISSING(cudaBindTextureToArray, "textures are")
SIMT_MISSING(cudaUnbindTexture, "textures are")
SIMT_MISSING(cudaCreateSurfaceObject, "surfaces are")
SIMT_MISSING(cudaDestroySurfaceObject, "surfaces are")
SIMT_MISSING(cudaIpcGetMemHandle, "memory shared between processes is")
SIMT_MISSING(cudaIpcOpenMemHandle, "memory shared between processes is")
SIMT_MISSING(cudaIpcCloseMemHandle, "memory shared between processes is")
SIMT_MISSING(cudaIpcGetEventHandle, "events shared between processes are")
SIMT_MISSING(cudaIpcOpenEventHandle, "events shared between processes are")
SIMT_MISSING(cudaGraphicsGLRegisterBuffer, "graphics interoperation is")
SIMT_MISSING(cudaGraphicsGLRegisterImage, "graphics interoperation is")
SIMT_MISSING(cudaGraphicsMapResources, "graphics interoperation is")
SIMT_MISSING(cudaGraphicsUnmapResources, "graphics interoperation is")
SIMT_MISSING(cudaGraphicsUnregisterResource, "graphics interoperation is")
SIMT_MISSING(cudaGraphicsResourceGetMappedPointer, "graphics interoperation is")
SIMT_MISSING(cudaGLSetGLDevice, "graphics interoperation is")
SIMT_MISSING(cudaImportExternalMemory, "memory of other interfaces is")
SIMT_MISSING(cudaImportExternalSemaphore, "semaphores of other interfaces are")
SIMT_MISSING(cudaGraphAddNode, "nodes by cudaGraphNodeParams are")
SIMT_MISSING(cudaGraphConditionalHandleCreate, "conditional nodes are")
SIMT_MISSING(cudaGetDriverEntryPoint, "the driver API is")
SIMT_MISSING(cudaLaunchCooperativeKernelMultiDevice, "several devices are")
SIMT_MISSING(cudaOccupancyMaxActiveClusters, "thread block clusters are")
SIMT_MISSING(cudaOccupancyMaxPotentialClusterSize, "thread block clusters are")
SIMT_MISSING(cudaGraphSetConditional, "conditional nodes are")
SIMT_MISSING(cudaMemPoolExportPointer, "memory shared between processes is")
SIMT_MISSING(cudaMemPoolImportPointer, "memory shared between processes is")
#undef SIMT_MISSING

/* Make every use of a type a compile error that gives the reason, at the line
 * of the use. */
#define SIMT_MISSING(name, what)    \
    typedef struct SimtMissing name \
        __attribute__((unavailable(what " not simulated on the CPU")));

SIMT_MISSING(cudaIpcMemHandle_t, "memory shared between processes is")
SIMT_MISSING(cudaIpcEventHandle_t, "events shared between processes are")
SIMT_MISSING(cudaMemPoolPtrExportData, "memory shared between processes is")
SIMT_MISSING(cudaGraphConditionalHandle, "conditional nodes are")
SIMT_MISSING(cudaGraphNodeParams, "nodes by cudaGraphNodeParams are")
SIMT_MISSING(cudaChannelFormatDesc, "CUDA arrays and textures are")
SIMT_MISSING(cudaMipmappedArray_t, "CUDA arrays and textures are")
SIMT_MISSING(cudaResourceDesc, "textures are")
SIMT_MISSING(cudaTextureDesc, "textures are")
SIMT_MISSING(cudaTextureObject_t, "textures are")
SIMT_MISSING(cudaSurfaceObject_t, "surfaces are")
SIMT_MISSING(cudaExternalMemory_t, "memory of other interfaces is")
#undef SIMT_MISSING
#endif
