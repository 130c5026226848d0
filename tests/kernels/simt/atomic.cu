/* atomic.cu -- cuda::atomic and cuda::atomic_ref. */
#include <cuda/atomic>
#include <cuda/std/atomic>
#include <cuda_runtime.h>

#define EXPORT extern "C" __attribute__((visibility("default")))

struct Counters {
    cuda::atomic<int, cuda::thread_scope_device> count;
    cuda::atomic<float, cuda::thread_scope_device> sum;
    cuda::std::atomic<unsigned> ready;
};

/* Counts, sums and maxima; thread 1 of each block waits for thread 0. */
static __global__ void counters(Counters *c, int *out, double *plain) {
    const int t = blockIdx.x * blockDim.x + threadIdx.x;
    __shared__ cuda::atomic<int, cuda::thread_scope_block> most;
    if (threadIdx.x == 0) most.store(-1, cuda::memory_order_relaxed);
    __syncthreads();
    most.fetch_max(t * 7 % 64);
    c->count.fetch_add(2, cuda::memory_order_relaxed);
    c->count--;
    c->sum.fetch_add(0.5f);
    cuda::atomic_ref<double, cuda::thread_scope_system> total(*plain);
    total.fetch_add(1.0);
    __syncthreads();
    int *row = out + 3 * blockIdx.x;
    if (threadIdx.x == 0) {
        row[0] = most.exchange(100, cuda::memory_order_release);
        c->ready.fetch_add(1, cuda::std::memory_order_release);
    }
    if (threadIdx.x == 1) {
        while (most.load(cuda::memory_order_acquire) < 100) {
        }
        int seen = 99;
        // An unexpected value: the exchange fails and returns the actual value.
        row[1] = most.compare_exchange_strong(seen, 0);
        row[2] = seen;
    }
}

EXPORT int run_counters(Counters *c, int *out, double *plain, int blocks) {
    counters<<<blocks, 64>>>(c, out, plain);
    return cudaGetLastError();
}
