/* faults.cu -- kernels that go wrong, each in its own way. */
#include <assert.h>
#include <cuda_runtime.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <new>
#include <stdexcept>

#define EXPORT extern "C" __attribute__((visibility("default")))

/* What the thread `who` of block `where` does; the others add 1 to *data. */
enum {
    STORE, LOAD, MISALIGNED, NOWHERE, STACK, FRAME, DIVIDE, ILLEGAL, ABORT,
    THROW, THROW_INT, NO_MEMORY, ASSERT, TRAP, JUMP, IN_LIBRARY, NESTED
};

static __device__ __noinline__ int deep(volatile int *p, int n) {
    volatile char frame[200];
    frame[n % 200] = (char)n;
    return *p == n ? n : deep(p, n + 1) + frame[n % 200];
}

static __device__ __noinline__ int large_frame(int n) {
    volatile char frame[1 << 20];
    frame[n] = 1;
    return frame[n] + frame[n / 2];
}

static __global__ void other(int *p) { *p = 0; }

static __device__ void go_wrong(int what, int *data, uintptr_t address) {
    volatile int *wild = (volatile int *)address;
    switch (what) {
    case STORE: *wild = 1; break;
    case LOAD: data[1] = *wild; break;
    case MISALIGNED: *(float4 *)address = make_float4(1, 2, 3, 4); break;
    case NOWHERE: data[1] = *(volatile int *)(address | 0x1234ull << 48); break;
    case STACK: data[1] = deep((volatile int *)data + 2, 1); break;
    case FRAME: data[1] = large_frame(data[2]); break;
    case DIVIDE: data[1] = 7 / data[2]; break;
    case ILLEGAL: __builtin_trap(); break;
    case ABORT: abort(); break;
    case THROW: throw std::runtime_error("not in a kernel"); break;
    case THROW_INT: throw 3; break;
    case NO_MEMORY: data[1] = (int)(uintptr_t) new char[(size_t)1 << 60]; break;
    case ASSERT: assert(data[2] == 1 && "a message"); break;
    case TRAP: simt::trap(); break;
    case JUMP: ((void (*)())address)(); break;
    case IN_LIBRARY: memset((void *)address, 1, (size_t)data[2] + 9); break;
    case NESTED: other<<<1, 1>>>(data); break;
    }
}

static __global__ void faulty(int what, int *data, uintptr_t address, int where,
                              int who, int wait) {
    const int thread = threadIdx.x + blockDim.x * threadIdx.y;
    if (wait) __syncthreads();
    if ((int)blockIdx.x == where && thread == who)
        go_wrong(what, data, address);
    if (wait) __syncthreads();
    atomicAdd(data, 1);
}

/* Returns what cudaGetLastError() says after it. */
EXPORT int run_faulty(int what, int *data, uintptr_t address, int blocks,
                      int where, int who, int wait) {
    faulty<<<blocks, dim3(32, 4)>>>(what, data, address, where, who, wait);
    return cudaGetLastError();
}

/* Faults of the host's own. */
EXPORT int host_fault(int what, int *data, uintptr_t address) {
    go_wrong(what, data, address);
    return 0;
}
