/* cuda_memory.h -- device memory, which is the host's.
 *
 * Fresh memory holds 0xff (NaN, -1), since a GPU does not zero it, either.
 * Managed memory is 0, since programs have come to rely on that.
 *
 * Each allocation ends at an inaccessible guard, except for a gap that its
 * 256-byte alignment may leave. A kernel that touches the guard faults. A
 * kernel that writes into the gap is reported on stderr. This happens when the
 * host next waits for the device, when the memory is freed, or when the program
 * ends. The program continues as it would on a GPU, but the exit status of a
 * whole program is then nonzero. Freed memory faults when it is used. */
#ifndef SIMT_CUDA_MEMORY_H
#define SIMT_CUDA_MEMORY_H
#include "driver_types.h"
#pragma GCC visibility push(default)

/* The memory is 256-byte aligned. A size above the free memory gives
 * cudaErrorMemoryAllocation. */
cudaError_t cudaMalloc(void **pointer, size_t size);
cudaError_t cudaMallocManaged(void **pointer, size_t size,
                              unsigned flags = cudaMemAttachGlobal);
cudaError_t cudaMallocHost(void **pointer, size_t size, unsigned flags = 0);
cudaError_t cudaHostAlloc(void **pointer, size_t size, unsigned flags);
cudaError_t cudaMallocPitch(void **pointer, size_t *pitch, size_t width,
                            size_t height);
cudaError_t cudaMalloc3D(struct cudaPitchedPtr *pointer,
                         struct cudaExtent extent);
cudaError_t cudaFree(void *pointer);
cudaError_t cudaFreeHost(void *pointer);

cudaError_t cudaHostRegister(void *pointer, size_t size, unsigned flags);
cudaError_t cudaHostUnregister(void *pointer);
cudaError_t cudaHostGetDevicePointer(void **device, void *host, unsigned flags);
cudaError_t cudaHostGetFlags(unsigned *flags, void *host);

cudaError_t cudaMemGetInfo(size_t *free, size_t *total);
cudaError_t cudaPointerGetAttributes(struct cudaPointerAttributes *attributes,
                                     const void *pointer);

/* Pools are accepted, but all of them use the same memory. */
cudaError_t cudaMallocAsync(void **pointer, size_t size, cudaStream_t stream);
cudaError_t cudaFreeAsync(void *pointer, cudaStream_t stream);
cudaError_t cudaMallocFromPoolAsync(void **pointer, size_t size,
                                    cudaMemPool_t pool, cudaStream_t stream);
cudaError_t cudaMemPoolCreate(cudaMemPool_t *pool,
                              const struct cudaMemPoolProps *props);
cudaError_t cudaMemPoolDestroy(cudaMemPool_t pool);
cudaError_t cudaMemPoolSetAttribute(cudaMemPool_t pool,
                                    enum cudaMemPoolAttr attribute,
                                    void *value);
cudaError_t cudaMemPoolGetAttribute(cudaMemPool_t pool,
                                    enum cudaMemPoolAttr attribute,
                                    void *value);
cudaError_t cudaMemPoolTrimTo(cudaMemPool_t pool, size_t keep);
cudaError_t cudaMemPoolSetAccess(cudaMemPool_t pool,
                                 const struct cudaMemAccessDesc *access,
                                 size_t count);
cudaError_t cudaDeviceGetDefaultMemPool(cudaMemPool_t *pool, int device);
cudaError_t cudaDeviceGetMemPool(cudaMemPool_t *pool, int device);
cudaError_t cudaDeviceSetMemPool(int device, cudaMemPool_t pool);

/* A copy that begins or ends outside an allocation, or whose kind specifies the
 * host for device memory, gives cudaErrorInvalidValue, as on a GPU. */
cudaError_t cudaMemcpy(void *to, const void *from, size_t size,
                       enum cudaMemcpyKind kind);
cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t size,
                            enum cudaMemcpyKind kind, cudaStream_t stream = 0);
cudaError_t cudaMemcpy2D(void *to, size_t to_pitch, const void *from,
                         size_t from_pitch, size_t width, size_t height,
                         enum cudaMemcpyKind kind);
cudaError_t cudaMemcpy2DAsync(void *to, size_t to_pitch, const void *from,
                              size_t from_pitch, size_t width, size_t height,
                              enum cudaMemcpyKind kind,
                              cudaStream_t stream = 0);
