/* api_memory.cu -- allocating, copying and filling with known answers. Every
 * check_...() returns 0 or the number of the first line that is wrong. */
#include "api.h"

#include <string.h>

static __global__ void fill(int *out, int value, int n) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = value + i;
}

/* This kernel lacks the guard: it writes up to the end of the last block. */
static __global__ void fill_too_much(int *out, int value) {
    out[blockIdx.x * blockDim.x + threadIdx.x] = value;
}

static __constant__ float coefficients[8] = {1, 2, 3};
static __device__ int counter;
static __device__ int table[4][3];
static __managed__ int managed_total = 5;

static __global__ void use_symbols(float *out) {
    out[threadIdx.x] = coefficients[threadIdx.x] * 2;
    if (threadIdx.x == 0) counter += 7, managed_total += 1;
}

CHECK(fresh_memory_is_poisoned) {
    for (size_t size : {size_t(1), size_t(4096), size_t(3) << 20}) {
        unsigned char *p;
        EXPECT(!cudaMalloc(&p, size) && (uintptr_t)p % 256 == 0);
        for (size_t i = 0; i < size; i++) EXPECT(p[i] == 0xff);
        EXPECT(!cudaFree(p));
    }
    return 0;
}

CHECK(fresh_managed_memory_is_zero) {
    for (size_t size : {size_t(64), size_t(3) << 20}) {
        unsigned char *p;
        EXPECT(!cudaMallocManaged(&p, size));
        for (size_t i = 0; i < size; i++) EXPECT(p[i] == 0);
        EXPECT(!cudaFree(p));
    }
    return 0;
}

/* The runtime poisons 200 MB without touching them: in microseconds, not 50 ms.
 */
CHECK(large_memory_is_poisoned_when_it_is_touched) {
    const size_t n = 200 << 20;
    unsigned char *p;
    EXPECT(!cudaMalloc(&p, n));
    EXPECT(p[0] == 0xff && p[n / 2] == 0xff && p[n - 1] == 0xff);
    p[n / 2] = 1;
    EXPECT(p[n / 2] == 1 && p[n / 2 + 1] == 0xff && p[n / 2 - 1] == 0xff);
    EXPECT(p[n / 2 + (4 << 20)] == 0xff); // a second copy of the same page
    EXPECT(!cudaFree(p));
    return 0;
}

CHECK(frees_that_a_gpu_refuses) {
    int *p, *pinned, on_stack = 0;
    EXPECT(!cudaMalloc(&p, 100) && !cudaMallocHost(&pinned, 100));
    EXPECT_ERROR(cudaFree(p + 1), cudaErrorInvalidValue);
    EXPECT_ERROR(cudaFree(&on_stack), cudaErrorInvalidValue);
    EXPECT_ERROR(cudaFree(pinned), cudaErrorInvalidValue);
    EXPECT_ERROR(cudaFreeHost(p), cudaErrorInvalidValue);
    EXPECT(!cudaFree(p) && !cudaFreeHost(pinned) && !cudaFree(0));
    EXPECT_ERROR(cudaFree(p), cudaErrorInvalidValue);
    EXPECT_ERROR(cudaMalloc((void **)0, 1), cudaErrorInvalidValue);
    EXPECT(!cudaMalloc(&p, 0) && !p);
    return 0;
}

CHECK(more_than_there_is) {
    void *p = &p, *first;
    size_t free_before, free_after, total;
    // While this program has an allocation, cudaMemGetInfo() ignores what
    // other programs allocate and free.
    EXPECT(!cudaMalloc(&first, 1));
    EXPECT(!cudaMemGetInfo(&free_before, &total) && free_before <= total);
    EXPECT_ERROR(cudaMalloc(&p, total + 1), cudaErrorMemoryAllocation);
    EXPECT(!p && !cudaMalloc(&p, 80 << 20));
    EXPECT(!cudaMemGetInfo(&free_after, &total));
    EXPECT(free_before - free_after == 80 << 20);
    EXPECT(!cudaFree(p) && !cudaFree(first));
    return 0;
}

