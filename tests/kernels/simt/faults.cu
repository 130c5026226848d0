/* faults.cu -- faulty kernels, each with a different fault. */
#include <assert.h>
#include <cuda_runtime.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <new>
#include <stdexcept>

#define EXPORT extern "C" __attribute__((visibility("default")))

/* The action of thread `who` of block `where`; the others add 1 to *data. */
enum {
    STORE,
    LOAD,
    MISALIGNED,
    NOWHERE,
    STACK,
    FRAME,
    DIVIDE,
    ILLEGAL,
    ABORT,
    THROW,
    THROW_INT,
    NO_MEMORY,
    ASSERT,
    TRAP,
    JUMP,
    IN_LIBRARY,
    NESTED
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
    case NO_MEMORY: data[1] = (int)(uintptr_t)new char[(size_t)1 << 60]; break;
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

/* Return the result of cudaGetLastError() after the launch. */
EXPORT int run_faulty(int what, int *data, uintptr_t address, int blocks,
                      int where, int who, int wait) {
    faulty<<<blocks, dim3(32, 4)>>>(what, data, address, where, who, wait);
    return cudaGetLastError();
}

/* Make the host's own code fault. */
EXPORT int host_fault(int what, int *data, uintptr_t address) {
    go_wrong(what, data, address);
    return 0;
}

/* ---- endless kernels ---------------------------------------------------- */

enum { LOOP, BARRIERS, AFTER_BARRIER, PRINTF, VOLATILE, LIBRARY, ATOMIC };

static __global__ void endless(int what, volatile int *data) {
    volatile int mine = 0;
    if (what == AFTER_BARRIER) __syncthreads();
    for (;;) {
        switch (what) {
        case BARRIERS: __syncthreads(); break;
        case PRINTF: printf("."); break;
        case VOLATILE:
            while (*data == 0) {
            }
            break;
        case LIBRARY: mine += (int)strlen((const char *)data + 1); break;
        case ATOMIC: mine += atomicAdd((int *)data, 0); break;
        default: mine++;
        }
    }
}

EXPORT int run_endless(int what, int *data, int blocks) {
    endless<<<blocks, 64>>>(what, data);
    return cudaGetLastError();
}

/* ---- threads that wait for each other, without a barrier ---------------- */

/* Each thread waits until all n threads, whether before or after it, have
 * reported their arrival. data[0..n) is 0. */
static __global__ void wait_for_all(volatile int *data, double *sums, int n) {
    const int i = threadIdx.x;
    double x = i, y = 1.0 / (i + 1);
    long double z = i;
    data[i] = 1;
    for (int j = 0; j < n; j++)
        while (data[j] == 0) { // the loop uses all registers
            x = x * 1.0 + 0.0;
            y += 0.0;
            z += 0.0L;
        }
    __syncthreads();
    sums[i] = x + y + (double)z;
}

EXPORT int run_wait_for_all(int *data, double *sums, int n) {
    wait_for_all<<<1, n>>>(data, sums, n);
    return cudaGetLastError();
}

/* Each thread is released by the next one; the last one begins. */
static __global__ void chain_of_threads(volatile int *data) {
    const int i = threadIdx.x;
    if (i < (int)blockDim.x - 1)
        while (data[i + 1] == 0) {
        }
    data[i] = i == (int)blockDim.x - 1 ? 1 : data[i + 1] + 1;
}

EXPORT int run_chain(int *data, int n) {
    chain_of_threads<<<1, n>>>(data);
    return cudaGetLastError();
}

/* Two blocks wait for each other. */
static __global__ void ping_pong(volatile int *data, int turns) {
    const int me = blockIdx.x;
    for (int i = 0; i < turns; i++) {
        while (data[0] % (int)gridDim.x != me) {
        }
        data[0] = data[0] + 1;
    }
}

EXPORT int run_ping_pong(int *data, int blocks, int turns) {
    ping_pong<<<blocks, 1>>>(data, turns);
    return cudaGetLastError();
}

/* ---- cooperative launches ----------------------------------------------- */

/* In each round, block b adds the number of block b + 1 from the last round. */
static __global__ void rotate(int *out, int *data, int rounds) {
    const int b = blockIdx.x, n = gridDim.x, t = threadIdx.x;
    for (int i = 0; i < rounds; i++) {
        const int *from = data + i % 2 * n;
        int *to = data + (i + 1) % 2 * n;
        if (t == (int)blockDim.x - 1) to[b] = from[(b + 1) % n] + 1;
        simt::grid_barrier();
    }
    if (t == 0) out[b] = data[rounds % 2 * n + b];
}

EXPORT int run_rotate(int *out, int *data, int blocks, int threads, int rounds,
                      int cooperative) {
    simt::Launch launch(blocks, threads, 0, 0, cooperative != 0);
    rotate(out, data, rounds);
    const int error = cudaGetLastError();
    return launch.error && launch.error != error ? -1 : error;
}

enum { BLOCK_MISSING, THREAD_MISSING, OTHER_BARRIER, FAULT, FOREVER };

static __global__ void not_all_come(int what, volatile int *data) {
    const bool odd = blockIdx.x == gridDim.x - 1;
    if (odd && what == BLOCK_MISSING) return;
    if (odd && what == THREAD_MISSING && threadIdx.x == 3) return;
    if (odd && what == OTHER_BARRIER && threadIdx.x == 3) __syncthreads();
    if (odd && what == FAULT) *(volatile int *)8 = 1;
    while (odd && what == FOREVER && *data == 0) {
    }
    simt::grid_barrier();
}

EXPORT int run_not_all_come(int what, int *data, int blocks) {
    simt::Launch launch(blocks, 64, 0, 0, true);
    not_all_come(what, data);
    return cudaGetLastError();
}