cudaError_t cudaMemcpy3D(const struct cudaMemcpy3DParms *parms);
cudaError_t cudaMemcpy3DAsync(const struct cudaMemcpy3DParms *parms,
                              cudaStream_t stream = 0);
cudaError_t cudaMemcpyPeer(void *to, int to_device, const void *from,
                           int from_device, size_t size);
cudaError_t cudaMemcpyPeerAsync(void *to, int to_device, const void *from,
                                int from_device, size_t size,
                                cudaStream_t stream = 0);
cudaError_t cudaMemcpy3DPeer(const struct cudaMemcpy3DPeerParms *parms);

cudaError_t cudaMemset(void *to, int byte, size_t size);
cudaError_t cudaMemsetAsync(void *to, int byte, size_t size,
                            cudaStream_t stream = 0);
cudaError_t cudaMemset2D(void *to, size_t pitch, int byte, size_t width,
                         size_t height);
cudaError_t cudaMemset2DAsync(void *to, size_t pitch, int byte, size_t width,
                              size_t height, cudaStream_t stream = 0);
cudaError_t cudaMemset3D(struct cudaPitchedPtr to, int byte,
                         struct cudaExtent extent);
cudaError_t cudaMemset3DAsync(struct cudaPitchedPtr to, int byte,
                              struct cudaExtent extent,
                              cudaStream_t stream = 0);

/* Hints are checked, but have no other effect. They are declared as in CUDA 12
 * and as in CUDA 13. */
cudaError_t cudaMemPrefetchAsync(const void *pointer, size_t size,
                                 struct cudaMemLocation location,
                                 unsigned flags, cudaStream_t stream = 0);
cudaError_t cudaMemPrefetchAsync(const void *pointer, size_t size, int device,
                                 cudaStream_t stream = 0);
cudaError_t cudaMemAdvise(const void *pointer, size_t size,
                          enum cudaMemoryAdvise advice,
                          struct cudaMemLocation location);
cudaError_t cudaMemAdvise(const void *pointer, size_t size,
                          enum cudaMemoryAdvise advice, int device);
cudaError_t cudaMemRangeGetAttribute(void *value, size_t value_size,
                                     enum cudaMemRangeAttribute attribute,
                                     const void *pointer, size_t size);
cudaError_t cudaStreamAttachMemAsync(cudaStream_t stream, void *pointer,
                                     size_t size = 0,
                                     unsigned flags = cudaMemAttachSingle);

namespace simt {
/* Copy `size` bytes into or out of a variable of `whole` bytes, `offset` bytes
 * after its start. A copy on a stream may be captured. */
cudaError_t copy_to_symbol(void *symbol, size_t whole, const void *from,
                           size_t size, size_t offset, enum cudaMemcpyKind kind,
                           bool async, cudaStream_t stream);
cudaError_t copy_from_symbol(void *to, const void *symbol, size_t whole,
                             size_t size, size_t offset,
                             enum cudaMemcpyKind kind, bool async,
                             cudaStream_t stream);
} // namespace simt

/* Check all red zones now. Print a line on stderr for each allocation that was
 * written past its end since its last check, and return their number. */
extern "C" int simt_check_memory(void);

/* Set how copies are checked where the kind specifies the device for memory
 * that is neither a variable nor from cudaMalloc() or a similar function.
 * 1: such a copy gives cudaErrorInvalidValue, as on a GPU. 0, the default: it
 * succeeds, since the memory may be an array that other code gives kernels. */
extern "C" void simt_set_strict(int strict);

#pragma GCC visibility pop

static inline struct cudaPitchedPtr
make_cudaPitchedPtr(void *p, size_t pitch, size_t xsize, size_t ysize) {
    return {p, pitch, xsize, ysize};
}
static inline struct cudaPos make_cudaPos(size_t x, size_t y, size_t z) {
    return {x, y, z};
}
static inline struct cudaExtent make_cudaExtent(size_t width, size_t height,
                                                size_t depth) {
    return {width, height, depth};
}

/* ---- typed pointers, as nvcc takes them --------------------------------- */