CHECK(freed_memory_faults) {
    for (size_t n : {size_t(64), size_t(1) << 20}) {
        int *p;
        EXPECT(!cudaMalloc(&p, n * sizeof *p) && !cudaFree(p));
        fill<<<1, 32>>>(p, 0, 32);
        EXPECT(cudaDeviceSynchronize() == cudaErrorIllegalAddress);
        EXPECT(strstr(simt_last_fault(), "4194304 bytes at") || n == 64);
        EXPECT(strstr(simt_last_fault(), ", 0 bytes into allocation "));
        EXPECT(strstr(simt_last_fault(), ", which is freed"));
        cudaGetLastError();
    }
    return 0;
}

CHECK(a_store_past_the_end_faults) {
    for (int blocks : {1, 64, 2048}) {
        int *p;
        EXPECT(!cudaMalloc(&p, blocks * 1024));
        fill_too_much<<<blocks + 1, 256>>>(p, 1);
        EXPECT(cudaDeviceSynchronize() == cudaErrorIllegalAddress);
        EXPECT(simt_last_launch_fault()->block[0] == (unsigned)blocks);
        EXPECT(strstr(simt_last_fault(), " bytes past the end of allocation "));
        cudaGetLastError();
        EXPECT(!cudaFree(p));
    }
    return 0;
}

CHECK(a_store_before_the_start_faults) {
    int *p;
    EXPECT(!cudaMalloc(&p, 4096));
    fill<<<1, 1>>>(p - 1, 1, 1);
    EXPECT(cudaDeviceSynchronize() == cudaErrorIllegalAddress);
    EXPECT(strstr(simt_last_fault(), ", 4 bytes before the start of alloc"));
    cudaGetLastError();
    EXPECT(!cudaFree(p));
    return 0;
}

CHECK(red_zones_find_an_overrun) {
    int *p, *q;
    EXPECT(!cudaMalloc(&p, 1000 * sizeof *p) && !cudaMalloc(&q, 4));
    const int told = simt_warnings();
    fill_too_much<<<4, 256>>>(p, 1);
    EXPECT(!cudaDeviceSynchronize() && simt_warnings() == told + 1);
    EXPECT(simt_check_memory() == 0); // the first check reported it
    EXPECT(*q == -1);                 // the kernel hit no neighbour
    EXPECT(!cudaFree(p) && !cudaFree(q));
    return 0;
}

/* Make so many allocations that Linux would run out of mappings. */
static cudaError_t use_up_mappings(void) {
    int *p;
    cudaError_t error = cudaSuccess;
    for (int i = 0; i < 16384 && !error; i++) error = cudaMalloc(&p, 4);
    return error;
}

CHECK(many_allocations_have_red_zones) {
    int *p, *q;
    EXPECT(!use_up_mappings());
    EXPECT(!cudaMalloc(&p, 1024) && !cudaMalloc(&q, 4));
    fill_too_much<<<5, 256>>>(p, 1);
    EXPECT(!cudaDeviceSynchronize() && simt_check_memory() == 1);
    EXPECT(*q == -1);
    EXPECT(!cudaDeviceReset());
    return 0;
}

CHECK(copies_in_every_direction) {
    int host[4] = {1, 2, 3, 4}, back[4] = {}, *p, *q;
    EXPECT(!cudaMalloc(&p, 16) && !cudaMalloc(&q, 16));
    EXPECT(!cudaMemcpy(p, host, 16, cudaMemcpyHostToDevice));
    EXPECT(!cudaMemcpy(q, p, 16, cudaMemcpyDeviceToDevice));
    EXPECT(!cudaMemcpyPeer(p + 2, 0, q, 0, 8));
    EXPECT(!cudaMemcpy(back, p, 16, cudaMemcpyDefault));
    EXPECT(back[0] == 1 && back[2] == 1 && back[3] == 2);
    EXPECT(!cudaMemcpy(back + 1, back, 12, cudaMemcpyHostToHost));
    EXPECT(back[1] == 1 && back[2] == 2 && back[3] == 1);
    EXPECT(!cudaFree(p) && !cudaFree(q));
    return 0;
}

