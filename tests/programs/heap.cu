/* heap.cu -- malloc() and new in kernels: NULL when the device's heap is full.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string>

__device__ char *kept;

__global__ void hold(size_t bytes, int *given) {
    char *memory = new char[bytes];
    if (memory) atomicAdd(given, 1);
    __syncthreads();
    delete[] memory;
}

__global__ void keep(size_t bytes) { kept = (char *)malloc(bytes); }
__global__ void let_go() { free(kept); }

static int holders(size_t bytes) {
    int *given, count = 0;
    cudaMalloc(&given, sizeof *given);
    cudaMemcpy(given, &count, sizeof count, cudaMemcpyHostToDevice);
    hold<<<1, 64>>>(bytes, given);
    cudaMemcpy(&count, given, sizeof count, cudaMemcpyDeviceToHost);
    cudaFree(given);
    return count;
}

int main() {
    size_t limit;
    cudaDeviceGetLimit(&limit, cudaLimitMallocHeapSize);
    const int before = holders(1 << 20);
    keep<<<1, 1>>>(4 << 20);
    const int beside = holders(1 << 20); // kept memory remains allocated
    let_go<<<1, 1>>>();
    cudaDeviceSetLimit(cudaLimitMallocHeapSize, 33 << 20);
    const int after = holders(1 << 20);
    char *host =
        (char *)malloc(64 << 20); // the host's memory has no such limit
    std::string text(1000, 'x');
    printf("%zu: %d %d %d %d\n", limit, before, beside, after,
           host && text.size() == 1000);
    free(host);
}
