/* graphs.cuh -- declarations that graphs.cu and overlap.cu share. */
#ifndef WEFT_BENCH_GRAPHS_CUH
#define WEFT_BENCH_GRAPHS_CUH
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cuda_runtime.h>

/* If a CUDA call failed, print its place and the reason, and exit. */
#define CHECK(call)                                                       \
    do {                                                                  \
        cudaError_t error_ = (call);                                      \
        if (error_ != cudaSuccess) {                                      \
            fprintf(stderr, "%s:%d: %s: %s\n", __FILE__, __LINE__, #call, \
                    cudaGetErrorString(error_));                          \
            exit(1);                                                      \
        }                                                                 \
    } while (0)

extern int samples; /* samples per measurement, after warm-up runs */

/* Return the host's clock in microseconds. */
static inline double now_us(void) {
    using namespace std::chrono;
    return duration<double, std::micro>(steady_clock::now().time_since_epoch())
        .count();
}

/* Return v after `turns` steps v -> v / 2 + 1: work of any length. */
static inline __host__ __device__ float halved(float v, int turns) {
    for (int turn = 0; turn < turns; turn++) v = 0.5f * v + 1;
    return v;
}

/* Defined in overlap.cu. */
void time_overlaps(int part, int turns);

#endif