CHECK(copies_that_a_gpu_refuses) {
    int host[8] = {}, *p;
    EXPECT(!cudaMalloc(&p, 16));
    EXPECT_ERROR(cudaMemcpy(p, host, 17, cudaMemcpyHostToDevice),
                 cudaErrorInvalidValue);
    EXPECT_ERROR(cudaMemcpy(host, p + 2, 12, cudaMemcpyDeviceToHost),
                 cudaErrorInvalidValue);
    EXPECT_ERROR(cudaMemcpy(host, p, 16, cudaMemcpyHostToDevice),
                 cudaErrorInvalidValue); // it is device memory, not the host's
    EXPECT_ERROR(cudaMemcpy(p, host, 16, cudaMemcpyDeviceToHost),
                 cudaErrorInvalidValue);
    EXPECT_ERROR(cudaMemcpy(p, host, 16, (cudaMemcpyKind)5),
                 cudaErrorInvalidMemcpyDirection);
    EXPECT_ERROR(cudaMemset(p, 0, 20), cudaErrorInvalidValue);
    EXPECT(p[0] == -1 && !cudaFree(p));
    return 0;
}

CHECK(pitched_copies) {
    int host[3][5], back[3][5] = {}, *p, *q;
    size_t pitch;
    for (int i = 0; i < 15; i++) host[i / 5][i % 5] = i;
    EXPECT(!cudaMallocPitch(&p, &pitch, 5 * sizeof(int), 3));
    EXPECT(pitch >= 20 && pitch % 256 == 0);
    size_t none;
    EXPECT_ERROR(cudaMallocPitch(&q, &none, ~(size_t)0, 1),
                 cudaErrorMemoryAllocation);
    EXPECT(!cudaMemset2D(p, pitch, 0, 20, 3));
    EXPECT(!cudaMemcpy2D(p, pitch, host, 20, 16, 3, cudaMemcpyHostToDevice));
    const int *second = (int *)((char *)p + pitch);
    EXPECT(second[3] == 8 && second[4] == 0 && second[5] == -1);
    EXPECT(
        !cudaMemcpy2DAsync(back, 20, p, pitch, 20, 3, cudaMemcpyDeviceToHost));
    EXPECT(back[2][3] == 13 && back[2][4] == 0);
    EXPECT_ERROR(cudaMemcpy2D(p, 16, host, 20, 20, 3, cudaMemcpyHostToDevice),
                 cudaErrorInvalidPitchValue);
    EXPECT(!cudaFree(p));
    return 0;
}

CHECK(copies_of_boxes) {
    int host[4][3][5], back[4][3][5] = {};
    for (int i = 0; i < 60; i++) host[i / 15][i / 5 % 3][i % 5] = i;
    const cudaExtent whole = make_cudaExtent(5 * sizeof(int), 3, 4);
    cudaPitchedPtr p;
    EXPECT(!cudaMalloc3D(&p, whole) && p.ysize == 3);
    EXPECT(!cudaMemset3D(p, 0, whole));
    cudaMemcpy3DParms copy = {};
    copy.srcPtr = make_cudaPitchedPtr(host, 20, 20, 3);
    copy.srcPos = make_cudaPos(4, 1, 2);
    copy.dstPtr = p;
    copy.dstPos = make_cudaPos(0, 0, 1);
    copy.extent = make_cudaExtent(8, 2, 2);
    copy.kind = cudaMemcpyHostToDevice;
    EXPECT(!cudaMemcpy3D(&copy));
    const int *row = (int *)((char *)p.ptr + p.pitch * (3 * 2 + 1));
    EXPECT(row[0] == host[3][2][1] && row[1] == host[3][2][2] && row[2] == 0);
    copy = {};
    copy.srcPtr = p;
    copy.dstPtr = make_cudaPitchedPtr(back, 20, 20, 3);
    copy.extent = whole;
    copy.kind = cudaMemcpyDeviceToHost;
    EXPECT(!cudaMemcpy3DAsync(&copy));
    EXPECT(back[1][0][0] == host[2][1][1] && back[0][0][0] == 0);
    copy.extent.depth = 5;
    EXPECT_ERROR(cudaMemcpy3D(&copy), cudaErrorInvalidValue);
    EXPECT(!cudaFree(p.ptr));
    return 0;
}

