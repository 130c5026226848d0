/* cuda_copy.cpp -- copies and fills; see cuda_memory.h. Every copy is a
 * cudaMemcpy3DParms and every fill a cudaMemsetParams, so that a graph can keep
 * it. */
#include <dlfcn.h>
#include <string.h>

#include "../watch/memory.h"
#include "cuda_graph_private.h"
#include "cuda_heap.h"

namespace simt::SIMT_FIBERS {

static std::atomic<bool> strict;

/* ---- copies that a GPU would reject -------------------------------------- */

enum Side { EITHER, HOST_SIDE, DEVICE_SIDE };

/* Return whether a pointer is to a static variable of a program or library,
 * which includes variables of the device. */
static bool is_static(const void *pointer) {
    Dl_info info;
    return dladdr(pointer, &info) != 0;
}

bool is_host_memory(const void *pointer) {
    return strict && !is_static(pointer);
}

/* Return whether the `size` bytes at `pointer` are valid in a copy whose kind
 * specifies the memory `side` for them. */
static bool may_touch(const void *pointer, size_t size, Side side) {
    Allocation a;
    if (find_allocation(pointer, &a)) {
        const size_t left = a.address + a.size - (uintptr_t)pointer;
        return size <= left && !(side == HOST_SIDE && a.memory == DEVICE);
    }
    return side != DEVICE_SIDE || !is_host_memory(pointer);
}

static Side side_of(enum cudaMemcpyKind kind, bool destination) {
    switch (kind) {
    case cudaMemcpyHostToHost: return HOST_SIDE;
    case cudaMemcpyHostToDevice: return destination ? DEVICE_SIDE : HOST_SIDE;
    case cudaMemcpyDeviceToHost: return destination ? HOST_SIDE : DEVICE_SIDE;
    case cudaMemcpyDeviceToDevice: return DEVICE_SIDE;
    case cudaMemcpyDefault: break;
    }
    return EITHER;
}

static size_t slice_of(const cudaPitchedPtr &p) { return p.pitch * p.ysize; }

/* Return the address of the first byte of a region. */
static char *start_of(const cudaPitchedPtr &p, const cudaPos &at) {
    return (char *)p.ptr + at.z * slice_of(p) + at.y * p.pitch + at.x;
}

/* Return the distance in bytes from a region's first byte to its end. */
static size_t reach(const cudaPitchedPtr &p, const cudaExtent &e) {
    return (e.depth - 1) * slice_of(p) + (e.height - 1) * p.pitch + e.width;
}

static cudaError_t check_side(const cudaPitchedPtr &p, const cudaPos &at,
                              const cudaExtent &e, Side side) {
    if (!p.ptr) return cudaErrorInvalidValue;
    if ((e.height > 1 || e.depth > 1) && at.x + e.width > p.pitch)
        return cudaErrorInvalidPitchValue;
    if (e.depth > 1 && at.y + e.height > p.ysize) return cudaErrorInvalidValue;
    return may_touch(start_of(p, at), reach(p, e), side)
               ? cudaSuccess
               : cudaErrorInvalidValue;
}

static bool is_empty(const cudaExtent &e) {
    return !e.width || !e.height || !e.depth;
}

cudaError_t check_copy(const cudaMemcpy3DParms &c) {
    if (c.kind < cudaMemcpyHostToHost || c.kind > cudaMemcpyDefault)
        return cudaErrorInvalidMemcpyDirection;
    if (c.srcArray || c.dstArray) return cudaErrorNotSupported;
    if (is_empty(c.extent)) return cudaSuccess;
    const cudaError_t error =
        check_side(c.dstPtr, c.dstPos, c.extent, side_of(c.kind, true));
    if (error) return error;
    return check_side(c.srcPtr, c.srcPos, c.extent, side_of(c.kind, false));
}

/* ---- performing copies and fills ----------------------------------------- */

cudaError_t copy_now(const cudaMemcpy3DParms &c) {
    if (is_empty(c.extent)) return cudaSuccess;
    char *to = start_of(c.dstPtr, c.dstPos);
    const char *from = start_of(c.srcPtr, c.srcPos);
    for (size_t z = 0; z < c.extent.depth; z++)
        for (size_t y = 0; y < c.extent.height; y++) {
            char *row = to + z * slice_of(c.dstPtr) + y * c.dstPtr.pitch;
            const char *source =
                from + z * slice_of(c.srcPtr) + y * c.srcPtr.pitch;
            memmove(row, source, c.extent.width);
            if (checking()) mark_copied(row, source, c.extent.width);
        }
    return cudaSuccess;
}

cudaError_t check_set(const cudaMemsetParams &s) {
    const unsigned n = s.elementSize;
    if (n != 1 && n != 2 && n != 4) return cudaErrorInvalidValue;
    if (!s.width || !s.height) return cudaSuccess;
    if (!s.dst || (uintptr_t)s.dst % n) return cudaErrorInvalidValue;
    if (s.height > 1 && s.pitch < s.width * n)
        return cudaErrorInvalidPitchValue;
    const size_t size = (s.height - 1) * s.pitch + s.width * n;
    return may_touch(s.dst, size, DEVICE_SIDE) ? cudaSuccess
                                               : cudaErrorInvalidValue;
}

cudaError_t set_now(const cudaMemsetParams &s) {
    for (size_t y = 0; y < s.height; y++) {
        char *row = (char *)s.dst + y * s.pitch;
        if (s.elementSize == 1)
            memset(row, (int)s.value, s.width);
        else // little-endian: the low bytes come first
            for (size_t x = 0; x < s.width; x++)
                memcpy(row + x * s.elementSize, &s.value, s.elementSize);
        if (checking()) mark_written(row, s.width * s.elementSize);
    }
    return cudaSuccess;
}

/* Perform the copy `c` now or, if the stream captures, add it as a node.
 * `sync`: whether the copy waits for earlier work. */
static cudaError_t submit(const cudaMemcpy3DParms &c, bool sync,
                          cudaStream_t stream) {
    CUstream_st *recording;
    if (cudaError_t error = begin_work(stream, &recording)) return error;
    if (cudaError_t error = check_copy(c)) return set_error(error);
    if (recording) return add_work(recording, copy_work(c));
    if (sync)
        if (cudaError_t error = arrive()) return error;
    return copy_now(c);
}

static cudaError_t submit(const cudaMemsetParams &s, cudaStream_t stream) {
    CUstream_st *recording;
    if (cudaError_t error = begin_work(stream, &recording)) return error;
    if (cudaError_t error = check_set(s)) return set_error(error);
    if (recording) return add_work(recording, set_work(s));
    return set_now(s);
}

static cudaMemcpy3DParms plain_copy(void *to, size_t to_pitch, const void *from,
                                    size_t from_pitch, size_t width,
                                    size_t height, cudaMemcpyKind kind) {
    cudaMemcpy3DParms c = {};
    c.dstPtr = {to, to_pitch, width, height};
    c.srcPtr = {(void *)from, from_pitch, width, height};
    c.extent = {width, height, 1};
    c.kind = kind;
    return c;
}

} // namespace simt::SIMT_FIBERS

