/* cuda_device.h -- the single device: its properties, attributes and limits.
 *
 * Its name is "SIMT on <the CPU's name>". It has the limits of an sm_90, and
 * its multiprocessors are the worker threads. Sizes of caches and buses are
 * those of the machine if it reports them. Textures and surfaces have size
 * 0. */
#ifndef SIMT_CUDA_DEVICE_H
#define SIMT_CUDA_DEVICE_H
#include "driver_types.h"
#pragma GCC visibility push(default)

cudaError_t cudaGetDeviceCount(int *count);
cudaError_t cudaGetDevice(int *device);
cudaError_t cudaSetDevice(int device);
cudaError_t cudaInitDevice(int device, unsigned device_flags, unsigned flags);
cudaError_t cudaSetValidDevices(int *devices, int count);
cudaError_t cudaChooseDevice(int *device, const struct cudaDeviceProp *prop);
cudaError_t cudaGetDeviceProperties(struct cudaDeviceProp *prop, int device);
cudaError_t cudaDeviceGetAttribute(int *value, enum cudaDeviceAttr attribute,
                                   int device);
cudaError_t cudaDriverGetVersion(int *version);
cudaError_t cudaRuntimeGetVersion(int *version);

cudaError_t cudaDeviceSynchronize(void);

/* Free all device memory, as on a GPU, and discard all errors. */
cudaError_t cudaDeviceReset(void);

cudaError_t cudaSetDeviceFlags(unsigned flags);
cudaError_t cudaGetDeviceFlags(unsigned *flags);

/* cudaLimitMallocHeapSize limits the memory in bytes that kernels may hold from
 * malloc() and new. The other limits are stored and returned, but have no
 * effect. */
cudaError_t cudaDeviceSetLimit(enum cudaLimit limit, size_t value);
cudaError_t cudaDeviceGetLimit(size_t *value, enum cudaLimit limit);
cudaError_t cudaDeviceSetCacheConfig(enum cudaFuncCache config);
cudaError_t cudaDeviceGetCacheConfig(enum cudaFuncCache *config);
cudaError_t cudaDeviceSetSharedMemConfig(enum cudaSharedMemConfig config);
cudaError_t cudaDeviceGetSharedMemConfig(enum cudaSharedMemConfig *config);
cudaError_t cudaCtxResetPersistingL2Cache(void);

cudaError_t cudaDeviceCanAccessPeer(int *can, int device, int peer);
cudaError_t cudaDeviceEnablePeerAccess(int peer, unsigned flags);
cudaError_t cudaDeviceDisablePeerAccess(int peer);
cudaError_t cudaDeviceGetP2PAttribute(int *value,
                                      enum cudaDeviceP2PAttr attribute,
                                      int device, int peer);
cudaError_t cudaDeviceGetPCIBusId(char *id, int size, int device);
cudaError_t cudaDeviceGetByPCIBusId(int *device, const char *id);

cudaError_t cudaProfilerStart(void);
cudaError_t cudaProfilerStop(void);

#pragma GCC visibility pop

/* The following names have been removed in CUDA 13. */
static inline cudaError_t cudaThreadSynchronize(void) {
    return cudaDeviceSynchronize();
}
static inline cudaError_t cudaThreadExit(void) { return cudaDeviceReset(); }
#endif