CHECK(symbols) {
    const float values[8] = {0, 1, 2, 3, 4, 5, 6, 7};
    int seen = 0, zero = 0, rows[4][3];
    float *out;
    void *address;
    size_t size;
    EXPECT(!cudaMalloc(&out, 32));
    EXPECT(!cudaMemcpyToSymbol(coefficients, values, 20, 12));
    EXPECT(!cudaMemcpyToSymbol(counter, &zero, sizeof zero));
    managed_total = 5;
    use_symbols<<<1, 8>>>(out);
    EXPECT(!cudaDeviceSynchronize() && managed_total == 6);
    EXPECT(out[0] == 2 && out[3] == 0 && out[7] == 8);
    EXPECT(!cudaMemcpyFromSymbol(&seen, counter, sizeof seen) && seen == 7);
    for (int i = 0; i < 12; i++) rows[i / 3][i % 3] = i;
    EXPECT(!cudaMemcpyToSymbolAsync(table, rows, sizeof rows, 0,
                                    cudaMemcpyHostToDevice, 0));
    EXPECT(!cudaGetSymbolAddress(&address, table));
    EXPECT(((int *)address)[7] == 7);
    EXPECT(!cudaGetSymbolSize(&size, table) && size == 48);
    EXPECT_ERROR(cudaMemcpyToSymbol(counter, &zero, 4, 4),
                 cudaErrorInvalidValue);
    EXPECT_ERROR(
        cudaMemcpyFromSymbol(&seen, counter, 4, 0, cudaMemcpyHostToDevice),
        cudaErrorInvalidMemcpyDirection);
    EXPECT(!cudaFree(out));
    return 0;
}

CHECK(host_memory_that_the_device_may_use) {
    int *pinned, *device, own[16];
    unsigned flags;
    EXPECT(!cudaHostAlloc(&pinned, 64, cudaHostAllocMapped));
    EXPECT(!cudaHostGetDevicePointer(&device, pinned, 0));
    fill<<<1, 16>>>(device, 3, 16);
    EXPECT(!cudaDeviceSynchronize() && pinned[15] == 18);
    EXPECT(!cudaHostGetFlags(&flags, pinned) && flags & cudaHostAllocMapped);
    EXPECT(!cudaFreeHost(pinned));
    EXPECT_ERROR(cudaHostGetDevicePointer(&device, own, 0),
                 cudaErrorInvalidValue);
    EXPECT(!cudaHostRegister(own, sizeof own, cudaHostRegisterDefault));
    EXPECT_ERROR(cudaHostRegister(own + 4, 8, 0),
                 cudaErrorHostMemoryAlreadyRegistered);
    EXPECT(!cudaHostGetDevicePointer(&device, own + 4, 0));
    EXPECT(device == own + 4 && !cudaHostUnregister(own));
    EXPECT_ERROR(cudaHostUnregister(own), cudaErrorHostMemoryNotRegistered);
    return 0;
}

CHECK(what_a_pointer_is) {
    int *device, *managed, *pinned, own = 0;
    cudaPointerAttributes a;
    EXPECT(!cudaMalloc(&device, 16) && !cudaMallocManaged(&managed, 16));
    EXPECT(!cudaMallocHost(&pinned, 16));
    EXPECT(!cudaPointerGetAttributes(&a, device + 3));
    EXPECT(a.type == cudaMemoryTypeDevice && a.device == 0 && !a.hostPointer);
    EXPECT(a.devicePointer == device + 3);
    EXPECT(!cudaPointerGetAttributes(&a, managed));
    EXPECT(a.type == cudaMemoryTypeManaged && a.hostPointer == managed);
    EXPECT(!cudaPointerGetAttributes(&a, pinned));
    EXPECT(a.type == cudaMemoryTypeHost);
    EXPECT(!cudaPointerGetAttributes(&a, &own));
    EXPECT(a.type == cudaMemoryTypeUnregistered && !a.devicePointer);
    // Look up the address just past the array's end.
    EXPECT(!cudaPointerGetAttributes(&a, device + 4));
    EXPECT(a.type == cudaMemoryTypeUnregistered);
    EXPECT(!cudaFree(device) && !cudaFree(managed) && !cudaFreeHost(pinned));
    return 0;
}