using namespace simt;

extern "C" void simt_set_strict(int on) { strict = on != 0; }

/* ---- copies ------------------------------------------------------------- */

cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t size,
                            enum cudaMemcpyKind kind, cudaStream_t stream) {
    return submit(plain_copy(to, size, from, size, size, 1, kind), false,
                  stream);
}

cudaError_t cudaMemcpy(void *to, const void *from, size_t size,
                       enum cudaMemcpyKind kind) {
    return submit(plain_copy(to, size, from, size, size, 1, kind), true, 0);
}

cudaError_t cudaMemcpy2DAsync(void *to, size_t to_pitch, const void *from,
                              size_t from_pitch, size_t width, size_t height,
                              enum cudaMemcpyKind kind, cudaStream_t stream) {
    if (width > to_pitch || width > from_pitch)
        return set_error(cudaErrorInvalidPitchValue);
    return submit(
        plain_copy(to, to_pitch, from, from_pitch, width, height, kind), false,
        stream);
}

cudaError_t cudaMemcpy2D(void *to, size_t to_pitch, const void *from,
                         size_t from_pitch, size_t width, size_t height,
                         enum cudaMemcpyKind kind) {
    if (width > to_pitch || width > from_pitch)
        return set_error(cudaErrorInvalidPitchValue);
    return submit(
        plain_copy(to, to_pitch, from, from_pitch, width, height, kind), true,
        0);
}

cudaError_t cudaMemcpy3DAsync(const struct cudaMemcpy3DParms *parms,
                              cudaStream_t stream) {
    if (!parms) return set_error(cudaErrorInvalidValue);
    return submit(*parms, false, stream);
}