template <class T> cudaError_t cudaMalloc(T **pointer, size_t size) {
    return cudaMalloc((void **)pointer, size);
}
template <class T>
cudaError_t cudaMallocManaged(T **pointer, size_t size,
                              unsigned flags = cudaMemAttachGlobal) {
    return cudaMallocManaged((void **)pointer, size, flags);
}
template <class T>
cudaError_t cudaMallocHost(T **pointer, size_t size, unsigned flags = 0) {
    return cudaMallocHost((void **)pointer, size, flags);
}
template <class T>
cudaError_t cudaHostAlloc(T **pointer, size_t size, unsigned flags) {
    return cudaHostAlloc((void **)pointer, size, flags);
}
template <class T>
cudaError_t cudaMallocPitch(T **pointer, size_t *pitch, size_t width,
                            size_t height) {
    return cudaMallocPitch((void **)pointer, pitch, width, height);
}
template <class T>
cudaError_t cudaHostGetDevicePointer(T **device, void *host, unsigned flags) {
    return cudaHostGetDevicePointer((void **)device, host, flags);
}
template <class T>
cudaError_t cudaMallocAsync(T **pointer, size_t size, cudaStream_t stream) {
    return cudaMallocAsync((void **)pointer, size, stream);
}
template <class T>
cudaError_t cudaMallocAsync(T **pointer, size_t size, cudaMemPool_t pool,
                            cudaStream_t stream) {
    return cudaMallocFromPoolAsync((void **)pointer, size, pool, stream);
}
template <class T>
cudaError_t cudaMallocFromPoolAsync(T **pointer, size_t size,
                                    cudaMemPool_t pool, cudaStream_t stream) {
    return cudaMallocFromPoolAsync((void **)pointer, size, pool, stream);
}
template <class T>
cudaError_t cudaStreamAttachMemAsync(cudaStream_t stream, T *pointer,
                                     size_t size = 0,
                                     unsigned flags = cudaMemAttachSingle) {
    return cudaStreamAttachMemAsync(stream, (void *)pointer, size, flags);
}

/* ---- symbols: __constant__ and __device__ variables are ordinary ones ---- */

namespace simt {
template <class T> struct SizeOf {
    static constexpr size_t bytes = sizeof(T);
};
// An extern array, whose size is known only in another file.
template <class T> struct SizeOf<T[]> {
    static constexpr size_t bytes = (size_t)-1;
};
template <class T> void *address_of(const T &symbol) {
    return (void *)__builtin_addressof(symbol);
}
} // namespace simt

template <class T>
cudaError_t
cudaMemcpyToSymbol(T &symbol, const void *from, size_t size, size_t offset = 0,
                   enum cudaMemcpyKind kind = cudaMemcpyHostToDevice) {
    return simt::copy_to_symbol(simt::address_of(symbol),
                                simt::SizeOf<T>::bytes, from, size, offset,
                                kind, false, 0);
}
template <class T>
cudaError_t
cudaMemcpyToSymbolAsync(T &symbol, const void *from, size_t size,
                        size_t offset = 0,
                        enum cudaMemcpyKind kind = cudaMemcpyHostToDevice,
                        cudaStream_t stream = 0) {
    return simt::copy_to_symbol(simt::address_of(symbol),
                                simt::SizeOf<T>::bytes, from, size, offset,
                                kind, true, stream);
}
template <class T>
cudaError_t
cudaMemcpyFromSymbol(void *to, T &symbol, size_t size, size_t offset = 0,
                     enum cudaMemcpyKind kind = cudaMemcpyDeviceToHost) {
    return simt::copy_from_symbol(to, simt::address_of(symbol),
                                  simt::SizeOf<T>::bytes, size, offset, kind,
                                  false, 0);
}
template <class T>
cudaError_t
cudaMemcpyFromSymbolAsync(void *to, T &symbol, size_t size, size_t offset = 0,
                          enum cudaMemcpyKind kind = cudaMemcpyDeviceToHost,
                          cudaStream_t stream = 0) {
    return simt::copy_from_symbol(to, simt::address_of(symbol),
                                  simt::SizeOf<T>::bytes, size, offset, kind,
                                  true, stream);
}
template <class T>
cudaError_t cudaGetSymbolAddress(void **pointer, const T &symbol) {
    if (!pointer) return cudaErrorInvalidValue;
    *pointer = simt::address_of(symbol);
    return cudaSuccess;
}
template <class T, class S>
cudaError_t cudaGetSymbolAddress(T **pointer, const S &symbol) {
    return cudaGetSymbolAddress((void **)pointer, symbol);
}
template <class T> cudaError_t cudaGetSymbolSize(size_t *size, const T &) {
    if (!size) return cudaErrorInvalidValue;
    *size = sizeof(T);
    return cudaSuccess;
}
#endif