CHECK(hints) {
    int *managed, *device;
    EXPECT(!cudaMallocManaged(&managed, 64) && !cudaMalloc(&device, 64));
    const cudaMemLocation gpu = {cudaMemLocationTypeDevice, 0};
    EXPECT(!cudaMemPrefetchAsync(managed, 64, 0)); // as in CUDA 12 ...
    EXPECT(!cudaMemPrefetchAsync(managed, 64, cudaCpuDeviceId, 0));
    EXPECT(!cudaMemPrefetchAsync(managed, 64, gpu, 0, 0)); // ... and 13
    EXPECT(!cudaMemAdvise(managed, 64, cudaMemAdviseSetReadMostly, 0));
    EXPECT(!cudaMemAdvise(managed, 64, cudaMemAdviseSetAccessedBy, gpu));
    EXPECT_ERROR(cudaMemPrefetchAsync(managed, 65, 0), cudaErrorInvalidValue);
    EXPECT_ERROR(cudaMemPrefetchAsync(device, 64, 0), cudaErrorInvalidValue);
    EXPECT_ERROR(cudaMemPrefetchAsync(managed, 64, 1), cudaErrorInvalidDevice);
    EXPECT(!cudaFree(managed) && !cudaFree(device));
    return 0;
}

CHECK(pools) {
    cudaMemPool_t pool, own;
    uint64_t keep = 1 << 20, got = 0, used = 0;
    int *p, *q;
    EXPECT(!cudaDeviceGetDefaultMemPool(&pool, 0));
    EXPECT(
        !cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &keep));
    EXPECT(
        !cudaMemPoolGetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &got) &&
        got == keep);
    cudaMemPoolProps props = {};
    props.allocType = cudaMemAllocationTypePinned;
    EXPECT(!cudaMemPoolCreate(&own, &props));
    EXPECT(!cudaMallocAsync(&p, 400, 0));
    EXPECT(!cudaMallocFromPoolAsync(&q, 100, own, 0));
    EXPECT(
        !cudaMemPoolGetAttribute(pool, cudaMemPoolAttrUsedMemCurrent, &used) &&
        used >= 500);
    EXPECT(!cudaFreeAsync(p, 0) && !cudaFree(q) && !cudaMemPoolDestroy(own));
    EXPECT_ERROR(cudaMallocFromPoolAsync(&q, 100, own, 0),
                 cudaErrorInvalidValue);
    EXPECT(!cudaMemPoolTrimTo(pool, 0));
    return 0;
}

CHECK(reset_frees_everything) {
    int *p, *large;
    EXPECT(!cudaMalloc(&p, 400) && !cudaMalloc(&large, 2 << 20));
    EXPECT(!cudaDeviceReset());
    EXPECT_ERROR(cudaFree(p), cudaErrorInvalidValue);
    EXPECT_ERROR(cudaFree(large), cudaErrorInvalidValue);
    return 0;
}

/* Overrun an allocation; the process must report this at its end. */
EXPORT void overrun_and_exit(void) {
    int *p;
    cudaMalloc(&p, 1000 * sizeof *p);
    fill_too_much<<<4, 256>>>(p, 1);
}

EXPORT void underrun_and_free(void) {
    int *p;
    cudaMalloc(&p, 64);
    fill<<<1, 2>>>(p - 3, 1, 2);
    cudaFree(p);
}

EXPORT void write_after_free(void) {
    int *p;
    use_up_mappings(); // otherwise, the access would fault immediately
    cudaMalloc(&p, 64);
    cudaFree(p);
    fill<<<1, 1>>>(p + 2, 1, 1);
}

EXPORT int copy_to_a_host_pointer(void) {
    int from[4] = {1, 2, 3, 4}, to[4], *p;
    cudaMalloc(&p, 16);
    const int wrong = cudaMemcpy(to, from, 16, cudaMemcpyHostToDevice);
    const int right = cudaMemcpy(p, from, 16, cudaMemcpyHostToDevice);
    const int symbol = cudaMemcpy(&counter, from, 4, cudaMemcpyHostToDevice);
    cudaFree(p);
    return 10000 * wrong + 100 * right + symbol;
}

/* Return the nanoseconds of a cudaMalloc() and cudaFree() of `size` bytes. */
EXPORT long long time_of_malloc(size_t size, int repeats) {
    const long long start = simt_nanoseconds();
    for (int i = 0; i < repeats; i++) {
        void *p;
        if (cudaMalloc(&p, size) || cudaFree(p)) return -1;
    }
    return (simt_nanoseconds() - start) / repeats;
}

/* These kernels need not be fast, and -O1 compiles them sooner than -O3. */
/* g++: -O1 */