cudaError_t cudaMemcpy3D(const struct cudaMemcpy3DParms *parms) {
    if (!parms) return set_error(cudaErrorInvalidValue);
    return submit(*parms, true, 0);
}

cudaError_t cudaMemcpyPeerAsync(void *to, int to_device, const void *from,
                                int from_device, size_t size,
                                cudaStream_t stream) {
    if (to_device || from_device) return set_error(cudaErrorInvalidDevice);
    return cudaMemcpyAsync(to, from, size, cudaMemcpyDefault, stream);
}

cudaError_t cudaMemcpyPeer(void *to, int to_device, const void *from,
                           int from_device, size_t size) {
    if (to_device || from_device) return set_error(cudaErrorInvalidDevice);
    return cudaMemcpy(to, from, size, cudaMemcpyDefault);
}

cudaError_t cudaMemcpy3DPeer(const struct cudaMemcpy3DPeerParms *parms) {
    if (!parms) return set_error(cudaErrorInvalidValue);
    if (parms->srcDevice || parms->dstDevice)
        return set_error(cudaErrorInvalidDevice);
    const cudaMemcpy3DParms c = {
        parms->srcArray, parms->srcPos, parms->srcPtr, parms->dstArray,
        parms->dstPos,   parms->dstPtr, parms->extent, cudaMemcpyDefault};
    return submit(c, true, 0);
}

/* ---- symbols ------------------------------------------------------------ */

cudaError_t simt::copy_to_symbol(void *symbol, size_t whole, const void *from,
                                 size_t size, size_t offset,
                                 enum cudaMemcpyKind kind, bool async,
                                 cudaStream_t stream) {
    if (kind != cudaMemcpyHostToDevice && kind != cudaMemcpyDeviceToDevice &&
        kind != cudaMemcpyDefault)
        return set_error(cudaErrorInvalidMemcpyDirection);
    if (offset > whole || size > whole - offset)
        return set_error(cudaErrorInvalidValue);
    return submit(
        plain_copy((char *)symbol + offset, size, from, size, size, 1, kind),
        !async, stream);
}

cudaError_t simt::copy_from_symbol(void *to, const void *symbol, size_t whole,
                                   size_t size, size_t offset,
                                   enum cudaMemcpyKind kind, bool async,
                                   cudaStream_t stream) {
    if (kind != cudaMemcpyDeviceToHost && kind != cudaMemcpyDeviceToDevice &&
        kind != cudaMemcpyDefault)
        return set_error(cudaErrorInvalidMemcpyDirection);
    if (offset > whole || size > whole - offset)
        return set_error(cudaErrorInvalidValue);
    return submit(plain_copy(to, size, (const char *)symbol + offset, size,
                             size, 1, kind),
                  !async, stream);
}

/* ---- fills -------------------------------------------------------------- */

cudaError_t cudaMemsetAsync(void *to, int byte, size_t size,
                            cudaStream_t stream) {
    return cudaMemset2DAsync(to, size, byte, size, 1, stream);
}

cudaError_t cudaMemset(void *to, int byte, size_t size) {
    return cudaMemsetAsync(to, byte, size, 0);
}

cudaError_t cudaMemset2DAsync(void *to, size_t pitch, int byte, size_t width,
                              size_t height, cudaStream_t stream) {
    const unsigned value = (unsigned char)byte;
    return submit(cudaMemsetParams{to, pitch, value, 1, width, height}, stream);
}

cudaError_t cudaMemset2D(void *to, size_t pitch, int byte, size_t width,
                         size_t height) {
    return cudaMemset2DAsync(to, pitch, byte, width, height, 0);
}

cudaError_t cudaMemset3DAsync(struct cudaPitchedPtr to, int byte,
                              struct cudaExtent extent, cudaStream_t stream) {
    if (extent.depth > 1 && extent.height > to.ysize)
        return set_error(cudaErrorInvalidValue);
    cudaError_t error = cudaSuccess;
    for (size_t z = 0; z < extent.depth && !error; z++)
        error = cudaMemset2DAsync((char *)to.ptr + z * slice_of(to), to.pitch,
                                  byte, extent.width, extent.height, stream);
    return error;
}

cudaError_t cudaMemset3D(struct cudaPitchedPtr to, int byte,
                         struct cudaExtent extent) {
    return cudaMemset3DAsync(to, byte, extent, 0);
}
